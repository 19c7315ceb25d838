"""A write that is killed at its steps, and at which of them: some of them each run, all of them in the soak."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

STRIDE = pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.soak)])
"""One step in so many. The suite has ten minutes for everything; `make soak` has the night."""


def numbered(steps: list[str], stride: int) -> list[tuple[int, str]]:
    """Steps with their numbers: every `stride`th, and the last."""
    return [(number, step) for number, step in enumerate(steps) if number % stride == 0 or number == len(steps) - 1]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dies(work: Callable[[], None]) -> bool:
    """Whether `work`, in a forked process, is ended by a signal."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - the child must end here, whatever happens
            traceback.print_exc()
        finally:
            os._exit(1)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def killed_at(
    number: int, work: Callable[[Callable[[str], None]], None], first: Callable[[], None] = lambda: None
) -> None:
    """Run `work` in a forked process that kills itself at the step `number`, after it has done `first`."""
    count = 0

    def at(_: str) -> None:
        nonlocal count
        if count == number:
            first()
            die()
        count += 1

    assert dies(lambda: work(at)), number


def save(root: Path, path: str, data: bytes) -> None:
    """As most editors do: a temporary file, renamed over the old one."""
    (root / "save").write_bytes(data)
    os.replace(root / "save", root / path)
