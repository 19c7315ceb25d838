"""Write files into the index's tables: a batch of new, changed and removed files in one transaction.

The resulting rows depend only on the files, not on the order of changes: an index that followed every change equals one
built at once from the same files. A property test checks this.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import uuid
from collections.abc import Collection, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ormahd.index import links
from ormahd.index.history import first_path
from ormahd.index.rows import NO_ACTS, Acts, micros
from ormahd.index.words import WORDS, Columns, text_columns
from ormahd.model.change import FileState
from ormahd.model.node import NoteStanding
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind
from ormahd.process import sql
from ormahd.text.bearing import bearing
from ormahd.text.quoting import indexed_text
from ormahd.text.words import fts_text

NODES = frozenset({NoteKind.NOTE, NoteKind.SOURCE, NoteKind.BROKEN})
"""Kinds of files that are memories. A file that cannot be read as a note is a memory too, with its whole text as
content."""
PLACES = uuid.UUID("6f726d61-6820-4b69-a463-650000000001")
"""UUID namespace for ids derived from a path, for notes whose id cannot be read."""


class ParsedFile(Struct, frozen=True):
    """A parsed file, ready to be stored. `words`: its texts for the full text table; `same`: its `fingerprint`;
    `created`, `updated`: microseconds since 1970; `blob`: the id of its blob in git."""

    path: str
    state: FileState
    note: Note
    words: Columns
    same: int
    created: int
    updated: int
    blob: str

    @property
    def claims(self) -> str | None:
        """The id that makes this file a node; None if it is no memory."""
        return self.note.id if self.note.kind in NODES else None


def entry(path: str, data: bytes, state: FileState, *, note: Note | None = None, blob: str | None = None) -> ParsedFile:
    """Return a file as parsed, ready to be stored. `note`, `blob`: the parsed note and the file's blob id in git, if
    the caller has them.

    This needs no database, so it runs outside the writer's lock.
    """
    note = as_indexed(note or parse(data, path))
    if note.kind in NODES:
        words = text_columns(note)
    else:  # the title of a file that is no node is its path
        words = fts_text(path.removesuffix(".md")), fts_text(indexed_text(note.content)), "", ""
    # A note without dates (a person removed the line) is as old as its file.
    created = note.created or note.updated
    started = state.mtime_ns // 1000 if created is None else micros(created)
    updated = started if note.updated is None else micros(note.updated)
    same = fingerprint(note.space, note.type, note.title, note.content)
    if blob is None:
        blob = "" if path.startswith("/") else git_blob(data)  # a section of a source is in no repository
    return ParsedFile(
        path=path, state=state, note=note, words=words, same=same, created=started, updated=updated, blob=blob
    )


def as_indexed(note: Note) -> Note:
    """Return the note. If it cannot be read and has no id, return it with an id that is derived from its path."""
    if note.kind is NoteKind.BROKEN and note.id is None:
        return replace(note, id=str(uuid.uuid5(PLACES, note.path)))
    return note


_COPIED = ("tier", "type", "space", "title", "source", "confidence", "outdated_reason", "said_in")
PROPERTIES = (*_COPIED, "tags", "aliases", "valid_until", "acts")
"""Columns of table `node` that follow from a note alone. A note without dates gets those of its file."""


def properties(note: Note) -> tuple[object, ...]:
    """Return the values of the columns `PROPERTIES` for a note."""
    tags, aliases = (json.dumps(names, ensure_ascii=False) for names in (note.tags, note.aliases))
    until = None if note.valid_until is None else micros(note.valid_until)
    return *(getattr(note, name) for name in _COPIED), tags, aliases, until, acts_json(note)


def acts_json(note: Note) -> str | None:
    """Return what a note says of actions, as JSON (`Acts`); None if it says nothing.

    None also for a section of a source: texts for readers name too many commands.
    """
    if note.kind is NoteKind.SOURCE:
        return None
    rejected = note.standing is NoteStanding.REJECTED
    about = bearing(note.title, note.content, note.type, rejected=rejected)
    found = Acts(
        because=note.because or "" if rejected else None,
        guard=note.guard,
        paths=note.paths,
        commands=note.commands,
        files=about.files,
        patterns=about.commands,
        things=about.things,
        evidence=note.evidence,
    )
    return None if found == NO_ACTS else msgspec.json.encode(found).decode()


def git_blob(data: bytes) -> str:
    """Return the blob id of these bytes in a repository with git's SHA-1 object format."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def fingerprint(space: str | None, kind: str, title: str | None, content: str) -> int:
    """Return a 64-bit hash of space, type, title and content. Memories that are equal in all four have the same
    hash."""
    joined = "\x1f".join((space or "", kind, title or "", content))
    return int.from_bytes(hashlib.blake2b(joined.encode(errors="replace"), digest_size=8).digest(), "big", signed=True)


