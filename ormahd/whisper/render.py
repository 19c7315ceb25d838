"""What an agent reads: the memories as quoted notes with their provenance, within a budget, under our mark.

The seeds' flat list: a heading, a paragraph that says what this is, one line a memory, the first ones with their content.
Every text of a note is data here (`text.quoting`), and the whole can be taken out again (`text.injected`, whose `strip`
and `MARK` stand here too).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from ormahd.index.rows import NodeRow
from ormahd.model.node import short_id
from ormahd.settings.whisper import WhisperSettings
from ormahd.text import quoting
from ormahd.text.injected import (
    ENTRY,
    MAINTENANCE,
    MARK,
    NOTICE,
    REMEMBERS,
    REVIEW,
    SHELL,
    WHISPERS,
    Commands,
    alone,
    enclose,
    strip,
)
from ormahd.text.prose import beginning
from ormahd.whisper.types import Candidate

__all__ = [
    "MARK", "REMEMBERS", "WHISPERS", "Rendered", "Review", "alone", "compose", "enclose", "line", "notice", "quoted", "render", "strip",
]  # fmt: skip

CONTENT_CHARACTERS = 600
"""Characters of one memory's content, cut between words."""
TITLE = 160
"""Characters of a title. Ours have at most 300; a person's note may have any."""
UNTITLED = 60
"""Characters of the content that stand in for a missing title (seeds)."""
SOURCE = 60
PREFERENCE = 240
"""Characters of a standing preference's content: a rule is short, and it joins what the prompt asked for."""
PROMPT = 300
"""Characters of the earlier prompt in a review (REFERENCE 4.7)."""
BYTES = 9_300
"""UTF-8 bytes of a whole whisper: Codex cuts at 10,000 of them (it takes four for a token), and the hook may add a line."""
LEAST = 40
"""Characters of a content below which a title alone says more."""


class Review(Protocol):
    """What `whisper.review` picks: a memory that was held back earlier, and for which prompt."""

    @property
    def node_id(self) -> str: ...
    @property
    def title(self) -> str | None: ...
    @property
    def content(self) -> str: ...
    @property
    def prompt(self) -> str: ...
    @property
    def when(self) -> datetime: ...
    @property
    def event(self) -> str: ...


class Rendered(Struct, frozen=True):
    text: str
    left_out: frozenset[str]
    """Ids for which the budget had no room: they were not shown."""
    reviewed: bool
    """Whether the review found room."""


def render(
    nodes: Sequence[Candidate],
    *,
    now: datetime,
    settings: WhisperSettings,
    maintenance_due: bool = False,
    review: Review | None = None,
    event: str | None = None,
    commands: Commands = SHELL,
) -> str:
    """The text of a whisper; "" where there is nothing to say. See `compose`."""
    return compose(
        nodes, now=now, settings=settings, maintenance_due=maintenance_due, review=review, event=event, commands=commands
    ).text  # fmt: skip


def compose(
    nodes: Sequence[Candidate],
    *,
    now: datetime,
    settings: WhisperSettings,
    maintenance_due: bool = False,
    review: Review | None = None,
    event: str | None = None,
    commands: Commands = SHELL,
) -> Rendered:
    """The text of a whisper, at most `settings.total_characters` long (as UTF-16 counts them, as harnesses do) and `BYTES`.

    Where the room does not suffice, what stands last goes first: the review, the maintenance line, memories from the
    end; the content of the last one that fits is cut shorter between words. `event` is what feedback names the whisper by,
    `commands` what the agent that reads it can run.
    """
    due = [MAINTENANCE, _due(commands)] if maintenance_due else []
    if not nodes:  # a review stands only beside memories (DESIGN section 2, 5)
        return Rendered(alone(*due, event=event) if due else "", frozenset(), False)
    a_byte = settings.total_characters / BYTES
    room = settings.total_characters - _size(enclose([], commands=commands, event=event), a_byte)
    lines: list[str] = []
    left_out = {node.id for node in nodes}
    full = True
    for node in nodes:
        entry = _entry(node, CONTENT_CHARACTERS, room, a_byte)
        if entry is None:
            full = False
            break
        lines += entry
        left_out.discard(node.id)
        room -= _lines(entry, a_byte)
    reviewed = False
    if full and _lines(due, a_byte) <= room:
        lines += due
        room -= _lines(due, a_byte)
    if full and review is not None:
        block = _review(review, now, CONTENT_CHARACTERS, commands)
        if reviewed := _lines(block, a_byte) <= room:
            lines += block
    return Rendered(enclose(lines, commands=commands, event=event), frozenset(left_out), reviewed)


