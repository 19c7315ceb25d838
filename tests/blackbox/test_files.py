"""Documents through the commands: foretold, remembered, followed, undone as one run; and told apart from conversations."""

from __future__ import annotations

from pathlib import Path

import pytest

from ormahd.rpc import wire
from tests.house import House, open_house, save, wait_until
from tests.unit.ingest.test_sections import pdf


def test_documents_are_remembered_followed_and_undone(shared: House) -> None:
    folder = shared.home / "handbook"
    folder.mkdir()
    (folder / "harbour.md").write_text(
        "# Harbour\n\nThe harbour has two piers.\n\n## Cranes\n\nThe blue crane is broken.\n"
    )
    (folder / "talk.txt").write_text("User: who repairs the crane?\nAssistant: Bjarne does.\n")
    (folder / "map.pdf").write_bytes(pdf("The lighthouse stands north."))
    (folder / "scan.pdf").write_bytes(pdf(""))
    foretold = shared.json("ingest", str(folder), "--dry-run", status=2)
    assert (foretold["added"], foretold["documents"]["added"]) == (2, 3)
    done = shared.ctl("ingest", str(folder))
    assert done.returncode == 2
    assert "2 turns of 1 session archived" in done.stdout
    assert "3 sections of 2 documents\n  3 memories added\n" in done.stdout
    assert "scan.pdf: it has no text: it may be a scan" in done.stderr
    run = done.stdout.rpartition("ormahctl undo --run ")[2].split()[0]
    best = shared.json("recall", "blue crane", "-n", "1")["results"][0]
    assert (best["title"], best["space"], best["origin"]) == ("Cranes", "handbook", "file:harbour.md")
    shown = shared.ctl("show", best["short_id"]).stdout
    assert "follows the section “Harbour > Cranes” of ~/handbook/harbour.md" in shown
    (folder / "harbour.md").write_text("# Harbour\n\nThe harbour has three piers.\n")
    again = shared.ctl("ingest", str(folder / "harbour.md")).stdout
    assert "1 memory updated" in again
    assert "1 memory archived: gone from the file" in again
    assert shared.ctl("undo", again.rpartition("ormahctl undo ")[2].split()[0]).returncode == 0
    assert shared.ctl("undo", "--run", run).returncode == 0
    assert "Cranes" not in [one["title"] for one in shared.json("recall", "blue crane")["results"]]
    forgotten = shared.json("ingest", str(folder / "map.pdf"))["documents"]
    assert (forgotten["added"], forgotten["forgotten"]) == (0, 1)
    text = shared.json("ingest", "-", "--as", "document", "--global", input="# Tide\n\nUser: high tide is at four.\n")
    assert text["documents"]["added"] == 1
    assert shared.json("recall", "high tide", "-n", "1")["results"][0]["space"] is None
    with pytest.raises(wire.OrmahError, match="kind is"):
        shared.call("ingest.look", path=str(folder), kind="poem")
    assert shared.ctl("ingest", "-", "--space", "a", "--global", input="x").returncode == 2


@pytest.mark.parametrize("words", [["--space", "crew"], ["--global"], ["--space", "crew", "--dry-run"]])
def test_a_space_is_not_ignored_where_conversations_are(shared: House, words: list[str]) -> None:
    folder = shared.home / f"logs {len(words)}{words[0]}"
    folder.mkdir()
    (folder / "talk.txt").write_text("User: who paints the buoy?\nAssistant: Solveig does.\n")
    before = shared.json("sessions")["total"]
    for place in (folder, folder / "talk.txt"):
        refused = shared.ctl("ingest", str(place), *words)
        assert (refused.returncode, "--as document" in refused.stderr) == (2, True), refused.stderr
        assert "belongs to the project in which it was held" in refused.stderr
    assert shared.json("sessions")["total"] == before
    (folder / "buoy.md").write_text("# Buoys\n\nThe buoy is red.\n")
    done = shared.ctl("ingest", str(folder), *words)
    assert done.returncode == 0
    assert "the space is that of documents" in done.stderr


def test_a_watched_folder_is_followed_and_not_written_to() -> None:
    with open_house(ORMAH_HIPPOCAMPUS_QUIET_SECONDS="0.1") as house:
        folder = Path(house.env["HOME"]) / "notes"
        folder.mkdir()
        house.settings["ORMAH_HIPPOCAMPUS_FOLDERS"] = "~/notes"
        (folder / "pier.md").write_text("# Pier\n\nThe pier is closed in winter.\n")
        house.start()

        def said() -> list[str]:
            return [one["content"] for one in house.json("recall", "pier", "-n", "5")["results"]]

        wait_until(lambda: "The pier is closed in winter." in said(), "what was there")
        save(folder / "pier.md", "# Pier\n\nThe pier is open all year.\n")
        wait_until(lambda: "The pier is open all year." in said(), "the edit")
        status = next(one for one in house.json("status")["sources"] if one["source"] == "folder")
        assert (status["state"], status["memories"]) == ("watching", 1)
        assert sorted(one.name for one in folder.iterdir()) == ["pier.md"]
        assert house.stop() == 0
        (folder / "pier.md").unlink()
        (folder / "other.md").write_text("# Other\n\nThe other pier has a bar.\n")
        house.start()
        wait_until(lambda: "The other pier has a bar." in said(), "what came while no daemon ran")
        (old,) = [one for one in house.json("recall", "pier", "-n", "5")["results"] if one["content"].endswith("year.")]
        wait_until(lambda: house.json("show", old["id"])["tier"] == "archival", "what went while no daemon ran")
        assert house.stop() == 0
