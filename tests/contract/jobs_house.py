"""What the tests of maintenance share: the wired whole in this process with a clock that the test turns on, and small jobs.

A job here is a real one (`jobs.job.Job`): it tags memories, one commit each, or asks to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ormahd.actions.amend import Caller, see
from ormahd.actions.remember import store_memory
from ormahd.api import RunTaskResult
from ormahd.jobs.job import Ask, Edit, Job, PlannedChange, RunContext, Step
from ormahd.jobs.proposals import MAX_PROPOSALS, ChangeOf, Proposals
from ormahd.jobs.runner import MAX_SHARE, Runner
from ormahd.model.change import Kind
from ormahd.model.node import CreateNodeRequest, ProposalType
from ormahd.note.edit import edit
from ormahd.ormah import Ormah
from tests.jobs_house import JobsHouse, open_jobs_house

ME = Caller("person")


def tag(ormah: Ormah, node_id: str, name: str, *, body: str = "because the test says so") -> PlannedChange:
    """A change that adds a tag to one memory."""
    row = ormah.index.note(node_id)

    def edits() -> Sequence[Edit]:
        seen = see(ormah, node_id)
        data = edit(seen.data, seen.path, set={"tags": [*ormah.index.note(node_id).tags, name]})
        return [Edit(node_id, seen.path, data, seen.digest)] if name not in ormah.index.note(node_id).tags else []

    return PlannedChange(Kind.CLUSTER, f"Tagged: {row.title}", body, edits, {node_id: row.digest})


class Small:
    """A job that plans what it is told to."""

    def __init__(self, name: str, plan: Callable[[RunContext], Iterator[Step]]) -> None:
        self.name = name
        self.plan = plan


def tagging(name: str = "tagger", word: str = "met", *, then: Callable[[int], None] = lambda _: None) -> Small:
    """Tags every memory but the self node that has not the tag yet; `then` is called before each."""

    def plan(turn: RunContext) -> Iterator[Step]:
        rows = turn.ormah.index.notes(sorted(turn.ormah.index.ids())).values()
        todo = [row for row in rows if row.id != turn.ormah.vault.self_id and word not in row.tags]
        for number, row in enumerate(sorted(todo, key=lambda row: row.title or "")):
            change = tag(turn.ormah, row.id, word)
            then(number)
            yield change

    return Small(name, plan)


def asking(*asks: Ask, name: str = "asker") -> Small:
    return Small(name, lambda _: iter(asks))


def ask(ormah: Ormah, *ids: str, word: str = "asked", type: ProposalType = ProposalType.MERGE) -> Ask:  # noqa: A002
    """A proposal to tag the first of these memories."""
    rows = ormah.index.notes(ids)
    return Ask(
        type, ids, f"Tag “{rows[ids[0]].title}” as {word}", "they look alike", {"node_id": ids[0], "word": word},
        "tags: " + word, {"cosine": 0.81},
    )  # fmt: skip


def change_of(ormah: Ormah, payload: Mapping[str, Any]) -> PlannedChange:
    return tag(ormah, payload["node_id"], payload["word"])


CHANGES_OF: Mapping[ProposalType, ChangeOf] = dict.fromkeys(ProposalType, change_of)


class House(JobsHouse):
    """One vault of a person, one life of a daemon after the other."""

    proposals_at_a_time = MAX_PROPOSALS
    max_share = MAX_SHARE

    @property
    def vault(self) -> Path:
        return self.ormah.vault.root

    def remember(self, content: str, **more: Any) -> str:
        request = CreateNodeRequest.model_validate({"content": content, "source": "person", "title": content, **more})
        return store_memory(self.ormah, request, ME).node_id

    def several(self, count: int) -> list[str]:
        return [self.remember(f"Memory number {number:02}") for number in range(count)]

    def runner_of(self, *jobs: Job) -> Runner:
        return Runner(
            self.ormah, jobs, proposals_at_a_time=self.proposals_at_a_time,
            max_share=self.max_share,
        )  # fmt: skip

    def runs(self, *jobs: Job, **more: Any) -> list[RunTaskResult]:
        return self.runner_of(*jobs).run([job.name for job in jobs], **more)

    @property
    def proposals(self) -> Proposals:
        return Proposals(self.ormah, CHANGES_OF, self.proposals_at_a_time)

    def tags(self, node_id: str) -> tuple[str, ...]:
        return self.ormah.index.note(node_id).tags

    def files(self) -> dict[str, bytes]:
        """Everything below the vault but git's own, the lock and unfinished intents."""
        return {
            path.relative_to(self.vault).as_posix(): path.read_bytes()
            for path in sorted(self.vault.rglob("*"))
            if path.is_file() and ".git" not in path.parts and path.name != "lock"
        }  # fmt: skip

    def sound(self) -> None:
        assert self.git("status", "--porcelain", "--untracked-files=all") == ""
        self.git("fsck", "--strict", "--no-dangling")
        assert not self.ormah.verify()


@contextmanager
def open_house(**flags: Any) -> Iterator[House]:
    with open_jobs_house(made=House, **{"vault.busy_wait_seconds": 0.1, **flags}) as found:
        assert isinstance(found, House)
        yield found


@pytest.fixture
def house() -> Iterator[House]:
    """For a file of tests that says `house = jobs_house.house`."""
    with open_house() as found:
        yield found
