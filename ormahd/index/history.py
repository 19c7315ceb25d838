"""The history in SQL: lists and finds ops, and says what each commit did to which note.

The tables `op`, `op_file` and `undoes` hold the commits of HEAD's history. Each question first reads from git what is new
since the last one; commits that HEAD does not lead to any more are removed. If the tables are lost, they are filled again.
A note is followed by its id, whatever its path.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict, Unpack

from msgspec import Struct

from ormahd.errors import Ambiguous, BadRequest, NotFound
from ormahd.git import commit_message
from ormahd.git.log import FileDiff, LoggedCommit, read_commits
from ormahd.git.process import GitFailed
from ormahd.git.repository import Git
from ormahd.index.database import Database
from ormahd.model.change import Kind
from ormahd.model.node import is_node_id
from ormahd.note.read import parse
from ormahd.note.values import GLOBAL_FOLDER, claim, space_folder
from ormahd.process import sql

MIN_PREFIX = 4
"""Minimum length of a prefix, as for ids of nodes."""
AMBIGUOUS_IDS = 10
"""Maximum number of ids that an `Ambiguous` error lists."""
NOT_CREATING = (Kind.UNDO, Kind.SYNC, Kind.STRENGTH, Kind.FEEDBACK, Kind.PURGE, Kind.SPACE)
"""Kinds of ops that do not create the memories that they name."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MONTH = re.compile(r"\d{4}-\d{2}")
_ID = re.compile(r"[0-9a-zA-Z]{4,64}")
_REVERTS = re.compile(r"This reverts commit ([0-9a-f]{40,64})")
_IN_SPACE = """number IN (SELECT number FROM op_file WHERE path >= ? AND path < ?
    OR node IN (SELECT value FROM json_each(?)) OR was IN (SELECT value FROM json_each(?)))"""
_NUMBER = "(SELECT number FROM op WHERE commit_id = ?)"
_TOUCHING = "number IN (SELECT number FROM op_file WHERE node = ? UNION ALL SELECT number FROM op_file WHERE was = ?)"

Text = tuple[str, bytes]
"""A file in one state: (path relative to the vault's root, bytes)."""


class Op(Struct, frozen=True):
    """One commit that changed the vault.

    `op`, `kind` and `run` are None for a commit made by hand, whose source is "person". `place`: the position in the
    order of ops, oldest first. `nodes`: the notes that its message names. `undoes`: the ops and commits that it takes
    back. `undone_by`: the commit that undid it and was not undone itself.
    """

    op: str | None
    commit: str
    place: tuple[int, str]
    time: datetime
    kind: str | None
    source: str
    run: str | None
    subject: str
    body: str
    nodes: tuple[str, ...]
    undoes: tuple[str, ...]
    undone_by: str | None

    @property
    def name(self) -> str:
        """The op's id, or the commit's if the commit was made by hand."""
        return self.op or self.commit


class Changed(Struct, frozen=True):
    """One file that a commit changed. `old_path`, `old`: its path and blob id before the commit; `path`, `new`: those
    after it. None: no such file."""

    old_path: str | None
    old: str | None
    path: str | None
    new: str | None

    @property
    def place(self) -> str:
        """The path after the commit, or before it if the file was removed."""
        return self.path or self.old_path or ""


class OpFilter(TypedDict, total=False):
    """Which ops are wanted. A value that is absent or None is no condition.

    `node_id`: a full id; an op matches if it names this memory or changed its note. `kinds`: kinds of ops. `run`: the
    id of a run. `source`: `person`, `agent:NAME`, `job:NAME`, or only `agent` or `job`. `space`: (a space, or `global`
    for none; the ids of the memories that it has now); an op matches if it names one of them, or changed a file in the
    space's folder. `since` and `before`: ISO times (`since` included, `before` excluded), or dates or months (both
    included to their end). Times are local unless they have a time zone. `before` may also be a unique prefix of an op
    or a commit: then the ops that follow it in the list match, which is the next page. `until`: the history as of this
    time, without the undos that were made later.
    """

    node_id: str | None
    kinds: Collection[str] | None
    run: str | None
    source: str | None
    space: tuple[str, frozenset[str]] | None
    since: str | None
    before: str | None
    until: datetime | None


