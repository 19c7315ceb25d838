"""`ormahctl` on a terminal, with a person who answers."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Sequence

from tests.house import House, wait_until


def typed(house: House, *words: str, answers: Sequence[tuple[str, str]], columns: int = 200) -> tuple[str, int]:
    """What the terminal shows where each question gets its answer, and the exit status."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ormahctl", *words], stdin=theirs, stdout=theirs, stderr=theirs, cwd=house.home,
        env=house.env | {"TERM": "xterm-256color", "COLUMNS": str(columns)}, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    shown: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(ours, 4096):
                shown.append(piece)
        except OSError:  # Linux: the other end is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    begun = 0
    for question, answer in answers:
        wait_until(
            lambda question=question, begun=begun: (
                question.encode() in b"".join(shown)[begun:] or process.poll() is not None
            ),
            f"the question {question!r}",
        )
        begun = len(b"".join(shown))
        os.write(ours, answer.encode() + b"\n")
    status = process.wait(120)
    reader.join(120)
    os.close(ours)
    return b"".join(shown).decode(), status
