"""The daemon with a clock that a test moves: `python -m tests.quality.month.clocked run`, in the folder where the clock lies.

Everything is the daemon of `ormahd run`; only its time is another. The file says what time it was when the file was written, and the clock
goes on from there.
"""

from __future__ import annotations

import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, NoReturn

from ormahd import daemon
from ormahd.__main__ import load, status_of

CLOCK: Final = "clock"
"""The file's name: an ISO time."""


class Clock:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._written = 0
        self._said = datetime.min

    def __call__(self) -> datetime:
        written = self._file.stat().st_mtime_ns
        if written != self._written:
            self._said, self._written = datetime.fromisoformat(self._file.read_text()), written
        return self._said + timedelta(seconds=time.time() - self._written / 1e9)


def main() -> NoReturn:
    clock = Clock(Path(CLOCK).resolve())
    sys.exit(status_of(lambda: daemon.end(daemon.run(load(), foreground=True, clock=clock))))


if __name__ == "__main__":
    main()
