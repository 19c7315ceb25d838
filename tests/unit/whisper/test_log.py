"""What was whispered, asked and judged: the books in the state directory, and the judgements read from files."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from ormahd.errors import NotFound
from ormahd.model.judgement import FILES, FOLDER, Int8Vector, Judgement
from ormahd.state import whispers
from ormahd.state.feedback import KeyedHashes, LineFiles
from ormahd.state.state import State
from ormahd.state.whispers import Considered

NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)
A, B, C = (
    "aaaa0001-6d0a-4c1e-9a55-0a52b0f4f9d1",
    "aaaa0002-6d0a-4c1e-9a55-0a52b0f4f9d1",
    "bbbb0001-6d0a-4c1e-9a55-0a52b0f4f9d1",
)
VECTOR = np.array([0.6, 0.8], np.float32)


class Clock:
    now = NOW

    def __call__(self) -> datetime:
        return self.now

    def go(self, **by: float) -> None:
        self.now += timedelta(**by)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(tmp_path: Path, clock: Clock) -> Iterator[State]:
    opened = State(tmp_path, clock=clock)
    yield opened
    opened.close()


def record(state: State, *candidates: Considered, prompt: str = "where?", **more: object) -> str:
    values: dict[str, object] = {
        "outcome": whispers.SPOKEN, "milliseconds": 3.0, "vector": VECTOR, "model": "org/model", "session_id": "s", "space": None,
    } | more  # fmt: skip
    return whispers.record(state, prompt=prompt, candidates=candidates, **values)  # type: ignore[arg-type]


SESSIONS = (("shop 1", "s1", "shop"), ("shop 2", "s2", "shop"), ("far", "s3", "far"), ("tried", None, None))
"""Prompts in their order: (text, session, space)."""


@pytest.mark.parametrize(
    ("considered", "session", "space", "judged"),
    [
        (["shop 1", "shop 2"], "s1", "shop", "shop 1"),  # its own session, though another one came later
        (["shop 1", "shop 2"], None, "shop", "shop 2"),
        (["shop 1", "shop 2"], "s9", "shop", "shop 2"),  # nothing of this session is logged
        (["shop 1"], None, "shop", None),  # the last one here did not consider it: another session is not judged
        (["shop 1"], "s2", "shop", None),
        (["shop 2", "tried"], None, None, "tried"),  # typed without a session
        (["shop 2"], None, None, None),
        ([], "s1", "shop", None),
    ],
)
def test_the_last_whisper_of_the_callers_session_is_judged(
    state: State, clock: Clock, considered: list[str], session: str | None, space: str | None, judged: str | None
) -> None:
    events = {}
    for text, session_id, of_space in SESSIONS:
        clock.go(seconds=-5)  # a clock that goes back changes nothing: the log's own order counts
        some = [Considered(B, 0.5, 0.5), *([Considered(A, 0.6, 0.7, "full")] if text in considered else [])]
        agent = "person" if session_id is None else "agent:codex"
        events[text] = record(state, *some, prompt=text, session_id=session_id, space=of_space, agent=agent)
        record(state, prompt="ok", outcome="short", session_id=session_id, space=of_space, vector=None)
    agent = "person" if space is None else "agent:codex"
    if judged is not None:
        found = whispers.latest(state, A, session_id=session, space=space, agent=agent)
        assert (found.event, found.node_id, found.prompt, found.how) == (events[judged], A, judged, "full")
        assert found.vector.tolist() == VECTOR.tolist()
        return
    with pytest.raises(NotFound, match="which prompt is judged") as unclear:
        whispers.latest(state, A, session_id=session, space=space, agent=agent)
    named = [text for text, event in events.items() if event in (unclear.value.hint or "")]
    assert set(considered) <= set(named), "the one that considered it is named, and the last one of the caller"
    assert len(named) == 1 + bool(considered)


def test_a_memory_that_a_whisper_did_not_consider_can_be_judged_there(state: State) -> None:
    first = record(state, Considered(A, 0.6, 0.7, "full"))
    silent = record(state, outcome="gate", prompt="why?", session_id=None)
    for event, node, relevance in ((first, A, 0.6), (first, B, 0.0), (silent, A, 0.0)):
        found = whispers.considered(state, event, node)
        assert found is not None
        assert (found.event, found.node_id, found.relevance) == (event, node, relevance)
    assert whispers.considered(state, "nothing", A) is None
    assert whispers.considered(state, record(state, outcome="short", vector=None), A) is None, "nothing to learn from"


def test_a_prompt_is_kept_without_its_secrets(state: State, tmp_path: Path) -> None:
    key = "ghp_" + "a1B2" * 9
    event = record(state, Considered(A, 0.6, 0.7), prompt="x " * (whispers.MAX_PROMPT // 2 - 10) + key + " y" * 90_000)
    kept = whispers.latest(state, A, session_id="s", space=None, agent="agent").prompt
    assert len(kept) == whispers.MAX_PROMPT
    assert "[redacted" in kept
    assert whispers.prompt_texts(state, [event, "unknown"]) == {event: kept}
    state.close()
    assert all(b"ghp_" not in file.read_bytes() for file in tmp_path.iterdir())
    state._db = sqlite3.connect(":memory:")  # for the fixture to close


def test_events_cannot_be_guessed() -> None:
    drawn = {whispers.new_event() for _ in range(1_000)}
    assert len(drawn) == 1_000
    assert {len(one) for one in drawn} == {12}
    assert min(len({one[at] for one in drawn}) for at in range(12)) == 32


def test_figures_have_the_silences_too(state: State, clock: Clock) -> None:
    assert whispers.figures(state) == whispers.Figures(None, 0, 0, {}, None, 0, 0)
    for outcome, times in (("injected", 2), ("gate", 3), ("short", 1)):
        for number in range(times):
            record(state, outcome=outcome, milliseconds=number)
    clock.go(days=1)
    found = whispers.figures(state)
    assert (found.since, found.prompts, found.spoken, found.silent) == (NOW, 6, 2, {"gate": 3, "short": 1})
    assert found.median_ms == 1.0


def test_what_is_old_is_forgotten_with_its_candidates(state: State, clock: Clock) -> None:
    for _ in range(2 * whispers.SLICE + 7):
        record(state, Considered(A, 0.6, 0.7))
    clock.go(days=20)
    recent = record(state, Considered(B, 0.6, 0.7))
    assert whispers.prune(state, 30) == 0
    clock.go(days=11)
    assert whispers.prune(state, 30) == 2 * whispers.SLICE + 7
    assert [one.event for one in whispers.prompts(state, limit=9)] == [recent]
    with state.transaction() as db:
        assert db.execute("SELECT count(*) FROM whisper_log").fetchone() == (1,)


def test_held_back_is_what_was_never_shown(state: State, clock: Clock) -> None:
    record(state, Considered(A, 0.9, 0.9), Considered(B, 0.4, 0.4), space="ormah", prompt="long ago")
    clock.go(days=8)
    since = clock.now - timedelta(days=7)
    record(state, Considered(A, 0.42, 0.42), Considered(B, 0.45, 0.45), space="ormah", prompt="here")
    record(state, Considered(B, 0.48, 0.30), space=None, prompt="nowhere")
    record(state, Considered(C, 0.49, 0.49), space="other", prompt="elsewhere")
    best = record(state, Considered(B, 0.47, 0.30), space="ormah", prompt="here again")

    def held(space: str | None, least: float = 0.0) -> list[str]:
        return [node for _, node in whispers.never_shown(state, since, space, 10, least=least)]

    assert held("ormah") == [B, A]
    found = [whispers.considered(state, event, node) for event, node in whispers.never_shown(state, since, "ormah", 10)]
    assert [(one.node_id, one.relevance, one.prompt) for one in found if one] == [
        (B, 0.47, "here again"),
        (A, 0.42, "here"),
    ]
    assert found[0] is not None
    assert found[0].event == best
    record(state, Considered(C, 0.9, 0.9), space="ormah", session_id=None, prompt="tried by hand")
    assert (held("ormah", 0.45), held("ormah", 0.48)) == ([B], [])
    assert held(None) == [B]
    assert held("other") == [C]
    record(state, Considered(B, 0.6, 0.6, "title"), space="other")
    assert held("ormah") == [A]
    record(state, Considered(A, 0.3, 0.3, "exploring"), space=None)
    assert held("ormah") == []


def test_held_back_is_looked_for_in_the_last_prompts(
    state: State, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whispers, "LOOKED_AT", 2)
    since = clock.now - timedelta(days=7)
    for node in (A, B, C):
        clock.go(minutes=1)
        record(state, Considered(node, 0.5, 0.5), space="ormah")
    assert {node for _, node in whispers.never_shown(state, since, "ormah", 10)} == {B, C}


def test_a_use_is_claimed_once(state: State) -> None:
    event = record(state, Considered(A, 0.6, 0.7), Considered(B, 0.6, 0.7))
    assert [whispers.claim_use(state, event, node) for node in (A, A, B, C, C)] == [True, False, True, True, False]


def test_recording_costs_less_than_a_whisper_notices(state: State) -> None:
    """Not a timed test: what it costs is work for SQLite, one transaction with no more statements than rows."""
    seen: list[str] = []
    with state.transaction() as db:
        db.set_trace_callback(seen.append)
    record(state, *(Considered(f"{n:08x}-6d0a-4c1e-9a55-0a52b0f4f9d1", 0.5, 0.5) for n in range(30)))
    with state.transaction() as db:
        db.set_trace_callback(None)
    kinds = [statement.split()[0] for statement in seen]
    assert kinds.count("COMMIT") == 1
    assert len(kinds) <= 34


# ---------------------------------------------------------------- reviews


# ---------------------------------------------------------------- judgements in files


def judgement(node: str, event: str, signal: int = 1, at: datetime = NOW) -> Judgement:
    return Judgement(node, signal, "explicit", at, event, "model", Int8Vector.of(VECTOR), "h")


def test_files_are_read_again_however_they_changed(tmp_path: Path) -> None:
    reads: list[str] = []

    def read_file(path: str) -> bytes | None:
        reads.append(path)
        file = tmp_path / path
        return file.read_bytes() if file.exists() else None

    files = LineFiles(tmp_path, FILES, read_file)
    assert not files.refresh()
    assert files.all() == []
    november, december = FILES.path(NOW), FILES.path(NOW + timedelta(days=20))
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "notes.txt").write_text("not ours")
    (tmp_path / FOLDER / "2026-10.jsonl").symlink_to(tmp_path / "elsewhere")
    one, two = judgement(A, "one"), judgement(B, "two")
    (tmp_path / november).write_bytes(FILES.put(b"no judgement\n", one))
    assert files.refresh()
    assert not files.refresh()
    assert files.all() == [one]
    assert files.bad() == [(november, 2, "it is no JSON")]
    (tmp_path / december).write_bytes(FILES.put(b"", two))
    assert files.refresh()
    assert reads == [november, december], "a file that did not change is not read again"
    assert {node.id for node in files.all()} == {one.id, two.id}
    later = judgement(A, "one", -1, NOW + timedelta(days=20))
    (tmp_path / december).write_bytes(FILES.put(FILES.put(b"", two), later))
    assert files.refresh()
    assert later in files.all()
    assert one not in files.all()
    os.replace(tmp_path / december, tmp_path / "away")
    assert files.refresh()
    assert files.all() == [one]
    (tmp_path / november).unlink()
    assert files.refresh()
    assert files.all() == []
    assert files.bad() == []


def test_many_readers_see_whole_files(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    path = FILES.path(NOW)
    files = LineFiles(tmp_path, FILES, lambda name: (tmp_path / name).read_bytes())
    rows = [judgement(f"{n:08x}-6d0a-4c1e-9a55-0a52b0f4f9d1", f"event{n}") for n in range(50)]
    done = threading.Event()
    wrong: list[int] = []

    def look() -> None:
        while not done.is_set():
            files.refresh()
            if (found := len(files.all())) not in (0, 25, 50):
                wrong.append(found)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(40):
        part = b"".join(FILES.put(b"", row) for row in (rows[:25] if turn % 2 else rows))
        new = tmp_path / f"new{turn}"
        new.write_bytes(part)
        os.replace(new, tmp_path / path)
    end = time.monotonic() + 10
    while len(files.all()) != 25 and time.monotonic() < end:
        files.refresh()
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(files.all()) == 25


def test_the_key_is_kept_and_is_nobody_elses(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    here = KeyedHashes(tmp_path / "a")
    said = here.hash("where is the wood-stove?")
    assert KeyedHashes(tmp_path / "a").hash("where is the wood-stove?") == said
    assert here.hash("where is the wood-stove") != said
    assert here.hash("\ud800") != said
    assert KeyedHashes(tmp_path / "b").hash("where is the wood-stove?") != said
    assert (tmp_path / "a" / "feedback.key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "a" / "feedback.key").write_bytes(b"half")
    assert len(KeyedHashes(tmp_path / "a").hash("x")) == 32
    assert len((tmp_path / "a" / "feedback.key").read_bytes()) == 32


def test_a_whisper_does_not_fail_for_its_log(state: State, caplog: pytest.LogCaptureFixture) -> None:
    with state.transaction() as db:
        db.execute("DROP TABLE whisper_log")
    assert len(record(state, Considered(A, 0.6, 0.7))) == 12
    assert "could not be logged" in caplog.text
    assert whispers.figures(state).prompts == 0, "nothing by halves"
