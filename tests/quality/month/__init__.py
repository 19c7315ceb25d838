"""A month of one developer and 60 days more, lived by a real daemon whose clock is moved (README, "The month").

The memories are one vault. Which half a prompt or a question belongs to its id decides (`half_of`); `dev` may be tuned on.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, cast

from tests.house import House, open_house, save
from tests.quality.facts import half_of, share
from tests.quality.month.clocked import CLOCK
from tests.quality.sets import rows

FOLDER = Path(__file__).parent
HALVES: Final = ("dev", "held")
BEGIN = datetime(2026, 2, 1, 7, tzinfo=UTC)
"""Day 0."""
MONTH = 30
"""Days on which memories come; the first day behind it is day 1."""
Kind = Literal["help", "code", "chat", "recall", "generic", "task", "two", "both"]
"""`two`: a question for two things, of recall; `both`: the same of the whisper."""
PAIRED: Final[tuple[Kind, ...]] = ("two", "both")
TWO: Final = 4
"""Results of recall among which both answers are looked for."""
Mode = Literal["used", "idle", "away"]
MODES: Final[tuple[Mode, ...]] = ("used", "idle", "away")
AWAY = range(10, 40)
"""Days behind the month on which nobody asks, in the mode `away`."""


@dataclass(frozen=True)
class Memory:
    key: str
    day: int
    replaces: str | None
    type: str
    tier: str
    space: str | None
    tags: tuple[str, ...]
    title: str | None
    content: str

    @property
    def id(self) -> str:
        number = zlib.crc32(self.key.encode())
        return f"{number:08x}-0000-4000-8000-{number:012x}"

    def line(self) -> str:
        """As `import` takes it."""
        when = (BEGIN + timedelta(days=self.day, minutes=zlib.crc32(self.content.encode()) % 600)).isoformat()
        return json.dumps(
            {
                "id": self.id, "type": self.type, "tier": self.tier, "space": self.space, "tags": list(self.tags),
                "title": self.title, "content": self.content, "created": when, "updated": when, "source": "agent:month",
            },
            ensure_ascii=False,
        )  # fmt: skip


@dataclass(frozen=True)
class Asked:
    id: str
    kind: Kind
    space: str | None
    must: frozenset[str]
    """Keys of memories of which one is enough; empty: silence."""
    text: str
    also: frozenset[str] = frozenset()
    """Of a question for two things: keys of the memories of which one answers the second."""

    @property
    def half(self) -> str:
        return half_of(self.id)


@dataclass(frozen=True)
class Answer:
    """`shown`: keys, best first; `marked`: those of them that are shown as older than another."""

    asked: Asked
    shown: tuple[str, ...]
    marked: frozenset[str]
    silence: str | None = None
    preferences: frozenset[str] = frozenset()
    """Keys of those that are shown as standing preferences."""

    @property
    def stale(self) -> frozenset[str]:
        """What the wanted memory replaced."""
        return frozenset(old for old, new in replaced().items() if new in self.asked.must)

    @property
    def right(self) -> bool:
        if self.asked.kind == "recall":
            return bool(self.asked.must & set(self.shown[:3]))
        if self.asked.kind in {"two", "both"}:
            first = set(self.shown[:TWO] if self.asked.kind == "two" else self.shown)
            return bool(self.asked.must & first) and bool(self.asked.also & first)
        if self.asked.kind == "generic":  # a standing preference may apply to any task
            return not set(self.shown) - self.preferences
        return bool(self.asked.must & set(self.shown)) if self.asked.must else not self.shown

    @property
    def stale_first(self) -> bool:
        """The stale one stands above the one that replaced it, or alone."""
        for key in self.shown:
            if key in self.asked.must or key in self.stale:
                return key in self.stale
        return False

    @property
    def stale_unmarked(self) -> bool:
        return bool(self.stale & set(self.shown) - self.marked)


@dataclass(frozen=True)
class Figures:
    """One day's answers; the definitions stand in README.md."""

    answers: tuple[Answer, ...]
    archived: int

    def _of(self, *kinds: Kind) -> list[Answer]:
        return [one for one in self.answers if one.asked.kind in kinds]

    def _right(self, *kinds: Kind) -> float:
        return share(sum(one.right for one in self._of(*kinds)), len(self._of(*kinds)))

    @property
    def helpful(self) -> float:
        return self._right("help")

    @property
    def silence(self) -> float:
        return self._right("code", "chat")

    @property
    def generic(self) -> float:
        """Share of the coding prompts with nothing of the project in them for which only preferences are shown, if any."""
        return self._right("generic")

    @property
    def task(self) -> float:
        return self._right("task")

    @property
    def two(self) -> float:
        """Share of the questions for two things whose answers are both among recall's first."""
        return self._right("two")

    @property
    def both(self) -> float:
        """Share of the same for which both are whispered."""
        return self._right("both")

    @property
    def top_3(self) -> float:
        return self._right("recall")

    @property
    def stale_first(self) -> float:
        some = [one for one in self._of("recall") if one.stale]
        return share(sum(one.stale_first for one in some), len(some)) if some else 0.0

    @property
    def stale_unmarked(self) -> float:
        some = [one for one in self._of("recall", "help") if one.stale]
        return share(sum(one.stale_unmarked for one in some), len(some)) if some else 0.0

    def of(self, half: str) -> Figures:
        return replace(self, answers=tuple(one for one in self.answers if one.asked.half == half))

    def line(self) -> str:
        return (
            f"helpful {self.helpful:.3f}  silence {self.silence:.3f} (coding {self._right('code'):.3f})  recall top-3 "
            f"{self.top_3:.3f}  stale first {self.stale_first:.3f}  stale unmarked {self.stale_unmarked:.3f}  archived "
            f"{self.archived}"
        )

    def coding(self) -> str:
        spoken = share(sum(bool(one.shown) for one in self._of("generic")), len(self._of("generic")))
        return (
            f"generic prompts: silent {self.generic:.3f}, answered at all, by a preference too {spoken:.3f}  "
            f"tasks helped {self.task:.3f}  two things: recalled {self.two:.3f}, whispered {self.both:.3f}"
        )

    def misses(self) -> str:
        lines = []
        for one in self.answers:
            wrong = [] if one.right else ["wrong"]
            wrong += ["STALE FIRST"] if one.stale_first else []
            wrong += ["stale unmarked"] if one.stale_unmarked else []
            if wrong:
                shown = " ".join(f"{key}*" if key in one.marked else key for key in one.shown) or f"({one.silence})"
                wanted = ",".join(sorted(one.asked.must)) or "silence"
                lines.append(f"{one.asked.id} {', '.join(wrong)}: {one.asked.text!r} wants {wanted}; {shown}")
        return "\n".join(lines)


