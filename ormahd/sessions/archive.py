"""The archive of sessions: stores turns and deeds in files, and searches turns by their words.

The files are the truth. The database is derived from them. It is compared with them whenever it is opened, so that
nothing is lost if a crash comes between the write to a file and that to the database. One lock guards both.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import logging
import math
import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ormahd import paths
from ormahd.errors import Ambiguous, NotFound, Unavailable
from ormahd.index.words import Frequencies, split
from ormahd.model.change import Clock
from ormahd.note.forgetting import Forgotten
from ormahd.process import disk, priority, sql
from ormahd.sessions import files
from ormahd.sessions.files import PURGED, RESTORED, WITHDRAWN, Deed, Line, PurgedTurns, Row, SessionHead
from ormahd.sessions.passages import PassageVectors
from ormahd.text.words import FTS_TOKENIZE, fts_match, fts_text, query_terms, stem

log = logging.getLogger("ormah")

VERSION: Final = 4
PROMPT: Final = "(SELECT substr(text, 1, 200) FROM turn WHERE session = session.number AND role = 'user' AND text != '' AND NOT withdrawn ORDER BY place LIMIT 1)"
COLUMNS: Final = f"number, id, harness, cwd, title, source, first, last, turns, path, {PROMPT}"
"""Columns of a session, in the order of `SessionRow`."""
TURN: Final = "number, key, session, place, asked, role, time, text, withdrawn"
"""Columns of a turn, in the order of `Archived`."""
INSERT_TURN: Final = (
    "INSERT INTO turn (key, session, place, asked, role, time, text, withdrawn) VALUES (?1, ?2, ?3, "
    "coalesce((SELECT place FROM turn WHERE key = ?4 AND session = ?2), "
    "(SELECT max(asked) FROM turn WHERE session = ?2 AND ?5 = 'assistant'), ?3), ?5, ?6, ?7, ?8)"
)
"""Parameters: key, session, place, key of the prompt that it answers, role, time, text, whether it was withdrawn."""
LIVE: Final = "text IS NOT NULL AND NOT withdrawn"
DEED: Final = (
    "SELECT deed.number, deed.session, session.id, session.cwd, session.title, deed.prompt, coalesce(turn.place, 0), coalesce(turn.text, ''), "
    "deed.time, command, coalesce(files, ''), status, error, seconds FROM deed JOIN session ON session.number = deed.session "
    "LEFT JOIN turn ON turn.number = deed.prompt WHERE command IS NOT NULL AND NOT coalesce(turn.withdrawn, 0) AND "
)
"""Selects columns in the order of `ArchivedDeed`, of deeds that were neither purged nor done under a prompt that was taken
back."""


class Archived(Struct, frozen=True):
    """An archived turn. `session`: the number of its session. `place`: its position in that session, from 1. `asked`:
    the place of the prompt that it answers; for a prompt, its own place. `withdrawn`: 1 if the person took it back."""

    number: int
    key: str
    session: int
    place: int
    asked: int
    role: str
    time: str | None
    text: str
    withdrawn: int = 0


class ArchivedDeed(Struct, frozen=True):
    """An archived deed: a command that an agent ran, or an edit of files.

    `session`: the number of its session. `prompt`, `turn`, `asked`: number, place and text of the prompt for which it
    was done. `command`: "" for an edit. `files`: one path in each line. `status`: the exit status, -1 for a failure
    without one.
    """

    number: int
    session: int
    session_id: str
    cwd: str | None
    title: str | None
    prompt: int | None
    turn: int
    asked: str
    time: str
    command: str
    files: str
    status: int
    error: str
    seconds: float | None


class KnownTurn(Struct, frozen=True):
    """What the archive has of a turn. `session`: the id of its session; "" if the turn was purged."""

    session: str
    role: str
    time: str
    length: int
    withdrawn: int


def is_news(known: KnownTurn | None, session: str, time: str | None, text: str) -> bool:
    """Return whether a turn of a session is not archived, or only as an answer that has grown since."""
    if known is None or known.role != "assistant" or known.session != session:
        return known is None
    return (known.time, known.length) < (time or "", len(text))


class SessionRow(Struct, frozen=True):
    """A session in the archive. `first`, `last`: times of its first and last turn; `turns`: number of turns; `path`:
    its file, relative to the archive's folder."""

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
        vault_id: Callable[[], str],
        directory: Path,
        *,
        keep_days: int,
        clock: Clock,
    ) -> None:
        """`vault_id` is called at the first use, because a vault's id may change while the vault is open. `directory`: the
        folder of the database. `keep_days`: days after which `expire` deletes a session; 0: never."""
        self._vault_id = vault_id
        self._database = directory / "sessions.sqlite3"
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
                self._delete_database()
                raise Unavailable(f"the archive's index could not be used ({error})", hint="ask again") from error
            except OSError as error:
                self.close()  # a file may already have rows that the database lacks: the next call compares them
                raise Unavailable(f"the archive of sessions cannot be used: {error}") from error

    def _open(self) -> sqlite3.Connection:
        """Open the database and bring it up to date with the sessions' files; return it. A damaged database is deleted
        and made again from the files."""
        vault_id, path = self._vault_id(), self._database
        # The second attempt uses a new database, if the first finds a damaged one.
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
                    self._folder = paths.sessions_dir(vault_id)
                    self._purged = PurgedTurns(paths.purged_file(vault_id))
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

    def _delete_database(self) -> None:
        """Close the database and delete its file; the next call rebuilds it."""
        if self._db is not None:
            self._db.close()
            self._db = None
        for file in sql.files(self._database):
            with contextlib.suppress(NotADirectoryError):  # a file has taken the place of its folder: nothing to delete
                file.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the database; the next call opens it again."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def _catch_up(self, db: sqlite3.Connection) -> None:
        """Bring the database up to date with the sessions' files: add their new lines. If a session's file was deleted
        or has become shorter, the session is removed; a shorter file is then read again from its beginning."""
        known = {path: (number, size) for path, number, size in db.execute("SELECT path, number, size FROM session")}
        sizes: dict[str, int] = {}
        for folder in sorted(self._folder.iterdir()) if self._folder.is_dir() else ():
            if folder.is_dir() and not folder.is_symlink():
                for file in folder.glob(f"*{files.ENDING}"):
                    sizes[f"{folder.name}/{file.name}"] = file.stat().st_size
        removed = {path: number for path, (number, size) in known.items() if sizes.get(path, -1) < size}
        for number in removed.values():
            self._delete_session(db, number)
        if removed:  # their turns may be in a transcript that counts as read: have all transcripts read again
            db.execute("DELETE FROM cursor WHERE source NOT LIKE 'document:%'")
        for path, size in sizes.items():
            taken = 0 if path in removed else known.get(path, (0, 0))[1]
            if size > taken:
                self._add_rows(db, path, taken)

    def _add_rows(self, db: sqlite3.Connection, path: str, start: int) -> None:
        """Add to the database the rows of a session's file from offset `start` on. `path`: the file, relative to the
        archive's folder."""
        head: SessionHead | None = None
        lines: list[Line | Deed] = []
        end = start
        for after, row in files.read(self._folder / path, start):
            end = after
            if isinstance(row, SessionHead):
                head = row
            else:
                lines.append(row)
        number = self._store_head(db, path, head)
        if number is not None:
            self._store_lines(db, number, lines)
            db.execute("UPDATE session SET size = ? WHERE number = ?", (end, number))

    def _store_head(self, db: sqlite3.Connection, path: str, head: SessionHead | None) -> int | None:
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

    def _store_lines(self, db: sqlite3.Connection, session: int, lines: Sequence[Line | Deed]) -> None:
        """Store lines of a session's file in the database. `session`: the session's number."""
        (place,) = db.execute("SELECT coalesce(max(place), 0) FROM turn WHERE session = ?", (session,)).fetchone()
        for row in lines:
            if isinstance(row, Deed):
                self._insert_deed(db, session, row)
                continue
            # A turn is new, or known in this session, or not to be changed: of another session, or purged.
            found = db.execute("SELECT number, session, text, withdrawn FROM turn WHERE key = ?", (row.key,)).fetchone()
            if found is None and (row.role or row.mark == PURGED):
                place += 1
                text, back = None if row.mark == PURGED else row.text, row.mark == WITHDRAWN
                values = (row.key, session, place, row.to, row.role, row.time, text, back)
                number = db.execute(INSERT_TURN, values).lastrowid
            elif found is None or found[1] != session or found[2] is None:
                continue
            else:
                number, _, before, was_back = found
                text = row.text if row.role else before
                back = {WITHDRAWN: 1, RESTORED: 0}.get(row.mark, was_back)
                if not was_back:
                    self._remove_words(db, number, before)
                db.execute("UPDATE session SET replaced = replaced OR ? WHERE number = ?", (text != before, session))
                update = "UPDATE turn SET text = ?, withdrawn = ?, time = coalesce(?, time) WHERE number = ?"
                db.execute(update, (text, back, row.time, number))
            if text is not None and not back:
                db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (number, fts_text(text)))
        self._update_totals(db, session)

    def _insert_deed(self, db: sqlite3.Connection, session: int, row: Deed) -> None:
        """Store a deed in the database, unless it is there already. `session`: the session's number."""
        # Find its prompt: a deed that names none belongs to the last prompt before it.
        key = row.to or self._last_prompt(db, session)
        (prompt,) = db.execute("SELECT number FROM turn WHERE key = ?", (key,)).fetchone() or (None,)
        command, edited = None if row.mark == PURGED else row.did, "\n".join(row.files) or None
        values = (
            row.deed,
            session,
            prompt,
            row.time,
            row.by or None,
            command,
            edited,
            row.status,
            row.error,
            row.seconds,
        )

        # Insert it; a number is returned only if it is new. Then make its words searchable.
        into = "INSERT OR IGNORE INTO deed (key, session, prompt, time, tool, command, files, status, error, seconds)"
        number = db.execute(f"{into} VALUES ({sql.marks(values)}) RETURNING number", values).fetchone()
        if number is not None and command is not None:
            words = "INSERT INTO deed_words (rowid, text) VALUES (?, ?)"
            db.execute(words, (*number, fts_text(f"{row.did}\n{row.error}")))

    def _last_prompt(self, db: sqlite3.Connection, session: int) -> str:
        """Return the key of a session's last prompt; "" if it has none."""
        select = "SELECT key FROM turn WHERE session = ? AND role = 'user' ORDER BY asked DESC, place DESC LIMIT 1"
        found = db.execute(select, (session,)).fetchone()
        return found[0] if found else ""

    def _update_totals(self, db: sqlite3.Connection, session: int) -> None:
        """Store a session's number of turns and the times of its first and last turn. Called after its turns
        changed."""
        self._counts.changed()
        select = "SELECT coalesce(sum(NOT withdrawn), 0), min(time), max(time) FROM turn WHERE session = ? AND text IS NOT NULL"
        found = db.execute(select, (session,)).fetchone()
        db.execute("UPDATE session SET turns = ?, first = ?, last = ? WHERE number = ?", (*found, session))

    def _delete_session(self, db: sqlite3.Connection, session: int) -> None:
        """Delete a session and its turns from the database, but not its file."""
        rows = db.execute(f"SELECT number, text FROM turn WHERE session = ? AND {LIVE}", (session,)).fetchall()
        for number, text in rows:
            self._remove_words(db, number, text)
        select = "SELECT number, command, error FROM deed WHERE session = ? AND command IS NOT NULL"
        for number, command, error in db.execute(select, (session,)).fetchall():
            self._remove_words(db, number, f"{command}\n{error}", "deed_words")
        db.execute("DELETE FROM deed WHERE session = ?", (session,))
        db.execute("DELETE FROM turn WHERE session = ?", (session,))
        db.execute("DELETE FROM session WHERE number = ?", (session,))
        self._counts.changed()

    def _remove_words(self, db: sqlite3.Connection, number: int, text: str, table: str = "words") -> None:
        """Remove a text from a table of full text search. `number`: its row; `text`: as it was stored."""
        db.execute(f"INSERT INTO {table} ({table}, rowid, text) VALUES ('delete', ?, ?)", (number, fts_text(text)))

    # ------------------------------------------------------------ keeping

    def known(self, keys: Sequence[str]) -> dict[str, KnownTurn]:
        """Return {key: turn} for those of `keys` whose turns (or deeds) are archived, or were purged from the
        archive."""
        with self._opened() as db:
            found = {key: KnownTurn("", "", "", 0, 0) for key in self._purged.among(keys)}
            for chunk in sql.sets(list(keys)):
                select = (
                    "SELECT turn.key, CASE WHEN text IS NULL THEN '' ELSE session.id END, role, coalesce(time, ''), length(text), "
                    f"withdrawn FROM turn JOIN session ON session.number = turn.session WHERE turn.key IN ({sql.marks(chunk)})"
                )
                found |= {key: KnownTurn(*row) for key, *row in db.execute(select, chunk) if key not in found}
                select = f"SELECT key FROM deed WHERE key IN ({sql.marks(chunk)})"
                found |= {key: KnownTurn("", "deed", "", 0, 0) for (key,) in db.execute(select, chunk)}
            return found

    def add(self, turns: Sequence[tuple[SessionHead, Sequence[Line | Deed]]]) -> None:
        """Store turns, deeds and titles durably. Those that are archived already, or were purged, are left out; an
        answer that has grown since is replaced."""
        known = self.known([row.key for _, lines in turns for row in lines])
        with self._opened() as db:
            for head, lines in turns:
                if head.title and self._purged.among([_title_key(head.title)]):
                    head = replace(head, title=None)
                last = {row.key: row for row in lines}
                fresh = [
                    row
                    for row in last.values()
                    if row.key not in known
                    or (isinstance(row, Line) and is_news(known[row.key], head.session, row.time, row.text))
                ]
                self._append(db, head, fresh)

    def mark(self, *, withdrawn: Mapping[str, str], restored: Iterable[str], shared: Iterable[str]) -> int:
        """Store durably that turns were taken back, or were not after all. Return the number of turns that were taken
        back.

        `withdrawn`: key of a turn -> id of the session in which the person took it back. A turn that another session
        has as well is left as it is. `restored`: keys of turns that were read in a session in which they were not taken
        back. `shared`: keys of turns that were read in another session than the one that they are archived under.
        """
        rows: dict[tuple[int, str], list[Line | Deed]] = {}
        count = 0
        with self._opened() as db:
            for chunk in sql.sets(sorted(shared)):
                db.execute(f"UPDATE turn SET shared = 1 WHERE key IN ({sql.marks(chunk)})", chunk)
            for chunk in sql.sets(sorted({*withdrawn, *restored})):
                select = (
                    "SELECT turn.key, session.number, session.path, session.id, withdrawn, shared FROM turn JOIN session "
                    f"ON session.number = turn.session WHERE text IS NOT NULL AND turn.key IN ({sql.marks(chunk)})"
                )
                for key, number, path, session, was_back, by_others in db.execute(select, chunk):
                    back = key in withdrawn and (was_back or (withdrawn[key] == session and not by_others))
                    if back != bool(was_back):
                        rows.setdefault((number, path), []).append(Line(key, mark=WITHDRAWN if back else RESTORED))
                        count += back
            for (number, path), lines in rows.items():
                size = files.append(self._folder / path, lines)
                self._store_lines(db, number, lines)
                db.execute("UPDATE session SET size = ? WHERE number = ?", (size, number))
        return count

    def _append(self, db: sqlite3.Connection, head: SessionHead, lines: Sequence[Line | Deed]) -> None:
        """Add lines to a session's file and to the database. The description `head` is written before them if it has
        changed. Without `lines`, it is written only if it has a new title."""
        path = files.path_of(head)
        file = self._folder / path
        before = db.execute("SELECT cwd, title, source, number FROM session WHERE path = ?", (path,)).fetchone()
        if not lines and (before is None or not head.title or head.title == before[1]):
            return

        # A deed does not name its prompt if that is the last prompt before it in the file.
        asked = self._last_prompt(db, before[3]) if before else ""
        rows: list[Row] = []
        for line in lines:
            if isinstance(line, Deed):
                line = replace(line, to="" if line.to == asked else line.to)
            elif line.role == "user":
                asked = line.key
            rows.append(line)

        # Create the folders; write the description of the session if it has changed.
        if before is None and not file.parent.is_dir():
            for place in (self._folder, file.parent):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
                disk.sync_directory(place.parent)
        if before is None or before[:3] != (head.cwd, head.title, head.source):
            cwd, title, source, _ = before or (None, None, None, 0)
            head = SessionHead(head.session, head.harness, head.cwd or cwd, head.title or title, head.source or source)
            rows.insert(0, head)

        # Write the file first, then the database.
        size = files.append(file, rows, new=before is None)
        if before is None:
            disk.sync_directory(file.parent)
        number = self._store_head(db, path, head)
        assert number is not None
        self._store_lines(db, number, lines)
        db.execute("UPDATE session SET size = ? WHERE number = ?", (size, number))

    def expire(self) -> int:
        """Delete sessions whose last turn is more than `keep_days` old, and whose file was not written in these days
        either. Does this at most once an hour. Return the number of sessions deleted."""
        now = self._clock()
        if not self._keep_days or (self._expired is not None and now - self._expired < timedelta(hours=1)):
            return 0
        self._expired = now
        limit = now - timedelta(days=self._keep_days)
        removed = 0
        with self._opened() as db:
            select = "SELECT number, path FROM session WHERE last < ?"
            for number, path in db.execute(select, (limit.strftime("%Y-%m-%dT%H:%M:%S"),)).fetchall():
                file = self._folder / path
                if not file.exists() or file.stat().st_mtime < limit.timestamp():
                    file.unlink(missing_ok=True)
                    self._delete_session(db, number)
                    removed += 1
        return removed

    def purge(self, wanted: Forgotten, *, change: bool) -> int:
        """Delete from the archive what is `wanted`: every turn's text, deed and title that holds it, and the turns that
        the memory was extracted from. Return the number of turns, deeds and titles. With `change` False, only count
        them.

        Their keys are kept, so that they are not archived again. No freed page has their texts.
        """
        with self._opened() as db:
            # Find the titles, deeds and turns to delete.
            rows = db.execute("SELECT number, key, session, text, withdrawn FROM turn").fetchall()
            titles = db.execute("SELECT number, title FROM session WHERE title IS NOT NULL").fetchall()
            titles = [(number, title) for number, title in titles if wanted.holds(title.encode("utf-8", "replace"))]
            select = "SELECT number, key, session, command, error, files FROM deed WHERE command IS NOT NULL"
            did = db.execute(select).fetchall()
            did = [row for row in did if wanted.holds("\n".join(filter(None, row[3:])).encode("utf-8", "replace"))]
            emptied = [row[1] for row in rows if row[3] is None]
            texts = priority.giving([row for row in rows if row[3] is not None])
            found = [row for row in texts if row[1] in wanted.turns or wanted.holds(row[3].encode("utf-8", "replace"))]
            if not change:
                return len(titles) + len(found) + len(did)

            # Store their keys, so that they are not archived again; then delete them from the database.
            keys = [*emptied, *wanted.turns, *(row[1] for row in (*did, *found))]
            self._purged.add([*keys, *(_title_key(title) for _, title in titles)])
            for number, _ in titles:
                db.execute("UPDATE session SET title = NULL WHERE number = ?", (number,))
            for number, _, _, text, withdrawn in found:
                if not withdrawn:
                    self._remove_words(db, number, text)
                db.execute("UPDATE turn SET text = NULL WHERE number = ?", (number,))
            for number, _, _, command, error, _ in did:
                self._remove_words(db, number, f"{command}\n{error}", "deed_words")
                db.execute("UPDATE deed SET command = NULL, files = NULL, error = '' WHERE number = ?", (number,))

            # Write the files again, also those that have older versions of a turn.
            replaced = db.execute("SELECT number FROM session WHERE replaced").fetchall()
            for session in {row[2] for row in (*found, *did)} | {row[0] for row in (*titles, *replaced)}:
                self._rewrite_file(db, session)
                self._update_totals(db, session)

        # Remove the texts from the cache and from freed pages of the database.
        self.passages.clear()
        with self._opened() as db:
            db.execute("INSERT INTO words (words) VALUES ('optimize')")
            db.execute("INSERT INTO deed_words (deed_words) VALUES ('optimize')")
            db.commit()
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return len(titles) + len(found) + len(did)

    def _rewrite_file(self, db: sqlite3.Connection, session: int) -> None:
        """Replace a session's file by what the database has of that session."""
        row = self._session_row(db, session)
        rows: list[Row] = [SessionHead(row.id, row.harness, row.cwd, row.title, row.source)]
        select = (
            "SELECT turn.key, turn.role, turn.text, turn.time, turn.withdrawn, prompt.key FROM turn LEFT JOIN turn AS prompt ON "
            "turn.role = 'assistant' AND prompt.session = turn.session AND prompt.place = turn.asked "
            "WHERE turn.session = ? ORDER BY turn.place"
        )
        for key, role, text, time, withdrawn, to in db.execute(select, (session,)):
            mark = WITHDRAWN if withdrawn else ""
            rows.append(Line(key, mark=PURGED) if text is None else Line(key, role, text, time, mark, to or ""))
        select = (
            "SELECT deed.key, command, files, coalesce(tool, ''), status, error, seconds, deed.time, coalesce(turn.key, ''), "
            "CASE WHEN command IS NULL THEN ? ELSE '' END FROM deed LEFT JOIN turn ON turn.number = prompt "
            "WHERE deed.session = ? ORDER BY deed.number"
        )
        for key, command, edited, *others in db.execute(select, (PURGED, session)):
            rows.append(Deed(key, command or "", tuple((edited or "").splitlines()), *others))
        size = files.rewrite(self._folder / row.path, rows)
        db.execute("UPDATE session SET size = ?, replaced = 0 WHERE number = ?", (size, session))

    # ------------------------------------------------------------ sources

    def is_read(self, source: str, state: SourceState) -> bool:
        """Return whether a source, now in this `state`, was read to its end and has not changed after that."""
        with self._opened() as db:
            row = db.execute("SELECT size, mtime_ns, inode FROM cursor WHERE source = ?", (source,)).fetchone()
        return row is not None and SourceState(*row) == state

    def mark_read(self, source: str, state: SourceState) -> None:
        """Record that a source was read to its end while it was in this `state`."""
        with self._opened() as db:
            db.execute(
                "INSERT OR REPLACE INTO cursor (source, size, mtime_ns, inode) VALUES (?, ?, ?, ?)",
                (source, state.size, state.mtime_ns, state.inode),
            )

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
            if after or before:  # "" sorts before every ISO time, "9" after it
                within = "AND rowid IN (SELECT number FROM turn WHERE time >= :after AND time <= :before)"
            found = db.execute(
                f"SELECT rowid, -bm25(words) AS score FROM words WHERE words MATCH :match {within} "
                "ORDER BY score DESC, rowid LIMIT :limit",
                {"match": match, "limit": limit, "after": after or "", "before": before or "9"},
            ).fetchall()
            turns = self._live_turns(db, [number for number, _ in found])
        return [(turns[number], score) for number, score in found if number in turns]

    def _live_turns(self, db: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, Archived]:
        """Return {number: turn} of the turns that were neither purged nor taken back."""
        found: dict[int, Archived] = {}
        select = f"SELECT {TURN} FROM turn WHERE {LIVE} AND number"
        for chunk in sql.sets(list(numbers)):
            for row in db.execute(f"{select} IN ({sql.marks(chunk)})", chunk):
                found[row[0]] = Archived(*row)
        return found

    def around(self, archived: Archived) -> list[Archived]:
        """Return the exchange to which a turn belongs: the prompt and its answers, at most four turns."""
        select = f"SELECT {TURN} FROM turn WHERE session = ? AND asked = ? AND {LIVE} ORDER BY place LIMIT 4"
        with self._opened() as db:
            return [Archived(*row) for row in db.execute(select, (archived.session, archived.asked))]

    # ------------------------------------------------------------ what was done

    def commands_like(self, terms: Sequence[str], folders: Collection[str], limit: int) -> list[ArchivedDeed]:
        """Return the commands of sessions in `folders` that match one of `terms`, newest first. A command matches if a
        term, or its beginning, is in it, in its prompt, or in its session's title."""
        parts = [f"%{stem(term)[:4]}%" for term in terms if len(stem(term)) >= 4]
        like = " OR ".join(["session.title LIKE ?"] * len(terms) + ["command LIKE ?"] * len(parts)) or "0"
        within = f"command != '' AND session.cwd IN ({sql.marks(list(folders))})"
        having = (
            "(deed.number IN (SELECT rowid FROM deed_words WHERE deed_words MATCH ?) OR "
            f"deed.prompt IN (SELECT rowid FROM words WHERE words MATCH ?) OR {like})"
        )
        match = fts_match(terms)
        values = [*folders, match, match, *(f"%{term}%" for term in terms), *parts, limit]
        return self._select_deeds(f"{within} AND {having} ORDER BY deed.number DESC LIMIT ?", values)

    def failures_like(self, terms: Sequence[str], limit: int) -> list[ArchivedDeed]:
        """Return failed commands whose words or errors have one of `terms`, those that have most of them first."""
        found = "SELECT rowid FROM deed_words WHERE deed_words MATCH ? ORDER BY rank LIMIT ?"
        having = f"status != 0 AND command != '' AND deed.number IN ({found}) ORDER BY deed.number DESC"
        return self._select_deeds(having, [fts_match(terms), limit])

    def done_after(self, deed: ArchivedDeed, limit: int) -> list[ArchivedDeed]:
        """Return what was done after a deed in its session, in order."""
        where = "deed.session = ? AND deed.number > ? ORDER BY deed.number LIMIT ?"
        return self._select_deeds(where, [deed.session, deed.number, limit])

    def deeds_of(self, session: int) -> list[ArchivedDeed]:
        """Return what was done in a session (its number), in order."""
        return self._select_deeds("deed.session = ? ORDER BY deed.number", [session])

    def edits_of(self, name: str, limit: int) -> list[ArchivedDeed]:
        """Return the edits of files whose path ends with `name`, newest first."""
        escaped = name.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        where = "status = 0 AND '/' || replace(files, char(10), char(10) || '/') || char(10) LIKE ? ESCAPE '\\' ORDER BY deed.number DESC LIMIT ?"
        return self._select_deeds(where, [f"%/{escaped}\n%", limit])

    def runs_of(self, commands: Sequence[str], folders: Collection[str]) -> list[tuple[str, int, str]]:
        """Return (command, status, time) of each time one of `commands` ran in a session in one of `folders`."""
        rows = []
        with self._opened() as db:
            for chunk in sql.sets(list(commands)):
                select = (
                    "SELECT command, status, deed.time FROM deed JOIN session ON session.number = deed.session "
                    f"WHERE command IN ({sql.marks(chunk)}) AND cwd IN ({sql.marks(list(folders))})"
                )
                rows += db.execute(select, [*chunk, *folders]).fetchall()
        return rows

    def rarity(self, terms: Sequence[str]) -> dict[str, float]:
        """Return {term: how rare it is among deeds}: ln(1 + (deeds + 1) / (deeds with the term + 0.5))."""
        with self._opened() as db:
            (total,) = db.execute("SELECT count(*) FROM deed").fetchone()
            select = "SELECT count(*) FROM deed_words WHERE deed_words MATCH ?"
            counts = {term: db.execute(select, (fts_match([term]),)).fetchone()[0] for term in terms}
        return {term: math.log(1 + (total + 1) / (count + 0.5)) for term, count in counts.items()}

    def folders(self) -> list[str]:
        """Return the folders in which sessions worked."""
        with self._opened() as db:
            return [folder for (folder,) in db.execute("SELECT DISTINCT cwd FROM session WHERE cwd IS NOT NULL")]

    def _select_deeds(self, where: str, values: Sequence[Any]) -> list[ArchivedDeed]:
        """Return the deeds that match a condition in SQL, which may end with an order and a limit."""
        with self._opened() as db:
            return [ArchivedDeed(*row) for row in db.execute(DEED + where, values)]

    # ------------------------------------------------------------ looking

    def _session_row(self, db: sqlite3.Connection, number: int) -> SessionRow:
        """Return the session with this number."""
        return SessionRow(*db.execute(f"SELECT {COLUMNS} FROM session WHERE number = ?", (number,)).fetchone())

    def sessions(self, numbers: Sequence[int]) -> Mapping[int, SessionRow]:
        """Return {number: session} of the sessions with these numbers."""
        with self._opened() as db:
            return {number: self._session_row(db, number) for number in set(numbers)}

    def newest(
        self, limit: int, *, before: str | None = None, project: str | None = None, harness: str | None = None
    ) -> list[SessionRow]:
        """Return up to `limit` sessions, ordered by their last turn, newest first. `before`: only those after the
        session with this id. `project`: only those in a folder of this name, or in this path. `harness`: only of this harness."""
        select = (
            f"SELECT {COLUMNS} FROM session WHERE turns > 0 AND (:harness IS NULL OR harness = :harness) "
            "AND (:project IS NULL OR cwd = :project OR substr(cwd, -length(:project) - 1) = '/' || :project "
            "OR substr(cwd, 1, length(:project) + 1) = :project || '/') "
            "AND (:before IS NULL OR (coalesce(last, ''), number) < (SELECT coalesce(last, ''), number FROM session WHERE id = :before)) "
            "ORDER BY coalesce(last, '') DESC, number DESC LIMIT :limit"
        )
        given = {"limit": limit, "before": before, "project": project, "harness": harness}
        with self._opened() as db:
            return [SessionRow(*row) for row in db.execute(select, given)]

    def count(self) -> tuple[int, int]:
        """Return (number of sessions, number of turns)."""
        with self._opened() as db:
            select = "SELECT count(*), coalesce(sum(turns), 0) FROM session WHERE turns > 0"
            sessions, turns = db.execute(select).fetchone()
            return sessions, turns

    def tails(self) -> list[SessionTail]:
        """Return the tail of every session that has turns, ordered by the last turn, newest first."""
        with self._opened() as db:
            rows = db.execute(
                "SELECT s.path, s.id, s.harness, s.cwd, s.last, s.turns, t.key, s.title FROM session s JOIN turn t ON t.number = "
                f"(SELECT number FROM turn WHERE session = s.number AND {LIVE} ORDER BY asked DESC, place DESC LIMIT 1) "
                "ORDER BY coalesce(s.last, '') DESC, s.number DESC"
            )
            return [SessionTail(*row) for row in rows]

    def turns_of(self, path: str) -> list[Archived]:
        """Return the turns of the session whose file is `path`, in order, without those that the person took back."""
        with self._opened() as db:
            select = f"SELECT {TURN} FROM turn WHERE session = (SELECT number FROM session WHERE path = ?) AND {LIVE}"
            return [Archived(*row) for row in db.execute(f"{select} ORDER BY asked, place", (path,))]

    def session(self, prefix: str) -> tuple[SessionRow, list[Archived]]:
        """Return (a session, its turns in order). The turns include those taken back. `prefix`: the session's id, or a
        unique prefix of it. Raises NotFound, Ambiguous."""
        escaped = prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        with self._opened() as db:
            select = f"SELECT {COLUMNS} FROM session WHERE id LIKE ? ESCAPE '\\' ORDER BY id != ?, id LIMIT 3"
            found = [SessionRow(*row) for row in db.execute(select, (f"{escaped}%", prefix))]
            if not found or not prefix:
                raise NotFound(f"no session's id begins with '{prefix[:60]}'", hint="ormahctl recall --sessions")
            if len(found) > 1 and found[0].id != prefix:
                listed = ", ".join(row.id for row in found)
                message = f"several sessions have an id that begins with '{prefix[:60]}': {listed}"
                raise Ambiguous(message, hint="write more of it")
            select = f"SELECT {TURN} FROM turn WHERE session = ? AND text IS NOT NULL ORDER BY asked, place"
            return found[0], [Archived(*row) for row in db.execute(select, (found[0].number,))]


def _title_key(title: str) -> str:
    """Return the key of a purged title in `PurgedTurns`."""
    return f"title\n{title}"
