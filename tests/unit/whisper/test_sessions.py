"""The session buffer: bounded, pruned after the gap, alive after a restart."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from ormahd.note.forgetting import Forgotten
from ormahd.settings import WhisperSettings
from ormahd.state import sessions as store
from ormahd.state.state import State
from ormahd.whisper.session import MAX_CHARACTERS, Sessions
from ormahd.whisper.types import Before, Display, EarlierPrompt, Float

START = datetime(2026, 11, 21, 20, tzinfo=UTC)
VECTOR = np.array([0.6, 0.8], np.float32)


class House:
    """A state on disk and a clock that can be set."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = START
        self.model: str | None = "minilm"
        self.settings = WhisperSettings()
        self.open()

    def open(self) -> None:
        self.state = State(self.directory, clock=lambda: self.now)
        self.sessions = Sessions(self.state, self.settings)

    def restart(self) -> None:
        self.state.close()
        self.open()

    def say(
        self,
        text: str,
        session: str | None = "s",
        *,
        vector: Float | None = VECTOR,
        answered: bool = False,
        shown: Mapping[str, Display] | None = None,
    ) -> None:
        self.sessions.add_prompt(
            session, EarlierPrompt(text, vector, self.now, answered), shown or {}, model=self.model
        )

    def texts(self, session: str | None = "s") -> list[str] | None:
        recent = self.sessions.before(session).recent
        return None if recent is None else [one.text for one in recent]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.state.close()


def test_the_first_prompt(house: House) -> None:
    """Seed: "first prompt in a session: recent_prompts = None"."""
    assert house.sessions.before("s") == Before()
    assert house.sessions.before("s").recent is None


def test_later_prompts(house: House) -> None:
    """Seed: "later prompts: recent_prompts is a bounded list of prior prompts"."""
    for number in range(8):
        house.say(f"prompt number {number}")
    assert house.texts() == [f"prompt number {number}" for number in range(3, 8)]
    assert house.sessions.before("s").prompts == 8
    with house.state.transaction() as db:
        assert db.execute("SELECT count(*) FROM session_prompt").fetchone() == (5,)


def test_pruned_after_the_gap(house: House) -> None:
    """Seed: "entries older than whisper_session_gap_minutes are pruned"; then it is the first prompt again."""
    house.say("the first prompt")
    house.now += timedelta(minutes=6)
    house.say("the second prompt")
    house.now += timedelta(minutes=5)
    assert house.texts() == ["the second prompt"]
    house.now += timedelta(minutes=6)
    assert house.texts() is None
    assert house.sessions.before("s").prompts == 2


def test_a_restart_forgets_nothing(house: House) -> None:
    """Issue: "survives a daemon restart"."""
    house.say("why Postgres?", answered=True, shown={"aaa": "full", "bbb": "title"})
    before = house.sessions.before("s", house.model)
    house.restart()
    after = house.sessions.before("s", house.model)
    assert after.recent is not None
    assert before.recent is not None
    (said,), (kept,) = after.recent, before.recent
    assert (said.text, said.at, said.answered) == (kept.text, kept.at, kept.answered) == ("why Postgres?", START, True)
    assert said.vector is not None
    assert said.vector.tolist() == VECTOR.tolist()
    assert (set(after.known), set(after.named), after.prompts) == ({"aaa"}, {"bbb"}, 1)


def test_vectors_of_another_model_are_not_compared(house: House) -> None:
    house.say("why Postgres?")
    house.model = "bge"
    house.restart()
    recent = house.sessions.before("s", house.model).recent
    assert recent is not None
    assert recent[0].vector is None
    assert recent[0].text == "why Postgres?"


def test_what_the_context_holds(house: House) -> None:
    """Issue: "nothing repeated in a session that its context already holds"."""
    house.say("one two three", shown={"a": "full", "b": "title", "c": "preference", "d": "exploring"})
    before = house.sessions.before("s", house.model)
    assert before.known == {"a", "c"}
    assert before.named == {"b", "d"}
    house.say("four five six", shown={"a": "title", "b": "full"})
    assert house.sessions.before("s").known == {"a", "b", "c"}
    house.now += timedelta(days=2)
    assert house.sessions.before("s").known == {"a", "b", "c"}, "for the session's life, not for the gap only"


def test_compacted(house: House) -> None:
    house.say("one two three", shown={"a": "full", "b": "title"})
    house.sessions.compacted("s")
    before = house.sessions.before("s", house.model)
    assert (before.known, before.named) == (frozenset(), frozenset())
    assert house.texts() == ["one two three"]


def test_ended_and_resumed(house: House) -> None:
    house.say("one two three", shown={"a": "full"})
    house.sessions.ended("s")
    assert house.texts() is None
    assert house.sessions.before("s").known == {"a"}
    for session in (None, "", "never seen"):
        house.sessions.ended(session)
        house.sessions.compacted(session)


