"""What Ormah wrote itself is neither a session nor a document: it is left out, and that is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ormahd import paths
from ormahd.actions.amend import Caller
from ormahd.api import IngestDocumentParams, IngestPathParams, PastParams
from ormahd.errors import BadRequest
from ormahd.ingest.backfill import past_sessions
from ormahd.ingest.bring_in import ingest
from ormahd.ingest.documents.copies import ingest_document
from ormahd.ingest.documents.finding import find_files
from tests.extraction_house import opened, transcript

PERSON = Caller("person", None)


def test_own_folders_are_named_where_they_are_left_out(tmp_path: Path) -> None:
    with opened(tmp_path) as ormah:
        file = transcript(tmp_path / "talks" / "one.jsonl", ["Remember that the gate is blue."])
        ingest(ormah, str(file), progress=lambda *_: None)

        def looked(place: Path) -> tuple[list[str], list[str]]:
            found = find_files(ormah, IngestPathParams(path=str(place)))
            return [*found.files, *found.documents], found.left_out

        files, left_out = looked(tmp_path)
        archive = paths.sessions_dir(ormah.vault.id).parent
        assert str(file) in files
        assert {str(ormah.vault.root), str(archive)} <= set(left_out)
        assert not [one for one in files if any(one.startswith(folder + os.sep) for folder in left_out)]
        assert looked(tmp_path / "talks") == ([str(file)], [])
        note = next(ormah.vault.root.rglob("*.md"))
        for inside in (archive, archive / ormah.vault.id, ormah.vault.root, ormah.state.path.parent):
            with pytest.raises(BadRequest, match="is in a folder of Ormah itself"):
                looked(inside)
            with pytest.raises(BadRequest, match="is in a folder of Ormah itself"):
                past_sessions(ormah, PastParams(folders=[str(inside)]))
        with pytest.raises(BadRequest, match="is in a folder of Ormah itself"):
            ingest_document(ormah, IngestDocumentParams(path=str(note)), PERSON)


def test_a_folder_holds_conversations_and_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "all"
    transcript(place / "one.jsonl", ["The gate is blue."])
    for name in ("a.md", ".hidden.md"):
        (place / name).write_text("# Notes\n\nSome text of a note.")
    (place / "link.md").symlink_to(place / "a.md")
    with opened(tmp_path / "home") as ormah:

        def looked(kind: str = "") -> tuple[list[str], list[str]]:
            found = find_files(ormah, IngestPathParams(path=str(place), kind=kind))
            return [Path(one).name for one in found.files], [Path(one).name for one in found.documents]

        assert looked() == (["one.jsonl"], ["a.md"])
        assert looked("document") == ([], ["a.md"])
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
        place.rename(tmp_path / "projects")
        place = tmp_path / "projects"
        assert looked() == (["one.jsonl"], [])
