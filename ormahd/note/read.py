"""Parse the bytes of a file into a note. Never raises: problems are listed in the note."""

from __future__ import annotations

import codecs
import hashlib
import re

from msgspec.structs import replace

from ormahd.model.node import MAX_CONTENT, MAX_TITLE, EdgeType, NodeType, is_node_id
from ormahd.note.fields import KNOWN, OWN, NoteReader, named_time, one_line
from ormahd.note.frontmatter import Frontmatter, FrontmatterError, read
from ormahd.note.markdown import body_links, conflict_line, normalise
from ormahd.note.values import Note, NoteKind, NoteLink, Problem, file_title, folder_says, stem_short_id

MAX_HEAD = 100_000
"""Maximum number of characters of a frontmatter that are searched for placeholders."""

_FRONT = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_PLACEHOLDER = re.compile(r"<%.*?%>|\{\{[^{}\n]+\}\}", re.DOTALL)
"""Placeholders of Obsidian's plug-ins for templates: Templater, the core plug-ins and QuickAdd."""


def is_template(text: str) -> bool:
    """Return whether the frontmatter contains placeholders that a plug-in fills in."""
    found = _FRONT.match(text, 0, MAX_HEAD)
    return found is not None and _PLACEHOLDER.search(found[1]) is not None


MAX_NOTE = 10 * 1024 * 1024
"""Maximum number of bytes of a note. A larger file is `broken`: only its beginning is indexed."""
UNREADABLE_CHARACTERS = MAX_CONTENT
"""Maximum number of characters of an unreadable file that are indexed."""

_ID_LINE = re.compile(r"^(?:ormah_)?id:[ \t]*[\"']?([0-9a-fA-F-]{36})[\"']?[ \t]*\r?$", re.MULTILINE)
_TITLE_LINE = re.compile(r"^title:[ \t]+([^\[{|>&*!#\r\n][^\r\n]*)", re.MULTILINE)
_TEMPLATE = Problem("info", "it is a template: its frontmatter holds placeholders", None, "nothing to do")


def digest(data: bytes) -> str:
    """Return the sha256 of a file's bytes in hex, used to detect changes."""
    return hashlib.sha256(data).hexdigest()


def note_by_path(path: str, kind: NoteKind, mark: str) -> Note:
    """Return a note with only the values that its folders and file name imply. They are used where the frontmatter has
    none. `mark`: the file's digest."""
    type_by_folder, space = folder_says(path)
    created = named_time(path.rpartition("/")[2])
    return Note(
        path, kind, mark, type=type_by_folder or NodeType.FACT, space=space, title=file_title(path), created=created
    )


def parse(data: bytes, path: str) -> Note:
    """Return the note that a file's bytes contain. `path` (posix, relative to the vault) provides type and space if the
    frontmatter has none."""
    # Files that cannot be read as text, or hold a conflict.
    mark = digest(data)
    if len(data) > MAX_NOTE:
        what = f"the file is too large: {len(data) / 1e6:.0f} MB, at most 10 are read"
        problem = Problem("error", what, None, "divide it, or keep it outside of the vault")
        return _broken_note(path, mark, _decoded_head(data), problem)
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        line, what = data.count(b"\n", 0, exc.start) + 1, f"the file is not UTF-8 (byte 0x{data[exc.start]:02x})"
        return _broken_note(path, mark, _decoded_head(data), Problem("error", what, line, "save it as UTF-8"))
    if "\0" in text:
        line, mend = text.count("\n", 0, text.index("\0")) + 1, "remove it, or keep the file outside of the vault"
        problem = Problem("error", "the file holds a NUL byte", line, mend)
        return _broken_note(path, mark, text.replace("\0", "\ufffd"), problem)
    conflict = conflict_line(text)
    if conflict is not None:
        mend = "keep one side and remove the lines <<<<<<<, ======= and >>>>>>>"
        problem = Problem("error", "a merge conflict is not resolved", conflict, mend)
        content = text[:UNREADABLE_CHARACTERS]
        return Note(path, NoteKind.CONFLICTED, mark, id=_find_id(text), content=content, problems=(problem,))

    # The frontmatter: its YAML, and the note with the values that path and file name imply.
    try:
        block = read(text)
    except FrontmatterError as exc:
        if is_template(text) and _find_id(text) is None:
            content = normalise(text[:UNREADABLE_CHARACTERS])
            return Note(path, NoteKind.APART, mark, content=content, problems=(_TEMPLATE,))
        line = text.count("\n", 0, exc.index) + 1
        return _broken_note(path, mark, text, Problem("error", exc.what, line, exc.mend))
    content = normalise(text.removeprefix("\ufeff") if block is None else text[block.body :])
    note = note_by_path(path, NoteKind.BARE, mark)
    if block is None or not block.pairs:
        return replace(note, content=content, links=_links(None, content))

    # The fields and links of the frontmatter.
    reader = NoteReader(block)
    for key, node in block.twice.items():
        if key in KNOWN:
            reader.warn(f"{key} stands twice in the frontmatter, the last one counts", node, "keep one of the two")
    node_id = reader.field("id", reader.node_id, None, quiet=True)
    fields, links = reader.fields(note), _links(reader, content)
    kind, problems = _kind(block, node_id, tuple(sorted(reader.problems, key=lambda problem: problem.line or 0)))
    return replace(
        note,
        kind=kind,
        id=node_id,
        links=links,
        content=content,
        problems=problems,
        taken=tuple(reader.taken),
        **fields,
    )


