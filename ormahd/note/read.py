"""Parse the bytes of a file into a note. Never raises: problems are listed in the note."""

from __future__ import annotations

import codecs
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from ormahd.model.node import MAX_CONTENT, MAX_TITLE, EdgeType, NodeType, Tier, is_node_id
from ormahd.note.fields import (
    FIELD_KEYS,
    NO_DETAIL,
    OWN,
    NoteReader,
    as_utc,
    clean_tag,
    named_time,
    one_line,
    read_time,
)
from ormahd.note.frontmatter import Frontmatter, FrontmatterError, read
from ormahd.note.markdown import body_links, conflict_line, normalise
from ormahd.note.values import (
    DEFAULT_SOURCE,
    SAID_IN,
    Note,
    NoteKind,
    NoteLink,
    Problem,
    edge_key,
    file_title,
    folder_says,
    stem_short_id,
)

MAX_HEAD = 100_000
"""Maximum number of characters of another tool's head that are read."""

_TOML = re.compile(r"\+\+\+[ \t]*\r?\n(.*?)^\+\+\+[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)
_TOML_OPEN = re.compile(r"\+\+\+[ \t]*\r?\n(?:[ \t]*(?:[\w.\"'-]+[ \t]*=.*|\[.*|#.*)?(?:\r?\n|\Z))+")
"""An unclosed TOML head: the lines that can be TOML."""
_JSON_OPEN = re.compile(r"""\{\s*"[^"\n]*"\s*:""")
_LOGSEQ = re.compile(r"(?:[\w./-]+::[ \t].*(?:\r?\n|\Z))+")
_PROPERTY = re.compile(r"([\w./-]+)::[ \t]+(.*?)\r?$", re.MULTILINE)
_FENCED = re.compile(r"(---[a-z]+|;;;)[ \t]*\r?\n(.*?)^(?:---|;;;)[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)
"""A head that names its language after the opening dashes (`---json`), or JSON between lines of semicolons; gray-matter
and Eleventy accept these."""
_ORG = re.compile(r"(?::PROPERTIES:[ \t]*\r?\n(?:.*\r?\n)*?:END:[ \t]*(?:\r?\n|\Z))?(?:#\+\w+:.*(?:\r?\n|\Z))*")
_ORG_LINE = re.compile(r"^#\+(\w+):[ \t]*(.*?)\r?$", re.MULTILINE)
_METADATA = re.compile(r"(?i:title):[ \t]+\S.*\r?\n(?:[A-Za-z][\w -]*:.*(?:\r?\n|\Z)|[ \t]+\S.*(?:\r?\n|\Z))+")
_ZIM = re.compile(r"Content-Type: text/x-zim-wiki\r?\n(?:[\w-]+:.*(?:\r?\n|\Z))*")
_LABEL = re.compile(r"^([A-Za-z][\w -]*):[ \t]*(.*?)\r?$", re.MULTILINE)
_PANDOC = re.compile(r"(?:%[ \t].*(?:\r?\n|\Z)){1,3}")
_PROGRAM = re.compile(r"#![ \t]*/.*(?:\r?\n|\Z)")


_FRONT = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_PLACEHOLDER = re.compile(r"<%.*?%>|\{\{[^{}\n]+\}\}", re.DOTALL)
"""Placeholders of Obsidian's plug-ins for templates: Templater, the core plug-ins and QuickAdd."""


class ForeignHead(Struct, frozen=True):
    """What another tool wrote at the top of a file as its metadata: those of its fields that Ormah uses too. `tool`:
    name of the format, for messages. `end`: position of the first character after the head."""

    tool: str
    end: int
    title: str | None = None
    created: datetime | None = None
    tags: tuple[str, ...] = ()


def other_head(text: str) -> ForeignHead | None:
    """Return the head of another tool (Hugo, Logseq, Org, …) at the beginning of a text, even a damaged one; None if
    there is none."""
    begin = 1 if text.startswith("\ufeff") else 0
    return next((head for read in _READERS if (head := read(text, begin)) is not None), None)


def _toml(text: str, begin: int) -> ForeignHead | None:
    found = _TOML.match(text, begin, MAX_HEAD)
    if found is None:
        found = _TOML_OPEN.match(text, begin, MAX_HEAD)
        return None if found is None else ForeignHead("TOML (+++), not closed", found.end())
    values: Mapping[str, Any] = {}
    with suppress(ValueError, RecursionError):  # the person may repair it; the text is indexed anyway
        values = tomllib.loads(found[1].replace("\r\n", "\n"))
    return _head_of("TOML (+++)", found.end(), values)


def _json(text: str, begin: int) -> ForeignHead | None:
    if not text.startswith("{", begin):
        return None
    try:
        value, end = json.JSONDecoder().raw_decode(text[begin : begin + MAX_HEAD])
    except (ValueError, RecursionError):
        return ForeignHead("JSON, which cannot be read", begin) if _JSON_OPEN.match(text, begin, MAX_HEAD) else None
    return _head_of("JSON", begin + end, value)


def _fenced(text: str, begin: int) -> ForeignHead | None:
    found = _FENCED.match(text, begin, MAX_HEAD)
    return None if found is None else ForeignHead(f"{found[1]}, as gray-matter has it", found.end())


def _logseq(text: str, begin: int) -> ForeignHead | None:
    found = _LOGSEQ.match(text, begin, MAX_HEAD)
    return None if found is None else _head_of("Logseq's properties", found.end(), dict(_PROPERTY.findall(found[0])))


def _org(text: str, begin: int) -> ForeignHead | None:
    found = _ORG.match(text, begin, MAX_HEAD)
    if found is None or not found[0]:
        return None
    said = {key.lower(): value for key, value in _ORG_LINE.findall(found[0])}
    tags = [tag for tag in said.get("filetags", "").split(":") if tag]
    return _head_of("Org's", found.end(), {**said, "tags": tags, "date": said.get("date", "").strip("[]<>")})


def _metadata(text: str, begin: int) -> ForeignHead | None:
    for tool, pattern in (("MultiMarkdown's metadata", _METADATA), ("Zim's", _ZIM)):
        found = pattern.match(text, begin, MAX_HEAD)
        if found is not None:
            said = {key.lower(): value for key, value in _LABEL.findall(found[0])}
            return _head_of(tool, found.end(), said | {"created": said.get("creation-date")})
    return None


def _pandoc(text: str, begin: int) -> ForeignHead | None:
    found = _PANDOC.match(text, begin, MAX_HEAD)
    if found is None:
        return None
    title = found[0].splitlines()[0].removeprefix("%").strip()
    return _head_of("Pandoc's title block", found.end(), {"title": title})


def _program(text: str, begin: int) -> ForeignHead | None:
    found = _PROGRAM.match(text, begin, MAX_HEAD)
    return None if found is None else ForeignHead("the line that says which program runs it (#!)", found.end())


_READERS = (_toml, _json, _fenced, _logseq, _org, _metadata, _pandoc, _program)


def is_template(text: str) -> bool:
    """Whether the frontmatter contains placeholders that a plug-in fills in."""
    found = _FRONT.match(text, 0, MAX_HEAD)
    return found is not None and _PLACEHOLDER.search(found[1]) is not None


def _head_of(tool: str, end: int, values: Mapping[str, Any]) -> ForeignHead:
    title, tags = values.get("title"), values.get("tags")
    if isinstance(tags, str):
        tags = tags.split(",")
    listed = [clean_tag(tag.strip(" []")) for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    created = next(filter(None, (_time(values.get(key)) for key in ("created", "created-at", "date"))), None)
    return ForeignHead(
        tool,
        end,
        one_line(title)[:MAX_TITLE] or None if isinstance(title, str) else None,
        created,
        tuple(filter(None, listed)),
    )


def _time(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return as_utc(value)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    try:
        return read_time(value) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


MAX_NOTE = 10 * 1024 * 1024
"""Maximum number of bytes of a note. A larger file is `broken`: only its beginning is indexed."""
KEPT = MAX_CONTENT
"""Maximum number of characters of an unreadable file that are indexed."""

_ID_LINE = re.compile(r"^(?:ormah_)?id:[ \t]*[\"']?([0-9a-fA-F-]{36})[\"']?[ \t]*\r?$", re.MULTILINE)
_TITLE_LINE = re.compile(r"^title:[ \t]+([^\[{|>&*!#\r\n][^\r\n]*)", re.MULTILINE)
KNOWN = frozenset([*map(str, EdgeType), "edges", "aliases", *(own + key for key in FIELD_KEYS for own in ("", OWN))])
"""All frontmatter keys that Ormah uses."""


_TEMPLATE = Problem("info", "it is a template: its frontmatter holds placeholders", None, "nothing to do")


def digest(data: bytes) -> str:
    """Return the sha256 of a file's bytes in hex, used to detect changes."""
    return hashlib.sha256(data).hexdigest()


def parse(data: bytes, path: str) -> Note:
    """Parse a file's bytes into a note. `path` (posix, relative to the vault) provides type and space if the
    frontmatter has none."""
    mark = digest(data)
    if len(data) > MAX_NOTE:
        problem = Problem("error", f"the file is too large: {len(data) / 1e6:.0f} MB, at most 10 are read", None,
                          "divide it, or keep it outside of the vault")  # fmt: skip
        return _unreadable(path, mark, _decoded_head(data), problem)
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        problem = Problem("error", f"the file is not UTF-8 (byte 0x{data[exc.start]:02x})",
                          data.count(b"\n", 0, exc.start) + 1, "save it as UTF-8")  # fmt: skip
        return _unreadable(path, mark, _decoded_head(data), problem)
    if "\0" in text:
        problem = Problem("error", "the file holds a NUL byte", text.count("\n", 0, text.index("\0")) + 1,
                          "remove it, or keep the file outside of the vault")  # fmt: skip
        return _unreadable(path, mark, text.replace("\0", "\ufffd"), problem)
    conflict = conflict_line(text)
    if conflict is not None:
        problem = Problem("error", "a merge conflict is not resolved", conflict,
                          "keep one side and remove the lines <<<<<<<, ======= and >>>>>>>")  # fmt: skip
        return Note(path, NoteKind.CONFLICTED, mark, id=_find_id(text), content=text[:KEPT], problems=(problem,))
    try:
        block = read(text)
    except FrontmatterError as exc:
        if is_template(text) and _find_id(text) is None:
            return Note(path, NoteKind.APART, mark, content=normalise(text[:KEPT]), problems=(_TEMPLATE,))
        line = text.count("\n", 0, exc.index) + 1
        return _unreadable(path, mark, text, Problem("error", exc.what, line, exc.mend))
    kind, space = folder_says(path)
    kind = kind or NodeType.FACT
    if block is None:
        return _without_block(text.removeprefix("\ufeff"), path, mark, kind, space)
    return _read(block, path, mark, kind, space)


def _without_block(text: str, path: str, mark: str, kind_by_folder: NodeType, space_by_folder: str | None) -> Note:
    """Parse a text that has no YAML frontmatter. If it has another tool's head, the fields that Ormah uses are taken
    from it."""
    head = other_head(text)
    title, created = file_title(path), named_time(PurePosixPath(path).name)
    if head is None:
        content = normalise(text)
        return Note(path, NoteKind.BARE, mark, type=kind_by_folder, space=space_by_folder, title=title, created=created,
                    content=content, links=_links(None, content))  # fmt: skip
    content = normalise(text[head.end :])
    said = Problem("info", f"its head is {head.tool}, which must stay at the top: nothing is written into it", 1,
                   "nothing to do")  # fmt: skip
    return Note(path, NoteKind.FOREIGN, mark, type=kind_by_folder, space=space_by_folder, title=head.title or title,
                created=head.created or created, tags=head.tags, content=content, links=_links(None, content),
                problems=(said,))  # fmt: skip


def _read(block: Frontmatter, path: str, mark: str, kind_by_folder: NodeType, space_by_folder: str | None) -> Note:
    content = normalise(block.text[block.body :])
    title, named = file_title(path), named_time(PurePosixPath(path).name)
    if not block.pairs:
        return Note(path, NoteKind.BARE, mark, type=kind_by_folder, space=space_by_folder, title=title, created=named,
                    content=content, links=_links(None, content))  # fmt: skip
    reader = NoteReader(block)
    for key, node in block.twice.items():
        if key in KNOWN:
            reader.warn(f"{key} stands twice in the frontmatter, the last one counts", node, "keep one of the two")
    pairs = block.pairs
    node_id = reader.field("id", reader.node_id, None, quiet=True)
    fields: dict[str, Any] = {
        "type": reader.choice("type", NodeType, kind_by_folder, quiet=True),
        "tier": reader.choice("tier", Tier, Tier.WORKING),
        "space": reader.space(space_by_folder),
        "everywhere": "global" in pairs and reader.flag("global"),
        "title": reader.title() or title,
        "tags": tuple(dict.fromkeys(tag for tag, *_ in reader.tags())),
        "source": one_line(reader.prose("source") or DEFAULT_SOURCE),
        "confidence": reader.confidence(),
        "created": reader.moment("created") or named,
        "updated": reader.moment("updated"),
        "valid_until": reader.moment("valid_until"),
        "outdated_reason": reader.prose("outdated_reason"),
        "aliases": reader.aliases() if "aliases" in pairs else (),
        "said_in": _said_in(reader) if "from" in pairs else None,
    }
    links = _links(reader, content)
    problems = tuple(sorted(reader.problems, key=lambda problem: problem.line or 0))
    kind, problems = _kind(block, node_id, problems)
    return Note(path, kind, mark, id=node_id, links=links, content=content, problems=problems,
                taken=tuple(reader.taken), **fields)  # fmt: skip


def _said_in(reader: NoteReader) -> str | None:
    value = reader.prose("from")
    return value if value is not None and SAID_IN.fullmatch(value) else None


def _kind(
    block: Frontmatter, node_id: str | None, problems: tuple[Problem, ...]
) -> tuple[NoteKind, tuple[Problem, ...]]:
    if "excalidraw-plugin" in block.pairs:
        return NoteKind.APART, (Problem("info", "it is a drawing (Excalidraw)", None, "nothing to do"),)
    if node_id:
        return NoteKind.NOTE, problems
    if is_template(block.text):
        return NoteKind.APART, (_TEMPLATE,)
    if "kanban-plugin" in block.pairs:
        board = Problem(
            "info",
            "it is a board (Kanban), which its plug-in writes: nothing is written into it",
            None,
            "nothing to do",
        )
        return NoteKind.FOREIGN, (board,)
    return NoteKind.BARE, problems


def _links(reader: NoteReader | None, content: str) -> tuple[NoteLink, ...]:
    """Return the edges of the properties, then the links of the body that no property contains."""
    out = [] if reader is None else reader.links()
    targets = body_links(content)
    details = {} if reader is None else reader.details
    if targets:
        known = {stem_short_id(link.target) or link.target.casefold() for link in out}
        for target in targets:
            name = stem_short_id(target) or target.casefold()
            if name not in known:
                known.add(name)
                key = edge_key(EdgeType.RELATED_TO, target)
                out.append(NoteLink(EdgeType.RELATED_TO, target, *details.get(key, NO_DETAIL), body=True))
    if reader is not None and details:
        reader.warn_of_unused(details.keys() - {link.key for link in out})
    return tuple(out)


def _unreadable(path: str, mark: str, text: str, problem: Problem) -> Note:
    head = text[:KEPT]
    kind, space = folder_says(path)
    return Note(path, NoteKind.BROKEN, mark, id=_find_id(head), type=kind or NodeType.FACT, space=space, title=_find_title(head, path),
                created=named_time(PurePosixPath(path).name), content=normalise(head.removeprefix("\ufeff")),
                problems=(problem,))  # fmt: skip


def _find_title(text: str, path: str) -> str | None:
    """Return the title line of an unreadable file, otherwise the file's name."""
    found = _TITLE_LINE.search(text[:20_000])
    return (one_line(found[1].strip("\"' ")) if found else "")[:MAX_TITLE] or file_title(path)


def _decoded_head(data: bytes) -> str:
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data[: KEPT * 4].decode("utf-16" if wide else "utf-8", errors="replace")[:KEPT].replace("\0", "\ufffd")


def _find_id(text: str) -> str | None:
    found = [(not line[0].startswith(OWN), line[1].lower()) for line in _ID_LINE.finditer(text[:20_000])]
    return next((node_id for _, node_id in sorted(found) if is_node_id(node_id)), None)
