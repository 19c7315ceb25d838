"""Archives the sessions of a file: reads its turns and deeds, leaves some out, redacts secrets, and stores the rest.

Turns are recognised by their keys, so that a file may be read again, in parts, or after it was rewritten.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from ormahd import paths
from ormahd.actions.amend import clean
from ormahd.api import WHY_OURS, IngestedFile
from ormahd.errors import BadRequest
from ormahd.ingest.readers.formats import READERS, format_of, unknown_kinds
from ormahd.ingest.readers.turns import ExportedFact, Reading, SessionDeed, SessionTurn, answer_turn
from ormahd.ingest.readers.values import clean_text
from ormahd.ingest.sources import SourceDocument, documents, state_of
from ormahd.judge.own_sessions import is_own_session
from ormahd.ormah import Ormah
from ormahd.process import own_files, priority
from ormahd.sessions.archive import is_news
from ormahd.sessions.files import Deed, Line, SessionHead, path_of
from ormahd.state.sessions import is_excluded, without_secret
from ormahd.state.sources import SourceLog
from ormahd.text.quoting import shortened

Progress = Callable[[int, int, str], None]
"""Is called between batches with (number done, number of all, name of the file). It may raise ReadingStopped."""

REST: Final = 600.0
"""Seconds without a write after which a transcript counts as finished, so that its last answer is complete."""
BATCH: Final = 500
"""Maximum number of turns that are archived at once."""
BATCH_CHARACTERS: Final = 1_000_000
"""Number of characters after which they are archived, so that a hostile file does not fill the memory."""
KINDS: Final = "kinds"
"""The name under which the log of sources has, for each program, the kinds of records that no reader knows."""
MAX_KINDS: Final = 20
COMMAND: Final = 400
"""Maximum number of characters of a command that are stored."""
ERROR: Final = 200
"""Maximum number of characters of the first line of an error that are stored."""
_APART: Final = "\n\n\x1e\n\n"
LASTING: Final = 1.0
"""Seconds from which on it is stored how long a command took."""


class ReadingStopped(Exception):
    """Raised by a `Progress` callback to end the reading of a file. Turns that are archived already remain; the file
    counts as unread."""


class ArchivedFile(Struct):
    """The result of archiving a file."""

    out: IngestedFile
    settled: bool = True
    """Whether the file ends with a complete answer."""
    grown: set[str] = field(default_factory=set)
    """Those sessions, by their files in the archive, that got turns."""
    redacted: Counter[str] = field(default_factory=Counter)
    facts: list[ExportedFact] = field(default_factory=list)
    """The facts in an export of another program's memories."""


