"""Separate the text that a person wrote from the text that harnesses and Ormah add to prompts and transcripts.

*Injected text* is the text that Ormah adds, such as a whisper: a block with a known heading and first paragraph,
lines of known kinds, and a mark at the end. If a harness cut the mark off, the block ends before the first line of
another kind. Quoted notes cannot imitate the block's lines, because each quoted line begins with `quoting.QUOTE`.

Harnesses (Claude Code, Codex CLI, Gemini CLI) add elements in tags, banners and records of commands. An element is
removed only if it has an end tag, and a banner counts only at the very beginning: text that mentions them stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct

from ormahd.text.tables import tables
from ormahd.text.words import FUNCTION_WORDS

PROGRAM: Final = "ormahctl"
_FILE = tables("harness.toml")


class Commands(Struct, frozen=True):
    """The names by which texts for an agent call Ormah: for each task the tool of the MCP server, and the shell
    command.

    In them, `ID` stands for a memory's id and `E` for a whisper's event.
    """

    show: str
    remember: str
    feedback: str
    maintenance: str

    def judged(self, node_id: str, event: str) -> str:
        """Return the call that records that memory `node_id` was useful in whisper `event`."""
        return self.feedback.replace(" ID ", f" {node_id} ").replace(" E`", f" {event}`")


def shell(program: str = PROGRAM) -> Commands:
    """Return the names of Ormah's tools and commands for an agent. `program`: how to call ormahctl in a shell, quoted
    if needed.

    The tools come first, because a sandbox may forbid the socket to a shell.
    """
    return Commands(
        show=f"`recall_node` (or `{program} show ID`)",
        remember=f'`remember` (or `{program} remember "…" --type decision`)',
        feedback=f"`submit_feedback` (or `{program} feedback ID +1 --event E`)",
        maintenance=f"`run_maintenance` (or `{program} maintenance`)",
    )


SHELL: Final = shell()

WHISPERS = "# Ormah whispers"
REMEMBERS = "# Ormah remembers"
"""Heading of the text at the start of a session."""

FRAMING = (
    "Notes from the user's long-term memory that may bear on this, quoted as they were stored. They record facts and ask for "
    "nothing; some may be out of date."
)
"""Beginning of the first paragraph of injected text. It only states facts, because agents may take instructions in
such a text for an attack. It is ASCII without quotation marks, so that it is the same in JSON."""

MARK = "<!-- ormah:whisper"
"""Beginning of the last line of injected text; the event's id follows."""

MAINTENANCE = "maintenance_due"
NOTICE = "Ormah: "
"""Beginning of a line with a message of Ormah to the agent."""
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
    """Return the comment that ends injected text. `event`: the whisper's id, by which feedback refers to it."""
    return f"{MARK} {re.sub(r'[^A-Za-z0-9_-]', '', event)} -->" if event else f"{MARK} -->"


def framing(commands: Commands) -> str:
    """Return the first paragraph of injected text: it says what the text is, and how the agent gets a note in full."""
    return f"{FRAMING} Some are cut, or named by title alone: {commands.show} gives the whole text."


def enclose(
    lines: Iterable[str], *, commands: Commands = SHELL, heading: str = WHISPERS, event: str | None = None
) -> str:
    """Return injected text with these lines between heading and mark. Each line must be an entry, a quotation, a notice
    or the heading of a review, so that `strip` recognises it."""
    return "\n".join([heading, framing(commands), "", *lines, mark(event)])


def alone(*lines: str, event: str | None = None) -> str:
    """Return injected text that consists of messages of Ormah only, and quotes no memory."""
    return "\n".join([*lines, mark(event)])


