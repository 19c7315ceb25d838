"""Parse the bytes of a file into a note. Never raises: problems are listed in the note."""

from __future__ import annotations

import codecs
import hashlib
import re
from pathlib import PurePosixPath
from typing import Any

from ormahd.model.node import MAX_CONTENT, MAX_TITLE, EdgeType, NodeType, Tier, is_node_id
from ormahd.note.fields import (
    FIELD_KEYS,
    NO_DETAIL,
    OWN,
    NoteReader,
    named_time,
    one_line,
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
"""Maximum number of characters of a frontmatter that are searched for placeholders."""

_FRONT = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_PLACEHOLDER = re.compile(r"<%.*?%>|\{\{[^{}\n]+\}\}", re.DOTALL)
"""Placeholders of Obsidian's plug-ins for templates: Templater, the core plug-ins and QuickAdd."""


def is_template(text: str) -> bool:
    """Whether the frontmatter contains placeholders that a plug-in fills in."""
    found = _FRONT.match(text, 0, MAX_HEAD)
    return found is not None and _PLACEHOLDER.search(found[1]) is not None


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
        return _without_fields(text.removeprefix("\ufeff"), path, mark, kind, space)
    return _read(block, path, mark, kind, space)


def _without_fields(text: str, path: str, mark: str, kind_by_folder: NodeType, space_by_folder: str | None) -> Note:
    """Return the note of a text that has no frontmatter, or one without keys."""
    content = normalise(text)
    return Note(path, NoteKind.BARE, mark, type=kind_by_folder, space=space_by_folder, title=file_title(path),
                created=named_time(PurePosixPath(path).name), content=content, links=_links(None, content))  # fmt: skip


def _read(block: Frontmatter, path: str, mark: str, kind_by_folder: NodeType, space_by_folder: str | None) -> Note:
    if not block.pairs:
        return _without_fields(block.text[block.body :], path, mark, kind_by_folder, space_by_folder)
    content = normalise(block.text[block.body :])
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
        "title": reader.title() or file_title(path),
        "tags": tuple(dict.fromkeys(tag for tag, *_ in reader.tags())),
        "source": one_line(reader.prose("source") or DEFAULT_SOURCE),
        "confidence": reader.confidence(),
        "created": reader.moment("created") or named_time(PurePosixPath(path).name),
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