class History:
    """The history of one repository, in the tables of one index. Safe for many threads."""

    def __init__(self, database: Database, git: Git) -> None:
        self._database = database
        self._git = git
        self._following = threading.Lock()

    # From git into the tables

    def follow(self, *, anew: bool = False) -> None:
        """Bring the tables up to HEAD. Only new commits are read; with `anew`, all are."""
        if not anew and self._known_commit() == (self._git.head() or ""):
            return
        with self._following:
            if anew:
                with self._database.write() as connection:
                    connection.execute("DELETE FROM meta WHERE key = 'history'")
            # Repeated, because HEAD may move meanwhile, or the index may be replaced by an empty one.
            while (known := self._known_commit()) != (head := self._git.head() or ""):
                try:
                    self._update_tables(known, head)
                except GitFailed:
                    if not known:
                        raise
                    self._update_tables("", head)  # the last known commit is not in the repository any more

    def _known_commit(self) -> str:
        """Return the commit up to which the tables have the history; "": they have nothing."""
        with self._database.ask() as connection:
            return _known_commit(connection)

    def _update_tables(self, known: str, head: str) -> None:
        """Bring the tables from the commit `known` to the commit `head`; "" stands for an empty history. Commits that
        `head` does not lead to are removed."""
        anew = not (known and head)
        commits = list(read_commits(self._git, head if anew else f"{known}...{head}")) if head else []
        fresh = [logged for logged in commits if not logged.only_in_a]
        # Where the clocks of commits differ, git lists some that both have.
        both = set(self._git.run("rev-list", head).decode().split()) if len(fresh) < len(commits) else set[str]()
        nodes = self._note_ids([file for logged in fresh for file in logged.files], anew=anew)
        with self._database.write() as connection:
            if not anew and _known_commit(connection) != known:
                return  # the index was begun anew meanwhile
            removed = [(logged.commit,) for logged in commits if logged.only_in_a and logged.commit not in both]
            where = "" if anew else f"WHERE number IN {_NUMBER}"
            for table in ("op_file", "undoes", "op"):
                connection.executemany(f"DELETE FROM {table} {where}", [()] if anew else removed)
            inserted = f"SELECT 1 WHERE {_NUMBER}"
            fresh = [logged for logged in fresh if connection.execute(inserted, [logged.commit]).fetchone() is None]
            _insert(connection, fresh, nodes)
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('history', ?)", (head,))

    def _note_ids(self, files: Sequence[FileDiff], *, anew: bool) -> dict[str, str | None]:
        """Return {blob: id of the note in it, or None}, for the markdown files among `files`, before and after their
        change. `anew`: read all blobs, also those that the tables have."""
        paths = {oid: file.path for file in files if is_markdown(file.path) for oid in (file.old, file.new) if oid}
        found: dict[str, str | None] = {}
        with self._database.read() as connection:
            for chunk in () if anew else sql.sets(list(paths)):
                rest = f"FROM op_file WHERE new IN ({sql.marks(chunk)}) AND node IS NOT NULL"
                found |= dict(map(tuple, sql.table(connection, ("new", "node"), rest, chunk)))
        return {oid: found[oid] if oid in found else self._read_note_id(oid, path) for oid, path in paths.items()}

    def _read_note_id(self, oid: str, path: str) -> str | None:
        """Return the id of the note in a blob; None if it is no memory. `path`: where the file was."""
        note = parse(self._git.read(oid, "blob"), path)
        return claim(note.kind, note.id)

    @contextlib.contextmanager
    def _updated_tables(self) -> Iterator[sqlite3.Connection]:
        """Context manager: bring the tables up to HEAD, and yield a connection for reading."""
        self.follow()
        with self._database.read() as connection:
            yield connection

    # Ops

    def ops(self, *, limit: int | None = 50, **wanted: Unpack[OpFilter]) -> list[Op]:
        """Return the newest `limit` ops that match (None: all), newest first.

        Ops of kind `init`, which only make Ormah's own files, are left out, unless `kinds` or `node_id` is given.

        Raises:
            BadRequest: an unknown kind, a date that cannot be read, a limit below 1.
            NotFound, Ambiguous: the op that `before` names.
        """
        if limit is not None and limit < 1:
            raise BadRequest(f"limit is {limit}", hint="give a number from 1")
        where, values = self._condition(**wanted)
        with self._updated_tables() as connection:
            return _ops(connection, where, values, limit=limit, until=wanted.get("until"))

    def count_months(self, **wanted: Unpack[OpFilter]) -> dict[str, int]:
        """Return {month of local time, as `2026-11`: number of ops that match}, newest first. Raises as `ops`."""
        where, values = self._condition(**wanted)
        month = "strftime('%Y-%m', time, 'unixepoch', 'localtime')"
        with self._updated_tables() as connection:
            found = connection.execute(
                f"SELECT {month}, count(*) FROM op WHERE {where} GROUP BY 1 ORDER BY 1 DESC", values
            )
            return dict(found.fetchall())

    def _condition(self, **wanted: Unpack[OpFilter]) -> tuple[str, list[Any]]:
        """Return (a condition on table `op` in SQL, the values of its parameters). Raises as `ops`."""
        terms: list[tuple[str, tuple[object, ...]]] = [("1", ())]
        if (node_id := wanted.get("node_id")) is not None:
            if not is_node_id(node_id):
                raise BadRequest(f"{node_id!r} is no full id", hint="`ormahctl show` gives the full id")
            terms.append((_TOUCHING, (node_id, node_id)))
        if (kinds := wanted.get("kinds")) is not None:
            if wrong := set(kinds) - set(Kind):
                raise BadRequest(f"there is no kind '{min(wrong)}'", hint=f"there are: {', '.join(Kind)}")
            terms.append((f"kind IN ({sql.marks(kinds)})", (*kinds,)))
        elif node_id is None:
            terms.append(("kind IS NOT ?", (Kind.INIT,)))
        if (run := wanted.get("run")) is not None:
            terms.append(("run = ?", (run,)))
        if (source := wanted.get("source")) is not None:
            terms.append(("? IN (source, substr(source, 1, instr(source, ':') - 1))", (source,)))
        if (space := wanted.get("space")) is not None:
            folder = space_folder(None if space[0] == GLOBAL_FOLDER else space[0])
            members = json.dumps(sorted(space[1]))
            # Paths in the folder sort between "folder/" and "folder0", because "0" follows "/".
            terms.append((_IN_SPACE, (f"{folder}/", f"{folder}0", members, members)))
        if (since := wanted.get("since")) is not None:
            terms.append(("time >= ?", (moment(since).timestamp(),)))
        if (before := wanted.get("before")) is not None:
            if _ID.fullmatch(before.strip()):
                terms.append(("(place, commit_id) < (?, ?)", self.find(before).place))
            else:
                terms.append(("time < ?", (moment(before, end=True).timestamp(),)))
        if (until := wanted.get("until")) is not None:
            terms.append(("time <= ?", (until.timestamp(),)))
        return " AND ".join(term for term, _ in terms), [value for _, values in terms for value in values]

    def find(self, prefix: str, *, kind: Kind | None = None) -> Op:
        """Return the op whose id, or whose commit's id, begins with `prefix`. Only ops of this `kind` count, if given.

        Raises:
            BadRequest: the prefix is shorter than four characters or cannot be an id.
            NotFound: no op has the prefix.
            Ambiguous: several have it; `data["ids"]` names them.
        """
        wanted = prefix.strip().lower()
        if not re.fullmatch(rf"[0-9a-z]{{{MIN_PREFIX},64}}", wanted):
            raise BadRequest(
                f"{prefix!r} is no id of a change", hint=f"give at least {MIN_PREFIX} characters of its id"
            )
        # "~" sorts after all characters of ids.
        where = "(commit_id >= ? AND commit_id < ? OR op_id >= ? AND op_id < ?) AND kind IS coalesce(?, kind)"
        with self._updated_tables() as connection:
            found = _ops(connection, where, [wanted, f"{wanted}~", wanted, f"{wanted}~", kind])
        if not found:
            raise NotFound(f"no {kind or 'change'} begins with '{wanted}'", hint="`ormahctl history` lists them")
        exact = [op for op in found if wanted in (op.op, op.commit)]
        # `git cherry-pick` keeps the trailers: two commits of one op count as one op, and its latest commit is returned.
        if not exact and len({op.name for op in found}) > 1:
            ids = [op.op if (op.op or "").startswith(wanted) else op.commit for op in found[:AMBIGUOUS_IDS]]
            raise Ambiguous(f"'{wanted}' names {len(found)} changes", hint="give more of the id", data={"ids": ids})
        return (exact or found)[0]

    def find_node(self, prefix: str) -> str:
        """Return the full id of the note whose id begins with `prefix`. Only the history is searched, so that removed
        notes are found too.

        Raises BadRequest, NotFound, Ambiguous, as `find`.
        """
        wanted = prefix.strip().lower()
        if not re.fullmatch(rf"[0-9a-f-]{{{MIN_PREFIX},36}}", wanted):
            raise BadRequest(f"{prefix!r} is no id", hint=f"give at least {MIN_PREFIX} characters of it")
        with self._updated_tables() as connection:
            question = "SELECT DISTINCT node FROM op_file WHERE node >= ? AND node < ? ORDER BY 1"
            found = [row[0] for row in connection.execute(question, (wanted, f"{wanted}~"))]
        if not found:
            raise NotFound(
                f"no memory's id begins with '{wanted}', now or earlier", hint="`ormahctl history` names ids"
            )
        if len(found) > 1:
            data = {"ids": found[:AMBIGUOUS_IDS]}
            raise Ambiguous(f"'{wanted}' begins {len(found)} ids", hint="give more of it", data=data)
        return str(found[0])

    def beginning(self) -> datetime | None:
        """Return the time of the oldest commit; None: there is none."""
        with self._updated_tables() as connection:
            (time,) = connection.execute("SELECT min(time) FROM op").fetchone()
        return None if time is None else datetime.fromtimestamp(time, UTC)

    # Files and notes

    def changed(self, commit: str, node_id: str | None = None) -> Sequence[Changed]:
        """Return the vault's regular files that a commit changed against its first parent, or only those of one note; a
        moved note is one entry."""
        question = """SELECT path, was, node,
                CASE WHEN :node IS NULL OR was = :node THEN old END,
                CASE WHEN :node IS NULL OR node = :node THEN new END
            FROM op_file JOIN op USING (number)
            WHERE commit_id = :commit AND path <> '' AND (:node IS NULL OR :node IN (was, node))"""
        with self._updated_tables() as connection:
            rows = connection.execute(question, {"commit": commit, "node": node_id}).fetchall()

        # Files that are new after the commit, by the note in them (or by their content, if it is no note).
        added: dict[str, list[Changed]] = {}
        for path, _, node, old, new in rows:
            if old is None:
                added.setdefault(node or new, []).append(Changed(None, None, path, new))

        # A removed file and a new one with the same note, or the same content, are one moved file.
        found = []
        for path, was, _, old, new in rows:
            if old is not None and new is not None:
                found.append(Changed(path, old, path, new))
            elif old is not None:
                twins = added.get(was or old, [])
                twin = twins.pop(0) if twins else Changed(None, None, None, None)
                found.append(Changed(path, old, twin.path, twin.new))
        return sorted([*found, *itertools.chain(*added.values())], key=lambda file: file.place)

    def of_node(self, commit: str, node_id: str) -> Changed | None:
        """Return the change that a commit made to one note; None: no change."""
        found = self.changed(commit, node_id)
        return min(found, key=lambda file: None in (file.old, file.new), default=None)  # rather than of a copy

    def pair(self, file: Changed) -> tuple[Text | None, Text | None]:
        """Return (the file before the commit, the file after it); None: no such file."""
        old = None if file.old is None else (file.old_path or "", self._git.read(file.old, "blob"))
        return old, None if file.new is None else (file.path or "", self._git.read(file.new, "blob"))

    def first_kinds(self, ids: Iterable[str]) -> dict[str, str | None]:
        """Return {node id: kind of the first op on it} for those of `ids` that the history has. The kind is None for a
        commit made by hand. Ops of the kinds `NOT_CREATING` are ignored."""
        found: dict[str, str | None] = {}
        with self._updated_tables() as connection:
            for chunk in sql.sets(list(ids)):
                question = f"""SELECT node, kind, min(place) FROM op_file JOIN op USING (number)
                    WHERE node IN ({sql.marks(chunk)}) AND coalesce(kind, '') NOT IN ({sql.marks(NOT_CREATING)}) GROUP BY node"""
                found |= {node: kind for node, kind, _ in connection.execute(question, (*chunk, *NOT_CREATING))}
        return found

    def note_in(self, oid: str, path: str) -> str | None:
        """Return the id of the note in a blob of a commit; None if it is no memory. `oid`: the blob's id; `path`: where
        the file was. The blob is read if no known commit has it. The caller calls `follow` first."""
        with self._database.ask() as connection:
            found = connection.execute("SELECT node FROM op_file WHERE new = ? AND node IS NOT NULL", (oid,)).fetchone()
        return found[0] if found else self._read_note_id(oid, path) if is_markdown(path) else None

    def paths(self, prefix: str) -> list[tuple[str, str]]:
        """Return (path, blob) of each version of the notes whose id begins with `prefix`. The caller calls `follow`
        first."""
        with self._database.ask() as connection:
            question = "SELECT DISTINCT path, new FROM op_file WHERE node >= ? AND node < ? AND new IS NOT NULL"
            return connection.execute(question, (prefix, f"{prefix}~")).fetchall()

    def first_path(self, node_id: str, paths: Collection[str]) -> str | None:
        """Return which of several files got the id first; see the function `first_path`."""
        with self._database.read() as connection:
            return first_path(connection, node_id, paths)


