"""The log: lines for people or JSON, on stderr in the foreground and always in a file that turns over.

Levels above `debug` hold no text of notes and queries (`settings.LogSettings`); who logs a request sees to that
(`rpc/desk.py`). The file is 0600. `reopen` is for SIGHUP, after logrotate or a person moved the file away.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import logging.handlers
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

from ormahd import paths
from ormahd.settings import LogSettings

NAME: Final = "ormahd.log"
OURS: Final = ("ormah", "ormahd")
"""Our loggers. What guests (Chroma, transformers) say is kept from `warning` on."""
EARLY: Final = 10_000
"""Lines kept until the file's place is known: it depends on the vault, which is not open yet."""
_PRIORITY: Final = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


class Logs:
    """The handlers of this process, from `begin` to `close`."""

    def __init__(self, settings: LogSettings, *, foreground: bool, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._foreground = foreground
        self._file: _File | None = None
        self._early = logging.handlers.MemoryHandler(EARLY, flushLevel=logging.CRITICAL + 1, flushOnClose=False)
        self._stderr = logging.StreamHandler(sys.stderr) if foreground else None
        root = logging.getLogger()
        root.setLevel(logging.WARNING)
        root.addHandler(self._early)
        if self._stderr is not None:
            journal = "JOURNAL_STREAM" in environ and settings.format == "text"
            self._stderr.setFormatter(_Journal() if journal else formatter(settings.format))
            root.addHandler(self._stderr)
        for name in OURS:
            logging.getLogger(name).setLevel(settings.level.upper())
        logging.captureWarnings(True)
        if foreground:
            faulthandler.enable()

    @property
    def file(self) -> Path | None:
        """Where the log file lies, once it is known."""
        return None if self._file is None else Path(self._file.baseFilename)

    def to_file(self, directory: Path) -> None:
        """Log into `directory` from now on, beginning with what was said so far.

        Raises:
            OSError: the directory or the file cannot be written.
        """
        self._file = _File(directory, self._settings, take_stderr=not self._foreground)
        self._file.setFormatter(formatter(self._settings.format))
        root = logging.getLogger()
        root.addHandler(self._file)
        root.removeHandler(self._early)
        self._early.setTarget(self._file)
        self._early.flush()
        self._early.close()
        if not self._foreground:
            faulthandler.enable()

    def reopen(self) -> None:
        """Begin a new file where somebody moved the old one away."""
        if self._file is not None:
            self._file.reopen()

    def close(self) -> None:
        root = logging.getLogger()
        for handler in (self._early, self._stderr, self._file):
            if handler is not None:
                root.removeHandler(handler)
                handler.close()
        logging.captureWarnings(False)


def formatter(kind: str) -> logging.Formatter:
    """The formatter of `log.format`: `text` or `json`."""
    return _Json() if kind == "json" else _Text()


class _File(logging.handlers.RotatingFileHandler):
    """Readable by us only; behind a detached daemon also what native libraries write to stderr when they crash."""

    def __init__(self, directory: Path, settings: LogSettings, *, take_stderr: bool) -> None:
        self._take_stderr = take_stderr
        super().__init__(
            paths.private_dir(directory) / NAME,
            maxBytes=settings.max_bytes,
            backupCount=settings.keep,
            encoding="utf-8",
        )

    def _open(self) -> TextIOWrapper:
        paths.private_dir(Path(self.baseFilename).parent)
        fd = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.fchmod(fd, 0o600)
        if self._take_stderr:
            os.dup2(fd, 2)
        return TextIOWrapper(open(fd, "ab", buffering=0), encoding="utf-8", errors="replace", write_through=True)

    def reopen(self) -> None:
        self.acquire()
        try:
            old, self.stream = self.stream, self._open()
            if old is not None:
                old.close()
        finally:
            self.release()


def _when(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Text(logging.Formatter):
    """`2026-11-21T20:00:00.000Z info ormahd.rpc: claude-code agent.recall 12.3 ms ok`"""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_when(record)} {record.levelname.lower()} {record.name}: {_message(self, record)}"


class _Journal(logging.Formatter):
    """For systemd's journal, which has the time itself and wants the priority in front of every line (sd-daemon(3))."""

    def format(self, record: logging.LogRecord) -> str:
        prefix = f"<{_PRIORITY.get(record.levelno, 6)}>"
        return "\n".join(prefix + line for line in f"{record.name}: {_message(self, record)}".splitlines())


class _Json(logging.Formatter):
    """One object a line: time, level, where, message, and what the line is about (agent, method, ms, outcome)."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {"time": _when(record), "level": record.levelname.lower(), "where": record.name}
        fields |= getattr(record, "fields", {})
        return json.dumps(fields | {"message": _message(self, record)}, ensure_ascii=False)


def _message(by: logging.Formatter, record: logging.LogRecord) -> str:
    text = record.getMessage()
    return f"{text}\n{by.formatException(record.exc_info)}" if record.exc_info else text
