"""A whole Ormah in this process, with a runner, a judge that answers what a test says, and a clock that a test moves.

Real vault, git, SQLite and Chroma; the hashing stand-in for the model. For what a daemon's process adds, see tests/house.py.
"""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from ormahd import config
from ormahd.actions.amend import Caller
from ormahd.actions.recall import search
from ormahd.actions.remember import store_memory
from ormahd.actions.undo import undo
from ormahd.actions.update import update
from ormahd.api import RecallResult, RunTaskResult, UndoParams, UndoResult, UpdateParams
from ormahd.index.rows import NodeRow
from ormahd.jobs.job import QUESTIONS, Job, RunContext
from ormahd.jobs.neighbours import NearMemories
from ormahd.jobs.runner import Runner
from ormahd.judge.port import Judge
from ormahd.model.node import CreateNodeRequest, SearchQuery
from ormahd.ormah import Ormah
from ormahd.state.proposals import Verdicts
from tests import fresh_vault
from tests.surroundings import surroundings
from tests.vault.git_house import git

START = datetime(2026, 11, 21, 20, 0, tzinfo=UTC)
AGENT = Caller("agent:test")


class JobsHouse:
    """An open vault and what tests do with it."""

    def __init__(self, home: Path, *, fresh: bool = False, **flags: Any) -> None:
        """`fresh`: with the vault that was made for the first house of this process."""
        self.home = home
        self.now = START
        self.questions = QUESTIONS
        self.settings = {
            "vault.path": str(home / "vault"),
            "embedding.model": "hashing",
            "vault.quiet_seconds": 0.0,
        } | flags
        if fresh and not any(name.startswith("vault.") for name in flags):
            fresh_vault.begin(home / "vault", START)
        self.open()

    def open(self) -> None:
        self.ormah = Ormah.open(config.load(environ=dict(os.environ), flags=self.settings), clock=self.clock)
        self.ormah.warm()

    def again(self, **flags: Any) -> None:
        """The daemon is stopped and started; `flags` are other settings, by their dotted keys."""
        self.ormah.close()
        self.settings |= flags
        self.open()

    def clock(self) -> datetime:
        return self.now

    def go(self, **time: float) -> None:
        self.now += timedelta(**time)

    # ------------------------------------------------------------ memories

    def remember(self, content: str, **more: Any) -> str:
        """The new memory's full id; a second passes."""
        self.go(seconds=1)
        return store_memory(self.ormah, CreateNodeRequest(content=content, **more), AGENT).node_id

    def update(self, node_id: str, **fields: Any) -> None:
        self.go(seconds=1)
        update(self.ormah, UpdateParams(node_id=node_id, **fields), AGENT)

    def row(self, node_id: str) -> NodeRow:
        return self.ormah.index.note(node_id)

    def data(self, node_id: str) -> bytes:
        return self.path(node_id).read_bytes()

    def path(self, node_id: str) -> Path:
        return self.ormah.vault.root / self.row(node_id).path

    def type_into(self, node_id: str, old: str, new: str) -> None:
        """A person's edit, taken in."""
        path = self.path(node_id)
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), "utf-8")
        self.ormah.reconciler.scan()

    def recall(
        self, query: str, limit: int = 10, space: str | None = None, *, explain: bool = False, **more: Any
    ) -> RecallResult:
        wish = SearchQuery(query=query, limit=limit, **more)
        return search(self.ormah, wish, space=space, explain=explain, touch=False)

    def found(self, query: str, limit: int = 10, space: str | None = None) -> list[str]:
        return [hit.id for hit in self.recall(query, limit, space).results]

    # ------------------------------------------------------------ jobs

    def runner(self, jobs: Sequence[Job], judge: Judge | None = None) -> Runner:
        return Runner(self.ormah, jobs, judge, questions=self.questions)

    def run(self, job: Job, judge: Judge | None = None, **how: Any) -> RunTaskResult:
        """One run of one job, as the timetable would run it."""
        self.go(seconds=1)
        (ran,) = self.runner([job], judge).run([job.name], **how)
        return ran

    def turn(self, judge: Judge | None = None, **how: Any) -> RunContext:
        """What a run hands to a job, for asking one of its parts directly."""
        given: dict[str, Any] = {"run": "run", "dry": False} | how
        return RunContext(
            self.ormah, Verdicts(self.ormah.state), NearMemories(self.ormah.index), judge, now=self.now, stopping=lambda: False,
            progress=lambda *_: None, **given,
        )  # fmt: skip

    def until_nothing_is_left(self, job: Job, judge: Judge | None = None, most: int = 20) -> list[RunTaskResult]:
        """Runs until one plans nothing; that one is the last of the list."""
        runs: list[RunTaskResult] = []
        while not runs or runs[-1].proposals:
            assert len(runs) < most, f"{job.name} does not end: {[ran.planned for ran in runs]}"
            runs.append(self.run(job, judge))
        return runs

    # ------------------------------------------------------------ git

    def git(self, *arguments: str) -> str:
        return git(self.ormah.vault.root, *arguments)

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    @property
    def tree(self) -> str:
        """HEAD's tree, and nothing may stand in the folder that is not in it."""
        assert self.git("status", "--porcelain", "--untracked-files=all") == ""
        return self.git("rev-parse", "HEAD^{tree}")

    def undo(self, *ops: str, **wish: Any) -> UndoResult:
        self.go(seconds=1)
        return undo(self.ormah, UndoParams(list(ops), **wish), Caller("person"), lambda *_: None)

    def revert(self, commit: str = "HEAD") -> None:
        """`git revert` as a person types it, and what it did is taken in."""
        self.git("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "revert", "--no-edit", commit)
        self.ormah.reconciler.scan()

    def empty(self) -> None:
        """Remove every note but the self node's, as a person who deletes files."""
        for row in self.ormah.index.notes(self.ormah.index.ids()).values():
            if row.id != self.ormah.vault.self_id:
                self.path(row.id).unlink()
        self.ormah.reconciler.scan()

    def close(self) -> None:
        self.ormah.close()


@contextlib.contextmanager
def open_jobs_house(
    *, seed: int | None = None, made: Callable[..., JobsHouse] = JobsHouse, **flags: Any
) -> Iterator[JobsHouse]:
    """`flags`: settings by their dotted keys. `seed`: ids are drawn by it, so that near ties fall as they did before."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="orm", ignore_cleanup_errors=True) as directory:
        home = Path(directory)
        (home / ".gitconfig").write_text("[user]\n\tname = Ada Person\n\temail = ada@example.org\n")
        with contextlib.ExitStack() as until:
            until.enter_context(mock.patch.dict(os.environ, surroundings(home), clear=True))
            if seed is not None:
                drawn = lambda: uuid.UUID(int=chance.getrandbits(128), version=4)  # noqa: E731
                until.enter_context(mock.patch("uuid.uuid4", drawn))
            house = made(home, fresh=seed is None, **flags)
            try:
                yield house
            finally:
                house.close()
