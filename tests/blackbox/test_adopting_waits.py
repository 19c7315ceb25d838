"""An adoption while somebody else holds git, or while a file is being written to: it says what was done, and does nothing later."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.house import House, open_house

TEXT = "A note about pomelo.\n"


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """A folder with two notes that was there before, so that they are only found."""
    with open_house(ORMAH_VAULT_BUSY_WAIT_SECONDS="0.3", ORMAH_VAULT_QUIET_SECONDS="3600") as found:
        found.vault.mkdir()
        for name in ("a", "b"):
            (found.vault / f"{name}.md").write_text(TEXT + name)
        found.start()
        yield found


@pytest.mark.parametrize("what", [["a.md"], ["--folder", "."], ["--all"], ["--pattern", "*.md"], ["--all", "--index"]])
def test_git_is_held(house: House, what: list[str]) -> None:
    (house.vault / "F").mkdir(exist_ok=True)
    (house.vault / "F/c.md").write_text(TEXT)
    words = ["--folder", "F"] if what[0] == "--folder" else what
    head, card = house.git("rev-parse", "HEAD"), (house.vault / ".ormah/vault.toml").read_bytes()
    lock = house.vault / ".git/index.lock"
    lock.write_text("")
    done = house.ctl("vault", "adopt", *words, "--yes")
    lock.unlink()
    assert done.returncode == 75, done.stdout + done.stderr
    assert "index.lock; nothing was changed" in done.stderr
    assert "repeat" in done.stderr
    assert "stored" not in done.stderr
    house.json("jobs", "run", "index_updater")
    assert house.git("rev-parse", "HEAD") == head, "and nothing comes later"
    assert (house.vault / ".ormah/vault.toml").read_bytes() == card
    assert (house.vault / "a.md").read_text() == TEXT + "a"


def test_a_file_is_being_written_to(house: House) -> None:
    """The one that was named is left out, and says so; nothing is told as adopted that is not."""
    (house.vault / "a.md").write_text(TEXT + "just now")
    done = house.json("vault", "adopt", "a.md")
    assert (done["adopt"], done["waiting"], done["op"]) == ([], [], None)
    assert [(one["path"], "repeat the command" in one["why"]) for one in done["left_out"]] == [("a.md", True)]
    assert "id:" not in (house.vault / "a.md").read_text()


def test_what_waits_to_be_brought_in_is_no_fault_of_the_index(house: House) -> None:
    """An edit, a new file and a deletion of a moment ago, in a folder whose files are only found."""
    (house.vault / "a.md").write_text(TEXT + "and takins")
    (house.vault / "new.md").write_text(TEXT + "and tahrs")
    (house.vault / "b.md").unlink()
    assert house.json("verify") == {"ok": True, "differences": []}
    assert [one for one in house.call("admin.doctor").findings if "differs" in one.what] == []