class _Archiving(Struct):
    """The state while one document is archived: a file, or a member of a zip."""

    ormah: Ormah
    result: ArchivedFile
    reading: Reading
    source: str | None
    written: str
    """When the file was last written. Turns without a time of their own get this one."""
    ending: str
    """The agent's last answer as reported by a hook; "" if no hook reported one. The file may lack it."""
    harness: str
    tail: SessionTurn | None = None
    """The last turn that was read so far."""
    begun_in: dict[str, str] = field(default_factory=dict)
    """Session -> the folder in which it began."""
    hidden: set[str] = field(default_factory=set)
    """The judge's own sessions, which are left out."""
    untitled: set[str] = field(default_factory=set)
    """Sessions of which a turn is left out. They get no title, because it might reveal that turn."""
    excluded: dict[str, bool] = field(default_factory=dict)
    """Working directory -> whether the settings exclude its sessions."""
    waiting: list[SessionTurn | SessionDeed] = field(default_factory=list)
    size: int = 0
    """Number of characters in `waiting`."""
    sessions: set[str] = field(default_factory=set)
    """Sessions that got turns."""
    shared: set[str] = field(default_factory=set)
    """Keys of turns that are archived under another session."""
    restored: set[str] = field(default_factory=set)
    """Keys of turns that count as withdrawn in the archive."""

    def read(self, document: SourceDocument, progress: Progress) -> None:
        """Archive the turns and deeds of a document, and add the counts to `result`. `progress` is called after each
        batch."""
        out = self.result.out
        for message in priority.giving(READERS[self.harness](document.stream, self.reading)):
            out.turns += 1
            self._queue_deeds()
            message = replace(message, session=without_secret(message.session))
            self.tail = message
            if message.cwd is not None:
                self.begun_in.setdefault(message.session, message.cwd)
            if message.role == "user" and is_own_session(cwd=message.cwd, transcript=self.source, text=message.text):
                self.hidden.add(message.session)
            if not message.closed:
                out.open += 1
            elif self._is_left_out(message):
                out.excluded += 1
                self.untitled.add(message.session)
            else:
                self.waiting.append(message)
                self.size += len(message.text)
            if len(self.waiting) >= BATCH or self.size >= BATCH_CHARACTERS:
                self._archive_waiting(last=False)
                progress(out.added, 0, Path(out.path).name)

        # The end of the document: deeds after the last turn, and an answer that only the hook has reported.
        self._queue_deeds()
        tail = self.tail
        if (
            self.ending
            and tail is not None
            and (tail.role == "user" or not tail.closed)
            and not self._is_left_out(tail)
        ):
            now = self.ormah.clock().isoformat(timespec="milliseconds").replace("+00:00", "Z")
            self.tail = answer_turn(tail.to or tail.key, self.ending, now, tail.session, tail.cwd)
            self.waiting.append(self.tail)
            out.turns += tail.role == "user"
            out.open -= tail.role == "assistant"

        # Archive what is left, and mark the turns that were withdrawn, restored or are shared between sessions.
        self._archive_waiting(last=True)
        out.sessions += len(self.sessions)
        out.damaged += self.reading.damaged
        withdrawn = {key: without_secret(session) for key, session in self.reading.withdrawn.items()}
        out.withdrawn += self.ormah.sessions.mark(
            withdrawn=withdrawn, restored=self.restored - withdrawn.keys(), shared=self.shared - withdrawn.keys()
        )

    def _queue_deeds(self) -> None:
        """Move what the agent did since the last turn from `reading` to `waiting`."""
        deeds, self.reading.deeds = self.reading.deeds, []
        for deed in deeds if self.ormah.settings.sessions.work else ():
            deed = replace(deed, session=without_secret(deed.session))
            if not self._is_left_out(deed):
                self.waiting.append(deed)
                self.size += len(deed.command)

    def _is_left_out(self, item: SessionTurn | SessionDeed) -> bool:
        """Return whether a turn or deed must not be archived. Its session is one of the judge's own, or the session
        began in, or now is in, a folder that the settings exclude."""
        if item.session in self.hidden:
            return True
        for cwd in {self.begun_in.get(item.session, ""), item.cwd or ""} - {""}:
            if cwd not in self.excluded:
                patterns = [str(self.ormah.vault.root), *self.ormah.settings.sessions.exclude]
                self.excluded[cwd] = is_excluded(cwd, patterns)
            if self.excluded[cwd]:
                return True
        return False

    def _archive_waiting(self, *, last: bool) -> None:
        """Archive those turns and deeds in `waiting` that are not archived yet, and empty that list. `last`: the
        document has no more turns. It is then known which sessions may have a title, and the titles are archived
        too."""
        # Choose what is new: deeds with a new key, and turns that are new or have changed. A turn belongs to the session
        # in which it came first (`owners`).
        waiting, self.waiting, self.size = self.waiting, [], 0
        known = self.ormah.sessions.known([item.key for item in waiting])
        fresh: dict[str, list[SessionTurn | SessionDeed]] = {}
        owners: dict[str, str] = {}
        turns = sum(isinstance(item, SessionTurn) for item in waiting)
        for item in waiting:
            before = known.get(item.key)
            if isinstance(item, SessionDeed):
                if before is None:
                    fresh.setdefault(item.session, []).append(item)
                continue
            if before is not None and before.session not in ("", item.session):
                self.shared.add(item.key)
            if before is not None and before.withdrawn:
                self.restored.add(item.key)
            owner = owners.setdefault(item.key, item.session)
            if owner == item.session and is_news(before, owner, item.time, item.text):
                fresh.setdefault(item.session, []).append(item)
                self.sessions.add(item.session)

        # Count the turns.
        new = owners.keys() - known.keys()
        self.result.out.added += len(new)
        self.result.out.known += turns - len(new)

        # Make the rows of the archive: for each session a head, and its lines without secrets.
        rows = []
        texts = self._clean_deeds(fresh)
        for session in sorted({*self.sessions, *fresh}) if last else fresh:
            title = self.reading.titles.get(session) if last and session not in self.untitled else None
            items = fresh.get(session, [])
            cwd = items[0].cwd if items else None
            head = SessionHead(session, self.harness, cwd, self._clean(title), self.source)
            lines: list[Line | Deed] = []
            for item in priority.giving(items):
                time = item.time or self.written
                if isinstance(item, SessionTurn):
                    lines.append(Line(item.key, item.role, self._clean(item.text) or "", time, to=item.to))
                    continue
                seconds = None if item.seconds is None or item.seconds < LASTING else round(item.seconds, 1)
                lines.append(
                    Deed(
                        item.key,
                        did=shortened(texts.get(item.command, ""), COMMAND),
                        files=tuple(texts[file] for file in item.files),
                        by=item.tool,
                        status=item.status,
                        error=shortened(texts.get(item.error, ""), ERROR),
                        seconds=seconds,
                        time=f"{time[:19]}Z",  # to the second
                        to=item.to,
                    )
                )
            rows.append((head, lines))
            if session in self.sessions and items:
                self.result.grown.add(path_of(head))
        self.ormah.sessions.add(rows)

    def _clean_deeds(self, fresh: Mapping[str, Sequence[SessionTurn | SessionDeed]]) -> dict[str, str]:
        """Return {text of a deed: the text without secrets} for the commands, errors and files of these deeds. They are
        searched as one text, because each search takes as long as searching 10 KB."""
        deeds = [deed for items in fresh.values() for deed in items if isinstance(deed, SessionDeed)]
        texts = list(dict.fromkeys(text for deed in deeds for text in (deed.command, deed.error, *deed.files) if text))
        joined = _APART.join(text.replace("\x1e", " ") for text in texts)
        clean = (self._clean(joined) or "").split(_APART)
        if len(clean) != len(texts):  # a secret went over the end of a text
            clean = [self._clean(text) or "" for text in texts]
        return dict(zip(texts, clean, strict=True))

    def _clean(self, text: str | None) -> str | None:
        """Return a text without secrets, and count what was redacted. None for None."""
        found: list[str] = []
        text = clean(self.ormah, text, found)
        self.result.redacted.update(found)
        return text


