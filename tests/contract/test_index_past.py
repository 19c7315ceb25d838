"""An earlier state brought back is the index that those files would have, and is deleted at the end of its question."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ormahd.embedding.embedder import Hashing
from ormahd.errors import Unavailable
from ormahd.index.database import SCRATCH
from ormahd.index.index import Index
from ormahd.index.snapshots import Snapshots
from ormahd.index.write import git_blob
from ormahd.model.node import Strength
from tests.contract.index_notes import NOW, SAVED, apply, node_id, note, open_index, triples
from tests.contract.test_index_rebuild import answers, dump, play, steps
from tests.examples import examples


class Told:
    """A state, as the vault tells it. Remembers what is read of it."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = {path: git_blob(data) for path, data in files.items()}
        self.blobs = {git_blob(data): data for data in files.values()}
        self.read_oids: list[str] = []

    def read(self, oid: str) -> bytes:
        self.read_oids.append(oid)
        return self.blobs[oid]


def at(
    pasts: Snapshots, told: Told, strength: Mapping[str, Strength] | None = None, *, time: datetime = NOW, ask: str = ""
) -> Any:
    return pasts.at(time, told.files, told.read, strength or {}, silent, terms=[ask])


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = open_index(tmp_path / "index", attach=True)
    yield index
    index.close()


def silent(*_: object) -> None:
    pass


def folders(index: Index) -> list[Path]:
    place = index.directory / SCRATCH
    return sorted(place.iterdir()) if place.is_dir() else []


@settings(max_examples=examples(15))
@given(before=st.lists(steps, max_size=6), after=st.lists(steps, max_size=6))
def test_a_state_is_the_index_of_its_files(before: list[tuple[str, Any]], after: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        today, fresh = open_index(Path(folder) / "today", attach=True), open_index(Path(folder) / "fresh", attach=True)
        pasts = Snapshots(today)
        try:
            files: dict[str, bytes] = {}
            for step in before:
                play(today, files, step)
            then = {path: data for path, data in files.items() if b"<<<<" not in data}
            for step in after:
                play(today, files, step)
            apply(fresh, dict(sorted(then.items())))
            assert today.wait_filled(60)
            assert fresh.wait_filled(60)
            untouched = dump(today)
            saved = datetime.fromtimestamp(SAVED, UTC)  # a state of the past knows no times of its files
            with at(pasts, Told(then), time=saved) as past:
                assert past.degraded == []
                one, other = dump(past), dump(fresh)
                for part in one:
                    assert one[part] == other[part], part
                assert answers(past)[1:] == answers(fresh)[1:]
            for part, rows in dump(today).items():
                assert rows == untouched[part], part
            assert today.verify(triples(files)) == []
        finally:
            pasts.close()
            today.close()
            fresh.close()


def test_only_what_differs_is_read_and_nothing_is_left(index: Index) -> None:
    old = {f"n{number}.md": note(number, f"text {number}") for number in range(20)}
    apply(index, old)
    pasts = Snapshots(index)
    told = Told(old | {"n3.md": note(3, "three as it was")})
    with at(pasts, told, {node_id(3): Strength(access_count=7)}) as past:
        assert past.note(node_id(3)).content == "three as it was"
        assert past.note(node_id(3)).strength.access_count == 7
        assert index.note(node_id(3)).content == "text 3"
        assert len(folders(index)) == 1
    assert told.read_oids == [told.files["n3.md"]]
    assert folders(index) == []
    other = Told(old)
    with at(pasts, other) as past:
        assert past.note(node_id(3)).content == "text 3"
    assert other.read_oids == []
    pasts.close()


def test_what_a_killed_daemon_left_is_cleaned_at_the_next_start(index: Index) -> None:
    apply(index, {"a.md": note(1, "alpha")})
    (index.directory / SCRATCH / "left").mkdir(parents=True)
    (index.directory / SCRATCH / "left" / "index.sqlite3").write_bytes(b"x" * 1000)
    Snapshots(index)
    assert folders(index) == []


def test_without_a_model_words_answer_and_with_it_the_state_is_made_anew(tmp_path: Path) -> None:
    index = open_index(tmp_path / "index")
    apply(index, {"a.md": note(1, "alpha")})
    pasts = Snapshots(index)
    told = Told({"a.md": note(1, "then")})
    with at(pasts, told, ask="then") as past:
        assert (past.degraded, past.embed_query("then")) == (["vectors"], None)
        assert past.search_text("then", 5)
    index.attach(Hashing())
    assert index.size() > 0
    with at(pasts, told, ask="then") as past:
        assert past.degraded == []
        question = past.embed_query("then")
        assert question is not None
        assert past.search_vectors(question.vector, 5)
    pasts.close()
    index.close()


def test_a_full_disk_is_said_and_leaves_nothing(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    apply(index, {"a.md": note(1, "alpha")})
    pasts = Snapshots(index)
    usage = shutil.disk_usage(index.directory)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(Unavailable, match="no room to look back"), at(pasts, Told({})):
        pass
    assert folders(index) == []
    pasts.close()