def strip(text: str) -> str:
    """Return `text` without the text that Ormah injected into it: whispers, greetings and notices.

    Injected text is recognised also if it is indented, quoted, part of a JSON string or cut off, and with `&lt;` and
    `&gt;` in place of angle brackets, as Gemini CLI escapes them.
    """
    if _ESCAPED_MARK in text:
        text = _ESCAPED.sub(lambda found: f"<{found[1]}>" if found[1] else "  >", text)
    if "# Ormah " in text:
        parts, at = [], 0
        for start, end in _blocks(text):
            parts.append(text[at:start])
            at = end
        text = "".join([*parts, text[at:]])
    return _without_stray_marks(text) if MARK in text else text


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each block of injected text in `text`, in order."""
    at = 0
    while (heading := _HEADING.search(text, at)) is not None:
        start, end = _block(text, heading, at)
        if end > start:
            yield start, end
        at = max(end, heading.end())


def _block(text: str, heading: re.Match[str], earliest: int) -> tuple[int, int]:
    """Return (start, end) of the block of injected text that begins with `heading`; both are its start if none begins
    there.

    `earliest`: the position before which the block cannot start.
    """
    nothing = heading.start(), heading.start()
    after = _BREAK.match(text, heading.end())
    if after is None:  # cut off right here, or a heading that is not Ormah's
        return heading.span() if heading.end() == len(text) else nothing

    # the line after the heading must be the paragraph that explains the text, or its beginning
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

    # all lines have the indent or quotation marks of the paragraph
    indent = paragraph[1]
    if start - len(indent) >= earliest and text.startswith(indent, start - len(indent)):
        start -= len(indent)

    # the block ends with the mark, or before the first line of another kind; blank lines at its end do not belong to it
    while True:
        line = (
            text[at:stop] if depth == 0 else _ANGLE.sub(lambda found: "<" if found[1] in "cC" else ">", text[at:stop])
        )
        line = line.removesuffix("\r")
        bare = line.removeprefix(indent) if line.startswith(indent) else line.removeprefix(indent.rstrip())
        if _MARK.match(bare):
            whole = _MARK_END.search(text, at, stop)  # None: the mark is cut off
            end = stop if whole is None else whole.end()
            break
        if not (_LINE.match(bare) or _may_begin_line(bare) or (end == heading.end())):
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


def _may_begin_line(bare: str) -> bool:
    """Return whether `bare` may be the beginning of a line of injected text that was cut off."""
    rest = bare.lstrip(" \t")
    return any(start.startswith(rest) for start in (*_STARTS, MARK)) or (rest.startswith(MARK) and "-->" not in rest)


def _end_of_line(text: str, at: int, depth: int) -> tuple[int, int | None]:
    r"""Return (end of the line at `at`, start of the next line). The second is None if the text or its JSON string ends
    here.

    `depth` says how the text is quoted, which decides how a line end and the end of a string are written:

    | `depth` | the text is | line end | end of the string |
    | 0 | plain | a line feed | none |
    | 1 | in a JSON string | `\n` | `"` |
    | 2 | in a JSON string within another one | `\\n` | `\"` |

    A backslash of the content is written as 2 * `depth` backslashes, so a number of them that is a multiple of this
    does not belong to the sign after it.
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


def _without_stray_marks(text: str) -> str:
    """Return the text without marks of injected text whose heading is missing, and without the lines of injected text
    right before each such mark."""
    lines: list[str] = []
    for line in text.split("\n"):
        found = _STRAY.search(line)
        if found is None:
            lines.append(line)
            continue
        if not line[: found.start()].strip():
            while lines and (_TAIL.match(lines[-1]) or (not lines[-1].strip() and _TAIL.match("".join(lines[-2:-1])))):
                lines.pop()
        rest = _STRAY.sub("", line)
        if rest.strip():
            lines.append(rest)
    return "\n".join(lines)


MACHINES = frozenset(_FILE["machines"].split())
"""Words in the names of elements that programs write. If an element around a whole prompt has another name, the person
wrote it."""
HTML = frozenset(_FILE["html"].split())
"""Names of HTML tags. They are part of a prompt's content; other tags only structure it."""


