"""Render a whisper's text: the memories, quoted and with their source and date, within a limit of size.

The text has a heading, a paragraph that explains it, one line for each memory, and the content of the first ones. Texts
of notes are escaped (`text.quoting`). `text.harness` recognises and removes such a text; its `strip` and `MARK` are
exported here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePath

from msgspec import Struct

from ormahd.index.rows import NodeRow
from ormahd.model.node import short_id
from ormahd.text import quoting
from ormahd.text.harness import (
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
from ormahd.text.quoting import beginning
from ormahd.whisper.types import Candidate

__all__ = ["MARK", "REMEMBERS", "WHISPERS", "alone", "compose", "enclose", "line", "notice", "quoted", "strip"]

CHARACTERS = 4_000
"""Largest number of characters of one whisper: about 1,000 tokens. Harnesses cut at 10,000."""
CONTENT_CHARACTERS = 600
"""Maximum number of characters of one memory's content. It is cut between words."""
TITLE = 160
"""Maximum number of characters of a title that are shown. Titles of notes have any length."""
UNTITLED = 60
"""Maximum number of characters of the content that are shown in place of a missing title."""
SOURCE = 60
PREFERENCE = 240
"""Maximum number of characters of a standing preference's content."""
PROMPT = 300
"""Maximum number of characters of the earlier prompt in a review."""
BYTES = 9_300
"""Maximum number of UTF-8 bytes of a whole whisper: Codex cuts at 10,000, and the hook may add a line."""
LEAST = 40
"""Minimum number of characters of a content that is cut to fit. If fewer fit, only the title is shown."""


class Review(Struct, frozen=True):
    """A memory that an agent is asked to judge, and the earlier prompt for which it was considered but not shown.

    `prompt`: redacted and shortened; `when`, `event`: time and id of the whisper for that prompt.
    """

    node_id: str
    title: str | None
    content: str
    prompt: str
    when: datetime
    event: str


class Rendered(Struct, frozen=True):
    """A whisper's text, and what was left out of it because there was no room."""

    text: str
    left_out: frozenset[str]
    """Ids of memories that are not in the text, because there was no room."""
    reviewed: bool
    """Whether the text contains the review."""


def compose(
    nodes: Sequence[Candidate],
    *,
    now: datetime,
    maintenance_due: bool = False,
    review: Review | None = None,
    event: str | None = None,
    commands: Commands = SHELL,
) -> Rendered:
    """Compose a whisper of at most `CHARACTERS` UTF-16 code units and `BYTES` bytes.

    If there is not enough room, the review is left out first, then the maintenance notice, then memories from the
    end; the content of the last memory that fits is shortened. `event`: the id by which feedback refers to the
    whisper. `commands`: the commands that the reading agent can run.
    """
    # without memories there is only the maintenance notice
    task = notice(f"{commands.maintenance} gives memories to judge, and how the verdicts are given back.")
    due = [MAINTENANCE, task] if maintenance_due else []
    if not nodes:  # a review is only shown beside memories (DESIGN sections 2 and 5)
        return Rendered(alone(*due, event=event) if due else "", frozenset(), False)

    # as many memories as fit, from the beginning
    a_byte = CHARACTERS / BYTES
    room = CHARACTERS - _size(enclose([], commands=commands, event=event), a_byte)
    lines: list[str] = []
    left_out = {node.id for node in nodes}
    all_fit = True
    for node in nodes:
        entry = _memory_lines(node, CONTENT_CHARACTERS, room, a_byte)
        if entry is None:
            all_fit = False
            break
        lines += entry
        left_out.discard(node.id)
        room -= _size_of_lines(entry, a_byte)

    # the maintenance notice and the review, if there is still room
    reviewed = False
    if all_fit and _size_of_lines(due, a_byte) <= room:
        lines += due
        room -= _size_of_lines(due, a_byte)
    if all_fit and review is not None:
        # the earlier prompt, the memory that was not shown for it, and what records a judgement
        days = max((now - review.when).days, 0)
        ago = "today" if days == 0 else "a day ago" if days == 1 else f"{days} days ago"
        fits = fits_line(review.content, review.title)
        body = "" if fits else quoted(review.content, CONTENT_CHARACTERS)
        judging = f"{commands.judged(review.node_id, review.event)} records that it would have helped there"
        block = [
            "",
            REVIEW,
            notice(f"for this prompt, {ago}, the memory below it was found but not shown."),
            quoted(review.prompt, PROMPT) or quoting.QUOTE.rstrip(),
            f"{ENTRY}memory]** {_shown_title(review.title, review.content)} (id: {review.node_id})",
            *([body] if body else []),
            notice(f"{judging}, -1 in place of +1 that it would not."),
        ]
        if reviewed := _size_of_lines(block, a_byte) <= room:
            lines += block
    return Rendered(enclose(lines, commands=commands, event=event), frozenset(left_out), reviewed)


