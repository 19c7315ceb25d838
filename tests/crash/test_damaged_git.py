"""What lies in `.ormah` and is under no version control is emptied, cut off, garbled, removed, or replaced by something
that is no file; before the daemon starts, and while it runs. Memories are found and written all the same. What git cannot
read of its own files is named by doctor, in git's words.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.damage import DAMAGE, instead
from tests.crash.memories import Told, telling


def damage(path: Path, how: str) -> None:
    path.parent.mkdir(exist_ok=True)
    if how == "file":
        instead(path, lambda: path.write_bytes(b"no folder\n"))
    elif how == "link to nothing":
        instead(path, lambda: path.symlink_to("nowhere/at/all"))
    else:
        DAMAGE[how](path, random.Random(how))


CELLS = [
    *(
        (".ormah/lock", how)
        for how in ("empty", "truncated", "garbled", "removed", "folder", "fifo", "link to nothing")
    ),
    *((name, how) for name in (".ormah/tmp",) for how in ("removed", "file", "fifo", "link to nothing")),
]


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    with telling(1) as told:
        yield told


@pytest.mark.parametrize("when", ["running", "before"])
@pytest.mark.parametrize(("name", "how"), CELLS)
def test_damaged_in_ormahs_own_folder(told: Told, name: str, how: str, when: str) -> None:
    told.remember()
    if when == "before":
        assert told.house.stop() == 0
    damage(told.house.vault / name, how)
    if when == "before":
        told.house.start()
    told.settled()
    assert told.house.process is not None
    assert told.house.process.poll() is None


@pytest.mark.parametrize("words", ["clean -fdxq", "reset -q --mixed HEAD~3"])
def test_git_by_hand_takes_away_what_memories_stood_on(words: str) -> None:
    """The memories are found, a new one is written, `verify` is content, and git sees nothing to commit."""
    with telling(5) as told:
        told.house.git(*words.split())
        told.settled()


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("config", b"[core\n", "bad config line 1"),
        ("index", b"rubbish" * 10, "index file corrupt"),
        ("refs/heads/main", b"rubbish", "which commit HEAD names"),
    ],
)
def test_doctor_shows_what_git_says(name: str, data: bytes, said: str) -> None:
    with telling(1) as told:
        (told.house.vault / ".git" / name).write_bytes(data)
        [found] = told.house.call("admin.doctor").findings
        assert found.level == "error"
        assert said in found.what
        assert "git fsck" in found.mend


def test_doctor_names_the_lock_that_stands_and_its_age() -> None:
    with telling(0) as told:
        lock = told.house.vault / ".git/index.lock"
        lock.touch()
        os.utime(lock, (lock.stat().st_mtime - 720,) * 2)
        [found] = [one for one in told.house.call("admin.doctor").findings if "lock" in one.what]
        assert f"12 minutes old: {lock}" in found.what
        assert f"rm {lock}" in found.mend
        lock.unlink()
