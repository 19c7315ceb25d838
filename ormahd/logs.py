"""The log: lines of text, on stderr in the foreground and always in a rotating file.

Levels above `debug` contain no text of notes, queries or prompts (`log.level`). A line may name an op, an
id or a path, never a commit's subject or a title. Of an exception the frames and the type are logged, not the
message, which may quote anything (`without_words`). The file has mode 0600. `reopen` is for SIGHUP, after logrotate
or a person moved the file.
"""

from __future__ import annotations

import faulthandler
import logging
import logging.handlers
import os
import sqlite3
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

from ormahd import paths
from ormahd.errors import OrmahError
from ormahd.settings import LogSettings

NAME: Final = "ormahd.log"
OURS: Final = ("ormah", "ormahd")
"""The names of Ormah's loggers. Other libraries (Chroma, transformers) are logged from `warning` on."""
LATER: Final = "later"
"""Name of a record attribute. A record that has it may wait up to `PAUSE_S`, to be written together with others. Used
for frequent lines."""
PAUSE_S: Final = 0.1
FILE_BYTES: Final = 5_000_000
"""Size at which a new log file is begun: some days of a busy daemon."""
KEPT_FILES: Final = 5
"""Number of older log files: with the present one at most 30 MB."""
EARLY: Final = 10_000
"""Maximum number of records kept until the log file's path is known, which depends on the vault."""
_PRIORITY: Final = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


class Logs:
    """Sets up and holds the log handlers of this process, until `close`."""

    def __init__(self, settings: LogSettings, *, foreground: bool, environ: Mapping[str, str]) -> None:
        self._foreground = foreground
        self._file: _File | None = None
        self.trouble: str | None = None
        """Why there is no log file; None if there is one."""
        self._stderr = _Stream(sys.stderr) if foreground else None
        self._spool = _Spool()
        root = logging.getLogger()
        root.setLevel(logging.WARNING)
        root.addHandler(self._spool)
        if self._stderr is not None:
            journal = "JOURNAL_STREAM" in environ
            self._stderr.setFormatter(_Journal() if journal else LINE)
            self._spool.to(self._stderr)
        for name in OURS:
            logging.getLogger(name).setLevel(settings.level.upper())
        logging.captureWarnings(True)
        if foreground:
            faulthandler.enable()

    @property
    def file(self) -> Path | None:
        """The path of the log file, once it is known."""
        return None if self._file is None else Path(self._file.baseFilename)

    def to_file(self, directory: Path) -> None:
        """Log into `directory` from now on, beginning with the lines logged so far.

        If that fails, or the disk is full, only log lines are lost; `trouble` says why.
        """
        try:
            self._file = _File(directory, take_stderr=not self._foreground)
        except (OSError, OrmahError) as exc:
            self.trouble = f"there is no log file in {directory}: {exc}"
            logging.getLogger("ormahd").warning("%s", self.trouble)
            self._spool.drop_past()
            return
        self._file.setFormatter(LINE)
        self._spool.add_with_past(self._file)
        if not self._foreground:
            faulthandler.enable()

    def reopen(self) -> None:
        """Open a new log file, after another program moved the old one."""
        if self._file is not None:
            self._file.reopen()

    def close(self) -> None:
        """Write the waiting records, and close all outputs."""
        logging.getLogger().removeHandler(self._spool)
        self._spool.end()
        for output in (self._stderr, self._file):
            if output is not None:
                output.close()
        logging.captureWarnings(False)


class _Stream(logging.StreamHandler[Any]):
    """A handler for a stream that writes several records in one call."""

    def write_together(self, records: Sequence[logging.LogRecord]) -> None:
        """Write the records in one call."""
        self.acquire()
        try:
            self.stream.write("".join(_formatted(self, records)))
            self.flush()
        except (OSError, ValueError):
            self.handleError(records[-1])
        finally:
            self.release()


class _Spool(logging.Handler):
    """Passes every record to all outputs, in order. A record marked `LATER` waits for up to `PAUSE_S`. Any other is
    written at once, together with those that wait."""

    def __init__(self) -> None:
        super().__init__()
        self._outputs: list[_Stream | _File] = []
        self._past: deque[logging.LogRecord] | None = deque(maxlen=EARLY)
        """The records so far, for the log file; None once it has them, or there will be none."""
        self._waiting: list[logging.LogRecord] = []
        self._written_at = 0.0
        self._due = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    def to(self, output: _Stream | _File) -> None:
        """Also write to `output` from now on."""
        self.acquire()
        try:
            self._outputs.append(output)
        finally:
            self.release()

    def add_with_past(self, output: _File) -> None:
        """Also write to `output` from now on, after the records logged so far."""
        self.acquire()
        try:
            self.flush()
            if self._past:
                output.write_together(list(self._past))
            self._past = None
            self._outputs.append(output)
        finally:
            self.release()

    def drop_past(self) -> None:
        """Discard the records kept for a log file that will not exist, and keep no more of them."""
        self._past = None

    def emit(self, record: logging.LogRecord) -> None:
        """Pass the record to the outputs now, or mark it as waiting and let the thread do it."""
        if self._past is not None:
            self._past.append(record)
        self._waiting.append(record)
        if self._closed or not getattr(record, LATER, False) or time.monotonic() - self._written_at > PAUSE_S:
            self.flush()
            return
        try:
            record.msg, record.args = record.getMessage(), None  # format now: the arguments may change later
        except (TypeError, ValueError):
            self._waiting.remove(record)
            self.handleError(record)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="log", daemon=True)
            self._thread.start()
        if not self._due.is_set():
            self._due.set()

    def flush(self) -> None:
        """Write the waiting records to every output."""
        self.acquire()
        try:
            waiting, self._waiting = self._waiting, []
            if waiting:
                self._written_at = time.monotonic()
                for output in self._outputs:
                    output.write_together(waiting)
        finally:
            self.release()

    def _run(self) -> None:
        """Write waiting records PAUSE_S after the first of them, until closed. The body of the thread."""
        while not self._closed:
            self._due.wait()
            time.sleep(PAUSE_S)
            self._due.clear()
            self.flush()

    def close(self) -> None:
        """Write all waiting records, and delay none from now on.

        Does not wait for the writing thread, which needs the lock that `logging.shutdown` holds when it calls this.
        """
        self._closed = True
        self._due.set()
        self.flush()
        super().close()

    def end(self) -> None:
        """Close the spool, and wait for its writing thread to end."""
        self.close()
        if self._thread is not None:
            self._thread.join()