@cache
def memories() -> tuple[Memory, ...]:
    found = []
    for key, day, old, kind, space, tags, title, content in rows(FOLDER / "memories.tsv", 8):
        type_, _, tier = kind.partition("/")
        found.append(
            Memory(
                key, int(day), old or None, type_, tier or "working", None if space == "." else space,
                tuple(filter(None, tags.split(","))), title or None, content,
            )
        )  # fmt: skip
    return tuple(found)


@cache
def replaced() -> dict[str, str]:
    """Key of a memory to the key of the one that replaced it."""
    return {one.replaces: one.key for one in memories() if one.replaces}


@cache
def asked(half: str | None = None) -> tuple[Asked, ...]:
    return _read("asked.tsv", half)


@cache
def more(half: str | None = None) -> tuple[Asked, ...]:
    """Coding prompts, and questions for two things, that are asked on day 1 only."""
    twice = [
        Asked(key, kind, None if space == "." else space, frozenset(one.split(",")), text, frozenset(other.split(",")))
        for key, space, one, other, text in rows(FOLDER / "two.tsv", 5)
        if half in (None, half_of(key))
        for kind in PAIRED
    ]
    return (*_read("more.tsv", half), *twice)


def _read(name: str, half: str | None) -> tuple[Asked, ...]:
    every = [
        Asked(key, cast("Kind", kind), None if space == "." else space, frozenset(filter(None, must.split(","))), text)
        for key, kind, space, must, text in rows(FOLDER / name, 5)
    ]
    return tuple(one for one in every if half in (None, one.half))


# -------------------------------------------------------------------- the days


