"""Brings the sessions of a file into the archive: read, leave out, redact, keep.

Everything is decided by the turns' keys, so that a file may be read again, in parts, or after it was rewritten. A dry run goes the same way,
up to the last step.
"""

from __future__ import annotations

import fnmatch
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from ormahd import paths
from ormahd.actions.amend import clean
from ormahd.api import IngestedFile, IngestPathResult
from ormahd.errors import BadRequest
from ormahd.ingest.readers.formats import READERS, format_of
from ormahd.ingest.readers.turns import Reading, SessionTurn, key_of, said
from ormahd.ingest.sources import SourceDocument, documents, state_of, walk
from ormahd.judge.own_sessions import is_own_session
from ormahd.process import priority
from ormahd.sessions.files import Line, SessionHead

if TYPE_CHECKING:
    from ormahd.ormah import Ormah

Progress = Callable[[int, int, str], None]

REST: Final = 600.0
"""Seconds without a write after which a transcript counts as finished: its last answer is whole."""
BATCH: Final = 500
"""Turns that are kept together."""


class _Taking(Struct):
    """A document that is being taken in."""

    name: str
    source: str | None
    written: str
    """When the file was last written: the time of turns that have none."""
    reading: Reading
    out: IngestedFile
    seen: set[str] | None
    """Keys that were counted in a dry run; None if turns are kept."""
    ending: str = ""
    """The last answer as a hook told it, where the file may lack it or not say that it is whole."""
    tail: SessionTurn | None = None
    """The last turn so far."""
    asked: dict[str, str] = field(default_factory=dict)
    """The key of the last prompt of each session."""
    judging: set[str] = field(default_factory=set)
    """Sessions that Ormah's own judge held."""
    told: dict[str, str] = field(default_factory=dict)
    """{key of an answer: the key that it had if a hook told it before the file had it}."""
    waiting: list[SessionTurn] = field(default_factory=list)
    sessions: set[str] = field(default_factory=set)
    redacted: Counter[str] = field(default_factory=Counter)


def look(ormah: Ormah, path: str, *, dry_run: bool, progress: Progress) -> IngestPathResult:
    """Return what is in a file or folder, and with `dry_run` what would come of it.

    Raises:
        BadRequest: there is nothing at this path, or archiving is switched off.
    """
    _allowed(ormah)
    place = _place(path)
    files = walk(place, _ours(ormah)) if place.is_dir() else [place]
    seen: set[str] = set()
    found = []
    for number, file in enumerate(files):
        progress(number, len(files), file.name)
        found.append(take(ormah, file, seen=seen) if dry_run else IngestedFile(str(file)))
    return IngestPathResult(found)


def ingest(ormah: Ormah, path: str, *, unnamed: bool, progress: Progress) -> IngestedFile:
    """Archive the sessions of one file.

    Raises:
        BadRequest: there is no such file, or archiving is switched off.
    """
    _allowed(ormah)
    ormah.sessions.expire()
    return take(ormah, _place(path), unnamed=unnamed, progress=progress)


def _allowed(ormah: Ormah) -> None:
    if not ormah.settings.sessions.keep:
        raise BadRequest(
            "sessions.keep is off: no session is archived", hint="set sessions.keep = true, then: ormahctl restart"
        )


def _place(path: str) -> Path:
    place = Path(path)
    if not place.is_absolute():
        raise BadRequest(f"'{path[:200]}' is no absolute path")
    if not place.exists():
        raise BadRequest(f"there is nothing at {path[:200]}")
    return place


def _ours(ormah: Ormah) -> tuple[Path, ...]:
    """Return folders of our own: what we wrote there is no session."""
    return (ormah.vault.root, ormah.index.directory, ormah.state.path.parent, paths.sessions_dir(ormah.vault.id))


def take(
    ormah: Ormah,
    path: Path,
    *,
    seen: set[str] | None = None,
    unnamed: bool = False,
    ending: str = "",
    progress: Progress = lambda *_: None,
) -> IngestedFile:
    """Archive the sessions of a file, and say what came of it. With `seen`: only say it, and remember the keys there.

    `ending`: the last answer, as a hook told it. If the file does not have it yet, it is archived all the same.
    """
    return settling(ormah, path, seen=seen, unnamed=unnamed, ending=ending, progress=progress)[0]


def settling(
    ormah: Ormah,
    path: Path,
    *,
    seen: set[str] | None = None,
    unnamed: bool = False,
    ending: str = "",
    progress: Progress = lambda *_: None,
) -> tuple[IngestedFile, bool]:
    """Do as `take`, and also say whether the file ends with a whole answer."""
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
                settled = taking.tail is None or (taking.tail.role == "assistant" and taking.tail.closed)
        if not out.formats:
            out.status = "unknown"
        elif seen is None and not unnamed and not out.open and not out.excluded and state_of(path) == before:
            ormah.sessions.have_read(str(path), before)
    except OSError as error:
        out.status, out.error = "failed", error.strerror or str(error)
    return out, settled


def _project(path: Path) -> str | None:
    """Return the project of one of Gemini CLI's chats, whose lines do not name it."""
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
    for turn in priority.giving(READERS[found](document.stream, reading)):
        out.turns += 1
        turn = _heard(taking, turn)
        if not turn.closed:
            out.open += 1
        elif turn.session in taking.judging or _excluded(ormah, turn.cwd):
            out.excluded += 1
        else:
            taking.waiting.append(turn)
        if len(taking.waiting) >= BATCH:
            _keep(ormah, found, taking)
            progress(out.turns, 0, Path(out.path).name)
    _end(taking)
    _keep(ormah, found, taking)
    out.sessions += len(taking.sessions)
    if reading.withdrawn:
        known = ormah.sessions.there(reading.withdrawn)
        out.withdrawn += len(known)
        if taking.seen is None:
            ormah.sessions.withdraw(known)
    _count(taking)


def _heard(taking: _Taking, turn: SessionTurn) -> SessionTurn:
    """Note a turn; return it, closed if a hook said that this is the whole answer."""
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


def _end(taking: _Taking) -> None:
    """Add the answer that a hook told, where the file ends with the prompt."""
    tail = taking.tail
    if taking.ending and tail is not None and tail.role == "user" and tail.session not in taking.judging:
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


def _excluded(ormah: Ormah, cwd: str | None) -> bool:
    """Return whether sessions of a folder are left out: those of the vault itself always are."""
    if cwd is None:
        return False
    given = [str(ormah.vault.root), *(str(paths.expand(Path(one))) for one in ormah.settings.sessions.exclude)]
    return any(
        fnmatch.fnmatchcase(cwd, one.rstrip("/")) or fnmatch.fnmatchcase(cwd, f"{one.rstrip('/')}/*") for one in given
    )


def _keep(ormah: Ormah, harness: str, taking: _Taking) -> None:
    """Keep the turns that wait, without those that are known."""
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
    taking.out.added += sum(map(len, by_session.values()))
    rows = [(_head(ormah, harness, taking, some), _lines(ormah, taking, some)) for some in by_session.values()]
    if taking.seen is None:
        ormah.sessions.add(rows)
    else:
        taking.seen.update(turn.key for some in by_session.values() for turn in some)


def _head(ormah: Ormah, harness: str, taking: _Taking, turns: Iterable[SessionTurn]) -> SessionHead:
    first = next(iter(turns))
    title = _clean(ormah, taking, taking.reading.titles.get(first.session))
    return SessionHead(first.session, harness, first.cwd, title, taking.source)


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
