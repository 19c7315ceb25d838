"""What Ormah wrote itself is neither a session nor a document: it is left out, and that is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ormahd import paths
from ormahd.actions.amend import Caller
from ormahd.api import IngestDocumentParams, IngestPathParams
from ormahd.errors import BadRequest
from ormahd.ingest.bring_in import ingest
from ormahd.ingest.looking import ingest_document, look_at
from ormahd.ingest.past import past
from tests.extraction_house import opened, transcript

PERSON = Caller("person", None)


def test_own_folders_are_named_where_they_are_left_out(tmp_path: Path) -> None:
    with opened(tmp_path) as ormah:
        file = transcript(tmp_path / "talks" / "one.jsonl", ["Remember that the gate is blue."])
        ingest(ormah, str(file), unnamed=False, progress=lambda *_: None)

        def looked(place: Path) -> tuple[list[str], list[str]]:
            params = IngestPathParams(path=str(place), dry_run=False)
            found = look_at(
                ormah, params, PERSON, progress=lambda *_: None, propose=lambda *_: 0, foreseen=lambda *_: None
            )
            return [one.path for one in (*found.files, *found.documents)], found.left_out

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
                past(ormah, [str(inside)], exact=False, progress=lambda *_: None)
        with pytest.raises(BadRequest, match="is in a folder of Ormah itself"):
            ingest_document(ormah, IngestDocumentParams(path=str(note)), PERSON)
