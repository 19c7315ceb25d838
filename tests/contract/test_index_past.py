"""An earlier state brought back is the index that those files would have; one is kept, used and given back."""

from __future__ import annotations

import gc
import shutil
import tempfile
import threading
import weakref
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
from tests.house import wait_until


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


def test_texts_of_then_are_embedded_as_they_are_asked_about(index: Index) -> None:
    """Those that share words with the question first; what is too much is found by its words, and that is said."""
    apply(index, {f"n{number}.md": note(number, f"today {number}") for number in range(12)})
    pasts = Snapshots(index, lambda: NOW)
    then = {f"n{number}.md": note(number, f"yesterday {number}") for number in range(10)}
    then |= {f"n{number}.md": note(number, f"clover {number}") for number in (10, 11)}
    near = Hashing().embed_query("clover yesterday").vector
    seen: list[Any] = []
    with at(pasts, "one", Told(then)) as (past, _):
        assert past.degraded == ["vectors"]
        assert len(past.search_text("yesterday", 20)) == 10
        assert past.search_vectors(near, 20) == []
        past.fill(["clover"], lambda *step: seen.append(step), quick=True)
        assert {one for one, _ in past.search_vectors(near, 20)} == {node_id(10), node_id(11)}
        past.fill(["clover"], silent, quick=False, most=4)
        assert len(past.search_vectors(near, 20)) == 6
        past.fill(["nothing"], silent, quick=False, seconds=0.0)
        past.fill(["nothing"], silent, quick=False, stopped=lambda: True)
        assert (len(past.search_vectors(near, 20)), past.degraded) == (6, ["vectors"])
    assert seen == [(0, 2, "embedding")]
    with at(pasts, "two", Told(then)) as (past, _):
        assert len(past.search_vectors(near, 20)) == 6, "today's index kept what was made"
        past.fill([], silent, quick=False)
        assert (len(past.search_vectors(near, 20)), past.degraded) == (12, [])
    pasts.close()
    assert index.verify() == []


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


def test_a_file_with_conflict_markers_is_not_there_whatever_it_is_today(index: Index) -> None:
    apply(index, {"a.md": note(1, "alpha today")})
    pasts = Snapshots(index, lambda: NOW)
    marked = note(1, "alpha") + b"<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n"
    with at(pasts, "one", Told({"a.md": marked})) as (past, _):
        assert past.known() == {}
    pasts.close()


def test_progress_is_told(index: Index) -> None:
    apply(index, {})
    pasts = Snapshots(index, lambda: NOW)
    seen: list[Any] = []
    count = pasts_module.BATCH + 10
    with at(pasts, "one", Told({f"n{number}.md": note(number, str(number)) for number in range(count)}), seen=seen):
        pass
    assert seen[0] == (0, 0, "copying")
    assert ("reading", pasts_module.BATCH) in [(stage, done) for done, total, stage in seen if total == count]
    pasts.close()


def test_a_full_disk_is_said_and_leaves_nothing(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    apply(index, {"a.md": note(1, "alpha")})
    pasts = Snapshots(index, lambda: NOW)
    usage = shutil.disk_usage(index.directory)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(Unavailable, match="no room to look back"), at(pasts, "one", Told({})):
        pass
    assert folders(index) == []
    pasts.close()


def test_closing_ends_a_build(index: Index) -> None:
    apply(index, {})
    pasts = Snapshots(index, lambda: NOW)
    reading, closing = threading.Event(), threading.Event()
    files = {f"n{number}.md": note(number, str(number)) for number in range(pasts_module.BATCH * 2)}

    class Slow(Told):
        def read(self, files: Sequence[tuple[str, str]]) -> Iterator[bytes]:
            for at, found in enumerate(super().read(files)):
                if at == 1:
                    reading.set()
                    assert closing.wait(120)
                yield found

    failed: list[BaseException] = []

    def ask() -> None:
        try:
            with at(pasts, "one", Slow(files)):
                pass
        except Unavailable as error:
            failed.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert reading.wait(120)
    closer = threading.Thread(target=pasts.close)
    closer.start()
    wait_until(lambda: pasts._closed, "closing to begin")
    closing.set()
    thread.join(120)
    closer.join(120)
    assert [error.message for error in failed] == ["the daemon is stopping"]  # type: ignore[attr-defined]
    assert folders(index) == []


def test_several_ask_for_the_same_state_at_once(index: Index) -> None:
    apply(index, {f"n{number}.md": note(number, f"text {number}") for number in range(50)})
    pasts = Snapshots(index, lambda: NOW)
    then = {f"n{number}.md": note(number, f"then {number}") for number in range(50)}
    made: list[Told] = []
    found: list[int] = []

    def load() -> tuple[Told, Mapping[str, Strength]]:
        made.append(Told(then))
        return made[-1], {}

    def ask() -> None:
        with pasts.at("one", NOW, load, lambda *_: None) as (past, _):
            found.append(len(past.search_text("then", 100)))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert found == [50] * 6
    assert len(made) == 1
    pasts.close()


@pytest.mark.parametrize("way_out", ["another state", "dropped", "closed", "a trial"])
def test_a_state_that_is_let_go_leaves_no_memory_and_no_thread(index: Index, way_out: str) -> None:
    """By itself: what is in a ring, and was left alone by the search for garbage meanwhile, would stay for good."""
    apply(index, {f"n{number}.md": note(number, f"text {number}") for number in range(20)})
    assert index.wait_filled(60)
    pasts = Snapshots(index, lambda: NOW)
    told = Told({f"n{number}.md": note(number, f"other {number}") for number in range(20)})
    threads = threading.active_count()
    gc.collect()
    gc.freeze()
    try:
        if way_out == "a trial":
            with pasts.trial({"n3.md": note(3, "three as it will be")}, NOW) as past:
                assert past.search_text(["three"], 5)
                kept = weakref.ref(past)
        else:
            with at(pasts, "one", told) as (past, _):
                past.fill(["other"], silent, quick=False)
                assert past.search_vectors(Hashing().embed_query("other 3").vector, 5)
                assert past.search_text(["other"], 5)
                kept = weakref.ref(past)
        del past
        gc.freeze()
        if way_out == "another state":
            with at(pasts, "two", told):
                pass
        elif way_out == "dropped":
            pasts.drop()
        pasts.close()
        assert kept() is None
        wait_until(lambda: threading.active_count() <= threads, "its threads have ended")
    finally:
        gc.unfreeze()
        pasts.close()
