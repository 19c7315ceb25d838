"""Archives the sessions of a file: reads its turns, leaves some out, redacts secrets, and stores the rest.

Turns are recognised by their keys, so that a file may be read again, in parts, or after it was rewritten. A dry run
does the same without storing anything.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from ormahd import paths
from ormahd.actions.amend import clean
from ormahd.api import WHY_OURS, IngestedFile, IngestPathResult
from ormahd.errors import BadRequest
from ormahd.ingest import resuming
from ormahd.ingest.readers.formats import READERS, format_of
from ormahd.ingest.readers.turns import ExportedFact, Reading, SessionTurn, key_of, said
from ormahd.ingest.sources import SourceDocument, documents, state_of, walk
from ormahd.judge.own_sessions import is_own_session
from ormahd.process import priority
from ormahd.sessions.excluded import is_excluded
from ormahd.sessions.files import Line, SessionHead, path_of
from ormahd.state.sessions import without_secret
from ormahd.state.sources import SourceLog

if TYPE_CHECKING:
    from ormahd.ormah import Ormah

Progress = Callable[[int, int, str], None]
"""Is called between batches with (number done, number of all, name of the file). It may raise ReadingStopped."""
Propose = Callable[[Sequence[ExportedFact], bool], int]
"""Proposes facts as memories, and returns the number of those that were not proposed before. With True as its second
argument it only counts them."""
Touched = dict[str, tuple[SessionHead, list[Line]]]
"""File of a session in the archive -> (its description, the turns that were added)."""

REST: Final = 600.0
"""Seconds without a write after which a transcript counts as finished, so that its last answer is complete."""
BATCH: Final = 500
"""Number of turns that are archived at once."""


class ReadingStopped(Exception):
    """Raised by a `Progress` callback to end the reading of a file. Turns archived by then stay; the file counts as
    unread."""


class _Taking(Struct):
    """The state of the archiving of one document, which is a file, or a member of a zip."""

    name: str
    source: str | None
    written: str
    """When the file was last written. Turns without a time of their own get this one."""
    reading: Reading
    out: IngestedFile
    seen: set[str] | None
    """The keys of the turns that a dry run has counted so far; None if it is no dry run."""
    ending: str = ""
    """The agent's last answer as reported by a hook; "" if no hook reported one. The file may lack this answer, or
    have it without a sign that it is complete."""
    tail: SessionTurn | None = None
    """The last turn that was read so far."""
    asked: dict[str, str] = field(default_factory=dict)
    """Session -> key of its last prompt so far."""
    judging: set[str] = field(default_factory=set)
    """The judge's own sessions, which are left out."""
    homes: dict[str, str] = field(default_factory=dict)
    """Session -> the folder in which it began."""
    excluded: dict[str, bool] = field(default_factory=dict)
    """Working directory -> whether the settings exclude its sessions."""
    untitled: set[str] = field(default_factory=set)
    """Sessions of which a turn is left out. They get no title, because it might reveal that turn."""
    told: dict[str, str] = field(default_factory=dict)
    """Key of an answer -> the key that the same answer has if a hook reported it before the file had it."""
    waiting: list[SessionTurn] = field(default_factory=list)
    sessions: set[str] = field(default_factory=set)
    unentitled: set[str] = field(default_factory=set)
    """Those of `sessions` that got turns before it was known whether they may have a title."""
    begun: set[str] = field(default_factory=set)
    """Those of `sessions` that were not archived before."""
    touched: Touched = field(default_factory=dict)
    redacted: Counter[str] = field(default_factory=Counter)


def look(
    ormah: Ormah, path: str, *, dry_run: bool, progress: Progress, unnamed: bool = False, propose: Propose | None = None,
    foreseen: Callable[[IngestedFile, Touched], None] = lambda *_: None, files: Sequence[Path] | None = None,
) -> IngestPathResult:  # fmt: skip
    """Return the files at a path that may hold conversations. With `dry_run`, read each of these files, and include
    what would be archived from it.

    In a dry run, `foreseen` is called with the result of each file, and adds to it the memories that would be made
    from that file. `files`: the files at the path, if the caller has already found them.

    Raises:
        BadRequest: there is nothing at this path, or archiving is switched off.
    """
    if files is None or files:
        allowed(ormah)
    if files is None:
        place = named(path)
        files = walk(place, ours(ormah)) if place.is_dir() else [place]
    seen: set[str] = set()
    found = []
    for number, file in enumerate(files):
        progress(number, len(files), file.name)
        if not dry_run:
            found.append(IngestedFile(str(file)))
            continue
        touched: Touched = {}
        out = take(ormah, file, seen=seen, unnamed=unnamed, touched=touched, propose=propose)
        foreseen(out, touched)
        found.append(out)
    return IngestPathResult(found)