def first_path(connection: sqlite3.Connection, node_id: str, paths: Collection[str]) -> str | None:
    """Return the path in `paths` that got the id `node_id` first, by the order of commits. None if none of them has it
    in the history.

    If a path lost the id (its file was removed or got another id), only the time since it got the id again counts. For
    a commit that a merge brought, that commit's place counts, not the merge's.
    """
    since: dict[str, tuple[int, str]] = {}
    question = f"""SELECT path, node, new, place, commit_id FROM op_file JOIN op USING (number)
        WHERE path IN ({sql.marks(paths)}) AND NOT merges ORDER BY place, commit_id"""
    for path, node, new, place, commit in connection.execute(question, (*paths,)):
        if node == node_id:
            since.setdefault(path, (place, commit))
        elif node is not None or new is None:
            since.pop(path, None)
    return min(since, key=lambda path: (since[path], len(path), path), default=None)


def is_markdown(path: str) -> bool:
    """Return whether a path ends in `.md`, in any case."""
    return path[-3:].lower() == ".md"


def moment(text: str, *, end: bool = False) -> datetime:
    """Return the time that an ISO time, date or month means; local unless it has a time zone. With `end`, a date or
    month means its end. Raises BadRequest."""
    given = text.strip()
    try:
        if _MONTH.fullmatch(given):
            first = datetime.fromisoformat(f"{given}-01")
            return ((first + timedelta(days=31)).replace(day=1) if end else first).astimezone(UTC)
        found = datetime.fromisoformat(given)
        if end and _DATE.fullmatch(given):
            found += timedelta(days=1)
        return found.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise BadRequest(f"{text!r} is no time", hint="for example 2026-11-21 or 2026-11-21T20:00:00Z") from exc


