"""What a scan of the reconciler found and did."""

from __future__ import annotations

import time
from typing import Any

from msgspec import Struct, field


class Leaving(Exception):
    """There is no result: whoever asked for the scan is stopping."""


class ScanResult(Struct):
    """What a scan did: numbers of files, paths with reasons, and when to come back (`time.monotonic`), or None."""

    indexed: int = 0
    """Brought to the index without a commit: in the history already, or plain text."""
    adopted: int = 0
    edited: int = 0
    """Edited or moved by a person, and committed."""
    removed: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    waiting: set[str] = field(default_factory=set)
    """Not at rest yet, or git is busy."""
    waiting_until: float | None = None
    problems: list[dict[str, Any]] = field(default_factory=list)

    def __add__(self, later: ScanResult) -> ScanResult:
        untils = [until for until in (self.waiting_until, later.waiting_until) if until is not None]
        return ScanResult(
            self.indexed + later.indexed, self.adopted + later.adopted, self.edited + later.edited,
            self.removed + later.removed, self.skipped, self.waiting | later.waiting, min(untils, default=None),
            later.problems,
        )  # fmt: skip

    def wait(self, path: str, seconds: float) -> None:
        self.waiting.add(path)
        until = time.monotonic() + seconds
        self.waiting_until = until if self.waiting_until is None else min(self.waiting_until, until)