def line(
    memory: Candidate | NodeRow, *, full_id: bool = False, older_than: str | None = None, text: str | None = None
) -> str:
    """Return one memory as a line: `- **[type]** title (id: 8 characters) · source · date created`.

    `full_id`: whether the whole id is shown; `older_than`: id of the memory that replaced it, ignored for a
    candidate, which has this id as a field. `text`: shown in place of the title.
    """
    row = memory.row if isinstance(memory, Candidate) else memory
    exploring = "[exploring] " if isinstance(memory, Candidate) and memory.display == "exploring" else ""
    where = quoting.one_line(PurePath(row.path).name.rpartition(":")[0] if row.from_source else row.source, SOURCE)
    shown_id = row.id if full_id else row.short_id
    newer = memory.older_than if isinstance(memory, Candidate) else older_than
    older = f" · older than {newer if full_id else short_id(newer)}, which seems to replace it" if newer else ""
    also = f" · and {memory.also} that say the same" if isinstance(memory, Candidate) and memory.also else ""
    day = f"{row.created.astimezone():%Y-%m-%d}"
    rejected = f" · {quoting.one_line(row.rejected, CONTENT_CHARACTERS)}" if row.rejected else ""
    stale = f" · {quoting.one_line(row.stale, CONTENT_CHARACTERS)}" if row.stale else ""
    named = text or _shown_title(row.title, row.content)
    return f"{ENTRY}{row.type}]** {exploring}{named} (id: {shown_id}) · {where} · {day}{rejected}{stale}{older}{also}"


def quoted(text: str, characters: int) -> str:
    """Return at most `characters` of a content as quoted lines; empty if nothing readable is in it."""
    return quoting.quoted(text, characters)


def notice(text: str) -> str:
    """Return a message of Ormah, such as a hint, as one line in the form that `strip` recognises."""
    return NOTICE + " ".join(text.split())


def _shown_title(title: str | None, content: str) -> str:
    """Return a memory's title as one line; without a title the beginning of its content, or "untitled"."""
    named = quoting.one_line(content if fits_line(content, title) else title or "", TITLE)
    return named or quoting.one_line(beginning(content, 8 * UNTITLED), UNTITLED) or "untitled"


def _size(text: str, a_byte: float) -> float:
    """Return the larger of a text's number of UTF-16 code units, and its number of UTF-8 bytes × `a_byte`.

    `a_byte`: limit in code units / limit in bytes, so that one number shows whether a text is within both limits.
    """
    return max(len(text.encode("utf-16-le")) // 2, len(text.encode()) * a_byte)


def _size_of_lines(texts: Sequence[str], a_byte: float) -> float:
    """Return the sum of `_size` of the lines, each with its line end."""
    return sum(_size(text + "\n", a_byte) for text in texts)


def _memory_lines(node: Candidate, characters: int, room: float, a_byte: float) -> list[str] | None:
    """Return one memory's lines, or None if not even its title fits.

    `characters`: maximum length of the content; `room`: maximum of the lines' `_size`.
    """
    head = line(node)
    remaining = room - _size_of_lines([head], a_byte)
    if remaining < 0:
        return None
    wanted = {"full": characters, "preference": min(characters, PREFERENCE)}.get(node.display or "title", 0)
    content = node.row.content
    if not wanted or fits_line(content, node.row.title):
        return [head]
    while wanted >= LEAST:
        body = quoted(content, wanted)
        excess = _size_of_lines([body], a_byte) - remaining
        if excess <= 0:
            return [head, body] if body else [head]
        wanted -= max(int(excess / max(1.0, 4 * a_byte)), 1)
    return [head]


def fits_line(content: str, title: str | None) -> bool:
    """Return whether the line of a memory shows its whole content instead of its title.

    It does if the content fits there, and the title is missing or little more than the beginning of the content.
    """
    whole, begun = content[: TITLE + 1].strip(), " ".join((title or "").split())
    fits = len(content) <= (UNTITLED if "\n" in whole else TITLE) and (not begun or 2 * len(begun) >= len(whole))
    return fits and " ".join(whole.split()).casefold().startswith(begun.rstrip(" .…!?").casefold())