def line(memory: Candidate | NodeRow, *, full_id: bool = False, older_than: str | None = None) -> str:
    """One memory on one line: `- **[type]** title (id: 8 characters) · source · date`. The date is the day it was made.
    `older_than`: the memory that replaced it, where the candidate does not say so itself."""
    row = memory.row if isinstance(memory, Candidate) else memory
    exploring = "[exploring] " if isinstance(memory, Candidate) and memory.shown == "exploring" else ""
    where = quoting.one_line(row.source, SOURCE)
    shown_id = row.id if full_id else row.short_id
    newer = memory.older_than if isinstance(memory, Candidate) else older_than
    older = f" · older than {newer if full_id else short_id(newer)}, which seems to replace it" if newer else ""
    also = f" · and {memory.also} that say the same" if isinstance(memory, Candidate) and memory.also else ""
    day = f"{row.created:%Y-%m-%d}"
    return f"{ENTRY}{row.type}]** {exploring}{_title(row.title, row.content)} (id: {shown_id}) · {where} · {day}{older}{also}"


def quoted(text: str, characters: int) -> str:
    """A content as quoted lines, at most `characters` of it; "" where nothing is left to read."""
    return quoting.quoted(text, characters)


def notice(text: str) -> str:
    """A line in which we speak ourselves (a nudge, that maintenance is due): `strip` knows it again."""
    return NOTICE + " ".join(text.split())


def _due(commands: Commands) -> str:
    """What `maintenance_due` means to an agent."""
    return notice(f"`{commands.maintenance}` prints memories to judge, and how the verdicts are given back.")


def _title(title: str | None, content: str) -> str:
    named = quoting.one_line(title or "", TITLE)
    return named or quoting.one_line(beginning(content, 8 * UNTITLED), UNTITLED) or "untitled"


def _size(text: str, a_byte: float) -> float:
    """In characters as the budget has them: UTF-16 code units, which a harness written in JavaScript counts; or bytes, of
    which one takes `a_byte` of the budget, where that is more (Chinese and its like, three bytes each)."""
    return max(len(text.encode("utf-16-le")) // 2, len(text.encode()) * a_byte)


def _lines(texts: Sequence[str], a_byte: float) -> float:
    """The size of whole lines, their ends included."""
    return sum(_size(text + "\n", a_byte) for text in texts)


def _entry(node: Candidate, characters: int, room: float, a_byte: float) -> list[str] | None:
    """The lines of one memory within `room`, or None where not even its title fits."""
    head = line(node)
    left = room - _lines([head], a_byte)
    if left < 0:
        return None
    wanted = {"full": characters, "preference": min(characters, PREFERENCE)}.get(node.shown or "title", 0)
    content = node.row.content
    if not wanted or _same(content, node.row.title):
        return [head]
    while wanted >= LEAST:
        body = quoted(content, wanted)
        excess = _lines([body], a_byte) - left
        if excess <= 0:
            return [head, body] if body else [head]
        wanted -= max(int(excess / max(1.0, 4 * a_byte)), 1)
    return [head]


def _same(content: str, title: str | None) -> bool:
    """Whether the content says no more than the line above it: the title, or without one the content's own beginning."""
    said = " ".join(content.split())
    return said == " ".join(title.split()) if title is not None else len(said) <= UNTITLED


def _review(review: Review, now: datetime, characters: int, commands: Commands) -> list[str]:
    """A question, stated as a fact: what was held back, for which prompt, and how an answer is recorded."""
    days = max((now - review.when).days, 0)
    ago = "today" if days == 0 else "a day ago" if days == 1 else f"{days} days ago"
    body = quoted(review.content, characters)
    return [
        "",
        REVIEW,
        notice(f"for this prompt, {ago}, the memory below it was found but not shown."),
        quoted(review.prompt, PROMPT) or quoting.QUOTE.rstrip(),
        f"{ENTRY}memory]** {_title(review.title, review.content)} (id: {review.node_id})",
        *([body] if body else []),
        notice(
            f"`{commands.judged(review.node_id, review.event)}` records that it would have helped there, -1 in place of +1 that "
            "it would not."
        ),
    ]