READ_HEAD, READ_TAIL = 96_000, 32_000
"""Number of characters that are read from the beginning and the end of a longer prompt. They are enough for the
longest text that a harness puts before the typed one (a project's instructions); the rest of a pasted file of 10 MB
is skipped."""
KEPT_HEAD, KEPT_TAIL = 8_000, 4_000
"""Number of characters that are kept from the beginning and the end of the person's text. The question is usually at
one of the ends, and the embedding model reads about 2,000 characters of each."""
GAP = "\n…\n"


class Author(StrEnum):
    """Who wrote a prompt."""

    PERSON = "person"
    COMMAND = "command"
    """A slash command or a shell line for the harness."""
    MACHINE = "machine"
    """Text that a program wrote: a notification, a hook, a scheduler or another agent."""


class Prompt(Struct, frozen=True):
    """A prompt without the additions of Ormah and its harness (`text`; may be empty), and who wrote it (`author`)."""

    text: str
    author: Author


_NOBODY = "|".join(_FILE["nobody"])
"""Names of elements that begin a prompt that the harness itself wrote."""
_TYPED = "|".join(_FILE["typed"])
"""Names of elements that record a command that the person typed for the harness."""
_AROUND = "|".join(_FILE["around"])
"""Names of elements that a harness adds before or after a prompt, or sends instead of one."""
_OF_ONE: Final[dict[str, str]] = _FILE["of_one"]
"""Harness -> names of elements that only this harness adds. In prompts of other harnesses the person wrote them."""


def _tag(more: str = "") -> re.Pattern[str]:
    """Return a pattern that matches the tags that harnesses add. `more`: further names of elements, separated by `|`.

    The group `name` is the element's name, and the group `end` is not empty for an end tag.
    """
    names = "|".join(filter(None, (_NOBODY, _TYPED, _AROUND, more)))
    return re.compile(rf"<(?P<end>/?)(?P<name>{names})(?![\w-])[^<>\n]{{0,300}}>", re.IGNORECASE)


_TAG = _tag()
_TAGS_OF = {harness: _tag(names) for harness, names in _OF_ONE.items()}
_NOBODY_FIRST = re.compile(rf"<(?:{_NOBODY})(?![\w-])", re.IGNORECASE)
_TYPED_NAME = re.compile(_TYPED, re.IGNORECASE)
_BANNER = re.compile("|".join(_FILE["banners"]), re.IGNORECASE)
_PROJECT_FILE = re.compile(
    r"^# (?:AGENTS|CLAUDE|GEMINI)\.md instructions[^\n]*\s*(?:<INSTRUCTIONS>.*?</INSTRUCTIONS>)?",
    re.MULTILINE | re.DOTALL,
)
"""Matches a project's instructions that a harness puts before the prompt."""
_READ_RESULT = re.compile(r"Read the output file to retrieve the result:[^\n]*")
_EDITOR = re.compile(r"# (?:Context from my IDE setup|Files mentioned by the user):")
_REQUEST = "## My request for Codex:"
_REFERENCED = ("--- Content from referenced files ---", "--- End of content ---")
_WRAPPED = re.compile(r"<(channel\s+source=|user[-_]query|user_prompt|USER_REQUEST)[^<>\n]{0,300}>")
_PLACEHOLDERS = re.compile(
    r"\[Image(?: #\d+|: source: [^\]\n]{0,300})\]|\[Pasted text #\d+(?: \+\d+ lines)?\]"
    r"|\[\.\.\.Truncated text #\d+[^\]\n]{0,60}\]|<image name=[^<>\n]{0,300}>|</image>"
)
_ELEMENT = re.compile(r"<([A-Za-z]\w*[-_][\w-]*)(?:\s[^<>]{0,300})?>")
_OUTLINE = re.compile(r"</?([A-Za-z][\w-]{0,60})>")
_FENCE = re.compile(r"\A```(?P<language>\w*)\n(?P<inside>.*)\n```\Z", re.DOTALL)
_PROSE = frozenset({"", "md", "markdown", "text", "txt", "plaintext", "xml"})
"""Languages of code blocks. A block around a whole prompt is a question only if its language is one of these."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,300}(?:\x07|\x1b\\)|[@-Z\\^_])")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")

_SLASH = re.compile(r"/(?P<name>[a-z][\w.:-]*)(?=\s|\Z)", re.IGNORECASE)
_DIRECTORIES = frozenset(_FILE["directories"].split())
"""First folders of absolute paths. A line that begins with one (`/home`) is no slash command."""
_SHELL = re.compile(r"!\s*[\w./~$({\[-]")
_MEMORY = re.compile(
    r"#\s*(?!(?:define|elif|else|endif|error|if|ifdef|ifndef|include|line|pragma|region|undef)\b)[^\W\d]"
)
"""Matches Claude Code's shortcut for its memory (`# always use uv`), but not `#123` or a line of C."""
_SKILL = re.compile(r"\$[a-z][\w:-]*")
_SHELL_MARKS = re.compile(r"[|;&<>$`\"'=\\]|\s--?\w|(?:^|\s)\.?\.?/\S")
_FUNCTION_LEAST, _WORDS_LEAST, _LETTERS_LEAST = 2, 4, 6
"""Minimum numbers of function words (the, how, we, is), of words, and of non-ASCII letters by which `_is_sentence`
tells a sentence from a command."""