def _kind(
    block: Frontmatter, node_id: str | None, problems: tuple[Problem, ...]
) -> tuple[NoteKind, tuple[Problem, ...]]:
    """Return (the kind of a readable file, its problems). `node_id`: the id in its frontmatter; `problems`: those found
    so far."""
    if "excalidraw-plugin" in block.pairs:
        return NoteKind.APART, (Problem("info", "it is a drawing (Excalidraw)", None, "nothing to do"),)
    if node_id:
        return NoteKind.NOTE, problems
    if is_template(block.text):
        return NoteKind.APART, (_TEMPLATE,)
    if "kanban-plugin" in block.pairs:
        what = "it is a board (Kanban), which its plug-in writes: nothing is written into it"
        return NoteKind.FOREIGN, (Problem("info", what, None, "nothing to do"),)
    return NoteKind.BARE, problems


def _links(reader: NoteReader | None, content: str) -> tuple[NoteLink, ...]:
    """Return the edges of the properties, then the links of the body that no property contains."""
    out = [] if reader is None else reader.links()
    details = {} if reader is None else reader.details
    known = {stem_short_id(link.target) or link.target.casefold() for link in out}
    # The links of the body, with details that stand under `edges`.
    for target in body_links(content):
        name = stem_short_id(target) or target.casefold()
        if name not in known:
            known.add(name)
            link = NoteLink(EdgeType.RELATED_TO, target, body=True)
            out.append(replace(details.get(link.key, link), target=target, body=True))

    # Warn of details that belong to no link.
    if reader is not None and details:
        unused = details.keys() - {link.key for link in out}
        for key, node, _ in reader.detail_nodes() if unused else ():
            if key in unused:
                mend = f"add the link to {key.partition(':')[0]}, or remove the line"
                reader.warn(f"{key} stands under edges, but the note has no such link", node, mend)
    return tuple(out)


def _broken_note(path: str, mark: str, text: str, problem: Problem) -> Note:
    """Return the note for an unreadable file, with the id and the title that its lines seem to have."""
    head = text[:UNREADABLE_CHARACTERS]
    note = note_by_path(path, NoteKind.BROKEN, mark)
    found = _TITLE_LINE.search(head[:20_000])
    title = (one_line(found[1].strip("\"' ")) if found else "")[:MAX_TITLE]
    content = normalise(head.removeprefix("\ufeff"))
    return replace(note, id=_find_id(head), title=title or note.title, content=content, problems=(problem,))


def _decoded_head(data: bytes) -> str:
    """Return the beginning of an unreadable file as text, with replacement characters where it cannot be decoded."""
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = data[: UNREADABLE_CHARACTERS * 4].decode("utf-16" if wide else "utf-8", errors="replace")
    return text[:UNREADABLE_CHARACTERS].replace("\0", "\ufffd")


def _find_id(text: str) -> str | None:
    """Return the id in an unreadable text: that of a line `ormah_id:` rather than `id:`; None if there is none."""
    found = [(not line[0].startswith(OWN), line[1].lower()) for line in _ID_LINE.finditer(text[:20_000])]
    return next((node_id for _, node_id in sorted(found) if is_node_id(node_id)), None)