class _File(logging.handlers.RotatingFileHandler):
    """A rotating file that only its owner can read. For a detached daemon it also receives stderr, such as crashes
    of native libraries."""

    def __init__(self, directory: Path, *, take_stderr: bool) -> None:
        self._take_stderr = take_stderr
        super().__init__(
            paths.private_dir(directory) / NAME, maxBytes=FILE_BYTES, backupCount=KEPT_FILES, encoding="utf-8"
        )

    def _open(self) -> TextIOWrapper:
        """Open the file for appending, with mode 0600, and return it. Also redirect stderr to it if this was asked for."""
        file = Path(self.baseFilename)
        paths.private_dir(file.parent)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = os.open(file, flags, 0o600)
        os.fchmod(fd, 0o600)
        if self._take_stderr:
            os.dup2(fd, 2)
        return TextIOWrapper(open(fd, "ab", buffering=0), encoding="utf-8", errors="replace", write_through=True)

    def write_together(self, records: Sequence[logging.LogRecord]) -> None:
        """Write several records in one call, rotating when the file would grow too large."""
        self.acquire()
        try:
            if self.stream is None:
                self.stream = self._open()
            found = os.fstat(self.stream.fileno())
            if not found.st_nlink:  # the file was deleted: lines in it would be lost
                self.stream.close()
                self.stream = self._open()
                found = os.fstat(self.stream.fileno())
            size = found.st_size
            part: list[str] = []
            for line in _formatted(self, records):
                length = len(line.encode("utf-8", "replace"))
                if size and 0 < self.maxBytes < size + length:
                    self.stream.write("".join(part))
                    self.doRollover()
                    size, part = 0, []
                size += length
                part.append(line)
            self.stream.write("".join(part))
        except (OSError, ValueError):
            self.handleError(records[-1])
        finally:
            self.release()

    def reopen(self) -> None:
        """Open the file again at its path, after another program moved it (SIGHUP)."""
        self.acquire()
        try:
            old, self.stream = self.stream, self._open()
            if old is not None:
                old.close()
        finally:
            self.release()


def _formatted(handler: logging.StreamHandler[Any], records: Sequence[logging.LogRecord]) -> list[str]:
    """Return the formatted records; logging itself reports those that cannot be formatted."""
    lines = []
    for record in records:
        try:
            lines.append(handler.format(record) + handler.terminator)
        except (TypeError, ValueError):
            handler.handleError(record)
    return lines


class _Text(logging.Formatter):
    """Formats lines such as `2026-11-21T20:00:00.000Z info ormahd.rpc: claude-code agent.recall 12.3 ms ok`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line with time, level and logger."""
        stamp = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return f"{stamp} {record.levelname.lower()} {record.name}: {_message(record)}"


class _Journal(logging.Formatter):
    """Formats lines for systemd's journal, which adds the time and expects a priority before every line
    (sd-daemon(3))."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record with the priority before each line."""
        prefix = f"<{_PRIORITY.get(record.levelno, 6)}>"
        return "\n".join(prefix + line for line in f"{record.name}: {_message(record)}".splitlines())


LINE: Final = _Text()
"""Formats the lines of the log file, and of stderr outside of the journal."""


def _message(record: logging.LogRecord) -> str:
    """Return the record's text and the traceback of its exception. The exception's message is included at debug level
    only."""
    text = record.getMessage()
    fault = record.exc_info[1] if record.exc_info else None
    if fault is None:
        return text
    words = f"\n{fault}" if logging.getLogger(OURS[1]).isEnabledFor(logging.DEBUG) else ""
    return f"{text}\n{without_words(fault)}{words}"


def without_words(fault: BaseException) -> str:
    """Return the traceback of an exception and of its causes, without their messages."""
    lines: list[str] = []
    seen: BaseException | None = fault
    while seen is not None:
        lines += traceback.format_tb(seen.__traceback__)
        lines.append(f"{type(seen).__module__}.{type(seen).__qualname__}{_reason(seen)}\n")
        seen = seen.__cause__ or seen.__context__
    return "".join(lines).rstrip()


def _reason(fault: BaseException) -> str:
    """Return a colon and the reason of `fault`, or "" if the reason might quote data."""
    if isinstance(fault, OSError) and fault.errno is not None:
        return f": {fault.strerror}"
    if isinstance(fault, sqlite3.Error):
        return f": {getattr(fault, 'sqlite_errorname', 'no code')}"
    if isinstance(fault, (AttributeError, ImportError, NameError, TypeError)):
        return f": {fault}"  # contains names of code only, no data
    return ""