def ingest(
    ormah: Ormah,
    path: str,
    *,
    unnamed: bool,
    progress: Progress,
    source: str = "ingest",
    propose: Propose | None = None,
    touched: Touched | None = None,
) -> IngestedFile:
    """Archive the sessions of one file, and add those that got turns to `touched`. `source`: the source, such as
    `backfill`, to whose numbers the result is added. `unnamed`: the file is a copy of a text that has no path of its
    own. `propose`: is called with the facts in an export of another program's memories.

    Raises:
        BadRequest: there is no such file, or archiving is switched off.
    """
    allowed(ormah)
    ormah.sessions.expire()
    touched = {} if touched is None else touched
    out = take(ormah, named(path), unnamed=unnamed, progress=progress, propose=propose, touched=touched)
    record(ormah, source, out, touched)
    return out


def record(ormah: Ormah, source: str, out: IngestedFile, touched: Touched) -> None:
    """Add the result of archiving a file (`out`) to the numbers of `source`, and record that the sessions in
    `touched` got turns from that source."""
    log = SourceLog(ormah.state)
    if touched:
        log.grew(source, touched)
    if out.status != "unchanged":
        log.count(source, {"sessions": out.begun, "turns": out.added, "failed": int(out.status == "failed")})
    if out.unknown:
        log.unknown(out.formats, out.unknown)


def allowed(ormah: Ormah) -> None:
    """Raise BadRequest if archiving is switched off."""
    if not ormah.settings.sessions.keep:
        raise BadRequest(
            "sessions.keep is off: no session is archived", hint="set sessions.keep = true, then: ormahctl restart"
        )


def named(path: str) -> Path:
    """Return `path` as a Path. Raises BadRequest if it is not absolute, or if there is no file or folder at it."""
    place = Path(path)
    if not place.is_absolute():
        raise BadRequest(f"'{path[:200]}' is no absolute path")
    if not place.exists():
        raise BadRequest(f"there is nothing at {path[:200]}")
    return place


def ours(ormah: Ormah) -> tuple[Path, ...]:
    """Return the folders in which Ormah stores its own data. Sessions and documents in these folders are not read."""
    kept = (paths.sessions_dir(ormah.vault.id).parent, paths.purged_file(ormah.vault.id).parent)
    return (ormah.vault.root, ormah.index.directory, ormah.state.path.parent, *kept)


def refuse_ours(ormah: Ormah, place: Path) -> None:
    """Raise BadRequest if `place` is one of the folders in which Ormah stores its own data, or is inside one."""
    if any(one in (place, *place.parents) for one in ours(ormah)):
        raise BadRequest(f"{place} is in a folder of Ormah itself", hint=WHY_OURS)


def take(
    ormah: Ormah,
    path: Path,
    *,
    seen: set[str] | None = None,
    unnamed: bool = False,
    progress: Progress = lambda *_: None,
    propose: Propose | None = None,
    touched: Touched | None = None,
) -> IngestedFile:
    """Archive the sessions of a file, and return the result. If `seen` is given, it is a dry run: nothing is stored,
    turns whose keys are in `seen` count as archived, and the keys of the other turns are added to `seen`."""
    return settling(ormah, path, seen=seen, unnamed=unnamed, progress=progress, propose=propose, touched=touched)[0]


