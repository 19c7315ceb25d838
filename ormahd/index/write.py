"""Write files into the index's tables: one batch of new, changed and removed files in one transaction.

The resulting rows depend only on the files, not on the order of changes: an index that followed every change equals one
built at once from the same files. A property test checks this.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ormahd.index import full_text, links
from ormahd.index.rows import micros
from ormahd.model.files import FileState
from ormahd.note.note import Note, NoteKind, parse
from ormahd.process import sql

NODES = frozenset({NoteKind.NOTE, NoteKind.INDEXED, NoteKind.BROKEN})
"""Kinds of files that are memories. A file that cannot be read as a note is a memory too, with its whole text as
content."""
PLACES = uuid.UUID("6f726d61-6820-4b69-a463-650000000001")
"""UUID namespace for ids derived from a path, for notes whose id cannot be read."""
FirstPath = Callable[[str, Sequence[str]], str | None]
"""Given an id and several paths of files that claim it, returns the path that had it first in git's history, or
None."""


class Entry(Struct, frozen=True):
    """A parsed file, ready to be stored."""

    path: str
    state: FileState
    note: Note
    words: tuple[str, str, str]
    same: int
    created: int
    updated: int
    blob: str

    @property
    def claims(self) -> str | None:
        """The id that makes this file a node; None if it is no memory."""
        return self.note.id if self.note.kind in NODES else None


def entry(path: str, data: bytes, state: FileState, blob: str, note: Note | None = None) -> Entry:
    """Parse a file into an Entry; `note`: the parsed note, if the caller has it. `blob`: the file's blob id in git.

    This needs no database, so it runs outside the writer's lock.
    """
    note = note or parse(data, path)
    if state.lent is not None and note.kind is not NoteKind.CONFLICTED:
        note = replace(note, kind=NoteKind.INDEXED, id=state.lent)
    elif note.kind is NoteKind.BROKEN and note.id is None:
        note = replace(note, id=str(uuid.uuid5(PLACES, path)))
    if state.space is not None and note.space is None and not note.everywhere:
        note = replace(note, space=state.space)
    if note.kind in NODES:
        words = full_text.columns(note.title, path, note.content, note.tags, note.aliases)
    else:
        words = full_text.plain_columns(path, note.content)
    # A note without dates (a person removed the line) is as old as its file.
    created = note.created or note.updated
    started = state.mtime_ns // 1000 if created is None else micros(created)
    updated = started if note.updated is None else micros(note.updated)
    same = fingerprint(note.space, note.type, note.title, note.content)
    return Entry(path, state, note, words, same, started, updated, blob)


def git_blob(data: bytes) -> str:
    """Return the blob id of these bytes in a repository with git's SHA-1 object format."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def fingerprint(space: str | None, kind: str, title: str | None, content: str) -> int:
    """Return a 64-bit hash of space, type, title and content. Memories that are equal in all four have the same
    hash."""
    joined = "\x1f".join((space or "", kind, title or "", content))
    return int.from_bytes(hashlib.blake2b(joined.encode(errors="replace"), digest_size=8).digest(), "big", signed=True)


class Stored(Struct, frozen=True):
    """What a batch changed. `ids`: all nodes that may have been added, changed or removed; `words`: whether the full
    text table changed."""

    ids: set[str]
    words: bool


def store(
    connection: sqlite3.Connection, entries: Sequence[Entry], removals: Collection[str], first_path: FirstPath | None
) -> Stored:
    """Write the batch, and resolve again the ids and links that it affects."""
    entries = _without_conflicted(connection, entries)
    old = _numbers(connection, [*removals, *(one.path for one in entries)])
    # Any file that claims one of these ids may become or stop being the node, also a file outside of this batch.
    affected = {node_id for _, node_id in old.values() if node_id} | {one.claims for one in entries if one.claims}
    keys = links.keys_of(connection, _claimants(connection, affected), affected)
    before = [full_text.fts_row(*row) for row in full_text.stored(connection, [number for number, _ in old.values()])]
    here = {(old[one.path][0], *one.words) for one in entries if one.path in old}
    # Most changes by jobs are to a note's frontmatter (tier, space, link). Its words then stay, and cached postings
    # stay valid.
    same = {row[0] for row in before if row in here}
    _take(connection, old, [row for row in before if row[0] not in same])
    sql.among(connection, "DELETE FROM file WHERE path IN", list(removals))
    numbers = _put(connection, entries, old, same)
    _choose(connection, affected, first_path)
    keys |= links.keys_of(connection, _claimants(connection, affected), ())
    links.resolve_again(connection, keys, numbers)
    return Stored(affected, len(same) < len(numbers) or bool(removals))


