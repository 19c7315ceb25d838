"""What a job is, and what it says to the runner.

A job *plans*: it reads, thinks, asks the judge, and yields what it would do, one change at a time. It never writes to the
vault. The runner *acts*: it counts, checks that the notes a change was decided on still stand, commits, and tells the job.
What is planned after a change sees that change; in a dry run nothing is applied, so a plan may name what an earlier change
would have settled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from ormahd.model.node import ProposalType
from ormahd.process import priority

if TYPE_CHECKING:
    from ormahd.jobs.neighbours import NearMemories
    from ormahd.judge.port import Judge
    from ormahd.model.change import Kind
    from ormahd.ormah import Ormah
    from ormahd.state.proposals import Verdicts


class Stopped(Exception):
    """The run is to end: the daemon stops, or the job was paused. What was committed stands; the rest comes next time."""


class Edit(Struct, frozen=True):
    """One file of a change. `data` None: the note goes. `expect`: sha256 of the version that `data` was made from; None:
    there is no file yet."""

    node_id: str | None
    path: str
    data: bytes | None
    expect: str | None


def nothing() -> None:
    """A change of which nobody need be told."""


class Change(Struct, frozen=True):
    """One commit. `subject` is a sentence for people, `body` says why (scores, verdict).

    `edits` is called under the writers' lock and makes the files from the notes as they stand then; none: there is nothing
    left to do. It raises OrmahError where the change makes no sense any more. `based_on`: the notes that the decision was
    about, with the sha256 of the version it was made from (`NodeRow.digest`); the runner drops the change when one of them
    is another by now. `done` is called after the commit.
    """

    kind: Kind
    subject: str
    body: str
    edits: Callable[[], Sequence[Edit]]
    based_on: Mapping[str, str]
    weight: int = 1
    """How many of the run's changes it counts for: a commit of 40 links is 40."""
    done: Callable[[], None] = nothing


class Ask(Struct, frozen=True):
    """A change that a person has to decide on: kept as a proposal, once (seeds/data-model).

    `payload` is what the job needs to make the change when it is approved (JSON); `preview` what it would look like;
    `evidence` the numbers it was found by.
    """

    type: ProposalType
    nodes: tuple[str, ...]
    action: str
    reason: str
    payload: Mapping[str, Any]
    based_on: Mapping[str, str]
    preview: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)


class Done(Struct, frozen=True):
    """Work that needs no commit of the runner's: a scan, for one. Only counted."""

    applied: int = 0
    skipped: int = 0
    more: bool = False
    """The job has more to do, which waits for the next run."""


Step = Change | Ask | Done


class Turn(Struct, frozen=True):
    """One run of one job: what it may use.

    `now` stands still during the run. `judge` None: jobs do what is safe without one. `near` is shared by the jobs of a run.
    """

    ormah: Ormah
    verdicts: Verdicts
    near: NearMemories
    judge: Judge | None
    run: str
    now: datetime
    dry: bool
    stopping: Callable[[], bool]
    progress: Callable[[int, int, str], None]
    limit: float = math.inf
    """The weight that all changes of this run may have together. A job that puts many things into one commit takes no more
    than that, the best first: a heavier change is dropped."""

    def give(self) -> None:
        """Between two steps: let those pass for whom somebody waits. Raises Stopped. Never with a lock held."""
        if self.stopping():
            raise Stopped
        priority.give()


class Job(Protocol):
    """One kind of maintenance. Stateless: what it must remember between runs lies in the journal or in the vault."""

    @property
    def name(self) -> str: ...

    def plan(self, turn: Turn) -> Iterator[Step]:
        """What is to be done, best first. Ends when nothing is left; a second run right after yields nothing new."""
        ...
