"""Bytes to a note. Any bytes: what cannot be read is said in the note's problems, never raised."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from ormahd.core.frontmatter import Frontmatter, FrontmatterError, is_null, read
from ormahd.core.markdown import body_links, conflict_line, normalise
from ormahd.core.naming import folder_says, stem_short_id
from ormahd.core.node import MAX_CONTENT, EdgeType, NodeType, Tier, is_node_id
from ormahd.core.note_fields import Wrong, one_line
from ormahd.core.note_links import NO_DETAIL, NoteReader
from ormahd.core.note_values import DEFAULT_SOURCE, Link, Note, NoteKind, Problem, edge_key

MAX_NOTE = 10 * 1024 * 1024
"""Bytes. Beyond it a file is an attachment that happens to end in `.md`."""
KEPT = MAX_CONTENT
"""Characters of an unreadable file that stay findable as plain text."""

_ID_LINE = re.compile(r"^id:[ \t]*[\"']?([0-9a-fA-F-]{36})[\"']?[ \t]*\r?$", re.MULTILINE)
_TYPES = frozenset(map(str, NodeType))


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
        line = text.count("\n", 0, exc.index) + 1
        return _unreadable(path, mark, text, Problem("error", exc.what, line, exc.mend))
    kind, space = folder_says(path)
    if block is None:
        content = normalise(text.removeprefix("\ufeff"))
        return Note(path, NoteKind.BARE, mark, type=kind or NodeType.FACT, space=space, content=content,
                    links=_links(None, content))  # fmt: skip
    return _read(block, path, mark, kind or NodeType.FACT, space)


def _read(block: Frontmatter, path: str, mark: str, kind_by_folder: NodeType, space_by_folder: str | None) -> Note:
    content = normalise(block.text[block.body :])
    if not block.pairs:
        return Note(path, NoteKind.BARE, mark, type=kind_by_folder, space=space_by_folder, content=content,
                    links=_links(None, content))  # fmt: skip
    reader = NoteReader(block)
    node_id, foreign = _identity(reader)
    pairs = block.pairs
    fields: dict[str, Any] = {
        "type": kind_by_folder if foreign else reader.choice("type", NodeType, kind_by_folder),
        "tier": reader.choice("tier", Tier, Tier.WORKING) if "tier" in pairs else Tier.WORKING,
        "space": reader.space(space_by_folder),
        "everywhere": "global" in pairs and reader.flag("global"),
        "title": reader.title(),
        "tags": tuple(dict.fromkeys(tag for tag, *_ in reader.tags())),
        "source": one_line(reader.prose("source") or DEFAULT_SOURCE),
        "confidence": reader.confidence(),
        "created": reader.moment("created"),
        "updated": reader.moment("updated"),
        "valid_until": reader.moment("valid_until"),
        "outdated_reason": reader.prose("outdated_reason") if "outdated_reason" in pairs else None,
        "aliases": reader.aliases() if "aliases" in pairs else (),
    }
    if foreign:
        return Note(path, NoteKind.FOREIGN, mark, id=node_id, content=content, problems=(foreign,), **fields)
    links = _links(reader, content)
    problems = tuple(sorted(reader.problems, key=lambda problem: problem.line or 0))
    if any(problem.level == "error" for problem in problems):
        return Note(path, NoteKind.BROKEN, mark, id=node_id, content=content, problems=problems, **fields)
    kind = NoteKind.NOTE if node_id else NoteKind.BARE
    return Note(path, kind, mark, id=node_id, links=links, content=content, problems=problems, **fields)


def _links(reader: NoteReader | None, content: str) -> tuple[Link, ...]:
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
                out.append(Link(EdgeType.RELATED_TO, target, *details.get(key, NO_DETAIL), body=True))
    if reader is not None and details:
        reader.warn_of_unused(details.keys() - {link.key for link in out})
    return tuple(out)


def _identity(reader: NoteReader) -> tuple[str | None, Problem | None]:
    """The id, and what makes the note somebody else's."""
    block = reader.block
    try:
        written = reader.text("id", block.get("id"))
        node_id = None if written is None else written.strip().lower()
        if node_id is not None and not is_node_id(node_id):
            return None, _foreign(reader, "id", "is not one of ours")
    except Wrong:
        return None, _foreign(reader, "id", "is not one of ours")
    node = block.get("type")
    if node is None or is_null(node):
        return node_id, None
    try:
        written = reader.text("type", node)
    except Wrong:
        written = ""
    if written is not None and written.strip().lower() not in _TYPES:
        return node_id, _foreign(reader, "type", "is none of ours")
    return node_id, None


def _foreign(reader: NoteReader, key: str, what: str) -> Problem:
    node = reader.block.pairs[key][1]
    return Problem("info", f"{key} {reader.shown(node)} {what}: the note is kept as plain text",
                   reader.line(node.start_mark.index),
                   "nothing to do; to make it a memory, "
                   + ("remove the line" if key == "id" else f"write one of {', '.join(NodeType)}"))  # fmt: skip


def _unreadable(path: str, mark: str, text: str, problem: Problem) -> Note:
    head = text[:KEPT]
    return Note(path, NoteKind.BROKEN, mark, id=_find_id(head), content=normalise(head.removeprefix("\ufeff")),
                problems=(problem,))  # fmt: skip


def _head(data: bytes) -> str:
    return data[: KEPT * 4].decode(errors="replace")[:KEPT].replace("\0", "\ufffd")


def _find_id(text: str) -> str | None:
    found = _ID_LINE.search(text[:20_000])
    node_id = found.group(1).lower() if found else None
    return node_id if node_id and is_node_id(node_id) else None