def test_prompts_that_say_nothing_do_not_push_out_the_topic(house: House) -> None:
    house.say("how does the worker retry?")
    for text in ("ok", "go on", "thanks!", "/clear", "<task-notification>done</task-notification>", "👍", ""):
        house.say(text)
    assert house.texts() == ["how does the worker retry?"]
    assert house.sessions.before("s").prompts == 8


def test_sessions_do_not_mix(house: House) -> None:
    house.say("about the worker", "one", shown={"a": "full"})
    house.say("about the cache", "two")
    assert house.texts("one") == ["about the worker"]
    assert house.texts("two") == ["about the cache"]
    assert house.sessions.before("two").known == frozenset()


def test_without_a_session_nothing_is_remembered(house: House) -> None:
    for session in (None, "", " \n"):
        house.say("about the worker", session, shown={"a": "full"})
        assert house.sessions.before(session) == Before()
    with house.state.transaction() as db:
        assert db.execute("SELECT count(*) FROM session").fetchone() == (0,)


@pytest.mark.parametrize(
    "session", ["x" * 10_240, "a\x00b", "\ud800", "'; DROP TABLE session; --", "сессия", "\x1b[31m", "%"]
)
def test_hostile_ids(house: House, session: str) -> None:
    house.say("about the worker", session, shown={"a": "full"})
    house.restart()
    assert house.texts(session) == ["about the worker"]
    assert house.texts(session + "!") is None
    with house.state.transaction() as db:
        ((kept,),) = db.execute("SELECT session_id FROM session").fetchall()
    assert len(kept) <= 128
    assert kept.isprintable()


def test_secrets_and_long_texts(house: House) -> None:
    token = "ghp_" + "a1B2" * 9
    house.say(f"why is {token} refused?\x00 " + "x" * 50_000)
    recent = house.sessions.before("s", house.model).recent
    assert recent is not None
    assert token not in recent[0].text
    assert "[redacted" in recent[0].text
    assert len(recent[0].text) <= MAX_CHARACTERS
    house.state.close()
    assert token.encode() not in b"".join(file.read_bytes() for file in house.directory.iterdir())
    house.open()


def test_many_hooks_of_one_session_at_once(house: House) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: house.say(f"prompt number {n}", answered=True, shown={f"m{n}": "full"}), range(64)))
        read = list(pool.map(lambda _: house.sessions.before("s"), range(16)))
    assert all(len(one.recent or ()) == 5 and one.prompts == 64 and len(one.known) == 64 for one in read)


def test_a_title_at_the_same_time_does_not_take_back_the_content(house: House) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: house.say(f"prompt number {n}", shown={"m": "full" if n == 0 else "title"}), range(32)))
    assert house.sessions.before("s").known == {"m"}


def test_old_sessions_and_too_many_are_forgotten(house: House) -> None:
    house.say("an old one", "old")
    house.now += timedelta(days=31)
    for number in range(store.MAX_SESSIONS + 120):
        house.now += timedelta(seconds=1)
        house.say("a new one", f"new{number}", vector=None)
    with house.state.transaction() as db:
        (count,) = db.execute("SELECT count(*) FROM session").fetchone()
        (orphans,) = db.execute(
            "SELECT count(*) FROM session_prompt WHERE session_id NOT IN (SELECT session_id FROM session)"
        ).fetchone()
    assert store.MAX_SESSIONS <= count <= store.MAX_SESSIONS + 50
    assert orphans == 0
    assert house.texts("old") is None
    assert house.texts(f"new{store.MAX_SESSIONS + 119}") == ["a new one"]


def test_what_a_session_holds_is_bounded(house: House) -> None:
    for number in range(store.MAX_HELD // 50 + 2):
        house.say("one two three", shown={f"m{number}-{n}": "full" for n in range(50)})
    known = house.sessions.before("s").known
    assert len(known) == store.MAX_HELD
    assert "m0-0" not in known
    assert f"m{store.MAX_HELD // 50 + 1}-49" in known


def test_a_purge_leaves_nothing(house: House) -> None:
    """Design 12: whisper log and cursors that hold the text or id are cleaned too."""
    house.say("about the zebra", "one")
    house.say("about the cache", "two", shown={"97acbe8e": "full"})
    house.state.scour(Forgotten(secrets=("zebra", "97acbe8e")), change=True)
    assert house.texts("one") is None
    assert house.sessions.before("two").known == frozenset()
    house.say("about the cache", "two")
    assert house.texts("two") == ["about the cache"]


def test_a_state_that_cannot_be_written_is_no_reason_to_fail(house: House, caplog: pytest.LogCaptureFixture) -> None:
    house.say("about the worker")
    with house.state.transaction() as db:
        db.execute("PRAGMA query_only = ON")
    house.say("about the cache")
    assert "could not be remembered" in caplog.text
    assert house.texts() == ["about the worker"]
    with house.state.transaction() as db:
        db.execute("PRAGMA query_only = OFF")
        db.execute("DROP TABLE session_prompt")
    assert house.sessions.before("s") == Before()
    assert "could not be read" in caplog.text