def store(connection: sqlite3.Connection, entries: Sequence[ParsedFile], removals: Collection[str]) -> set[str]:
    """Write a batch of files into the tables, and remove the files `removals` (paths). Return the ids of all nodes that
    may have been added, changed or removed.

    If several files have the same id, this also chooses which of them is its node. Links that may lead to another node
    are resolved again.
    """
    # Find what the change may affect: ids, links by name, rows.
    entries = _without_conflicted(connection, entries)
    old = _known_rows(connection, [*removals, *(entry.path for entry in entries)])
    # Any file that claims one of these ids may become or stop being the node, also a file outside of this batch.
    affected = {node_id for _, node_id in old.values() if node_id} | {entry.claims for entry in entries if entry.claims}
    keys = links.keys_of(connection, _rows_with_ids(connection, affected), affected)
    numbers = [number for number, _ in old.values()]

    # Delete the rows of changed and removed files. Words that did not change are kept: most changes by jobs are to a
    # note's frontmatter (tier, space, link).
    words = {(old[entry.path][0], *entry.words) for entry in entries if entry.path in old}
    same: set[int] = set()
    for chunk in sql.sets(numbers):
        rest = f"FROM words WHERE rowid IN ({sql.marks(chunk)})"
        same |= {row[0] for row in sql.table(connection, WORDS.split(", "), rest, chunk) if tuple(row) in words}
    sql.among(connection, "DELETE FROM words WHERE rowid IN", [number for number in numbers if number not in same])
    for table in ("text", "node", "tag", "name", "edge"):
        sql.among(connection, f"DELETE FROM {table} WHERE number IN", numbers)
    sql.among(connection, "DELETE FROM file WHERE path IN", list(removals))

    # Insert the new rows, choose the nodes, and resolve the links.
    numbers = _insert(connection, entries, old, same)
    _choose_nodes(connection, affected)
    keys |= links.keys_of(connection, _rows_with_ids(connection, affected), ())
    links.resolve_again(connection, keys, numbers)
    return affected


def _without_conflicted(connection: sqlite3.Connection, entries: Sequence[ParsedFile]) -> list[ParsedFile]:
    """Return the entries without conflict markers. For the others, only the new state of the file is stored (size,
    mtime, inode, digest). The index keeps the rest from the file's last version without markers."""
    usable = []
    for entry in entries:
        if entry.note.kind is NoteKind.CONFLICTED:
            connection.execute(
                "UPDATE file SET size = ?, mtime_ns = ?, inode = ?, digest = ? WHERE path = ?",
                (entry.state.size, entry.state.mtime_ns, entry.state.inode, entry.state.digest, entry.path),
            )
        else:
            usable.append(entry)
    return usable


def _known_rows(connection: sqlite3.Connection, paths: Sequence[str]) -> dict[str, tuple[int, str | None]]:
    """Return {path: (row number, id of the memory or None)} for those of `paths` that are indexed."""
    found: dict[str, tuple[int, str | None]] = {}
    for chunk in sql.sets(paths):
        rest = f"FROM file WHERE path IN ({sql.marks(chunk)})"
        rows = sql.table(connection, ("path", "number", "node_id"), rest, chunk)
        found |= {path: (number, node_id) for path, number, node_id in rows}
    return found


