"""Sections of files become memories and follow their file; what was decided here stands; nothing is written there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.actions.amend import PERSON, Caller
from ormahd.actions.outdated import forget
from ormahd.actions.remember import remember
from ormahd.actions.undo import undo
from ormahd.actions.update import Update, update
from ormahd.actions.update import update as change
from ormahd.api import IngestDocumentParams, IngestedDocument, IngestPathParams, UndoParams
from ormahd.errors import BadRequest
from ormahd.index.rows import NodeRow
from ormahd.ingest.documents.follow import GONE, follow, let_go
from ormahd.ingest.intake import Intake
from ormahd.ingest.looking import ingest_document, look_at
from ormahd.model.node import CreateNodeRequest, Tier
from ormahd.ormah import Ormah
from tests.contract.archiving import opened as opened_with
from tests.contract.test_past_sessions import said_of, sources
from tests.house import save, wait_until

ME = Caller(PERSON)
TEXT = "# Ferry\n\nIt leaves at noon.\n\n## Fares\n\nChildren travel free of charge.\n\n## Dogs\n\nDogs stay on deck.\n"


@pytest.fixture
def ormah(tmp_path: Path) -> Iterator[Ormah]:
    with opened_with(tmp_path) as found:
        found.warm()
        yield found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "ferry.md").write_text(TEXT)
    return folder / "ferry.md"


def take(ormah: Ormah, file: Path, *, dry_run: bool = False) -> IngestedDocument:
    return ingest_document(ormah, IngestDocumentParams(path=str(file), dry_run=dry_run), ME)


def counts(out: IngestedDocument) -> dict[str, int]:
    names = ("added", "updated", "archived", "restored", "moved", "same", "kept", "forgotten", "known")
    return {name: number for name in names if (number := getattr(out, name))}


def memories(ormah: Ormah) -> dict[str, NodeRow]:
    """{title: memory} of all that came from a file."""
    rows = ormah.index.notes(list(ormah.index.extracted()), connections=False)
    return {row.title or "": row for row in rows.values()}


def head(ormah: Ormah) -> str | None:
    return ormah.vault.head()


def test_sections_become_memories_in_one_commit_and_a_dry_run_says_so(ormah: Ormah, file: Path) -> None:
    before = head(ormah)
    foretold = take(ormah, file, dry_run=True)
    assert counts(foretold) == {"added": 3}
    assert (head(ormah), foretold.op, foretold.commit) == (before, None, None)
    done = take(ormah, file)
    assert counts(done) == counts(foretold)
    found = memories(ormah)
    assert {title: row.content for title, row in found.items()} == {
        "Ferry": "It leaves at noon.", "Fares": "Children travel free of charge.", "Dogs": "Dogs stay on deck.",
    }  # fmt: skip
    assert {row.source for row in found.values()} == {"file:ferry.md"}
    assert {row.space for row in found.values()} == {"notes"}
    assert (found["Fares"].said_in or "").startswith("file://")
    assert "ferry.md#Ferry%20>%20Fares#" in (found["Fares"].said_in or "")
    entry = ormah.vault.oplog.view().entries[0]
    assert (entry.op, entry.kind, len(entry.nodes)) == (done.op, "ingest", 3)
    assert file.read_text() == TEXT
    again = take(ormah, file)
    assert (counts(again), again.op) == ({"same": 3}, None)


def test_what_is_edited_added_and_deleted_there_is_so_here(ormah: Ormah, file: Path) -> None:
    take(ormah, file)
    ids = {title: row.id for title, row in memories(ormah).items()}
    file.write_text(
        "# Ferry\n\nIt leaves at one.\n\n## Bicycles\n\nThey cost two euros.\n\n## Fares\n\nChildren travel free of charge.\n"
    )
    foretold = take(ormah, file, dry_run=True)
    done = take(ormah, file)
    assert counts(foretold) == counts(done) == {"updated": 1, "added": 1, "same": 1, "archived": 1}
    found = memories(ormah)
    assert (found["Ferry"].content, found["Ferry"].id) == ("It leaves at one.", ids["Ferry"])
    assert (found["Dogs"].tier, found["Dogs"].tags) == (Tier.ARCHIVAL, (GONE,))
    assert counts(take(ormah, file)) == {"same": 3}
    file.write_text(TEXT)
    assert counts(take(ormah, file)) == {"updated": 1, "archived": 1, "restored": 1, "same": 1}
    found = memories(ormah)
    assert (found["Dogs"].tier, found["Dogs"].tags, found["Dogs"].id) == (Tier.WORKING, (), ids["Dogs"])
    assert found["Bicycles"].tier is Tier.ARCHIVAL


def test_a_persons_edit_wins(ormah: Ormah, file: Path) -> None:
    take(ormah, file)
    fares = memories(ormah)["Fares"]
    change(ormah, fares.id, Update(set={"content": "Children under six travel free."}), ME)
    file.write_text(TEXT.replace("free of charge", "half price").replace("## Dogs\n\nDogs stay on deck.\n", ""))
    done = take(ormah, file)
    assert counts(done) == {"kept": 1, "same": 1, "archived": 1}
    assert done.kept_titles == ["Fares"]
    assert memories(ormah)["Fares"].content == "Children under six travel free."
    file.write_text("# Ferry\n\nIt leaves at noon.\n")
    assert counts(take(ormah, file)) == {"kept": 1, "same": 1}
    assert memories(ormah)["Fares"].tier is Tier.WORKING


def test_tags_tier_and_edges_are_no_edit_of_the_text(ormah: Ormah, file: Path) -> None:
    take(ormah, file)
    fares = memories(ormah)["Fares"]
    update(ormah, fares.id, Update(set={"tier": Tier.CORE}, add_tags=("prices",)), ME)
    file.write_text(TEXT.replace("free of charge", "half price"))
    assert counts(take(ormah, file)) == {"updated": 1, "same": 2}
    found = memories(ormah)["Fares"]
    assert (found.content, found.tier, found.tags) == ("Children travel half price.", Tier.CORE, ("prices",))


def test_what_is_forgotten_or_undone_here_does_not_come_back(ormah: Ormah, file: Path) -> None:

    done = take(ormah, file)
    forget(ormah, memories(ormah)["Dogs"].id, ME)
    assert counts(take(ormah, file)) == {"forgotten": 1, "same": 2}
    file.write_text(TEXT.replace("Dogs stay on deck.", "Dogs are welcome everywhere."))
    assert counts(take(ormah, file)) == {"added": 1, "same": 2}
    assert done.op is not None
    undo(ormah, UndoParams(ops=[done.op]), ME, lambda *_: None)
    assert set(memories(ormah)) == {"Dogs"}
    assert counts(take(ormah, file)) == {"forgotten": 2, "same": 1}


def test_a_renamed_file_keeps_its_memories(ormah: Ormah, file: Path) -> None:
    take(ormah, file)
    ids = {row.id for row in memories(ormah).values()}
    new = file.with_name("boat.md")
    file.rename(new)
    assert counts(take(ormah, new, dry_run=True)) == {"moved": 3}
    assert counts(take(ormah, new)) == {"moved": 3}
    assert {row.id for row in memories(ormah).values()} == ids
    assert counts(take(ormah, new)) == {"same": 3}
    new.unlink()
    assert counts(let_go(ormah, new, ME, run=None)) == {"archived": 3}
    new.write_text(TEXT)
    assert counts(take(ormah, new)) == {"restored": 3}


def test_a_deleted_file_is_noticed_by_a_command_for_its_folder(ormah: Ormah, file: Path) -> None:
    (file.parent / "other.md").write_text("# Other\n\nAnother text.\n")

    def look_there(*, dry_run: bool) -> list[IngestedDocument]:
        params = IngestPathParams(path=str(file.parent), dry_run=dry_run)
        found = look_at(ormah, params, ME, progress=lambda *_: None, propose=lambda *_: 0, foreseen=lambda *_: None)
        return found.documents

    for one in look_there(dry_run=False):
        take(ormah, Path(one.path))
    file.unlink()
    foretold = {Path(one.path).name: (one.status, counts(one)) for one in look_there(dry_run=True)}
    assert foretold == {"ferry.md": ("gone", {"archived": 3}), "other.md": ("read", {"same": 1})}
    gone = next(one for one in look_there(dry_run=False) if one.status == "gone")
    assert counts(take(ormah, Path(gone.path))) == {"archived": 3}
    assert [Path(one.path).name for one in look_there(dry_run=False)] == ["other.md"]
    assert {row.title for row in memories(ormah).values() if row.tier is Tier.ARCHIVAL} == {"Ferry", "Fares", "Dogs"}


def test_what_is_known_already_is_not_stored_twice(ormah: Ormah, file: Path) -> None:
    remember(ormah, CreateNodeRequest(content="Dogs stay on deck.", title="Dogs", space="notes", source="person"), ME)
    file.write_text(TEXT + "\n## Fares\n\nChildren travel free of charge.\n")
    assert counts(take(ormah, file)) == {"added": 2, "known": 2}
    assert counts(take(ormah, file)) == {"same": 2, "known": 2}


def test_secrets_and_our_own_whispers_stay_out(ormah: Ormah, file: Path) -> None:
    secret = "ghp_" + "aB3dE5fG7h" * 4
    file.write_text(f"# Deploy\n\nThe token is {secret}, keep it.\n\n# {secret}\n\nSome more text.\n")
    done = take(ormah, file)
    assert sum(done.redacted.values()) == 2
    assert all(secret not in f"{row.title}{row.content}{row.said_in}" for row in memories(ormah).values())
    assert counts(take(ormah, file)) == {"same": 2}


def test_errors_name_the_thing_and_nothing_happens(ormah: Ormah, file: Path, tmp_path: Path) -> None:
    before = head(ormah)
    broken = file.with_name("broken.pdf")
    broken.write_bytes(b"%PDF-1.4 broken")
    done = take(ormah, broken)
    assert (done.status, (done.error or "")[:27]) == ("failed", "it cannot be read as a PDF:")
    with pytest.raises(BadRequest, match="no absolute path"):
        ingest_document(ormah, IngestDocumentParams(path="notes.md"), ME)
    with pytest.raises(BadRequest, match="nothing at"):
        take(ormah, tmp_path / "missing.md")
    mine = ormah.vault.root / "mine.md"
    mine.write_text(TEXT)
    for act in (
        lambda: take(ormah, mine),
        lambda: look_at(
            ormah, IngestPathParams(path=str(ormah.vault.root)), ME, progress=lambda *_: None, propose=lambda *_: 0,
            foreseen=lambda *_: None,
        ),
    ):  # fmt: skip
        with pytest.raises(BadRequest, match="a folder of Ormah itself"):
            act()
    assert head(ormah) == before


def test_a_text_without_a_place_follows_nothing(ormah: Ormah, file: Path) -> None:
    for expected in ({"added": 3}, {"known": 3}):
        done = follow(ormah, None, ME, read=file, space=None, dry_run=False, run=None)
        assert counts(done) == expected
    assert ormah.index.extracted() == {}


# ------------------------------------------------------------ watched folders


def watching(*folders: Path, ignore: str = "") -> dict[str, str]:
    return {
        "ORMAH_HIPPOCAMPUS_FOLDERS": ",".join(map(str, folders)), "ORMAH_HIPPOCAMPUS_QUIET_SECONDS": "0.05",
        "ORMAH_HIPPOCAMPUS_IGNORE": ignore,
    }  # fmt: skip


def test_a_watched_folder_is_followed(tmp_path: Path, file: Path) -> None:
    variables = watching(file.parent, ignore="drafts/,*.tmp.md")
    (file.parent / "drafts").mkdir()
    (file.parent / "drafts" / "x.md").write_text("# Draft\n\nNot to be read.\n")
    (file.parent / ".obsidian").mkdir()
    (file.parent / ".obsidian" / "y.md").write_text("# Plugin\n\nNot to be read.\n")
    with opened_with(tmp_path, variables=variables) as ormah:
        ormah.warm()
        with sources(ormah) as intake:
            wait_until(lambda: set(memories(ormah)) == {"Ferry", "Fares", "Dogs"}, "what was there at the start")
            save(file, TEXT.replace("at noon", "at two"))
            wait_until(lambda: memories(ormah)["Ferry"].content == "It leaves at two.", "an edit")
            ids = {row.id for row in memories(ormah).values()}
            file.rename(file.with_name("boat.md"))
            wait_until(lambda: all("boat.md" in (row.said_in or "") for row in memories(ormah).values()), "a new name")
            assert {row.id for row in memories(ormah).values()} == ids
            (file.parent / "b").mkdir()
            (file.parent / "b" / "note.md").write_text("# Harbour\n\nIt has two piers.\n")
            wait_until(lambda: "Harbour" in memories(ormah), "a file in a new folder")
            (file.parent / "b" / "note.md").unlink()
            wait_until(lambda: memories(ormah)["Harbour"].tier is Tier.ARCHIVAL, "a deleted file")
            found = said_of(intake, "folder")
            assert (found.on, found.state, found.memories, found.troubles) == (True, "watching", 4, [])
            assert {one.name for one in file.parent.iterdir()} == {"boat.md", "b", "drafts", ".obsidian"}
        ops = len(ormah.vault.oplog.view().entries)
        with sources(ormah):  # a second start changes nothing but what is new
            save(file.with_name("boat.md"), TEXT + "\n# New\n\nSomething new.\n")
            wait_until(lambda: "New" in memories(ormah), "the next edit")
        assert len(ormah.vault.oplog.view().entries) == ops + 1


def test_what_cannot_be_watched_is_named_and_an_emptied_folder_loses_nothing(tmp_path: Path, file: Path) -> None:
    (file.parent / "other.md").write_text("# Other\n\nAnother text.\n")
    (file.parent / "bad.md").write_bytes(b"\x00\x01")
    vault = tmp_path / "vault"
    with opened_with(tmp_path, variables=watching(file.parent, vault, tmp_path / "missing")) as ormah:
        ormah.warm()

        def wrong(intake: Intake) -> dict[str, str]:
            return {Path(one.path).name: one.why for one in said_of(intake, "folder").troubles}

        with sources(ormah) as intake:
            wait_until(lambda: len(memories(ormah)) == 4, "the memories")
            wait_until(
                lambda: wrong(intake) == {
                    "vault": "it holds what Ormah writes, and is not watched", "missing": "it is not there", "bad.md": "it is no text",
                },
                lambda: f"what is wrong, not {wrong(intake)}",
            )  # fmt: skip
        for one in file.parent.iterdir():  # as if its disk were not mounted
            one.unlink()
        with sources(ormah) as intake:
            wait_until(lambda: "notes" in wrong(intake), "that all its files are gone")
            assert {row.tier for row in memories(ormah).values()} == {Tier.WORKING}
        shutil.rmtree(file.parent)
        os.mkdir(file.parent)
        file.write_text(TEXT)
        with sources(ormah) as intake:
            wait_until(lambda: memories(ormah)["Other"].tier is Tier.ARCHIVAL, "the file that did not come back")
            assert memories(ormah)["Ferry"].tier is Tier.WORKING
