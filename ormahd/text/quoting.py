"""Find the natural language in a text, and quote a text safely in a prompt, a terminal or a judge's question. Pure.

Inline images, encoded data, minified code, hashes and logs are no natural language; here they are called *data*. They
stay in the note, but are not embedded, quoted or used as a title, because they would outweigh the rest of the note.

Notes may contain escape sequences, tags of a harness, the mark of Ormah's own text, or invisible text. In a
quotation, control characters become visible (`ESC` is `␛`, C1 and bidirectional overrides are `‹U+009B›`), tags that
address a machine become `‹system-reminder›`, comments `‹!--`. A run of invisible characters becomes `‹12 hidden
characters›`; up to three are dropped. Those that a person's script needs stay: marks of Arabic and Hebrew, joiners of
Persian and Indic scripts, composed emoji, CJK variants.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

LONG: Final = 160
"""Number of ASCII characters without a space from which they are data instead of a word, path or address."""
PART: Final = 64_000
LONGEST: Final = 128_000
"""Maximum number of characters of a part in which a long text is read. The minimum is `PART`."""
MAX_SEARCHED: Final = 1_000_000
"""Maximum number of characters of a text in which `beginning` searches natural language."""
SMALL: Final = 24
"""Minimum number of characters of a hash."""
WIDE: Final = 240
"""Minimum number of characters of a line of minified code."""
SPACED: Final = 0.09
"""Share of spaces below which an ASCII line of at least `WIDE` characters is minified code."""
WRAPPED: Final = 3
"""Minimum number of consecutive lines of encoded data or of a log that are removed. Fewer lines may be an example."""

_DATA_URL = re.compile(r"data:[\w.+/-]{0,100}(?:;[\w.=+-]{1,100}){0,8},[^\s)\"'>\]]*", re.IGNORECASE)
_LONG_RUN = re.compile(rf"[!-~]{{{LONG},}}")
_CHARS = "[A-Za-z0-9+/_=-]"
_HASH = re.compile(
    rf"(?<![\w/+=.:-])(?=(?:{_CHARS}*?[0-9]){{4}})(?={_CHARS}*[A-Za-z])(?:[0-9a-f]{{{SMALL},}}|[0-9A-F]{{{SMALL},}}|"
    rf"(?={_CHARS}*[a-z])(?={_CHARS}*[A-Z])[A-Za-z0-9+/_]{{32,}}={{0,2}})(?![\w/+=-])"
)
_ENCODED_LINE = re.compile(r"[ \t>]*[A-Za-z0-9+/_-]{48,}={0,2}[ \t\r]*")
_LAST_LINE = re.compile(r"[ \t>]*[A-Za-z0-9+/_-]{1,80}={0,2}[ \t\r]*")
_STAMPED_LINE = re.compile(
    r"[ \t>]*\[?(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d|\d\d:\d\d:\d\d[.,]\d{3}|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |"
    r"\d{10}(?:\.\d{3,9})|(?:\d{1,3}\.){3}\d{1,3} \S+ \S+ \[)"
)
_EMPTY_IMAGE = re.compile(r"!\[([^\[\]\n]{0,300})\]\(\s*\)")
_SUSPECT = re.compile(rf"data:|DATA:|[!-~]{{{SMALL},}}|\d\d:\d\d:\d\d|^.{{{WIDE},}}$", re.MULTILINE)
_LETTER = re.compile(r"[^\W\d_]")
_BLANKS = re.compile(r"[ \t]{2,}")


def without_data(text: str) -> str:
    """Return `text` without data: inline images, encoded data, minified code, hashes and logs.

    Returns "" if no letter remains, and `text` unchanged if it contains no data.
    """
    if len(text) > 2 * PART:
        parts = [without_data(part) for part in _parts(text)]
        return text if "".join(parts) == text else "\n".join(filter(None, (part.strip() for part in parts)))
    if not _SUSPECT.search(text):  # a quick test: most notes certainly contain no data
        return text
    found = _DATA_URL.sub("", text) if "data:" in text or "DATA:" in text else text
    if found is not text:
        found = _EMPTY_IMAGE.sub(r"\1", found)
    found = "\n".join(map(_without_hashes, _without_data_lines(_LONG_RUN.sub("…", found).split("\n"))))
    if found == text:
        return text
    return _BLANKS.sub(" ", found).strip() if _LETTER.search(found) else ""


def beginning(text: str, characters: int) -> str:
    """Return the first `characters` of a text without data (`without_data`). Reads only as much of the text as
    needed."""
    for read in (4 * characters + 1_000, PART, MAX_SEARCHED):
        found = without_data(text[:read])
        if len(found) >= characters or read >= len(text):
            break
    return found[:characters]


def indexed_text(text: str) -> str:
    """Return `text` as it is indexed for full text search: without inline images and long runs of characters.

    Hashes, code and logs are kept.
    """
    if len(text) > 2 * PART:
        return "".join(map(indexed_text, _parts(text)))
    if not _DATA_URL.search(text) and not _LONG_RUN.search(text):
        return text
    return _LONG_RUN.sub(" ", _DATA_URL.sub(" ", text))


def _parts(text: str) -> Iterator[str]:
    """Yield a long text in parts, which end at line ends if possible.

    Each part is so short that no pattern holds the GIL for long.
    """
    start = 0
    while start < len(text):
        end = text.find("\n", start + PART, start + LONGEST) + 1 or start + LONGEST
        yield text[start:end]
        start = end


def _without_data_lines(lines: list[str]) -> Iterator[str]:
    """Yield `lines` without minified code, and without runs of `WRAPPED` or more consecutive lines of encoded data or
    of a log."""
    block: list[str] = []
    kind = ""
    for line in lines:
        line_kind = "encoded" if _ENCODED_LINE.fullmatch(line) else "stamped" if _STAMPED_LINE.match(line) else ""
        if not line_kind and kind == "encoded" and len(block) + 1 >= WRAPPED and _LAST_LINE.fullmatch(line):
            line_kind = kind
        if line_kind != kind:
            yield from block if len(block) < WRAPPED else ()
            block, kind = [], line_kind
        if line_kind:
            block.append(line)
        elif len(line) < WIDE or not line.isascii() or line.count(" ") >= SPACED * len(line):  # not minified
            yield line
    yield from block if len(block) < WRAPPED else ()


def _without_hashes(line: str) -> str:
    """Return the line without its hashes if they are more than half of it; otherwise the line unchanged.

    Fewer hashes are part of a sentence.
    """
    if len(line) < SMALL:
        return "" if line.strip(" \t\r>") == "…" else line
    rest = _HASH.sub("", line)
    return rest if len(rest) < len(line) / 2 else line


QUOTE = "  > "
"""Beginning of each line of a quoted text. It keeps a heading or fence in the text from having effects beyond the
quotation."""

ELLIPSIS = " …"
_HIDDEN_AT_MOST = 3
_ACCENTS_AT_MOST = 8

_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u202d\u202e]")
_NOT_CHARACTERS = re.compile("[\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_ACCENT = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_ACCENTS = re.compile(f"({_ACCENT}{{{_ACCENTS_AT_MOST}}}){_ACCENT}+")
_REGION_FLAG = "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f"  # Scotland and its like
_INVISIBLE = re.compile(
    f"{_REGION_FLAG}|["
    "\u00ad\u034f\u061c\u115f\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202c\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_JOINS = re.compile(  # letters of scripts in which a joiner or non-joiner changes how a word is written
    "[\u0600-\u08ff\ufb50-\ufdff\ufe70-\ufefc\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\ua840-\ua87f\ua980-\uaaff]"
)
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_MARKS_OF_DIRECTION = "\u200e\u200f\u061c"
_JOINERS = "\u200c\u200d"

_TAG = re.compile(r"<(\s*/?\s*)([A-Za-z_][\w.-]{0,60}(?::[\w.-]{1,60})?)(?=[\s/>]|$)([^<>\n]{0,300})(>?)")
_MACHINE_NAMES = """
    admin agent ai answer assistant claude command context conversation data developer document documents env
    environment example examples function functions hook human important injected input instruction instructions invoke
    memories memory message messages notification ormah output parameter parameters plan policy prompt query reasoning
    reminder response result results rules scratchpad secret session skill system task thinking tool tools transcript
    untrusted user whisper whispers
    """
_MEANT_FOR_MACHINES = frozenset(_MACHINE_NAMES.split())
_SPEAKERS = frozenset({"system", "assistant", "human", "developer"})
_OPENINGS = re.compile(r"<(?=!--|!\[|\|)|(?<=\|)>")
_TURNS = re.compile(r"\[(/?(?:INST|SYS|SYSTEM))\]|<<(/?SYS)>>")
_OUR_HEADING = re.compile(r"#(?=[ \t]*Ormah[ \t]+(?:whispers|remembers)\b)", re.IGNORECASE)
_OUR_ID = re.compile(r"\((id):(?=[ \t]*[0-9a-f]{4})", re.IGNORECASE)
_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})(.*)")


def harmless(text: str) -> str:
    r"""Return `text` with visible or similar signs in place of what could control a terminal (escape sequences,
    hidden characters) or address a machine (tags of a harness).

    Line ends become `\n`.
    """
    text = _LINE_ENDS.sub("\n", text)
    if not (text.isascii() and text.isprintable()):
        text = _NOT_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", text)
        text = _CONTROLS.sub(_shown_control, text)
        text = _ACCENTS.sub(r"\1", text)
        both = _RIGHT_TO_LEFT.search(text) is not None
        text = _INVISIBLE.sub(lambda found: _shown_run(found, both), text)
    text = _OUR_HEADING.sub(r"\\#", text)
    if "<" in text or "[" in text or ">" in text:
        text = _TURNS.sub(lambda found: f"({found[1]})" if found[1] else f"‹‹{found[2]}››", text)
        text = _TAG.sub(_shown_tag, text)
        text = _OPENINGS.sub(lambda found: "‹" if found[0] == "<" else "›", text)
    return text


def _shown_control(found: re.Match[str]) -> str:
    """Return the visible sign for a matched control character: `␛` for ESC, `‹U+009B›` for one without such a sign."""
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"‹U+{code:04X}›"


def _shown_run(found: re.Match[str], right_to_left: bool) -> str:
    """Return the text that replaces a run of invisible characters.

    A variant selector, joiner or mark of direction is kept if it has an effect on the characters around it. Other
    characters are replaced by a count such as `‹12 hidden characters›`, or dropped if they are few. `right_to_left`:
    whether the text has letters of a script that is written from right to left.
    """
    run, text, start, end = found[0], found.string, found.start(), found.end()
    if run[0] == "\U0001f3f4":
        return run
    before, after = text[start - 1 : start], text[end : end + 1]
    visible = ""
    if "\ufe00" <= run[0] <= "\ufe0f" or "\U000e0100" <= run[0] <= "\U000e01ef" or "\u180b" <= run[0] <= "\u180d":
        visible = run[0] if _has_variant(before, run[0]) else ""
    joiner = run[len(visible) : len(visible) + 1]
    if joiner and (
        (joiner in _JOINERS and _joined(before, after)) or (joiner in _MARKS_OF_DIRECTION and right_to_left)
    ):
        visible += joiner
    hidden = len(run) - len(visible)
    return f"{visible}‹{hidden} hidden characters›" if hidden > _HIDDEN_AT_MOST else visible


def _has_variant(before: str, variant: str) -> bool:
    """Return whether a variant selector (`variant`) has an effect on the character `before` it."""
    if not before or before.isspace():
        return False
    if variant in "\ufe0e\ufe0f":  # a symbol as text or as a picture; keycaps are digits
        return not before.isalpha() or _HAN.match(before) is not None
    if variant < "\ufe00":
        return "\u1800" <= before <= "\u18af"
    return _HAN.match(before) is not None or unicodedata.category(before) == "Sm"


def _joined(before: str, after: str) -> bool:
    """Return whether a joiner between these two characters has an effect: in a script that needs it, or within an
    emoji."""
    if before and _JOINS.match(before):
        return not after or after.isspace() or _JOINS.match(after) is not None
    return _is_emoji_part(before) and _is_emoji_part(after)


def _is_emoji_part(character: str) -> bool:
    """Return whether a character may be part of an emoji, such as a symbol or skin colour."""
    return bool(character) and unicodedata.category(character) in {"So", "Sk", "Sm", "Mn", "Me"}


def _shown_tag(found: re.Match[str]) -> str:
    """Return what replaces a matched tag: the tag with `‹` and `›` if it could address a machine, else the tag
    unchanged."""
    slash, name, rest, end = found[1], found[2], found[3], found[4]
    folded = name.casefold()
    ours = folded in _MEANT_FOR_MACHINES or any(sign in folded for sign in "-_:")
    generic = (
        not slash.strip()
        and folded.isalnum()
        and folded not in _SPEAKERS
        and found.string[max(found.start() - 1, 0) : found.start()].isalnum()
    )
    if not ours or generic:  # `Vec<User>`, `<div>`, `<branch>` stay as they are written
        return found[0]
    return f"‹{slash}{name}{rest}{'›' if end else ''}"


# ---------------------------------------------------------------- cut and laid out


def shortened(text: str, characters: int) -> str:
    """Return at most `characters` of `text`, cut between words; in a script without spaces, between characters."""
    if len(text) <= characters:
        return text
    room = max(characters - len(ELLIPSIS), 0)
    cut = text[:room]
    if not text[room : room + 1].isspace():
        space = max(cut.rfind(" "), cut.rfind("\n"))
        if space > room * 0.6:
            cut = cut[:space]
        else:  # no space near the end: cut between characters, but not within an accented letter or an emoji
            while cut and (
                unicodedata.combining(text[len(cut)]) or text[len(cut)] in "\u200d\ufe0f" or cut[-1] == "\u200d"
            ):
                cut = cut[:-1]
    return cut.rstrip() + ELLIPSIS


def one_line(text: str, characters: int) -> str:
    """Return a title or source as one harmless line of at most `characters`.

    `(id:` before a hexadecimal number is changed, so that the text cannot imitate the id that Ormah adds after it.
    """
    line = " ".join(harmless(text[: 8 * characters + 200]).split())
    return shortened(_OUR_ID.sub(r"(\1", line), characters)


def quoted(text: str, characters: int) -> str:
    """Return at most `characters` of a text as a quotation: each line begins with `QUOTE`. Returns "" if nothing is
    readable.

    Data is left out (`without_data`), and the text is made harmless (`harmless`). A code fence that is not closed is
    closed.
    """
    cleaned = harmless(beginning(text, 8 * characters + 200))
    cleaned = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in cleaned.split("\n"))).strip("\n")
    lines = shortened(cleaned, characters).split("\n")
    closing = _open_fence(lines)
    if closing:
        lines.append(closing)
    return "\n".join((QUOTE + line).rstrip() for line in lines) if "".join(lines).strip() else ""


def _open_fence(lines: list[str]) -> str:
    """Return the code fence that `lines` open and do not close; "" if there is none."""
    fence = ""
    for line in lines:
        found = _FENCE.match(line)
        if found is None:
            continue
        if not fence:
            fence = found[1] if found[1][0] == "~" or "`" not in found[2] else ""
        elif found[1].startswith(fence) and not found[2].strip():
            fence = ""
    return fence
