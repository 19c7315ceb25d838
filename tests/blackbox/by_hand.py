"""A house, and a person who types git in its vault."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from ormahd.note.edit import edit
from ormahd.note.read import parse
from ormahd.note.values import Note
from tests.house import House, wait_until

MARKERS = (b"<<<<<<<", b"=======", b">>>>>>>")


class Hand:
    """A house, and git as a person types it: with what it said and how it ended."""

    def __init__(self, house: House, daemon: bool) -> None:
        self.house = house
        self.daemon = daemon

    def leave(self) -> None:
        """From here on the daemon runs only where the test is about that."""
        self.follow()
        if not self.daemon:
            self.house.stop()

    def git(self, *words: str, status: int = 0) -> str:
        """Run git, again while the daemon holds its lock for a moment, as a person does; what it printed."""
        for _ in range(20):
            done = self.run(*words)
            if "index.lock': File exists" not in done.stderr:
                break
            time.sleep(0.1)
        assert done.returncode == status, f"git {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def run(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        env = self.house.env | {"GIT_EDITOR": "true"}
        folder = cwd or self.house.vault
        return subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True, text=True, timeout=120)

    def remember(self, content: str, **more: object) -> str:
        return self.house.call("agent.remember", content=content, **more).node_id

    def update(self, node_id: str, **fields: object) -> str:
        """Change a memory through the daemon; the commit."""
        self.house.call("agent.update", node_id=node_id, **fields)
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD").strip()

    def path(self, node_id: str) -> str:
        found = [name for name, data in self.house.notes().items() if parse(data, name).id == node_id]
        assert len(found) == 1, found
        return found[0]

    def note(self, node_id: str) -> Note:
        path = self.path(node_id)
        return parse((self.house.vault / path).read_bytes(), path)

    def edit(self, node_id: str, *, subject: str, **fields: object) -> str:
        """Change a note's frontmatter by hand and commit it by hand; the commit."""
        path = self.path(node_id)
        content = fields.pop("content", None)
        file = self.house.vault / path
        file.write_bytes(edit(file.read_bytes(), path, set=fields, content=content))
        self.git("commit", "-qm", subject, "--", path)
        return self.head()

    def follow(self) -> None:
        """The daemon (started where it is down) has followed git: what is found is what stands there."""
        house = self.house
        if house.process is None or house.process.poll() is not None:
            house.start()
        wait_until(lambda: house.git("status", "--porcelain") == "", "everything is committed")
        wait_until(lambda: house.call("admin.health").index.fresh, "the index has followed")
        wait_until(lambda: house.call("admin.verify").ok, lambda: str(house.call("admin.verify")))

    def as_indexed(self, node_id: str) -> None:
        """The daemon answers with the note that stands in the folder."""
        found, note = self.house.call("agent.get", node_id=node_id), self.note(node_id)
        assert (found.title, sorted(found.tags), found.content) == (note.title, sorted(note.tags), note.content)

    def clean(self) -> None:
        for name, data in self.house.notes().items():
            assert not any(line.startswith(MARKERS) for line in data.splitlines()), name


HELPER_IN_THE_SOAK = pytest.mark.parametrize(
    "hand", [True, pytest.param(False, marks=pytest.mark.soak)], ids=["daemon", "helper"], indirect=True
)
"""For ways of git that are one way for whoever merges: the suite has ten minutes for everything."""


def helpers(house: House) -> list[str]:
    return [name for name in os.listdir(house.home / "runtime_dir") if name.startswith("ormah-merge-")]


def overlapping(hand: Hand) -> tuple[str, str]:
    """A memory, and the commit of an update that plain text cannot take back: the lines beside it changed since."""
    node_id = hand.remember("The ferry leaves at noon.", title="Ferry", tags=["sea"])
    commit = hand.update(node_id, title="The ferry")
    hand.update(node_id, tags=["sea", "travel"])
    return node_id, commit