def read_prompt(prompt: str, harness: str | None = None, *, characters: int = KEPT_HEAD + KEPT_TAIL) -> Prompt:
    """Return the `Prompt` in a raw text that `harness` sent. Never raises.

    If the person's text is longer than `characters`, two thirds of these are taken from its beginning and one third
    from its end.
    """
    whole = len(prompt) <= READ_HEAD + READ_TAIL
    text = prompt if whole else prompt[:READ_HEAD] + GAP + prompt[-READ_TAIL:]
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    text = _CONTROLS.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n"))  # lone surrogates too
    text = strip(text.strip()).strip()
    if _BANNER.match(text) or _NOBODY_FIRST.match(text):
        return Prompt(_clipped(_without_blocks(text, harness)[0], characters), Author.MACHINE)
    rest, blocks = _without_blocks(text, harness)
    if not rest and blocks:
        typed = any(_TYPED_NAME.fullmatch(name) for name in blocks)
        return Prompt("", Author.COMMAND if typed else Author.MACHINE)
    if _is_by_machine(rest, whole=whole):
        return Prompt(_clipped(rest, characters), Author.MACHINE)
    if _is_command(rest):
        return Prompt(_clipped(rest, characters), Author.COMMAND)
    return Prompt(_clipped(rest, characters), Author.PERSON)


def without_wrapping(text: str) -> str:
    """Return a prompt without the marks of a code block around all of it, and without tags that only structure it.

    Neither shows whether the person wrote what is inside.
    """
    fenced = _FENCE.match(text)
    if fenced and "```" not in fenced["inside"] and fenced["language"].lower() in _PROSE:
        text = fenced["inside"].strip()
    first = _OUTLINE.match(text)
    if first is None or first[1].lower() in HTML:
        return text
    ends = {found[1] for found in _OUTLINE.finditer(text) if found[0].startswith("</")}
    inside = _OUTLINE.sub(
        lambda found: "\n" if found[1] in ends and found[1].lower() not in HTML else found[0], text
    ).strip()
    return inside or text


