"""What may become of a file: every kind of damage that a disk, a power cut, a tool or a person can do to it."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

PAGE = 4096


def empty(file: Path, _: random.Random) -> None:
    os.truncate(file, 0)


def truncated(file: Path, chance: random.Random) -> None:
    size = file.stat().st_size
    os.truncate(file, chance.randrange(size) if size else 0)


def garbled_page(file: Path, chance: random.Random) -> None:
    """One page in the middle is noise; never the first, which is met at once."""
    size = file.stat().st_size
    at = chance.randrange(1, max(2, size // PAGE)) * PAGE if size > PAGE else 0
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(chance.randbytes(min(PAGE, max(size - at, 16))))


def garbled(file: Path, chance: random.Random) -> None:
    with file.open("r+b") as opened:
        opened.write(chance.randbytes(max(file.stat().st_size, 100)))


def removed(file: Path, _: random.Random | None = None) -> None:
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file, ignore_errors=True)  # the daemon may be putting things into it
    else:
        file.unlink(missing_ok=True)


def instead(file: Path, make: Callable[[], object]) -> None:
    """Have something else at its place; the daemon may be mending that already."""
    for _ in range(1000):
        removed(file)
        with contextlib.suppress(OSError):
            make()
            return
    raise AssertionError(f"{file} cannot be replaced")


def folder(file: Path, _: random.Random) -> None:
    instead(file, lambda: (file / "inside").mkdir(parents=True))


def fifo(file: Path, _: random.Random) -> None:
    instead(file, lambda: os.mkfifo(file))


def link(file: Path, _: random.Random) -> None:
    """A link to a copy of it elsewhere."""
    elsewhere = file.with_name(f"elsewhere-{file.name}")
    shutil.move(file, elsewhere)
    file.symlink_to(elsewhere)


DAMAGE: dict[str, Callable[[Path, random.Random], None]] = {
    one.__name__: one for one in (empty, truncated, garbled_page, garbled, removed, folder, fifo, link)
}
