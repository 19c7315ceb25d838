"""The types that all readers share: a turn of a conversation, and a reader's input and counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct, field

from ormahd.ingest.readers.values import key_of

Role = Literal["user", "assistant"]


class SessionTurn(Struct, frozen=True):
    """A turn: one prompt of the person, or one answer of the agent. `closed`: False while an answer may still grow."""

    role: Role
    text: str
    time: str | None
    """ISO 8601 in UTC; None if the source does not state it."""
    session: str
    key: str
    """Identifies the turn. It stays the same when the file is extended, cut, rewritten, renamed, forked or
    compacted. The key of an answer is made of that of its prompt, so that it stays the same while the answer grows."""
    cwd: str | None = None
    closed: bool = True
    to: str = ""
    """The key of the prompt that an answer belongs to; "" for a prompt, or if it is not known."""


class SessionDeed(Struct, frozen=True):
    """What an agent did by a tool call: it ran `command`, or edited `files`."""

    key: str
    to: str
    """The key of the prompt under which it was done."""
    session: str
    cwd: str | None
    time: str | None
    tool: str
    """The tool's name; "" for a shell."""
    command: str
    files: tuple[str, ...]
    """Paths, relative to `cwd` if they are in it."""
    status: int
    """The exit status; `deeds.FAILED` if it failed without one."""
    error: str
    """The first line of the error."""
    seconds: float | None = None


class ExportedFact(Struct, frozen=True):
    """A fact about the person that another program had stored. It may be wrong, so it is only proposed as a memory."""

    title: str
    text: str
    type: Literal["fact", "preference"]
    origin: str
    """Where the fact was found, in words for people."""


class Reading(Struct):
    """What a reader must know about the file that it reads, and what it finds in it besides turns."""

    name: str = ""
    """The file's name without its endings. It is the session's id if the lines do not state one."""
    cwd: str | None = None
    """The project's folder, if it is known from the path of the file; the lines may state another one."""
    rested: bool = True
    """Whether no program writes to the file any more. An answer at its end is then complete."""
    damaged: int = 0
    """Number of lines that could not be parsed, or are longer than `lines.LONGEST`."""
    kinds: set[str] = field(default_factory=set)
    """The kinds of the records that were read (`lines.kind_of`)."""
    titles: dict[str, str] = field(default_factory=dict)
    """Session -> its title, for sessions to which the source gives one."""
    facts: list[ExportedFact] = field(default_factory=list)
    deeds: list[SessionDeed] = field(default_factory=list)
    """What the agent did; the caller empties it between turns. `edited`: the files edited under the prompt `editing`
    since its last command."""
    edited: set[str] = field(default_factory=set)
    editing: str = ""
    withdrawn: dict[str, str] = field(default_factory=dict)
    """Key of a turn that the person took back by a rewind or a roll-back -> the session in which that happened. It is
    complete once all turns were read; these turns are read as well."""


def answer_turn(
    to: str, text: str, time: str | None, session: str, cwd: str | None = None, *, closed: bool = True
) -> SessionTurn:
    """Return the answer to the prompt with the key `to`."""
    return SessionTurn("assistant", text, time, session, key_of("answer", to), cwd, closed, to)


def with_last_answers(turns: Iterable[SessionTurn]) -> Iterator[SessionTurn]:
    """Yield the turns of one conversation: each prompt, followed by the last of the answers to it.

    A prompt without text (a picture) is left out with the answers to it, and so are answers before the first prompt.
    """
    asked = ""
    last: SessionTurn | None = None
    for message in turns:
        if message.role == "assistant":
            if asked and message.text:
                last = answer_turn(asked, message.text, message.time, message.session)
            continue
        if last is not None:
            yield last
        asked, last = message.key if message.text else "", None
        if message.text:
            yield message
    if last is not None:
        yield last