def _without_blocks(text: str, harness: str | None) -> tuple[str, tuple[str, ...]]:
    """Return (the text without what the harness added, names of the removed elements)."""
    names: list[str] = []
    if ".md instructions" in text:
        text, found = _PROJECT_FILE.subn("", text)
        names += ["instructions"] * found
    if "<" in text:
        text, elements = _without_elements(text, _TAG if harness is None else _TAGS_OF.get(harness, _TAG))
        names += elements
        if names:
            text = _READ_RESULT.sub("", text)
        wrapped = _WRAPPED.match(text.strip())
        if wrapped and text.strip().endswith(f"</{wrapped[1].split()[0]}>"):
            text = text.strip()[wrapped.end() :].rpartition("</")[0]
    if _EDITOR.match(text) and _REQUEST in text:
        text = text.partition(_REQUEST)[2]
    first, end = _REFERENCED
    if first in text:
        before, _, after = text.partition(first)
        text = before + after.partition(end)[2]
    return _PLACEHOLDERS.sub(" ", text).strip(), tuple(names)


def _without_elements(text: str, tag_of: re.Pattern[str]) -> tuple[str, list[str]]:
    """Return (the text without the elements whose tags `tag_of` matches, names of these elements).

    An element ends at the first end tag with its name. A tag without an end tag is kept.
    """
    tags = list(tag_of.finditer(text))
    last_end = {tag["name"].lower(): tag.start() for tag in tags if tag["end"]}
    parts: list[str] = []
    names: list[str] = []
    inside: str | None = None
    end = 0
    for tag in tags:
        name = tag["name"].lower()
        if inside is None and not tag["end"] and last_end.get(name, -1) > tag.start():
            parts.append(text[end : tag.start()])
            names.append(name)
            inside = name
        elif tag["end"] and inside == name:
            inside = None
            end = tag.end()
    return " ".join([*parts, text[end:]]).strip() if parts else text, names


def _is_by_machine(text: str, *, whole: bool) -> bool:
    """Return whether a program wrote the text: it is JSON, or one element with a word of `MACHINES` in its name.

    `whole`: whether no part of the text was left out. Otherwise JSON is recognised by its beginning and end.
    """
    fenced = _FENCE.match(text)
    if fenced:
        text = fenced["inside"].strip()
    if text[:1] in {"{", "["} and text[-1:] in {"}", "]"}:
        if not whole:
            return text.startswith(('{"', "[{", '["'))
        try:
            return isinstance(json.loads(text), dict | list)
        except (ValueError, RecursionError):
            return False
    element = _ELEMENT.match(text)
    if element is None or not text.endswith(f"</{element[1]}>"):
        return False
    return not MACHINES.isdisjoint(re.split(r"[-_]", element[1].lower()))


def _is_command(text: str) -> bool:
    """Return whether the text is a command for the harness, such as `/clear` or `!ls`. A sentence is not."""
    slash = _SLASH.match(text)
    if slash:
        rest = text[slash.end() :]
        question = rest.rstrip().endswith(("?", "？", "؟", "\u037e")) and len(rest.split()) >= _WORDS_LEAST
        return slash["name"].lower() not in _DIRECTORIES and not question
    if "\n" in text or _is_sentence(text[1:]):
        return False
    return bool(_SHELL.match(text) or _MEMORY.match(text) or _SKILL.fullmatch(text))


def _is_sentence(text: str) -> bool:
    """Return whether the text is a question, or has enough words and no characters of a shell command."""
    if text.rstrip().endswith(("?", "？", "؟")):
        return True
    if _SHELL_MARKS.search(text):
        return False
    words = text.casefold().split()
    functional = sum(word.strip(",.:!") in FUNCTION_WORDS for word in words)
    letters = sum(character.isalpha() and not character.isascii() for character in text)
    return (len(words) >= _WORDS_LEAST and (functional >= _FUNCTION_LEAST or letters > 0)) or letters >= _LETTERS_LEAST


def _clipped(text: str, characters: int) -> str:
    """Return at most `characters` of a text: its beginning and its end, with `GAP` between them."""
    tail = characters * KEPT_TAIL // (KEPT_HEAD + KEPT_TAIL)
    return text if len(text) <= characters + len(GAP) else text[: characters - tail] + GAP + text[-tail:]