@dataclass(frozen=True)
class Pace:
    """How the days go. `jobs`, `asks`: every so many days; `half`: whose prompts are asked (none: both)."""

    jobs: int = 3
    asks: int = 9
    days: int = 60
    half: str | None = None
    at_once: bool = False
    """All memories come on the last day of the month, with the dates they have; what came before is not lived."""


def live(mode: Mode, pace: Pace | None = None, **settings: str) -> tuple[Figures, Figures]:
    """The figures of day 1 and of the last day. `settings`: `ORMAH_*` variables."""
    pace = pace or Pace()
    some = asked(pace.half)
    last = MONTH + pace.days
    used = {day for day in range(pace.asks, last, pace.asks) if _somebody_asks(mode, day - MONTH)}
    stops = sorted(set(range(pace.jobs, last, pace.jobs)) | used | {MONTH + 1, last})
    stops = [day for day in stops if day >= MONTH or not pace.at_once]
    figures: list[Figures] = []
    came = 0
    with _house(**settings) as house:
        for day in stops:
            _morning(house, day)
            new = [one for one in memories() if came <= one.day < max(day, 1)]
            came = max(came, day)
            if new:
                done = house.call("admin.import", lines=[one.line() for one in new])
                assert not done.failed, done.failed
            if day in (MONTH + 1, last):
                asks = [*some, *more(pace.half)] if day == MONTH + 1 else some
                figures.append(_looked_at(house, day, asks) if mode == "idle" else ask(house, asks, day))
            elif day in used:
                ask(house, some, day)
            if day % pace.jobs == 0:
                _night(house)
    first, end = figures
    return first, end


def _somebody_asks(mode: Mode, day: int) -> bool:
    """`day`: counted from the end of the month."""
    return mode == "used" or (mode == "away" and day not in AWAY)


@contextlib.contextmanager
def _house(**settings: str) -> Iterator[House]:
    """A house whose daemon has its time from us; jobs run when we say so."""
    ours = {"ORMAH_EMBEDDING_MODEL": "all-MiniLM-L6-v2", "ORMAH_JOBS_ENABLED": "false"}
    with open_house(**(ours | settings)) as house:
        house.module = "tests.quality.month.clocked"
        yield house


def _morning(house: House, day: int) -> None:
    """It is seven o'clock of this day; from there the clock goes on."""
    save(house.home / CLOCK, (BEGIN + timedelta(days=day)).isoformat())
    if house.process is None:
        house.start()


def _night(house: House) -> None:
    for done in house.call("admin.run_all").results:
        assert done.error is None, (done.job, done.error)


def _looked_at(house: House, day: int, some: Sequence[Asked]) -> Figures:
    """Asked of a copy of the vault, so that nobody asked anything in this one."""
    archived = _archived(house)
    with _house(**house.settings) as copy:
        shutil.copytree(house.vault, copy.vault)
        _morning(copy, day)
        figures = ask(copy, some, day)
    return replace(figures, archived=archived)


def _archived(house: House) -> int:
    tiers: dict[str, int] = house.call("admin.stats").by_tier
    return tiers.get("archival", 0)


def ask(house: House, some: Sequence[Asked], day: int) -> Figures:
    """Everything is asked once, each prompt in a session of its own."""
    keys = {one.id: one.key for one in memories()}
    answers = []
    with house.connect() as connection:
        for one in some:
            said: Any
            session = f"{one.id}-{one.kind}-{day}"
            if one.kind in {"recall", "two"}:
                params = {"query": one.text, "space": one.space, "session_id": session}
                said = connection.call("agent.recall", params, agent="month", timeout=120)
                nodes = said.results
            else:
                params = {"prompt": one.text, "space": one.space, "session_id": session}
                said = connection.call("agent.whisper", params, agent="month", timeout=120)
                nodes = [node for node in said.nodes if node.shown != "exploring"]
            assert "vectors" not in said.degraded, f"without the model the figures mean nothing:\n{house.said()}"
            shown = tuple(keys.get(node.id, node.id) for node in nodes)
            marked = frozenset(keys.get(node.id, node.id) for node in nodes if getattr(node, "older_than", None))
            besides = frozenset(
                keys.get(node.id, node.id) for node in nodes if getattr(node, "shown", None) == "preference"
            )
            answers.append(Answer(one, shown, marked, getattr(said, "silence", None), besides))
    return Figures(tuple(answers), _archived(house))