def _rows_with_ids(connection: sqlite3.Connection, ids: Collection[str]) -> list[int]:
    """Return the row numbers of the files that have one of `ids` as their id."""
    found: list[int] = []
    for chunk in sql.sets(sorted(ids)):
        (numbers,) = sql.columns(connection, ("number",), f"FROM file WHERE node_id IN ({sql.marks(chunk)})", chunk)
        found += map(int, numbers)
    return found


def _insert(
    connection: sqlite3.Connection,
    entries: Sequence[ParsedFile],
    old: Mapping[str, tuple[int, str | None]],
    same: Collection[int],
) -> list[int]:
    """Insert all rows of these files and return their numbers. No file is the node of its id yet (`held` is 0).

    `old`: path -> (row number, id) of files that were indexed before; `same`: numbers of files whose words are in the
    full text table already.
    """
    numbers: list[int] = []
    bodies, words, nodes, tags = [], [], [], []
    free = connection.execute("SELECT coalesce(max(number), 0) FROM file").fetchone()[0]
    files = []
    linked: list[tuple[int, Note]] = []

    # Collect the rows of each table.
    for entry in entries:
        if entry.path in old:
            number = old[entry.path][0]
        else:
            free = number = free + 1
        numbers.append(number)
        state, note = entry.state, entry.note
        seen = (state.size, state.mtime_ns, state.inode, state.digest)
        files.append((number, entry.path, *seen, note.kind, entry.claims, entry.blob))
        bodies.append((number, note.content))
        if number not in same:
            words.append((number, *entry.words))
        if entry.claims is None:
            continue
        nodes.append((number, note.id, 0, entry.created, entry.updated, note.digest, entry.same, *properties(note)))
        tags += [(tag, number) for tag in {tag.casefold() for tag in note.tags}]
        linked.append((number, note))

    # Insert them, table by table.
    sql.put(connection, "INSERT OR REPLACE INTO file", files)
    sql.put(connection, "INSERT INTO text", bodies)
    sql.put(connection, f"INSERT INTO words ({WORDS})", words)
    columns = ("number", "id", "held", "created", "updated", "digest", "same", *PROPERTIES)
    sql.put(connection, f"INSERT INTO node ({', '.join(columns)})", nodes)
    sql.put(connection, "INSERT INTO tag", tags)
    links.put(connection, linked)
    return numbers


def _choose_nodes(connection: sqlite3.Connection, ids: Collection[str]) -> None:
    """Choose the node of each id among the files that have it: the file that had the id first, as the history or else
    the dates say (DESIGN section 12)."""
    claims: dict[str, list[tuple[int, str, int, int]]] = {}  # id -> (number, path, created, held) of each file
    for chunk in sql.sets(sorted(ids)):
        columns = ("id", "number", "path", "created", "held")
        rest = f"FROM file JOIN node USING (number) WHERE node_id IN ({sql.marks(chunk)})"
        for node_id, number, path, created, held in sql.table(connection, columns, rest, chunk):
            claims.setdefault(node_id, []).append((number, path, created, held))
    lost, won = [], []
    for node_id, files in claims.items():
        chosen = files[0]
        if len(files) > 1:
            # Without a history: the older note, then the shorter path ("note.md" before "note copy.md").
            files.sort(key=lambda file: (file[2], len(file[1]), file[1]))
            path = first_path(connection, node_id, [file[1] for file in files])
            chosen = next((file for file in files if file[1] == path), files[0])
        lost += [file[0] for file in files if file[3] and file is not chosen]
        won += [] if chosen[3] else [chosen[0]]
    sql.among(connection, "UPDATE node SET held = 0 WHERE number IN", lost)  # first: one holder at a time
    sql.among(connection, "UPDATE node SET held = 1 WHERE number IN", won)
