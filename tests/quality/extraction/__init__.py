"""Sessions in four languages, with marks at the sentences worth keeping: a measure of the rules of extraction (README, "What rules find").

A file a language in this folder; `=== name date` begins a session, `U:` and `A:` a turn. In what a person says, `{+type: …}` is a sentence worth keeping that
words mark as such, `{~type: …}` one that only a reader would recognise. `*…*` in it are key words that the memory has to keep; `*said=kept*`
where it says them in other words. Which half a session belongs to, its name decides; rules are made on `dev`.

`near/` has short sessions, mostly near misses: words of others, texts to work on, jokes, pages, what the person takes back. A line `--` ends
one, a line that begins with `> ` and is not the first is the person's next prompt. Its half depends on its text.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final, Literal

from ormahd.ingest.batches import MemoryCandidate
from ormahd.ingest.readers.turns import SessionTurn
from ormahd.ingest.rules import candidates

FOLDER: Final = Path(__file__).parent
LANGUAGES: Final = ("en", "de", "es", "fr")
HALVES: Final = ("dev", "held")
_MARK: Final = re.compile(r"\{([+~])(\w+): (.*?)\}")
_KEY: Final = re.compile(r"(?<!\w)\*([^*]+)\*")
_SENTENCE: Final = re.compile(r"(?<=[.!?…])\s+|\n")


@dataclass(frozen=True)
class Worth:
    """A sentence worth keeping, at `start` to `end` of its turn. `marked`: words say that it is."""

    turn: str
    start: int
    end: int
    text: str
    type: str
    keys: tuple[str, ...]
    marked: bool


@dataclass
class Session:
    name: str
    day: datetime
    turns: list[SessionTurn] = field(default_factory=list)
    worth: list[Worth] = field(default_factory=list)
    other: int = 0
    """Sentences that are not worth keeping, those of the agent included."""
    other_said: int = 0
    """Those of the person."""

    @property
    def half(self) -> Literal["dev", "held"]:
        return "held" if zlib.crc32(self.name.encode()) % 2 else "dev"

    @property
    def near(self) -> bool:
        return "-near-" in self.name


@dataclass(frozen=True)
class Verdict:
    """A candidate and the sentence worth keeping that it tells; None if it is wrong."""

    session: Session
    candidate: MemoryCandidate
    worth: Worth | None


@cache
def sessions() -> tuple[Session, ...]:
    long = (session for language in LANGUAGES for session in _read(FOLDER / f"{language}.txt"))
    near = (_near(language, one) for language in LANGUAGES for one in _items(FOLDER / "near" / f"{language}.txt"))
    return (*long, *near)


def _items(file: Path) -> list[str]:
    return [one.strip() for one in re.split(r"^--$", file.read_text("utf-8"), flags=re.MULTILINE)]


def _near(language: str, text: str) -> Session:
    session = Session(f"{language}-near-{zlib.crc32(text.encode()):08x}", datetime(2026, 3, 2, 12, tzinfo=UTC))
    for prompt in re.split(r"\n> ", text):
        _add(session, "user", prompt)
        _add(session, "assistant", "All right.")
    return session


def judged(session: Session) -> list[Verdict]:
    """Return what the rules find in a session, each with the sentence that it tells.

    A candidate tells a sentence if it keeps its key words. Of a sentence that became two memories, both keep them together.
    """
    some = candidates(session.turns, today=session.day)
    found = []
    for candidate in some:
        content = candidate.content.lower()
        together = " ".join(one.content.lower() for one in some if one.turns == candidate.turns)
        right = (
            one
            for one in session.worth
            if one.turn in candidate.turns
            and any(key.lower() in content for key in one.keys)
            and all(key.lower() in together for key in one.keys)
        )
        found.append(Verdict(session, candidate, next(right, None)))
    return found


@dataclass(frozen=True)
class Score:
    """Figures of some sessions. Recall counts the sentences that words mark as worth keeping."""

    verdicts: list[Verdict]
    missed: list[Worth]
    marked: int

    @property
    def precision(self) -> float:
        return sum(one.worth is not None for one in self.verdicts) / max(1, len(self.verdicts))

    @property
    def recall(self) -> float:
        return 1 - len(self.missed) / max(1, self.marked)

    def __str__(self) -> str:
        return f"{len(self.verdicts)} found, precision {self.precision:.3f}, recall {self.recall:.3f} of {self.marked}"


def score(of: Sequence[Session]) -> Score:
    verdicts = [verdict for session in of for verdict in judged(session)]
    told = {id(one.worth) for one in verdicts}
    marked = [worth for session in of for worth in session.worth if worth.marked]
    return Score(verdicts, [worth for worth in marked if id(worth) not in told], len(marked))


def _read(file: Path) -> Iterator[Session]:
    for part in file.read_text("utf-8").split("=== ")[1:]:
        head, _, body = part.partition("\n")
        name, _, day = head.partition(" ")
        session = Session(name, datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC))
        for turn in re.split(r"^(?=[UA]: )", body.strip(), flags=re.MULTILINE)[1:]:
            _add(session, "user" if turn[0] == "U" else "assistant", turn[3:].strip())
        yield session


def _add(session: Session, role: Literal["user", "assistant"], marked: str) -> None:
    key = f"{session.name}:{len(session.turns)}"
    text, at = "", 0
    other = []
    for mark in _MARK.finditer(marked):
        between = marked[at : mark.start()]
        other.append(between)
        text += between
        keys = tuple(one.rpartition("=")[2] for one in _KEY.findall(mark[3]))
        said = _KEY.sub(lambda one: one[1].partition("=")[0], mark[3])
        assert keys, f"{session.name}: no key words in {mark[3]}"
        session.worth.append(Worth(key, len(text), len(text) + len(said), said, mark[2], keys, mark[1] == "+"))
        text += said
        at = mark.end()
    other.append(marked[at:])
    text += marked[at:]
    assert not re.search(r"\{[+~]", text), f"{session.name}: a mark that does not end in {text}"
    count = sum(any(c.isalnum() for c in one) for part in other for one in _SENTENCE.split(part))
    session.other += count
    session.other_said += count if role == "user" else 0
    time = session.day.isoformat().replace("+00:00", "Z")
    session.turns.append(SessionTurn(role, text, time, session.name, key))


def counts(of: Sequence[Session]) -> str:
    worth = [one for session in of for one in session.worth]
    return (
        f"{len(of)} sessions, {len(worth)} sentences worth keeping ({sum(one.marked for one in worth)} marked by words), "
        f"{sum(session.other for session in of)} not ({sum(session.other_said for session in of)} of the person)"
    )
