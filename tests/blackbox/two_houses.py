"""What the tests of sync share: two daemons on two machines, with a bare repository between them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.house import House, open_house


def run_git(*args: str, cwd: Path) -> str:
    done = subprocess.run(["git", *args], cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextlib.contextmanager
def two_houses(**settings: str) -> Iterator[tuple[House, House, Path]]:
    """Two running daemons and an empty bare repository."""
    with open_house(**settings) as one, open_house(**settings) as two:
        bare = one.home / "remote.git"
        run_git("init", "-q", "--bare", "--initial-branch=main", str(bare), cwd=one.home)
        one.begins = two.begins = True
        one.start()
        two.start()
        yield one, two, bare


def level(one: House, two: House) -> None:
    """Sync until both have the same, which takes one more on each side than what is new; then nobody has anything to say."""
    for house in (one, two, one):
        house.json("sync")
    assert one.git("rev-parse", "HEAD") == two.git("rev-parse", "HEAD")
    assert one.notes() == two.notes()
    for house in (one, two):
        assert house.json("sync") == house.json("sync")
        assert house.git("status", "--porcelain") == ""
        assert house.json("verify") == {"ok": True, "differences": []}
        assert not any(b"<<<<<<<" in data or b">>>>>>>" in data for data in house.notes().values())


@contextlib.contextmanager
def in_conflict(theirs: str, **settings: str) -> Iterator[House]:
    """The one of two machines that has a sync conflict, over the content of a memory: one says 2, the other `theirs`."""
    with two_houses(**settings) as (one, two, bare):
        one.json("sync", "setup", str(bare))
        two.json("sync", "setup", str(bare), "--yes")
        node = one.call("agent.remember", content="The code is 1.", title="Code").node_id
        level(one, two)
        one.call("agent.update", node_id=node, content="The code is 2.")
        two.call("agent.update", node_id=node, content=f"The code is {theirs}.")
        one.call("admin.sync")
        two.call("admin.sync")
        yield next(house for house in (one, two) if house.call("admin.sync_conflicts").conflicts)


def found(house: House, query: str) -> list[str]:
    return [hit["content"] for hit in house.json("recall", query)["results"] if hit["source"] == "search"]
