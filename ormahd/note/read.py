"""Bytes to a note. Any bytes: what cannot be read is said in the note's problems, never raised."""

from __future__ import annotations

import codecs
import hashlib
import re
from pathlib import PurePosixPath
from typing import Any

from ormahd.model.node import MAX_CONTENT, MAX_TITLE, EdgeType, NodeType, Tier, is_node_id
from ormahd.note.fields import FIELD_KEYS, OWN, one_line
from ormahd.note.frontmatter import Frontmatter, FrontmatterError, read
from ormahd.note.heads import is_template, other_head
from ormahd.note.links import NO_DETAIL, NoteReader
from ormahd.note.markdown import body_links, conflict_line, normalise
from ormahd.note.naming import file_title, folder_says, stem_short_id
from ormahd.note.times import named_time
from ormahd.note.values import DEFAULT_SOURCE, Note, NoteKind, NoteLink, Problem, edge_key

MAX_NOTE = 10 * 1024 * 1024
"""Bytes. Beyond it a file is an attachment that happens to end in `.md`."""
KEPT = MAX_CONTENT
"""Characters of an unreadable file that stay findable as plain text."""

_ID_LINE = re.compile(r"^(?:ormah_)?id:[ \t]*[\"']?([0-9a-fA-F-]{36})[\"']?[ \t]*\r?$", re.MULTILINE)
_TITLE_LINE = re.compile(r"^title:[ \t]+([^\[{|>&*!#\r\n][^\r\n]*)", re.MULTILINE)
KNOWN = frozenset([*map(str, EdgeType), "edges", "aliases", *(own + key for key in FIELD_KEYS for own in ("", OWN))])
"""Keys that mean something to us."""


_TEMPLATE = Problem("info", "it is a template: its frontmatter holds placeholders", None, "nothing to do")


def digest(data: bytes) -> str:
    """sha256 in hex: what `expect` and the index compare."""
    return hashlib.sha256(data).hexdigest()


def parse(data: bytes, path: str) -> Note:
    """Read a file of the vault; `path` (posix, relative) gives type and space where the frontmatter has none."""
    mark = digest(data)
    if len(data) > MAX_NOTE:
        problem = Problem("error", f"the file is too large: {len(data) / 1e6:.0f} MB, at most 10 are read", None,
                          "divide it, or keep it outside of the vault")  # fmt: skip
        return _unreadable(path, mark, _head(data), problem)
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        problem = Problem("error", f"the file is not UTF-8 (byte 0x{data[exc.start]:02x})",
                          data.count(b"\n", 0, exc.start) + 1, "save it as UTF-8")  # fmt: skip
        return _unreadable(path, mark, _head(data), problem)
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
    """A text without a YAML block; another tool's head is read for what it says."""
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
    }
    links = _links(reader, content)
    problems = tuple(sorted(reader.problems, key=lambda problem: problem.line or 0))
    kind, problems = _kind(block, node_id, problems)
    return Note(path, kind, mark, id=node_id, links=links, content=content, problems=problems,
                taken=tuple(reader.taken), **fields)  # fmt: skip


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
    """The properties' edges, then the body's, without those that a property names: a note has every edge once."""
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
    """The title that a head gives which cannot be read as a whole; else the file's name."""
    found = _TITLE_LINE.search(text[:20_000])
    return (one_line(found[1].strip("\"' ")) if found else "")[:MAX_TITLE] or file_title(path)


def _head(data: bytes) -> str:
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data[: KEPT * 4].decode("utf-16" if wide else "utf-8", errors="replace")[:KEPT].replace("\0", "\ufffd")


def _find_id(text: str) -> str | None:
    found = [(not line[0].startswith(OWN), line[1].lower()) for line in _ID_LINE.finditer(text[:20_000])]
    return next((node_id for _, node_id in sorted(found) if is_node_id(node_id)), None)
