"""The body of a note: links, code, conflict markers, line ends, and replacing its content."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator
from urllib.parse import quote, unquote

from ormahd.note.values import stem_short_id
from ormahd.text.diff import matching_blocks

_WIKILINK = re.compile(r"(?<!\\)\[\[([^\[\]\n]{1,500})\]\]")
LINK = re.compile(
    r"\[(?P<text>(?:[^\[\]\n]|\[[^\[\]\n]*\]){0,500})\]"
    r"\((?:<(?P<angled>[^<>\n]{1,500})>|(?P<plain>(?:[^()\s]|\([^()\s]*\)){1,500}))(?:\s+(?:\"[^\"\n]*\"|'[^'\n]*'))?\)"
)
"""A markdown link, `[text](Some%20note.md)`, as Obsidian writes it if wikilinks are disabled."""
_TAG = re.compile(r"(?<![\w#/&])(?<!\]\()#([^\W\d_][\w/-]{0,99})")
_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:|//")
_FENCE = re.compile(r"[ \t>]*(?:[-*+][ \t]+|\d{1,9}[.)][ \t]+)?(`{3,}|~{3,})(.*)")
_TICKS = re.compile(r"`+")
_BLANK = re.compile(r"\n[ \t]*\n")
_FILE = re.compile(
    r".\.(?:avif|bmp|gif|jpe?g|png|svg|webp|heic|tiff?|3gp|flac|m4a|mp3|ogg|wav|webm|mkv|mov|mp4|ogv|pdf|canvas|base|"
    r"csv|docx?|html?|json|odt|pptx?|txt|xlsx?|zip|excalidraw)$",
    re.IGNORECASE,
)


def normalise(text: str) -> str:
    """Return the text of a note's body in normal form: with `\n` line ends, and without blank lines around it. Spaces
    inside its lines are kept."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    start, end = core_span(text)
    return text[start:end]


def dominant_eol(whole: str) -> str:
    """Return the line end that most lines of a file have, to be used for new lines."""
    crlf = whole.count("\r\n")
    return "\r\n" if crlf * 2 > whole.count("\n") else "\n"


def core_span(text: str) -> tuple[int, int]:
    """Return (start, end) of the content in a body, without blank lines around it and without its last line end."""
    filled = len(text.rstrip(" \t\r\n"))
    if not filled:
        return len(text), len(text)
    first = len(text) - len(text.lstrip(" \t\r\n"))
    start = max(text.rfind("\n", 0, first), text.rfind("\r", 0, first)) + 1
    end = min((at for at in (text.find("\n", filled), text.find("\r", filled)) if at >= 0), default=len(text))
    return start, end


def link_target(inside: str) -> str:
    """Return the name of the note in the text between `[[` and `]]`, without `|alias`, `#heading` and `^block`; may be
    empty."""
    for mark in "|#^":
        inside = inside.partition(mark)[0]
    return " ".join(inside.rstrip("\\").split())


def wikilinks(text: str) -> list[tuple[str, str]]:
    """Return `(target, as written)` for all wikilinks of a text, in order."""
    return [(target, f"[[{inside}]]") for inside in _WIKILINK.findall(text) if (target := link_target(inside))]


def body_links(text: str) -> list[str]:
    r"""Return the targets of the links in a body (`\n` line ends), without duplicates, wikilinks first. Code and
    attachments are skipped."""
    if "[[" not in text and "](" not in text:
        return []
    if "`" in text or "~~~" in text:
        text = "\n\n".join(_without_code(text))
    found = [target for target, _ in wikilinks(text) if not _FILE.search(target)]
    paths = map(linked_note, LINK.finditer(text)) if "](" in text else ()
    return list(dict.fromkeys([*found, *filter(None, paths)]))


def body_tags(text: str) -> list[str]:
    """Return the tags in a body (`#recipe`, `#work/rota`), without `#` and duplicates. Code is skipped."""
    if "#" not in text:
        return []
    if "`" in text or "~~~" in text:
        text = "\n\n".join(_without_code(text))
    return list(dict.fromkeys(_TAG.findall(text)))


def linked_note(found: re.Match[str]) -> str:
    """Return the note that a match of `LINK` leads to, in the form of a wikilink's target; empty if it is no note of
    this vault."""
    path = unquote(found["angled"] or found["plain"]).partition("#")[0].strip()
    if path[-3:].lower() != ".md" or _SCHEME.match(path) or "\n" in path:
        return ""
    return link_target(path)


def conflict_line(text: str) -> int | None:
    """Return the line number of the first unresolved conflict of git (`<<<<<<< `, then `=======` and `>>>>>>> `); None
    if there is none.

    Examples in closed code fences and headings underlined with `=======` do not count.
    """
    if "<<<<<<<" not in text or ">>>>>>>" not in text:
        return None

    # `begun`: index of the line `<<<<<<<` of a conflict that may follow; `divided`: whether `=======` came.
    lines = text.replace("\r\n", "\n").split("\n")
    begun: int | None = None
    divided = False
    never_closed: dict[str, int] = {}  # length of the shortest unclosed fence, by its character
    at = 0
    while at < len(lines):
        line = lines[at]
        if begun is None:
            if line.startswith("<<<<<<<") and line[7:8] in {"", " "}:
                begun, divided = at, False
            elif (opened := _opening_fence(line)) and len(opened) < never_closed.get(opened[0], len(line) + 1):
                end = _closing_fence(lines, at + 1, opened)
                if end is None:
                    never_closed[opened[0]] = len(opened)
                else:
                    at = end
        elif line.startswith("<<<<<<< "):
            begun, divided = at, False
        elif line == "=======":
            divided = True
        elif divided and line.startswith(">>>>>>>") and line[7:8] in {"", " "}:
            return begun + 1
        at += 1
    return None