def archive(
    ormah: Ormah, path: Path, *, unnamed: bool = False, ending: str = "", progress: Progress = lambda *_: None
) -> ArchivedFile:
    """Archive the sessions of one file, and return the result. A file that cannot be read is no error; the result says
    why.

    `unnamed`: the file is a copy of a text that has no path of its own. `ending`: the agent's last answer as reported
    by a hook; it is archived even if the file does not have it yet.
    """
    out = IngestedFile(str(path))
    result = ArchivedFile(out)
    try:
        # A file that was read to its end and has not changed is not read again.
        before = state_of(path)
        if not unnamed and not ending and ormah.sessions.is_read(str(path), before):
            out.status = "unchanged"
            return result
        changed = before.mtime_ns / 1e9
        written = datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        rested = unnamed or time.time() - changed > REST
        with documents(path) as found:
            for document in found:
                harness = format_of(document.stream)
                if harness is None:
                    continue
                out.formats = sorted({*out.formats, harness})
                reading = Reading(name="" if unnamed else document.name, cwd=_project(path), rested=rested)
                source = None if unnamed else f"{path}!{document.member}" if document.member else str(path)
                taking = _Archiving(ormah, result, reading, source, written, clean_text(ending), harness)
                taking.read(document, progress)

                # Record kinds of records that no reader knows.
                marks = SourceLog(ormah.state)
                known = set(marks.value(harness, KINDS) or ())
                if new := {*unknown_kinds(harness, reading.kinds)} - known:
                    marks.put(harness, KINDS, sorted(known | new)[:MAX_KINDS])
                result.facts += reading.facts
                last = taking.tail
                result.settled = last is None or (last.closed and bool(last.to) and taking.ending in ("", last.text))

        # The file counts as read if nothing in it has to be read again.
        if not out.formats:
            out.status, out.error = "unknown", None if before.size else "it is empty"
        elif not unnamed and not out.open and not out.excluded and state_of(path) == before:
            ormah.sessions.mark_read(str(path), before)
    except ReadingStopped:
        result.settled = False
    except OSError as error:
        out.status, out.error = "failed", error.strerror or str(error)
    out.redacted = dict(result.redacted)
    return result


def ingest(
    ormah: Ormah, path: str, *, unnamed: bool = False, progress: Progress, source: str = "ingest"
) -> ArchivedFile:
    """Archive the sessions of one file that a client named, as `archive` does. `source`: the source, such as
    `backfill`, to which the result is attributed.

    Raises:
        BadRequest: there is no such file, or archiving is switched off.
    """
    check_archiving(ormah)
    ormah.sessions.expire()
    result = archive(ormah, existing_path(path), unnamed=unnamed, progress=progress)
    SourceLog(ormah.state).brought(source, result.out.added)
    return result


def check_archiving(ormah: Ormah) -> None:
    """Raise BadRequest if the settings switch archiving off."""
    if not ormah.settings.sessions.keep:
        raise BadRequest(
            "sessions.keep is off: no session is archived", hint="set sessions.keep = true, then: ormahctl restart"
        )


def existing_path(path: str) -> Path:
    """Return `path` as a Path. Raises BadRequest if it is not absolute, or if there is no file or folder at it."""
    place = Path(path)
    if not place.is_absolute():
        raise BadRequest(f"'{path[:200]}' is no absolute path")
    if not place.exists():
        raise BadRequest(f"there is nothing at {path[:200]}")
    return place


def own_folders(ormah: Ormah) -> tuple[Path, ...]:
    """Return the folders in which Ormah stores its own data. Sessions and documents in these folders are not read."""
    archived = (paths.sessions_dir(ormah.vault.id).parent, paths.purged_file(ormah.vault.id).parent)
    return (ormah.vault.root, ormah.index.directory, ormah.state.path.parent, *archived)


def refuse_own_folders(ormah: Ormah, place: Path) -> None:
    """Raise BadRequest if `place` is one of the folders in which Ormah stores its own data, or is inside one."""
    if any(folder in (place, *place.parents) for folder in own_folders(ormah)):
        raise BadRequest(f"{place} is in a folder of Ormah itself", hint=WHY_OURS)


def _project(path: Path) -> str | None:
    """Return the folder of the project to which a chat of Gemini CLI belongs, which the chat does not state. The file
    `.project_root` beside the folder `chats` has it. None for any other file."""
    if path.parent.name != "chats":
        return None
    try:
        found = own_files.read(path.parent.parent / ".project_root", limit=4096)
    except OSError:
        return None
    return found.decode("utf-8", "replace").strip() or None
