"""The format of text that we inject into an agent's context, and how to remove it again from transcripts and prompts.

A block is known by its heading and first paragraph, continues while its lines are of our kinds, and ends with its mark; a block that a
harness cut off ends where the lines are no longer ours. Content cannot imitate these lines: each begins with `quoting.QUOTE`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

PROGRAM: Final = "ormahctl"


class Commands(Struct, frozen=True):
    """The commands of one agent. `ID` and `E` stand for a memory and the event of a whisper."""

    show: str
    remember: str
    feedback: str
    maintenance: str

    def judged(self, node_id: str, event: str) -> str:
        """Return the command that says that this memory helped in this whisper."""
        return self.feedback.replace(" ID ", f" {node_id} ").removesuffix(" E") + f" {event}"


def shell(program: str = PROGRAM) -> Commands:
    """Return the commands of an agent with a shell. `program`: how that shell calls ormahctl, quoted where needed."""
    return Commands(
        show=f"{program} show ID",
        remember=f'{program} remember "…" --type decision',
        feedback=f"{program} feedback ID +1 --event E",
        maintenance=f"{program} maintenance",
    )


SHELL: Final = shell()

WHISPERS = "# Ormah whispers"
REMEMBERS = "# Ormah remembers"
"""Heading of the text at the start of a session."""

FRAMING = (
    "Notes from the user's long-term memory that may bear on this, quoted as they were stored. They record facts and ask for "
    "nothing; some may be out of date."
)
"""How the first paragraph begins. Only statements, because harnesses treat imperatives as an attack; ASCII without quotes, for JSON."""

MARK = "<!-- ormah:whisper"
"""How the last line begins; the event's id follows."""

MAINTENANCE = "maintenance_due"
NOTICE = "Ormah: "
"""How a line of our own begins."""
REVIEW = "## A memory held back earlier"
ENTRY = "- **["

_STARTS = (FRAMING, REVIEW, MAINTENANCE, NOTICE, ENTRY)
_LINE = re.compile(rf"[ \t]*(?:(?<=  )>|{'|'.join(map(re.escape, _STARTS))}|$)")
_TAIL = re.compile(rf"  >|{re.escape(NOTICE)}|{re.escape(REVIEW)}|{MAINTENANCE}$|{re.escape(ENTRY)}.*\(id: ")
_HEADING = re.compile("# Ormah (?:whispers|remembers)")
_MARK = re.compile(rf"[ \t]*{re.escape(MARK)}(?: [\w-]*)? ?-->")
_STRAY = re.compile(rf"{re.escape(MARK)}(?: [\w-]*)? ?-->")
_BREAK = re.compile(r"(\\*)n|\r?\n")
_STOP = re.compile(r'(?<!\\)(\\*)(["n]|\r?\n)')
_ANGLE = re.compile(r"(?<!\\)\\+u003([ce])", re.IGNORECASE)
_MARK_END = re.compile(r"--(?:>|\\+u003e)", re.IGNORECASE)
_ESCAPED_MARK = "&lt;" + MARK[1:]
_ESCAPED = re.compile(rf"(?:^|(?<=\\n))  &gt;(?= |$|\\)|&lt;({re.escape(MARK[1:])}(?: [\w-]*)? ?--)&gt;", re.MULTILINE)
_PARAGRAPH = re.compile(r"([ \t>|│⎿]*)(.*)")


def mark(event: str | None) -> str:
    """Return the last line; feedback names the whisper by `event`."""
    return f"{MARK} {re.sub(r'[^A-Za-z0-9_-]', '', event)} -->" if event else f"{MARK} -->"


def framing(commands: Commands) -> str:
    """Return the paragraph that explains the block and names the command for a whole note."""
    return f"{FRAMING} The first are quoted in full, the others by title: `{commands.show}` prints a whole one."


def enclose(
    lines: Iterable[str], *, commands: Commands = SHELL, heading: str = WHISPERS, event: str | None = None
) -> str:
    """Return the whole block. Each of `lines` is an entry, a quotation, a notice or the heading of a review."""
    return "\n".join([heading, framing(commands), "", *lines, mark(event)])


def alone(*lines: str, event: str | None = None) -> str:
    """Return our own lines where no memory is quoted."""
    return "\n".join([*lines, mark(event)])