def _opening_fence(line: str) -> str | None:
    """Return the mark of the code fence that a line opens (such as three backticks); None if it opens none."""
    found = _FENCE.match(line)
    if found is None or (found.group(1)[0] == "`" and "`" in found.group(2)):
        return None
    return found.group(1)


def _closing_fence(lines: list[str], at: int, fence: str) -> int | None:
    """Return the index of the line that closes a code fence, or None. `at`: the index of the first line to look at;
    `fence`: the fence's opening mark."""
    for index in range(at, len(lines)):
        bare = lines[index].strip(" \t>\r")
        if len(bare) >= len(fence) and not bare.strip(fence[0]):
            return index
    return None


def _without_code(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text without fenced code; inline code is replaced by a space."""
    lines = text.split("\n")
    prose: list[str] = []
    at = 0
    while at < len(lines):
        fence = _opening_fence(lines[at])
        if fence is None:
            prose.append(lines[at])
            at += 1
            continue
        prose.append("")
        end = _closing_fence(lines, at + 1, fence)
        at = len(lines) if end is None else end + 1  # Markdown: an unclosed fence runs to the end
    for paragraph in _BLANK.split("\n".join(prose)):
        yield _without_inline_code(paragraph) if "`" in paragraph else paragraph


def _without_inline_code(paragraph: str) -> str:
    """Return a paragraph with each piece of inline code replaced by a space."""
    # Positions of the runs of backticks, and by length those that may still close a piece of code.
    runs = [(found.start(), found.end()) for found in _TICKS.finditer(paragraph)]
    of_length: dict[int, deque[int]] = defaultdict(deque)
    for start, end in runs:
        of_length[end - start].append(start)
    out: list[str] = []
    done = 0
    for start, end in runs:
        if start < done:
            continue
        waiting = of_length[end - start]
        while waiting and waiting[0] <= start:
            waiting.popleft()
        if waiting:  # a run of as many backticks follows: the text in between is code
            out.append(paragraph[done:start])
            out.append(" ")
            done = waiting[0] + end - start
    out.append(paragraph[done:])
    return "".join(out)


# Changing the targets of links

_NAME = re.compile(r"[^|#^]*")


def relink(content: str, names: Collection[str], stem: str) -> str:
    """Return the text with all links to one of `names` changed: they then lead to the note named `stem`. `names`:
    targets as returned by `body_links`.

    A link by title gets the title as its alias; heading, block and alias are kept. A markdown link keeps its text, but
    loses its heading, which the other note does not have.
    """

    def inside(old: str) -> str:
        """Return the text between `[[` and `]]` with the new target."""
        new, target = _NAME.sub(stem, old, count=1), link_target(old)
        return new if "|" in old or stem_short_id(target) else f"{new}|{target}"

    return _replace_links(
        content,
        names,
        wiki=lambda old: f"[[{inside(old)}]]",
        markdown=lambda text, target: f"[{text}]({quote(link_target(inside(target)))}.md)",
    )


def unlink(content: str, names: Collection[str], word: str) -> str:
    """Return the text with all links to one of `names` replaced by plain text. It is the link's alias, or else its
    target. If the target is a file name with a short id, it is `word`."""

    def plain(old: str) -> str:
        """Return the plain text for the text between `[[` and `]]`."""
        target = link_target(old)
        return old.partition("|")[2].strip() or (word if stem_short_id(target) else target)

    return _replace_links(content, names, wiki=plain, markdown=lambda text, _: text)


def _replace_links(
    content: str, names: Collection[str], *, wiki: Callable[[str], str], markdown: Callable[[str, str], str]
) -> str:
    """Return the text with all links to one of `names` replaced. `wiki`: text between `[[` and `]]` -> replacement of
    the wikilink. `markdown`: (text, target) -> replacement of the markdown link."""

    def wikilink(found: re.Match[str]) -> str:
        return wiki(found[1]) if link_target(found[1]) in names else found[0]

    def markdown_link(found: re.Match[str]) -> str:
        target = linked_note(found)
        return markdown(found["text"], target) if target in names else found[0]

    return LINK.sub(markdown_link, _WIKILINK.sub(wikilink, content)) if names else content


# Changing the text

_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")


def body_change(text: str, body: int, content: str) -> tuple[int, int, str]:
    """Return (start, end, new text): the part of `text` to replace so that the file's content becomes `content`.
    `text`: the whole file; `body`: the position where its body begins. Unchanged lines keep their line ends."""
    eol = dominant_eol(text)
    start, end = (body + at for at in core_span(text[body:]))
    if start == end:
        gap = "" if text.endswith(("\n", "\r")) else eol
        return len(text), len(text), gap + content.replace("\n", eol) + eol
    if not content:
        return start, len(text), ""
    old = _LINE.findall(text, start, end)
    lines = content.split("\n")
    ends = [eol] * len(lines)
    if any(mark not in {eol, ""} for _, mark in old):
        for old_at, new_at, size in matching_blocks([line for line, _ in old], lines):
            ends[new_at : new_at + size] = [mark or eol for _, mark in old[old_at : old_at + size]]
    ends[-1] = ""
    return start, end, "".join(line + mark for line, mark in zip(lines, ends, strict=True))
