"""Documents through the commands: foretold, copied, undone as one run; and told apart from conversations."""

from __future__ import annotations

import pytest

from ormahd.rpc import wire
from tests.house import House
from tests.unit.ingest.test_sections import pdf


def test_documents_are_copied_and_undone(shared: House) -> None:
    folder = shared.home / "handbook"
    folder.mkdir()
    (folder / "harbour.md").write_text(
        "# Harbour\n\nThe harbour has two piers.\n\n## Cranes\n\nThe blue crane is broken.\n"
    )
    (folder / "talk.txt").write_text("User: who repairs the crane?\nAssistant: Bjarne does.\n")
    (folder / "map.pdf").write_bytes(pdf("The lighthouse stands north."))
    (folder / "scan.pdf").write_bytes(pdf(""))
    foretold = shared.json("ingest", str(folder), "--dry-run")
    assert (len(foretold["files"]), len(foretold["documents"])) == (1, 3)
    assert "would read 3 files as documents:" in shared.ctl("ingest", str(folder), "--dry-run").stdout
    done = shared.ctl("ingest", str(folder))
    assert done.returncode == 2
    assert "2 turns of 1 session archived" in done.stdout
    assert "3 sections of 3 documents: 3 memories added, 0 known already\n" in done.stdout
    assert "scan.pdf: it has no text: it may be a scan" in done.stderr
    run = done.stdout.rpartition("ormahctl undo --run ")[2].split()[0]
    best = shared.json("recall", "blue crane", "-n", "1")["results"][0]
    assert (best["title"], best["space"], best["origin"]) == ("Harbour > Cranes", "handbook", "file:harbour.md")
    again = shared.json("ingest", str(folder / "harbour.md"))["documents"]
    assert (again["added"], again["known"]) == (0, 2)
    assert shared.json("import", str(folder), status=2)["documents"]["known"] == 3, "a folder is copied by import too"
    assert shared.ctl("undo", "--run", run).returncode == 0
    assert "Cranes" not in [one["title"] for one in shared.json("recall", "blue crane")["results"]]
    text = shared.json(
        "ingest", "-", "--as", "document", "--space", "global", input="# Tide\n\nUser: high tide is at four.\n"
    )
    assert text["documents"]["added"] == 1
    assert shared.json("recall", "high tide", "-n", "1")["results"][0]["space"] is None
    with pytest.raises(wire.OrmahError, match="kind is"):
        shared.call("ingest.look", path=str(folder), kind="poem")


@pytest.mark.parametrize("words", [["--space", "crew"], ["--space", "global"], ["--space", "crew", "--dry-run"]])
def test_a_space_is_not_ignored_where_conversations_are(shared: House, words: list[str]) -> None:
    folder = shared.home / f"logs {' '.join(words)}"
    folder.mkdir()
    (folder / "talk.txt").write_text("User: who paints the buoy?\nAssistant: Solveig does.\n")
    before = shared.json("recall", "--sessions")["total"]
    for place in (folder, folder / "talk.txt"):
        refused = shared.ctl("ingest", str(place), *words)
        assert (refused.returncode, "--as document" in refused.stderr) == (2, True), refused.stderr
        assert "belongs to the project in which it was held" in refused.stderr
    assert shared.json("recall", "--sessions")["total"] == before
    (folder / "buoy.md").write_text("# Buoys\n\nThe buoy is red.\n")
    done = shared.ctl("ingest", str(folder), *words)
    assert done.returncode == 0