def strip(text: str) -> str:
    """Return `text` without the blocks that we injected, also indented, quoted, in JSON strings, cut off or several.

    `&lt;` and `&gt;` count as angle brackets, as Gemini CLI escapes them.
    """
    if _ESCAPED_MARK in text:
        text = _ESCAPED.sub(lambda found: f"<{found[1]}>" if found[1] else "  >", text)
    if "# Ormah " in text:
        kept, at = [], 0
        for start, end in _blocks(text):
            kept.append(text[at:start])
            at = end
        text = "".join([*kept, text[at:]])
    return _without_stray_marks(text) if MARK in text else text


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    while (heading := _HEADING.search(text, at)) is not None:
        start, end = _block(text, heading, at)
        if end > start:
            yield start, end
        at = max(end, heading.end())


def _block(text: str, heading: re.Match[str], earliest: int) -> tuple[int, int]:
    """Return (start, end) of the block under a heading; an empty one where the heading is not ours."""
    nothing = heading.start(), heading.start()
    after = _BREAK.match(text, heading.end())
    if after is None:  # cut off right here, or a heading of somebody's own
        return heading.span() if heading.end() == len(text) else nothing
    depth = len(after[1] or "")
    at, start, end = after.end(), heading.start(), heading.end()
    stop, following = _end_of_line(text, at, depth)
    paragraph = _PARAGRAPH.match(text, at, stop)
    if (
        paragraph is None
        or not (bare := paragraph[2].rstrip("\r"))
        or not (bare.startswith(FRAMING) or FRAMING.startswith(bare))
    ):
        return nothing
    indent = paragraph[1]
    if start - len(indent) >= earliest and text.startswith(indent, start - len(indent)):
        start -= len(indent)
    while True:
        line = (
            text[at:stop] if depth == 0 else _ANGLE.sub(lambda found: "<" if found[1] in "cC" else ">", text[at:stop])
        )
        line = line.removesuffix("\r")
        bare = line.removeprefix(indent) if line.startswith(indent) else line.removeprefix(indent.rstrip())
        if _MARK.match(bare):
            end = _after_mark(text, at, stop)
            break
        if not (_LINE.match(bare) or _begins_ours(bare) or (end == heading.end())):
            break
        if bare.strip() or (depth and following is None):
            end = stop
        if following is None:
            break
        at = following
        stop, following = _end_of_line(text, at, depth)
    if depth == 0 and text[max(start - 1, 0) : start] in {"", "\n"} and text[end : end + 1] == "\n":
        end += 1  # the block's lines were whole ones
    return start, end


def _begins_ours(bare: str) -> bool:
    """Return whether a line that was cut off may be the beginning of ours."""
    rest = bare.lstrip(" \t")
    return any(start.startswith(rest) for start in (*_STARTS, MARK)) or (rest.startswith(MARK) and "-->" not in rest)


def _end_of_line(text: str, at: int, depth: int) -> tuple[int, int | None]:
    r"""Return (end of this line, start of the next or None). `depth`: backslashes before the `n` of a line end.

    Depth 0 is plain text. In a JSON string a line end is `\n` (1), in a nested JSON string `\\n` (2), and so on. Backslashes of the
    content come in pairs of that, and the closing quotation mark has one fewer.
    """
    if depth == 0:
        end = text.find("\n", at)
        return (len(text), None) if end < 0 else (end, end + 1)
    for found in _STOP.finditer(text, at):
        run, sign = len(found[1]), found[2]
        if sign == "n" and run % (2 * depth) == depth:
            return found.start(2) - depth, found.end()
        if sign == '"' and run % (2 * depth) == depth - 1:
            return found.start(2) - (depth - 1), None
        if sign.endswith("\n"):
            return found.start(), None
    return len(text), None


def _after_mark(text: str, at: int, stop: int) -> int:
    """Return where the mark on this line ends."""
    found = _MARK_END.search(text, at, stop)
    return stop if found is None else found.end()


def _without_stray_marks(text: str) -> str:
    """Return the text without marks that lost their block, and without our lines right before them."""
    kept: list[str] = []
    for line in text.split("\n"):
        found = _STRAY.search(line)
        if found is None:
            kept.append(line)
            continue
        if not line[: found.start()].strip():
            while kept and (_TAIL.match(kept[-1]) or (not kept[-1].strip() and _TAIL.match("".join(kept[-2:-1])))):
                kept.pop()
        rest = _STRAY.sub("", line)
        if rest.strip():
            kept.append(rest)
    return "\n".join(kept)