def _without_conflicted(connection: sqlite3.Connection, entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries without conflict markers. For the others only the file's state is stored; their rows stay as
    they are."""
    usable = []
    for one in entries:
        if one.note.kind is NoteKind.CONFLICTED:
            connection.execute(
                "UPDATE file SET size = ?, mtime_ns = ?, inode = ?, digest = ? WHERE path = ?",
                (one.state.size, one.state.mtime_ns, one.state.inode, one.state.digest, one.path),
            )
        else:
            usable.append(one)
    return usable


def _numbers(connection: sqlite3.Connection, paths: Sequence[str]) -> dict[str, tuple[int, str | None]]:
    found: dict[str, tuple[int, str | None]] = {}
    for some in sql.sets(paths):
        rows = sql.table(
            connection, ("path", "number", "node_id"), f"FROM file WHERE path IN ({sql.marks(some)})", some
        )
        found |= {path: (number, node_id) for path, number, node_id in rows}
    return found


def _claimants(connection: sqlite3.Connection, ids: Collection[str]) -> list[int]:
    found: list[int] = []
    for some in sql.sets(sorted(ids)):
        (numbers,) = sql.columns(connection, ("number",), f"FROM file WHERE node_id IN ({sql.marks(some)})", some)
        found += map(int, numbers)
    return found


def _take(
    connection: sqlite3.Connection,
    old: Mapping[str, tuple[int, str | None]],
    words: Sequence[tuple[int, str, str, str]],
) -> None:
    """Delete all rows of these files except those in `file`. `words`: the rows to delete from the full text table."""
    numbers = [number for number, _ in old.values()]
    full_text.take(connection, words)
    for table in ("text", "node", "tag", "name", "edge"):
        sql.among(connection, f"DELETE FROM {table} WHERE number IN", numbers)


def _put(
    connection: sqlite3.Connection,
    entries: Sequence[Entry],
    old: Mapping[str, tuple[int, str | None]],
    same: Collection[int],
) -> list[int]:
    """Insert all rows of these files and return their numbers. No file is the node of its id yet (`held` is 0).

    `same`: numbers of files whose words are in the full text table already.
    """
    numbers: list[int] = []
    bodies, words, nodes, tags = [], [], [], []
    free = connection.execute("SELECT coalesce(max(number), 0) FROM file").fetchone()[0]
    files = []
    linked: list[tuple[int, Note]] = []
    for one in entries:
        if one.path in old:
            number = old[one.path][0]
        else:
            free = number = free + 1
        numbers.append(number)
        state, note = one.state, one.note
        files.append((number, one.path, state.size, state.mtime_ns, state.inode, state.digest, note.kind, one.claims,
                      one.blob))  # fmt: skip
        bodies.append((number, note.content))
        if number not in same:
            words.append((number, *one.words))
        if one.claims is None:
            continue
        until = None if note.valid_until is None else micros(note.valid_until)
        nodes.append((
            number, note.id, 0, note.tier, note.type, note.space, one.created, until, one.updated, note.confidence,
            note.source, note.title, json.dumps(note.tags, ensure_ascii=False),
            json.dumps(note.aliases, ensure_ascii=False), note.outdated_reason, note.digest, one.same,
        ))  # fmt: skip
        tags += [(tag, number) for tag in {tag.casefold() for tag in note.tags}]
        linked.append((number, note))
    sql.put(connection, "INSERT OR REPLACE INTO file", files)
    sql.put(connection, "INSERT INTO text", bodies)
    full_text.put(connection, words)
    sql.put(connection, "INSERT INTO node", nodes)
    sql.put(connection, "INSERT INTO tag", tags)
    links.put(connection, linked)
    return numbers


def _choose(connection: sqlite3.Connection, ids: Collection[str], first_path: FirstPath | None) -> None:
    """Choose the node of each id among the files that claim it: the file that had the id first (DESIGN section 12)."""
    claims: dict[str, list[tuple[int, str, int, int]]] = {}
    for some in sql.sets(sorted(ids)):
        columns = ("id", "number", "path", "created", "held")
        rows = sql.table(connection, columns, f"FROM file JOIN node USING (number) WHERE node_id IN ({sql.marks(some)})", some)  # fmt: skip
        for node_id, *claim in rows:
            claims.setdefault(node_id, []).append((claim[0], claim[1], claim[2], claim[3]))
    lost, won = [], []
    for node_id, files in claims.items():
        chosen = files[0]
        if len(files) > 1:
            # Without a history: the older note, then the shorter path ("note.md" before "note copy.md").
            files.sort(key=lambda file: (file[2], len(file[1]), file[1]))
            path = first_path(node_id, [file[1] for file in files]) if first_path else None
            chosen = next((file for file in files if file[1] == path), files[0])
        lost += [file[0] for file in files if file[3] and file is not chosen]
        won += [] if chosen[3] else [chosen[0]]
    sql.among(connection, "UPDATE node SET held = 0 WHERE number IN", lost)  # first: one holder at a time
    sql.among(connection, "UPDATE node SET held = 1 WHERE number IN", won)
