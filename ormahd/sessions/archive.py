"""The archive of sessions: stores turns in files, and searches them by their words.

The files are the truth. The database is derived from them. It is compared with them whenever it is opened, so that
nothing is lost if a crash comes between the write to a file and that to the database. One lock guards both.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ormahd.errors import Ambiguous, NotFound, Unavailable
from ormahd.index.write import Frequencies, split
from ormahd.process import disk, priority, sql
from ormahd.sessions import files
from ormahd.sessions.files import Line, SessionHead
from ormahd.sessions.passages import PassageVectors
from ormahd.sessions.purged import PurgedTurns
from ormahd.text.words import FTS_TOKENIZE, fts_match, fts_text, query_terms

log = logging.getLogger("ormah")

PURGED: Final = "purged"
VERSION: Final = 2
PROMPT: Final = "(SELECT substr(text, 1, 200) FROM turn WHERE session = session.number AND role = 'user' AND text != '' ORDER BY place LIMIT 1)"
COLUMNS: Final = f"number, id, harness, cwd, title, source, first, last, turns, path, {PROMPT}"
"""Columns of a session, in the order of `SessionRow`."""
TURN: Final = "number, key, session, place, role, time, text"
"""Columns of a turn, in the order of `Archived`."""


class Archived(Struct, frozen=True):
    """An archived turn. `session`: the number of its session; `place`: its position in that session, from 1."""

    number: int
    key: str
    session: int
    place: int
    role: str
    time: str | None
    text: str


class SessionRow(Struct, frozen=True):
    number: int
    id: str
    harness: str
    cwd: str | None
    title: str | None
    source: str | None
    first: str | None
    last: str | None
    turns: int
    path: str
    prompt: str | None
    """The beginning of its first prompt."""


class SessionTail(Struct, frozen=True):
    """A session, with the time and key of its last turn. `path`: the session's file, relative to the archive's
    folder; it identifies the session. `turns`: number of turns."""

    path: str
    id: str
    harness: str
    cwd: str | None
    last: str | None
    turns: int
    key: str
    title: str | None = None


class SourceState(Struct, frozen=True):
    """Size, modification time and inode of a transcript or export, to notice whether it changed since it was read."""

    size: int
    mtime_ns: int
    inode: int


def _connect(path: Path) -> sqlite3.Connection:
    """Open the database file. If it cannot be opened, return an empty database in RAM, which the caller fills."""
    try:
        db = sqlite3.connect(path, check_same_thread=False)
        os.chmod(path, 0o600)
    except (sqlite3.OperationalError, OSError) as error:
        log.warning("the archive's index is kept in memory: %s cannot be used: %s", path, error)
        return sqlite3.connect(":memory:", check_same_thread=False)
    return db


class SessionArchive:
    """Stores and searches the archived sessions of one vault: a file for each session, and a database derived from
    the files. Thread-safe; files and database are created when they are first needed."""

    def __init__(
        self,
        folder: Callable[[], Path],
        database: Callable[[], Path],
        purged: Callable[[], Path],
        *,
        keep_days: int,
        clock: Callable[[], datetime],
    ) -> None:
        """`folder`, `database` and `purged` return the paths of the archive's folder, its database and the file of
        `PurgedTurns`. They are called at the first use, because a vault's id may change while the vault is open.
        `keep_days`: days after which `expire` deletes a session; 0: never."""
        self._places = folder, database, purged
        self._keep_days = keep_days
        self._clock = clock
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._folder = Path()
        self._purged = PurgedTurns(Path())
        self._expired: datetime | None = None
        self._counts = Frequencies()
        self.passages = PassageVectors()
        """A cache of the vectors of passages that recent searches compared."""

    # ------------------------------------------------------------ life

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Context manager: yield the database in one transaction. Raises Unavailable; the next call rebuilds the
        database."""
        with self._lock:
            try:
                db = self._db if self._db is not None else self._open()
                with db:
                    yield db
            except sqlite3.DatabaseError as error:
                self._drop()
                raise Unavailable(f"the archive's index could not be used ({error})", hint="ask again") from error
            except OSError as error:
                self.close()  # a file may already have rows that the database lacks: the next call compares them
                raise Unavailable(f"the archive of sessions cannot be used: {error}") from error

    def _open(self) -> sqlite3.Connection:
        folder, path, purged = (place() for place in self._places)
        for attempt in (1, 2):
            db = _connect(path)
            try:
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = NORMAL")
                (found,) = db.execute("PRAGMA user_version").fetchone()
                if found not in (0, VERSION):
                    raise sqlite3.DatabaseError("it has another format")
                if found == 0:
                    schema = (importlib.resources.files("ormahd.sessions") / "schema.sql").read_text("utf-8")
                    schema = schema.replace("{tokenize}", FTS_TOKENIZE.replace('"', '""'))
                    db.executescript(f"BEGIN;{schema}PRAGMA user_version = {VERSION};COMMIT;")
                with db:
                    self._folder = folder
                    self._purged = PurgedTurns(purged)
                    self._catch_up(db)
            except sqlite3.DatabaseError as error:
                db.close()
                if attempt == 2:
                    raise
                log.warning("the archive's index is made anew: %s", error)
                for file in sql.files(path):
                    file.unlink(missing_ok=True)
            else:
                self._db = db
                return db
        raise AssertionError

    def _drop(self) -> None:
        """Close the database and delete its file; the next call rebuilds it."""
        if self._db is not None:
            self._db.close()
            self._db = None
        for file in sql.files(self._places[1]()):
            with contextlib.suppress(NotADirectoryError):  # a file has taken the place of its folder: nothing to delete
                file.unlink(missing_ok=True)

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def _catch_up(self, db: sqlite3.Connection) -> None:
        """Bring the database up to date with the sessions' files: add their new lines. A session whose file is gone
        or has become shorter is removed; if there is a file, it is then read again from its beginning."""
        known = {path: (number, size) for path, number, size in db.execute("SELECT path, number, size FROM session")}
        there: dict[str, int] = {}
        for folder in sorted(self._folder.iterdir()) if self._folder.is_dir() else ():
            if folder.is_dir() and not folder.is_symlink():
                for file in folder.glob(f"*{files.ENDING}"):
                    there[f"{folder.name}/{file.name}"] = file.stat().st_size
        gone = [number for path, (number, size) in known.items() if there.get(path, -1) < size]
        for number in gone:
            self._forget(db, number)
        if gone:  # their turns may be in a transcript that counts as read: have all transcripts read again
            db.execute("DELETE FROM cursor WHERE source NOT LIKE 'document:%'")
        for path, size in there.items():
            number, taken = known.get(path, (0, 0)) if there[path] >= known.get(path, (0, 0))[1] else (0, 0)
            if size > taken:
                self._take_in(db, path, taken)

    def _take_in(self, db: sqlite3.Connection, path: str, start: int) -> None:
        """Add to the database the rows from offset `start` on in a session's file. `path`: relative to the folder."""
        head: SessionHead | None = None
        lines: list[Line] = []
        end = start
        for after, row in files.read(self._folder / path, start):
            end = after
            if isinstance(row, SessionHead):
                head = row
            else:
                lines.append(row)
        number = self._session(db, path, head)
        if number is not None:
            self._put(db, number, lines)
            db.execute("UPDATE session SET size = ? WHERE number = ?", (end, number))

    def _session(self, db: sqlite3.Connection, path: str, head: SessionHead | None) -> int | None:
        """Store the description `head` of a session in the database, unless it is None. Return the session's number;
        None if the database has no session for the file `path`."""
        if head is not None:
            db.execute(
                "INSERT INTO session (path, id, harness, cwd, title, source, turns, size) VALUES (?, ?, ?, ?, ?, ?, 0, 0) "
                "ON CONFLICT (path) DO UPDATE SET cwd = excluded.cwd, title = excluded.title, source = excluded.source",
                (path, head.session, head.harness, head.cwd, head.title, head.source),
            )
        found = db.execute("SELECT number FROM session WHERE path = ?", (path,)).fetchone()
        return None if found is None else int(found[0])

    def _put(self, db: sqlite3.Connection, session: int, lines: Sequence[Line]) -> None:
        (place,) = db.execute("SELECT coalesce(max(place), 0) FROM turn WHERE session = ?", (session,)).fetchone()
        for row in lines:
            place += 1
            text = None if row.gone else row.text
            added = db.execute(
                "INSERT OR IGNORE INTO turn (key, session, place, role, time, text) VALUES (?, ?, ?, ?, ?, ?)",
                (row.key, session, place, row.role, row.time, text),
            )
            if added.rowcount and text is not None:
                db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (added.lastrowid, fts_text(text)))
        self._sum_up(db, session)

    def _sum_up(self, db: sqlite3.Connection, session: int) -> None:
        self._counts.changed()
        select = "SELECT count(text), min(time), max(time) FROM turn WHERE session = ?"
        found = db.execute(select, (session,)).fetchone()
        db.execute("UPDATE session SET turns = ?, first = ?, last = ? WHERE number = ?", (*found, session))

    def _forget(self, db: sqlite3.Connection, session: int) -> None:
        """Delete a session and its turns from the database, but not its file."""
        rows = db.execute("SELECT number, text FROM turn WHERE session = ? AND text IS NOT NULL", (session,)).fetchall()
        for number, text in rows:
            self._take_words(db, number, text)
        db.execute("DELETE FROM turn WHERE session = ?", (session,))
        db.execute("DELETE FROM session WHERE number = ?", (session,))
        self._counts.changed()

    def _take_words(self, db: sqlite3.Connection, number: int, text: str) -> None:
        db.execute("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", (number, fts_text(text)))

    # ------------------------------------------------------------ keeping

    def known(self, keys: Sequence[str]) -> set[str]:
        """Return those of `keys` whose turns are archived, or were purged from the archive."""
        with self._opened() as db:
            return _known(db, keys) | self._purged.among(keys)

    def of_sessions(self, turns: Mapping[str, str]) -> set[str]:
        """Return the keys of those `turns` (key -> id of a session) that are archived under that very session. A turn
        that a fork shares with its parent session is archived under only one of the two."""
        found: set[str] = set()
        with self._opened() as db:
            for some in sql.sets(sorted(turns)):
                select = (
                    "SELECT turn.key, session.id FROM turn JOIN session ON session.number = turn.session "
                    f"WHERE turn.text IS NOT NULL AND turn.key IN ({sql.marks(some)})"
                )
                found.update(key for key, session in db.execute(select, some) if turns[key] == session)
        return found

    def unknown(self, heads: Sequence[SessionHead]) -> set[str]:
        """Return the ids of those sessions in `heads` that are not archived."""
        with self._opened() as db:
            select = "SELECT 1 FROM session WHERE path = ?"
            return {head.session for head in heads if db.execute(select, (files.path_of(head),)).fetchone() is None}

    def add(self, turns: Sequence[tuple[SessionHead, Sequence[Line]]]) -> int:
        """Store durably those turns that are neither archived nor purged. Return the number of turns stored."""
        added = 0
        with self._opened() as db:
            for head, lines in turns:
                keys = [row.key for row in lines]
                known = _known(db, keys) | self._purged.among(keys)
                if head.title and self._purged.among([_of_title(head.title)]):
                    head = replace(head, title=None)
                fresh = list({row.key: row for row in lines if row.key not in known}.values())
                if fresh:
                    added += len(fresh)
                    self._append(db, head, fresh)
                else:
                    self._describe(db, head)
        return added

    def _append(self, db: sqlite3.Connection, head: SessionHead, lines: Sequence[Line]) -> None:
        path = files.path_of(head)
        file = self._folder / path
        before = db.execute("SELECT cwd, title, source FROM session WHERE path = ?", (path,)).fetchone()
        rows: list[SessionHead | Line] = list(lines)
        if before is None and not file.parent.is_dir():
            for place in (self._folder, file.parent):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
                disk.sync_directory(place.parent)
        if before != (head.cwd, head.title, head.source):
            head = _merged(head, before)
            rows.insert(0, head)
        size = files.append(file, rows, new=before is None)
        if before is None:
            disk.sync_directory(file.parent)
        number = self._session(db, path, head)
        assert number is not None
        self._put(db, number, lines)
        db.execute("UPDATE session SET size = ? WHERE number = ?", (size, number))

    def _describe(self, db: sqlite3.Connection, head: SessionHead) -> None:
        """Store the title in `head` if it differs from the stored title of that session."""
        path = files.path_of(head)
        before = db.execute("SELECT cwd, title, source FROM session WHERE path = ?", (path,)).fetchone()
        if before is not None and head.title and head.title != before[1]:
            head = _merged(head, before)
            size = files.append(self._folder / path, [head])
            self._session(db, path, head)
            db.execute("UPDATE session SET size = ? WHERE path = ?", (size, path))

    def expire(self) -> int:
        """Delete sessions whose last turn is more than `keep_days` old, and whose file was not written in these days
        either. Does this at most once an hour. Return the number of sessions deleted."""
        now = self._clock()
        if not self._keep_days or (self._expired is not None and now - self._expired < timedelta(hours=1)):
            return 0
        self._expired = now
        limit = now - timedelta(days=self._keep_days)
        gone = 0
        with self._opened() as db:
            select = "SELECT number, path FROM session WHERE last < ?"
            for number, path in db.execute(select, (limit.strftime("%Y-%m-%dT%H:%M:%S"),)).fetchall():
                file = self._folder / path
                if not file.exists() or file.stat().st_mtime < limit.timestamp():
                    file.unlink(missing_ok=True)
                    self._forget(db, number)
                    gone += 1
        return gone

    def withdraw(self, keys: set[str]) -> int:
        """Delete the turns with these keys, taken back by the person's rewind. Return the number deleted."""
        return self._remove(keys, gone="")

    def purge(self, holds: Callable[[bytes], bool], keys: Collection[str] = (), *, change: bool) -> int:
        """Delete every turn's text and every title for which `holds` is true, and the texts of the turns with these
        keys. Their keys stay, so that they are not archived again, and no freed page has their texts. With `change`
        False only count. Return the number of turns and titles."""
        with self._opened() as db:
            rows = db.execute("SELECT key, text FROM turn").fetchall()
            titles = db.execute("SELECT number, title FROM session WHERE title IS NOT NULL").fetchall()
            titles = [(number, title) for number, title in titles if holds(title.encode("utf-8", "replace"))]
            emptied = {key for key, text in rows if text is None}
            texts = priority.giving([(key, text.encode("utf-8", "replace")) for key, text in rows if text is not None])
            held = {key for key, text in texts if key in keys or holds(text)}
            if not change:
                return len(titles) + len(held)
            self._purged.add({*emptied, *held, *keys, *(_of_title(title) for _, title in titles)})
            for number, _ in titles:
                db.execute("UPDATE session SET title = NULL WHERE number = ?", (number,))
                self._write_anew(db, number)
        self.passages.clear()
        self._remove(held, gone=PURGED)
        with self._opened() as db:
            db.execute("INSERT INTO words (words) VALUES ('optimize')")
            db.commit()
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return len(titles) + len(held)

    def _remove(self, keys: Collection[str], *, gone: str) -> int:
        with self._opened() as db:
            found: list[tuple[int, str, int, str]] = []
            select = "SELECT number, key, session, text FROM turn WHERE text IS NOT NULL"
            for some in sql.sets(sorted(keys)):
                found += db.execute(f"{select} AND key IN ({sql.marks(some)})", some).fetchall()
            for number, _, _, text in found:
                self._take_words(db, number, text)
                if gone:
                    db.execute("UPDATE turn SET text = NULL WHERE number = ?", (number,))
                else:
                    db.execute("DELETE FROM turn WHERE number = ?", (number,))
            for session in {row[2] for row in found}:
                self._write_anew(db, session)
                self._sum_up(db, session)
        return len(found)

    def _write_anew(self, db: sqlite3.Connection, session: int) -> None:
        """Write a session's file anew from what the database has of that session."""
        row = self._row(db, session)
        rows: list[SessionHead | Line] = [SessionHead(row.id, row.harness, row.cwd, row.title, row.source)]
        select = "SELECT key, role, text, time FROM turn WHERE session = ? ORDER BY place"
        for key, role, text, time in db.execute(select, (session,)):
            rows.append(Line(key, gone=PURGED) if text is None else Line(key, role, text, time))
        size = files.rewrite(self._folder / row.path, rows)
        db.execute("UPDATE session SET size = ? WHERE number = ?", (size, session))

    # ------------------------------------------------------------ sources

    def is_read(self, source: str, state: SourceState) -> bool:
        """Return whether a source, now in this `state`, was read to its end and has not changed after that."""
        with self._opened() as db:
            row = db.execute("SELECT size, mtime_ns, inode FROM cursor WHERE source = ?", (source,)).fetchone()
        return row is not None and SourceState(*row) == state

    def have_read(self, source: str, state: SourceState) -> None:
        with self._opened() as db:
            db.execute(
                "INSERT OR REPLACE INTO cursor (source, size, mtime_ns, inode) VALUES (?, ?, ?, ?)",
                (source, state.size, state.mtime_ns, state.inode),
            )

    def was_read(self, source: str) -> bool:
        """Return whether a source was ever read to its end, even if it has changed since."""
        with self._opened() as db:
            return db.execute("SELECT 1 FROM cursor WHERE source = ?", (source,)).fetchone() is not None

    def forget_read(self, source: str) -> None:
        with self._opened() as db:
            db.execute("DELETE FROM cursor WHERE source = ?", (source,))

    # ------------------------------------------------------------ finding

    def search(
        self, query: str, limit: int, *, after: str | None = None, before: str | None = None
    ) -> list[tuple[Archived, float]]:
        """Return the turns that share words with a query as (turn, BM25 score), best first. `after`, `before`: only
        turns between these ISO times in UTC."""
        terms = query_terms(query)
        with self._opened() as db:
            (rows,) = db.execute("SELECT coalesce(max(number), 0) FROM turn").fetchone()
            rare, common = split(db, terms, rows, self._counts)
            match = fts_match(rare)
            if common:  # common words raise the scores of rows with a rarer word; they alone select no row
                match = f"({match}) AND ({match} OR {fts_match(common)})"
            within = ""
            if after or before:
                within = "AND rowid IN (SELECT number FROM turn WHERE time >= :after AND time <= :before)"
            found = db.execute(
                f"SELECT rowid, -bm25(words) AS score FROM words WHERE words MATCH :match {within} "
                "ORDER BY score DESC, rowid LIMIT :limit",
                {"match": match, "limit": limit, "after": after or "", "before": before or "9"},
            ).fetchall()
            turns = self._turns(db, [number for number, _ in found])
        return [(turns[number], score) for number, score in found if number in turns]

    def _turns(self, db: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, Archived]:
        found: dict[int, Archived] = {}
        select = f"SELECT {TURN} FROM turn WHERE text IS NOT NULL AND number"
        for some in sql.sets(list(numbers)):
            for row in db.execute(f"{select} IN ({sql.marks(some)})", some):
                found[row[0]] = Archived(*row)
        return found

    def around(self, turn: Archived) -> list[Archived]:
        """Return the exchange to which a turn belongs: the person's turn and the answers, at most four turns."""
        select = f"SELECT {TURN} FROM turn WHERE session = ? AND text IS NOT NULL"
        with self._opened() as db:
            asked = turn.place
            if turn.role != "user":
                (asked,) = db.execute(
                    "SELECT coalesce(max(place), ?) FROM turn WHERE session = ? AND place < ? AND role = 'user' AND text IS NOT NULL",
                    (turn.place, turn.session, turn.place),
                ).fetchone()
            (after,) = db.execute(
                "SELECT coalesce(min(place), 1 << 40) FROM turn WHERE session = ? AND place > ? AND role = 'user'",
                (turn.session, max(asked, turn.place)),
            ).fetchone()
            rows = db.execute(
                f"{select} AND place >= ? AND place < ? ORDER BY place LIMIT 4", (turn.session, asked, after)
            )
            return [Archived(*row) for row in rows]

    # ------------------------------------------------------------ looking

    def _row(self, db: sqlite3.Connection, number: int) -> SessionRow:
        return SessionRow(*db.execute(f"SELECT {COLUMNS} FROM session WHERE number = ?", (number,)).fetchone())

    def sessions(self, numbers: Sequence[int]) -> Mapping[int, SessionRow]:
        with self._opened() as db:
            return {number: self._row(db, number) for number in set(numbers)}

    def newest(self, limit: int) -> list[SessionRow]:
        """Return up to `limit` sessions, ordered by their last turn, newest first."""
        with self._opened() as db:
            order = "ORDER BY coalesce(last, '') DESC, number DESC LIMIT ?"
            return [
                SessionRow(*row)
                for row in db.execute(f"SELECT {COLUMNS} FROM session WHERE turns > 0 {order}", (limit,))
            ]

    def count(self) -> tuple[int, int]:
        """Return the number of sessions and of turns."""
        with self._opened() as db:
            select = "SELECT count(*), coalesce(sum(turns), 0) FROM session WHERE turns > 0"
            sessions, turns = db.execute(select).fetchone()
            return sessions, turns

    def tails(self) -> list[SessionTail]:
        """Return the tail of every session that has turns, ordered by the last turn, newest first."""
        with self._opened() as db:
            rows = db.execute(
                "SELECT s.path, s.id, s.harness, s.cwd, s.last, s.turns, t.key, s.title FROM session s JOIN turn t ON t.number = "
                "(SELECT number FROM turn WHERE session = s.number AND text IS NOT NULL ORDER BY place DESC LIMIT 1) "
                "ORDER BY coalesce(s.last, '') DESC, s.number DESC"
            )
            return [SessionTail(*row) for row in rows]

    def turns_of(self, path: str) -> list[Archived]:
        """Return the turns of the session whose file is `path`, in order."""
        with self._opened() as db:
            select = f"SELECT {TURN} FROM turn WHERE session = (SELECT number FROM session WHERE path = ?) AND text IS NOT NULL"
            return [Archived(*row) for row in db.execute(f"{select} ORDER BY place", (path,))]

    def session(self, prefix: str) -> tuple[SessionRow, list[Archived]]:
        """Return a session and its turns, by its id or a unique prefix. Raises NotFound, Ambiguous."""
        escaped = prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        with self._opened() as db:
            rows = db.execute(
                f"SELECT {COLUMNS} FROM session WHERE id LIKE ? ESCAPE '\\' ORDER BY id != ?, id LIMIT 3",
                (f"{escaped}%", prefix),
            ).fetchall()
            found = [SessionRow(*row) for row in rows]
            if not found or not prefix:
                raise NotFound(f"no session's id begins with '{prefix[:60]}'", hint="ormahctl recall --sessions")
            if len(found) > 1 and found[0].id != prefix:
                listed = ", ".join(one.id for one in found)
                raise Ambiguous(
                    f"several sessions have an id that begins with '{prefix[:60]}': {listed}", hint="write more of it"
                )
            select = f"SELECT {TURN} FROM turn WHERE session = ? AND text IS NOT NULL ORDER BY place"
            return found[0], [Archived(*row) for row in db.execute(select, (found[0].number,))]


def _of_title(title: str) -> str:
    """Return the key of a purged title in `PurgedTurns`."""
    return f"title\n{title}"


def _known(db: sqlite3.Connection, keys: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for some in sql.sets(list(keys)):
        found.update(key for (key,) in db.execute(f"SELECT key FROM turn WHERE key IN ({sql.marks(some)})", some))
    return found


def _merged(head: SessionHead, before: tuple[str | None, str | None, str | None] | None) -> SessionHead:
    """Return the description `head` of a session, with its missing values taken from `before`: the stored (cwd, title,
    source), or None if the session is new."""
    cwd, title, source = before or (None, None, None)
    return SessionHead(head.session, head.harness, head.cwd or cwd, head.title or title, head.source or source)
