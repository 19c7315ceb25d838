"""An earlier state brought back is the index that those files would have; one is kept, used and given back."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ormahd.embedding.embedder import Hashing
from ormahd.errors import Unavailable
from ormahd.index import snapshots as pasts_module
from ormahd.index.index import Index
from ormahd.index.snapshots import FOLDER, IndexSnapshot, Snapshots
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

    def read(self, files: Sequence[tuple[str, str]]) -> Iterator[bytes]:
        for _, oid in files:
            self.read_oids.append(oid)
            yield self.blobs[oid]


def at(
    pasts: Snapshots,
    name: str,
    told: Told,
    strength: Mapping[str, Strength] | None = None,
    seen: list[Any] | None = None,
    time: datetime = NOW,
) -> Any:
    progress = (lambda *step: seen.append(step)) if seen is not None else (lambda *_: None)
    return pasts.at(name, time, lambda: (told, strength or {}), progress)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = open_index(tmp_path / "index", attach=True)
    yield index
    index.close()


def silent(*_: object) -> None:
    pass


def folders(index: Index) -> list[Path]:
    place = index.directory / FOLDER
    return sorted(place.iterdir()) if place.is_dir() else []


@settings(max_examples=examples(15))
@given(before=st.lists(steps, max_size=6), after=st.lists(steps, max_size=6))
def test_a_state_is_the_index_of_its_files(before: list[tuple[str, Any]], after: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        today, fresh = open_index(Path(folder) / "today", attach=True), open_index(Path(folder) / "fresh", attach=True)
        pasts = Snapshots(today, lambda: NOW)
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
            with at(pasts, "then", Told(then), time=saved) as (past, cached):
                assert not cached
                past.fill([], silent, quick=False)
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


def test_the_last_state_is_kept_and_only_that(index: Index) -> None:
    old = {f"n{number}.md": note(number, f"text {number}") for number in range(20)}
    apply(index, old)
    pasts = Snapshots(index, lambda: NOW)
    told = Told(old | {"n3.md": note(3, "three as it was")})
    with at(pasts, "one", told, {node_id(3): Strength(access_count=7)}) as (past, cached):
        assert not cached
        assert past.note(node_id(3)).content == "three as it was"
        assert past.note(node_id(3)).strength.access_count == 7
        assert index.note(node_id(3)).content == "text 3"
    assert told.read_oids == [told.files["n3.md"]], "only what differs is read"
    with at(pasts, "one", Told({})) as (again, cached):
        assert cached
        assert again is past
    assert len(folders(index)) == 1
    other = Told(old)
    with at(pasts, "two", other) as (past, cached):
        assert not cached
        assert past.note(node_id(3)).content == "text 3"
    assert other.read_oids == []
    assert len(folders(index)) == 1
    pasts.close()
    assert folders(index) == []


def test_a_state_in_use_outlives_the_next_one(index: Index) -> None:
    apply(index, {"a.md": note(1, "alpha")})
    pasts = Snapshots(index, lambda: NOW)
    with at(pasts, "one", Told({"a.md": note(1, "first")})) as (first, _):
        with at(pasts, "two", Told({"a.md": note(1, "second")})) as (second, _):
            assert (first.note(node_id(1)).content, second.note(node_id(1)).content) == ("first", "second")
            assert len(folders(index)) == 2
        pasts.drop()
        assert first.search_text("first", 5)
        assert len(folders(index)) == 1
    assert folders(index) == []
    pasts.close()


def test_a_state_that_is_dropped_while_it_is_made_is_not_kept(index: Index) -> None:
    """A purge drops it: what it was made of is not in the history any more."""
    apply(index, {"a.md": note(1, "alpha")})
    pasts = Snapshots(index, lambda: NOW)

    class Purged(Told):
        def read(self, files: Sequence[tuple[str, str]]) -> Iterator[bytes]:
            pasts.drop()
            return super().read(files)

    with at(pasts, "one", Purged({"a.md": note(1, "secret")})) as (past, _):
        assert past.search_text("secret", 5)
        assert len(folders(index)) == 1
    assert folders(index) == []
    with at(pasts, "one", Told({"a.md": note(1, "clean")})) as (past, cached):
        assert not cached
        assert past.search_text("secret", 5) == []
    pasts.close()


def test_what_a_killed_daemon_left_is_cleaned_at_the_next_start(index: Index) -> None:
    apply(index, {"a.md": note(1, "alpha")})
    (index.directory / FOLDER / "left").mkdir(parents=True)
    (index.directory / FOLDER / "left" / "index.sqlite3").write_bytes(b"x" * 1000)
    Snapshots(index, lambda: NOW)
    assert folders(index) == []


def test_it_is_dropped_when_nobody_asks(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pasts_module, "KEPT_S", 0.05)
    apply(index, {"a.md": note(1, "alpha")})
    pasts = Snapshots(index, lambda: NOW)
    removed = threading.Event()
    remove = IndexSnapshot.remove

    def told(past: IndexSnapshot) -> None:
        remove(past)
        removed.set()

    monkeypatch.setattr(IndexSnapshot, "remove", told)
    with at(pasts, "one", Told({"a.md": note(1, "then")})):
        assert not removed.is_set()
    assert removed.wait(120)
    assert folders(index) == []
    pasts.close()


def test_without_a_model_words_answer_and_with_it_the_state_is_made_anew(tmp_path: Path) -> None:
    index = open_index(tmp_path / "index")
    apply(index, {"a.md": note(1, "alpha")})
    pasts = Snapshots(index, lambda: NOW)
    told = Told({"a.md": note(1, "then")})
    with at(pasts, "one", told) as (past, _):
        assert (past.degraded, past.embed_query("then")) == (["vectors"], None)
        past.fill(["then"], silent, quick=False)
        assert past.search_text("then", 5)
    index.attach(Hashing())
    assert index.size() > 0
    with at(pasts, "one", told) as (past, cached):
        assert not cached
        past.fill(["then"], silent, quick=True)
        assert past.degraded == []
        question = past.embed_query("then")
        assert question is not None
        assert past.search_vectors(question.vector, 5)
    pasts.close()
    index.close()


def test_a_full_disk_is_said_and_leaves_nothing(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    apply(index, {"a.md": note(1, "alpha")})
    pasts = Snapshots(index, lambda: NOW)
    usage = shutil.disk_usage(index.directory)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(Unavailable, match="no room to look back"), at(pasts, "one", Told({})):
        pass
    assert folders(index) == []
    pasts.close()
