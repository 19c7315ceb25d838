"""Answer one request, and turn every failure into an error reply and a line in the log.

The log line names the caller, the method, the duration and the outcome. The log never contains the text of a note or of a
query. Messages of exceptions, which may quote such a text, are logged at debug level only.
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
"""(body of a hook frame, function that tells whether the sender has disconnected) -> body of the reply."""

NAME_CHARACTERS: Final = 40
_REFUSED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class Counts:
    """Counters since the server started: requests, errors, faults, connections, refused, dropped. Thread-safe."""

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
    """Answer calls, hooks and merges with the bytes of a reply frame, also when they fail."""

    def __init__(
        self, answer: Answer, hook: Hook | None, limit: int, counts: Counts, files: BlobFiles | None = None
    ) -> None:
        self._answer = answer
        self._hook = hook
        self._files = files
        self._limit = limit
        self._counts = counts

    def reply(self, kind: bytes, call: Call, progress: Callable[[bytes], None]) -> tuple[bytes, Callable[[], None]]:
        """Return the reply frame, and a function that writes the log line, to be called after the frame was sent.

        `progress` sends a progress frame to the caller.
        """
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
        """Return the reply frame to a hook. Its body is empty if the hook should print nothing, and after any failure.

        If the hook's process has already `gone`, because its deadline passed while it waited, the hook is not run.
        """
        said = b""
        if self._hook is not None and not gone():
            try:
                said = self._hook(body, gone)
            except (Exception, SystemExit) as exc:  # noqa: BLE001 - the named edge: a hook fails open
                self._counts.add("faults")
                _log_fault("hook", f"internal {secrets.token_hex(4)}", exc)
        return pack(HOOK, said if len(said) <= self._limit else b"")

    def merge(self, body: bytes) -> bytes:
        """Return the reply frame to git's merge driver.

        After a failure its body is empty, and the driver falls back to its helper process or to git's text merge.
        """
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
        """Return the frame of an error reply. If the error cannot be encoded, use only its message, made valid UTF-8."""
        try:
            return pack(kind, encode(kind, error_reply(id_, error)))
        except (TypeError, ValueError, OverflowError):
            plain = type(error)(error.message.encode("utf-8", "replace").decode(), hint=None)
            return pack(kind, encode(kind, error_reply(id_, plain)))


def request(agent: str | None, method: str, milliseconds: float, outcome: str) -> None:
    """Log one line about a request. The log may write it later, together with other lines (`logs.LATER`)."""
    who = _printable(agent or "-")
    log.info(
        "%s %s %.1f ms %s", who, method, milliseconds, outcome,
        extra={
            "later": True,
            "fields": {"agent": who, "method": method, "ms": round(milliseconds, 1), "outcome": outcome},
        },
    )  # fmt: skip


def _printable(text: str) -> str:
    """Return `text` for the log: unprintable characters become "?", and it is cut after NAME_CHARACTERS."""
    kept = "".join(c if c.isprintable() else "?" for c in itertools.islice(text, NAME_CHARACTERS))
    return kept if len(text) <= NAME_CHARACTERS else kept + "…"


def _refused(exc: BaseException, incident: str) -> Unavailable:
    """Return the error for a file or folder that the daemon has no permission to read or write."""
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
    """Log the traceback. The log omits the exception's message except at debug level, because it may quote a note."""
    log.error("%s: %s", method, outcome, exc_info=exc)