# Rows


def _known_commit(connection: sqlite3.Connection) -> str:
    """Return the commit up to which the tables have the history; "" if they have nothing."""
    found = connection.execute("SELECT value FROM meta WHERE key = 'history'").fetchone()
    return found[0] if found else ""


def _insert(connection: sqlite3.Connection, commits: Sequence[LoggedCommit], nodes: Mapping[str, str | None]) -> None:
    """Insert the rows of `commits`, which are ordered with parents first. `nodes`: blob -> id of the note in it."""
    places: dict[str, int] = {}
    (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM op").fetchone()
    ops: list[tuple[object, ...]] = []
    files: list[tuple[object, ...]] = []
    undoes: list[tuple[int, str]] = []
    for number, logged in enumerate(commits, last + 1):
        message = commit_message.parse(logged.message)
        for name in set(logged.parents) - places.keys():
            (places[name],) = connection.execute("SELECT place FROM op WHERE commit_id = ?", (name,)).fetchone()
        # The place follows the time, but comes after the places of all parents, also if clocks differ.
        place = places[logged.commit] = max([logged.time * 1_000_000, *(places[name] + 1 for name in logged.parents)])

        # The row of the op.
        op, kind, source, run = (message.trailer(f"Ormah-{key}") for key in ("Op", "Kind", "Source", "Run"))
        text = " ".join(message.nodes), message.subject, message.body
        merges = len(logged.parents) > 1
        ops.append((number, logged.commit, op, place, logged.time, kind, source or "person", run, merges, *text))

        # The rows of its files, and of the notes that only its message names.
        touched = set[str | None]()
        for path, old, new in logged.files:
            was, node = (nodes.get(oid or "") if is_markdown(path) else None for oid in (old, new))
            files.append((number, path, was, node, old, new))
            touched |= {was, node}
        files += [(number, "", None, node, None, None) for node in set(message.nodes) - touched]

        # The rows of the ops and commits that it undoes, of Ormah (trailer) and of git (subject).
        targets = " ".join(message.trailers.get(commit_message.UNDOES, ())).replace(",", " ").split()
        undoes += [(number, target) for target in (*targets, *_REVERTS.findall(logged.message))]
    connection.executemany("INSERT INTO op VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", ops)
    connection.executemany("INSERT INTO op_file VALUES (?, ?, ?, ?, ?, ?)", files)
    connection.executemany("INSERT INTO undoes VALUES (?, ?)", undoes)


_COLUMNS = """op_id, commit_id, place, time, kind, source, run, subject, body, nodes,
    (SELECT group_concat(target, ' ') FROM undoes WHERE undoes.number = op.number)"""


def _ops(
    connection: sqlite3.Connection,
    where: str,
    values: Sequence[object],
    *,
    limit: int | None = None,
    until: datetime | None = None,
) -> list[Op]:
    """Return the ops that match a condition, newest first. `where`: the condition on table `op` in SQL, with parameters
    `values`. `until`: undos after this time do not count."""
    taken_back = _undone(connection, until)
    question = f"SELECT {_COLUMNS} FROM op WHERE {where} ORDER BY place DESC, commit_id DESC LIMIT coalesce(?, -1)"
    rows = connection.execute(question, (*values, limit))
    return [
        Op(
            op=op,
            commit=commit,
            place=(place, commit),
            time=datetime.fromtimestamp(time, UTC),
            kind=kind,
            source=source,
            run=run,
            subject=subject,
            body=body,
            nodes=tuple(nodes.split()),
            undoes=tuple((undoes or "").split()),
            undone_by=(taken_back.get(op) if op else None) or taken_back.get(commit),
        )
        for op, commit, place, time, kind, source, run, subject, body, nodes, undoes in rows
    ]


def _undone(connection: sqlite3.Connection, until: datetime | None) -> dict[str, str]:
    """Return {undone op or commit: the commit that undid it}. If several commits undid it, the latest counts. An op is
    left out if the commit that undid it was itself undone. `until`: undos after this time do not count."""
    latest: dict[str, tuple[str, bool]] = {}
    question = """SELECT op_id, commit_id, target FROM undoes CROSS JOIN op USING (number) WHERE time <= ?
        ORDER BY place DESC, commit_id DESC"""
    last = float("inf") if until is None else until.timestamp()
    for op, commit, target in connection.execute(question, (last,)):
        standing = not any(name in latest and latest[name][1] for name in (op, commit) if name)
        latest.setdefault(target, (commit, standing))
    return {target: commit for target, (commit, standing) in latest.items() if standing}
