"""The interface between a job and the runner, and how one change is committed.

A job plans: it reads the index, may ask the judge, and yields the changes it wants, one at a time. It never writes to
the vault. The runner applies: it enforces limits, checks that the notes that a change is based on are unchanged,
commits, and calls `done`. A job resumes after each change was applied, so later plans see earlier changes. A dry run
applies nothing, so its plan may contain changes that an earlier one would have made unnecessary.

Approved proposals and two-phase maintenance commit their changes by the same code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct, field

from ormahd.model.node import ProposalType
from ormahd.process import priority

if TYPE_CHECKING:
    from ormahd.jobs.neighbours import NearMemories
    from ormahd.judge.port import Judge
    from ormahd.model.change import Kind
    from ormahd.ormah import Ormah
    from ormahd.state.proposals import Verdicts
from typing import TYPE_CHECKING

from ormahd.actions.amend import Outcome, commit, see
from ormahd.errors import Conflict

if TYPE_CHECKING:
    from ormahd.actions.amend import Caller
    from ormahd.ormah import Ormah
    from ormahd.vault.transaction import Transaction


class Stopped(Exception):
    """Raised to end a run because the daemon stops or the job was paused. Commits made so far stay."""


class Edit(Struct, frozen=True):
    """The new content of one file in a change. `data` None: the file is deleted.

    `expect`: sha256 of the version that `data` was made from; None: the file does not exist yet.
    """

    node_id: str | None
    path: str
    data: bytes | None
    expect: str | None


def nothing() -> None:
    """Do nothing: the default for `PlannedChange.done`."""


class PlannedChange(Struct, frozen=True):
    """A planned change that becomes one commit. `subject` is a sentence for people, `body` gives the reasons (scores, verdict).

    `edits` is called under the writers' lock and makes the edits from the current notes; an empty list means that there is
    nothing left to do. It raises OrmahError if the change is no longer possible. `based_on`: `{node id: sha256}` of the note
    versions that the decision was based on (`NodeRow.digest`); if one has changed, the runner drops the change. `done` is
    called after the commit.
    """

    kind: Kind
    subject: str
    body: str
    edits: Callable[[], Sequence[Edit]]
    based_on: Mapping[str, str]
    weight: int = 1
    """How much the change counts against the limit of the run, in notes or edges: a commit of 40 links counts 40."""
    done: Callable[[], None] = nothing


class Ask(Struct, frozen=True):
    """A change that a person has to decide on; the runner stores it as a proposal, once (seeds/data-model).

    `payload`: JSON from which the change is made when the proposal is approved. `preview`: the text that the change would
    leave. `evidence`: the scores by which the job found it.
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
    """A report of work that the job did without a commit by the runner, such as a scan. The runner only adds up the numbers."""

    applied: int = 0
    skipped: int = 0
    more: bool = False
    """Whether the job has left work for the next run."""


Step = PlannedChange | Ask | Done


QUESTIONS: Final = 200
"""Largest number of questions that one run of a job asks the judge."""


class RunContext(Struct, frozen=True):
    """The context of one run of one job.

    `now` is fixed for the run. `judge` None: the job only does what is safe without a judge. `near` is shared by all jobs of
    a run. `dry`: plan only, and remember nothing. `progress` takes (done, total, stage).
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
    """Maximum total weight of the changes of this run.

    A job that puts many edits into one commit must stay below this limit, best edits first; the runner drops a heavier change.
    """

    questions: int = QUESTIONS
    """Largest number of questions to the judge."""

    def give(self) -> None:
        """Yield to requests that a person waits for. Jobs call it between two steps, never while they hold a lock.

        Raises:
            Stopped: the run must end.
        """
        if self.stopping():
            raise Stopped
        priority.give()


class Job(Protocol):
    """One kind of maintenance. A job has no state of its own: what it remembers between runs is in the state or the vault."""

    @property
    def name(self) -> str: ...

    def plan(self, turn: RunContext) -> Iterator[Step]:
        """Yield what should be done, best first. A second run right after the first yields nothing new."""
        ...


def apply(
    ormah: Ormah, change: PlannedChange, caller: Caller, *, run: str | None, body: str | None = None,
    beside: Callable[[Transaction], None] = lambda _: None,
) -> Outcome | None:  # fmt: skip
    """Commit `change`. Return None if the change has no edits left to make.

    `body`: commit message body instead of the change's own. `beside`: adds further files to the same commit.

    Raises:
        Conflict: a note in `based_on` was edited since the change was planned. NotFound, InvalidNote: such a note is gone or
            cannot be read.
        BadRequest, Conflict, NotFound: the change is no longer possible. VaultBusy: another process holds git.
    """
    with ormah.writing:
        for node_id, digest in change.based_on.items():
            seen = see(ormah, node_id)
            if seen.digest != digest:
                raise Conflict(f"{seen.path} was edited meanwhile", data={"id": node_id})
        edits = change.edits()
        if not edits:
            return None

        def fill(tx: Transaction) -> None:
            for edit in edits:
                if edit.data is None:
                    tx.remove(edit.path, node_id=edit.node_id, expect=edit.expect)
                else:
                    tx.put(edit.path, edit.data, node_id=edit.node_id, expect=edit.expect)
            beside(tx)

        said = change.body if body is None else body
        done = commit(ormah, change.subject, kind=change.kind, caller=caller, body=said, run=run, fill=fill)
        return done if done.op is not None else None
