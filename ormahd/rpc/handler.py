"""Answering one request: the edge where every failure becomes a reply and a line in the log.

The log holds who asked what, how long it took and how it ended. It never holds a text of a note or a query: not as a
parameter, and not in the message of an exception either (those only at debug level).
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from typing import Final

from ormahd.api import Call, Progress, Reply, Result
from ormahd.errors import Internal, OrmahError, TooLarge, Unavailable
from ormahd.rpc import merging
from ormahd.rpc.codec import encode, error_reply, result_reply
from ormahd.rpc.frames import HOOK, MERGE, pack
from ormahd.vault.conversion import BlobFiles

log = logging.getLogger("ormahd.rpc")

Answer = Callable[[Call, Callable[[Progress], None]], Result]
Hook = Callable[[bytes, Callable[[], bool]], bytes]
"""Takes a frame's body, and what tells whether its sender has gone; gives the reply's."""

NAME_CHARACTERS: Final = 40
_REFUSED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class Counts:
    """What the server did since it started, by word: requests, errors, faults, connections, refused, dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("requests", "errors", "faults", "connections", "refused", "dropped"), 0)

    def add(self, word: str) -> None:
        with self._lock:
            self._counts[word] += 1

    def read(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)


class Desk:
    """Turns a call into the bytes of its reply, whatever happens."""

    def __init__(
        self, answer: Answer, hook: Hook | None, limit: int, counts: Counts, files: BlobFiles | None = None
    ) -> None:
        self._answer = answer
        self._hook = hook
        self._files = files
        self._limit = limit
        self._counts = counts

    def reply(self, kind: bytes, call: Call, progress: Callable[[bytes], None]) -> tuple[bytes, Callable[[], None]]:
        """The reply's frame, and the writing of the log line (for after it was sent). `progress` sends a frame."""
        begun = time.perf_counter()
        self._counts.add("requests")

        def tell(step: Progress) -> None:
            progress(pack(kind, encode(kind, Reply(id=call.id, progress=step))))

        outcome, fault = "ok", None
        try:
            frame = self._fitting(kind, call, self._answer(call, tell))
        except OrmahError as exc:
            self._counts.add("errors")
            outcome, frame = exc.code, self.error(kind, call.id, exc)
        except (Exception, SystemExit) as exc:  # noqa: BLE001 - the named edge: one request fails, the daemon lives
            self._counts.add("faults")
            incident = secrets.token_hex(4)
            outcome, fault = f"internal {incident}", exc
            refused = isinstance(exc, OSError) and exc.errno in _REFUSED
            frame = self.error(kind, call.id, _refused(exc, incident) if refused else _apology(incident))
        elapsed = (time.perf_counter() - begun) * 1000

        def write() -> None:
            request(call.agent, call.method, elapsed, outcome)
            if fault is not None:
                _log_fault(call.method, outcome, fault)

        return frame, write

    def hook(self, body: bytes, gone: Callable[[], bool]) -> bytes:
        """The frame for a hook: empty when nothing is to be printed, which is also the answer to every failure. Whoever has
        `gone` while he waited for his turn (his deadline was over) is not answered at all."""
        said = b""
        if self._hook is not None and not gone():
            try:
                said = self._hook(body, gone)
            except (Exception, SystemExit) as exc:  # noqa: BLE001 - the named edge: a hook fails open
                self._counts.add("faults")
                _log_fault("hook", f"internal {secrets.token_hex(4)}", exc)
        return pack(HOOK, said if len(said) <= self._limit else b"")

    def merge(self, body: bytes) -> bytes:
        """The frame for git's merge driver: empty when it cannot be answered, and then the driver helps itself."""
        begun = time.perf_counter()
        self._counts.add("requests")
        said, outcome = b"", f"internal {secrets.token_hex(4)}"
        try:
            said = merging.answer(body, self._files)
            outcome = merging.OUTCOMES[said[:1]]
        except Exception as exc:  # noqa: BLE001 - the named edge: one merge fails, and git is told so by its driver
            self._counts.add("faults")
            _log_fault("merge", outcome, exc)
        request("git", "merge", (time.perf_counter() - begun) * 1000, outcome)
        return pack(MERGE, said if len(said) <= self._limit else b"")

    def _fitting(self, kind: bytes, call: Call, result: Result) -> bytes:
        body = encode(kind, result_reply(call.id, result))
        if len(body) > self._limit:
            raise TooLarge(
                f"the answer has {len(body)} bytes, a frame takes {self._limit}",
                hint="ask for less at once (limit)",
                data={"limit": self._limit},
            )
        return pack(kind, body)

    @staticmethod
    def error(kind: bytes, id_: int | str | None, error: OrmahError) -> bytes:
        """The frame of an error reply; an error that itself cannot be encoded becomes a plain one."""
        try:
            return pack(kind, encode(kind, error_reply(id_, error)))
        except (TypeError, ValueError, OverflowError):
            plain = type(error)(error.message.encode("utf-8", "replace").decode(), hint=None)
            return pack(kind, encode(kind, error_reply(id_, plain)))


def request(agent: str | None, method: str, milliseconds: float, outcome: str) -> None:
    """The one line that a request leaves; written with others where many come (`logs.LATER`)."""
    who = _printable(agent or "-")
    log.info(
        "%s %s %.1f ms %s", who, method, milliseconds, outcome,
        extra={
            "later": True,
            "fields": {"agent": who, "method": method, "ms": round(milliseconds, 1), "outcome": outcome},
        },
    )  # fmt: skip


def _printable(text: str) -> str:
    """A caller's word, fit for one line of a log."""
    kept = "".join(c if c.isprintable() else "?" for c in itertools.islice(text, NAME_CHARACTERS))
    return kept if len(text) <= NAME_CHARACTERS else kept + "…"


def _refused(exc: BaseException, incident: str) -> Unavailable:
    """What the system refused the daemon: a file that it may not read, a folder that it may not write into."""
    assert isinstance(exc, OSError)
    name = os.fsdecode(exc.filename) if isinstance(exc.filename, str | bytes) else "a file"
    return Unavailable(
        f"{name} cannot be read or written: {exc.strerror}",
        hint=f"give the user that runs the daemon its rights (ormahctl doctor); the log has the rest: incident {incident}",
        data={"incident": incident},
    )


def _apology(incident: str) -> Internal:
    return Internal(
        f"the daemon stumbled over this request (incident {incident})",
        hint=f"the log has the rest: ormahctl logs, look for {incident}",
        data={"incident": incident},
    )


def _log_fault(method: str, outcome: str, exc: BaseException) -> None:
    """The traceback; the log leaves out the exception's words, which may quote a note, but at debug level."""
    log.error("%s: %s", method, outcome, exc_info=exc)