def settling(
    ormah: Ormah,
    path: Path,
    *,
    seen: set[str] | None = None,
    unnamed: bool = False,
    ending: str = "",
    progress: Progress = lambda *_: None,
    propose: Propose | None = None,
    touched: Touched | None = None,
) -> tuple[IngestedFile, bool]:
    """Do the same as `take`. Return (its result, whether the file ends with a complete answer).

    `ending`: the agent's last answer as reported by a hook; it is archived even if the file does not have it yet.
    """
    out = IngestedFile(str(path))
    settled = True
    try:
        before = state_of(path)
        if not unnamed and not ending and ormah.sessions.is_read(str(path), before):
            out.status = "unchanged"
            return out, settled
        rested = unnamed or time.time() - before.mtime_ns / 1e9 > REST
        written = (
            datetime.fromtimestamp(before.mtime_ns / 1e9, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        )
        with documents(path) as found:
            for document in found:
                name = None if unnamed else f"{path}!{document.member}" if document.member else str(path)
                reading = Reading(name="" if unnamed else document.name, cwd=_project(path), rested=rested)
                taking = _Taking(document.name, name, written, reading, out, seen, said(ending))
                _document(ormah, document, taking, progress)
                if propose is not None and reading.facts:
                    out.proposed += propose(reading.facts, seen is not None)
                if touched is not None:
                    _add(touched, taking)
                settled = taking.tail is None or (taking.tail.role == "assistant" and taking.tail.closed)
        if not out.formats:
            out.status, out.error = "unknown", out.error if before.size else "it is empty"
        elif seen is None and not unnamed and not out.open and not out.excluded and state_of(path) == before:
            ormah.sessions.have_read(str(path), before)
    except ReadingStopped:
        settled = False
    except OSError as error:
        out.status, out.error = "failed", error.strerror or str(error)
    return out, settled


def _add(touched: Touched, taking: _Taking) -> None:
    """Add the sessions that got turns from a document to `touched`, without the turns that the person took back by a
    rewind."""
    gone = taking.reading.withdrawn
    for path, (head, lines) in taking.touched.items():
        before = touched[path][1] if path in touched else []
        touched[path] = (head, [*before, *(one for one in lines if one.key not in gone)])


def _project(path: Path) -> str | None:
    """Return the project's folder of a chat of Gemini CLI, which the chat itself does not state. It is read from the
    file `.project_root` beside the folder `chats`. None for any other file."""
    file = path.parent.parent / ".project_root"
    try:
        return file.read_text("utf-8", "replace").strip()[:4096] or None if path.parent.name == "chats" else None
    except OSError:
        return None


def _document(ormah: Ormah, document: SourceDocument, taking: _Taking, progress: Progress) -> None:
    found = format_of(document.stream)
    out, reading = taking.out, taking.reading
    if found is None:
        return
    out.formats = sorted({*out.formats, found})
    source = taking.source if taking.seen is None and not document.member else None
    if source is not None:
        resuming.begin(ormah, source, document.stream, found, reading)
    for turn in priority.giving(READERS[found](document.stream, reading)):
        out.turns += 1
        turn = replace(turn, session=without_secret(turn.session))
        turn = _heard(taking, turn)
        if not turn.closed:
            out.open += 1
        elif _left_out(ormah, taking, turn):
            out.excluded += 1
            taking.untitled.add(turn.session)
        else:
            taking.waiting.append(turn)
        if len(taking.waiting) >= BATCH:
            _keep(ormah, found, taking, titled=False)
            progress(out.added, 0, Path(out.path).name)
    _end(ormah, taking)
    _keep(ormah, found, taking, titled=True)
    _entitle(ormah, found, taking)
    out.sessions += len(taking.sessions)
    if reading.withdrawn:
        known = ormah.sessions.of_sessions({key: without_secret(one) for key, one in reading.withdrawn.items()})
        out.withdrawn += len(known)
        if taking.seen is None:
            ormah.sessions.withdraw(known)
    if source is not None and not (out.excluded or taking.judging):
        resuming.remember(ormah, source, document.stream, reading)
    _count(taking)


def _heard(taking: _Taking, turn: SessionTurn) -> SessionTurn:
    """Record a turn in `taking`, and return it. If it is an answer that may still grow, and a hook reported exactly
    this text as the last answer, return it as complete (`closed`)."""
    if turn.cwd is not None:
        taking.homes.setdefault(turn.session, turn.cwd)
    if turn.role == "user":
        taking.asked[turn.session] = turn.key
        if is_own_session(cwd=turn.cwd, transcript=taking.source, text=turn.text):
            taking.judging.add(turn.session)
    else:
        taking.told[turn.key] = key_of("told", taking.asked.get(turn.session), turn.text)
        if not turn.closed and turn.text == taking.ending:
            turn = replace(turn, closed=True)
    taking.tail = turn
    return turn


def _end(ormah: Ormah, taking: _Taking) -> None:
    """If a hook reported the agent's last answer, and the file still ends with the prompt, add the reported answer to
    `taking.waiting`."""
    tail = taking.tail
    if taking.ending and tail is not None and tail.role == "user" and not _left_out(ormah, taking, tail):
        key = key_of("told", tail.key, taking.ending)
        taking.waiting.append(SessionTurn("assistant", taking.ending, taking.written, tail.session, key, tail.cwd))
        taking.out.turns += 1


def _count(taking: _Taking) -> None:
    out, reading = taking.out, taking.reading
    out.dropped = dict(Counter(out.dropped) + reading.dropped)
    out.unknown = dict(Counter(out.unknown) + reading.unknown)
    out.redacted = dict(Counter(out.redacted) + taking.redacted)
    out.damaged += reading.damaged
    out.too_long += reading.too_long


def _left_out(ormah: Ormah, taking: _Taking, turn: SessionTurn) -> bool:
    """Return whether a turn must not be archived: its session is one of the judge's own, or began in an excluded
    folder, or is in an excluded folder at this turn."""
    if turn.session in taking.judging:
        return True
    for cwd in {taking.homes.get(turn.session), turn.cwd} - {None}:
        assert cwd is not None
        if cwd not in taking.excluded:
            taking.excluded[cwd] = is_excluded(cwd, [str(ormah.vault.root), *ormah.settings.sessions.exclude])
        if taking.excluded[cwd]:
            return True
    return False


def _keep(ormah: Ormah, harness: str, taking: _Taking, *, titled: bool) -> None:
    """Archive those turns in `taking.waiting` that are not archived yet, and empty that list. `titled`: the document
    has no more turns, so that it is known which sessions may have a title; then also store the titles of the sessions
    of these turns."""
    turns, taking.waiting = taking.waiting, []
    keys = [turn.key for turn in turns]
    known = ormah.sessions.known([*keys, *(taking.told[key] for key in keys if key in taking.told)]) | (
        taking.seen or set()
    )
    by_session: dict[str, list[SessionTurn]] = {}
    for turn in turns:
        if turn.key in known or taking.told.get(turn.key) in known:
            taking.out.known += 1
        else:
            known.add(turn.key)
            by_session.setdefault(turn.session, []).append(turn)
    taking.sessions |= by_session.keys()
    taking.unentitled = taking.unentitled - by_session.keys() if titled else taking.unentitled | by_session.keys()
    taking.out.added += sum(map(len, by_session.values()))
    rows = [
        (_head(ormah, harness, taking, some[0].session, some[0].cwd, titled=titled), _lines(ormah, taking, some))
        for some in by_session.values()
    ]
    taking.out.characters += sum(len(turn.text) for some in by_session.values() for turn in some)
    fresh = ormah.sessions.unknown([head for head, _ in rows]) - taking.begun
    taking.begun |= fresh
    taking.out.begun += len(fresh)
    for head, lines in rows:
        path = path_of(head)
        before = taking.touched[path][1] if taking.touched.get(path) else []
        taking.touched[path] = (head, before if taking.seen is None else [*before, *lines])
    if taking.seen is None:
        ormah.sessions.add(rows)
    else:
        taking.seen.update(turn.key for some in by_session.values() for turn in some)


def _entitle(ormah: Ormah, harness: str, taking: _Taking) -> None:
    """Store the titles of those sessions of which turns were archived, but none by the last call of `_keep`, the only
    one that stores titles."""
    if taking.seen is None:
        known = sorted(taking.unentitled & taking.reading.titles.keys())
        ormah.sessions.add([(_head(ormah, harness, taking, one, None, titled=True), []) for one in known])


def _head(ormah: Ormah, harness: str, taking: _Taking, session: str, cwd: str | None, *, titled: bool) -> SessionHead:
    title = taking.reading.titles.get(session) if titled and session not in taking.untitled else None
    return SessionHead(session, harness, cwd, _clean(ormah, taking, title), taking.source)


def _lines(ormah: Ormah, taking: _Taking, turns: Iterable[SessionTurn]) -> list[Line]:
    return [
        Line(turn.key, turn.role, _clean(ormah, taking, turn.text) or "", turn.time or taking.written)
        for turn in priority.giving(turns)
    ]


def _clean(ormah: Ormah, taking: _Taking, text: str | None) -> str | None:
    found: list[str] = []
    text = clean(ormah, text, found)
    taking.redacted.update(found)
    return text
