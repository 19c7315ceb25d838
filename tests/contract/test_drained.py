"""What was begun before the daemon stops is finished, also where it has to look at the vault."""

from tests.jobs_house import open_jobs_house


def test_an_undo_looks_at_what_a_person_committed_while_the_daemon_waits_for_it() -> None:
    with open_jobs_house() as house:
        node = house.remember("The ferry to Bergen leaves on Tuesdays.")
        remembered = house.head
        (house.ormah.vault.root / "by hand.md").write_text("A note of a person's own.\n")
        house.git("add", "by hand.md")
        house.git("commit", "-qm", "by hand")
        house.ormah.phase = "stopping"
        (undone,) = house.undo(remembered).undone
        assert undone.nodes == [node]
        assert not house.found("ferry to Bergen")
        assert "by hand.md" in house.ormah.index.known_files()
