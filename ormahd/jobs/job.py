"""The interface between a job and the runner, and `apply`, which commits one change.

A job plans: it reads the index, may ask the judge, and yields changes one at a time. It never writes to the vault.
The runner applies each change: it enforces limits, checks that the notes that the change is based on are unchanged,
commits, and calls the change's `done`. The job continues after its change was applied, so it sees that change when
it plans the next one. A dry run applies nothing, so it may list changes that an earlier change would have made
unnecessary.

Approved proposals and two-phase maintenance commit their changes by the same code.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

from msgspec import Struct, field

from ormahd.actions.amend import Caller, Outcome, outcome, see, transaction
from ormahd.errors import Conflict
from ormahd.jobs.neighbours import NearMemories
from ormahd.judge.port import Judge
from ormahd.model.change import Kind
from ormahd.model.node import ProposalType
from ormahd.note.edit import edit
from ormahd.ormah import Ormah
from ormahd.process import priority
from ormahd.state.proposals import Verdicts


class Stopped(Exception):
    """Raised in a job to end its run, because the daemon stops or the job was paused. Commits made so far stay."""


class Edit(Struct, frozen=True):
    """The new content of one file in a change. `data` None: the file is deleted.

    `expect`: sha256 of the version that `data` was made from; None: the file does not exist yet.
    """

    node_id: str | None
    path: str
    data: bytes | None
    expect: str | None


class PlannedChange(Struct, frozen=True):
    """A planned change that becomes one commit. `subject` is a sentence for people, `body` gives the reasons
    (scores, verdict).

    `edits` is called under the writers' lock and returns the edits for the current notes; an empty list means that
    nothing is left to do. It raises OrmahError if the change is no longer possible. `based_on`: `{node id: sha256}`
    of the notes from which the job decided (`NodeRow.digest`); if one of them has changed, the runner drops the
    change. `done` is called after the commit.
    """

    kind: Kind
    subject: str
    body: str
    edits: Callable[[], Sequence[Edit]]
    based_on: Mapping[str, str]
    weight: int = 1
    """How much the change counts against the limit of the run, in notes or edges: a commit of 40 links counts 40."""
    done: Callable[[], None] = lambda: None


class Ask(Struct, frozen=True):
    """A change that a person has to decide on. The runner stores it as a proposal, unless it was proposed before.

    `action`: a sentence that says what the change does. `payload`: JSON from which the change is made when the
    proposal is approved. `preview`: the text of the memory after the change, or the texts that the change is about.
    `evidence`: the scores by which the job found it.
    """

    type: ProposalType
    nodes: tuple[str, ...]
    action: str
    reason: str
    payload: dict[str, Any]
    preview: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)


class Done(Struct, frozen=True):
    """A report of work that the job did by itself, such as a scan. The runner only adds its numbers to the result
    of the run."""

    applied: int = 0
    skipped: int = 0
    more: bool = False
    """Whether work is left for the next run of the job."""


Step = PlannedChange | Ask | Done

WARM_S: Final = 60.0
"""Maximum seconds that a run waits for the embedding model after a start; then it uses the vectors that exist."""
QUESTIONS: Final = 200
"""Largest number of questions that one run of a job asks the judge."""


class AskedQuestions(Struct):
    """The questions that one run of a job asked its judge. `open`: how many of them got no usable answer. `reason`: why
    the judge last gave no answer to a whole batch; None if that never happened."""

    asked: int = 0
    open: int = 0
    reason: str | None = None

    def left_open(self) -> str | None:
        """Return a sentence about how many questions were left open, and why; None if none was."""
        if not self.open:
            return None
        why = f": {self.reason}" if self.reason is not None else ""
        return f"the judge left {self.open:,} of {self.asked:,} questions open{why} (ormahctl status)"


class RunContext(Struct, frozen=True):
    """The context of one run of one job.

    `verdicts`: the answers of judges, and which memories were examined, as remembered between runs. `near`: a cache
    of neighbours, shared by all jobs of a run. `judge` None: the job only does what is safe without a judge. `run`:
    the id of the run. `now` is fixed for the run. `dry`: only plan, and remember nothing. `stopping`: returns whether
    the run must end. `progress` takes (done, total, stage).
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

    A job that puts many edits into one commit must stay below this limit, best edits first; the runner drops a
    heavier change.
    """

    questions: int = QUESTIONS
    """Largest number of questions to the judge."""
    agent: bool = False
    """Whether the jobs only look for questions to an agent, in two-phase maintenance."""
    asked: AskedQuestions = field(default_factory=AskedQuestions)

    @property
    def who(self) -> str:
        """Who answers the questions of this run: "judge", "agent" or "rules"."""
        return "judge" if self.judge is not None else "agent" if self.agent else "rules"

    def give(self) -> None:
        """Let urgent requests run first. Jobs call it between two steps, never while they have a lock.

        Raises:
            Stopped: the run must end.
        """
        if self.stopping():
            raise Stopped
        priority.give()

    def wait_for_vectors(self) -> None:
        """Wait until the daemon is ready or all memories have vectors, at most WARM_S seconds. This takes time only
        after a start. Without vectors a job would find no neighbours, and so nothing to do.

        Raises:
            Stopped: the run must end.
        """
        ormah, end = self.ormah, time.monotonic() + WARM_S
        while ormah.phase not in {"ready", "stopping"} and time.monotonic() < end and not ormah.index.wait_filled(0.2):
            self.give()
            self.progress(0, 0, "waiting for the model")


class Job(Protocol):
    """What the runner needs from a job: its name, and a plan of what to do. What a job remembers between runs is
    stored in the state or the vault, not in this object."""

    @property
    def name(self) -> str: ...

    def plan(self, context: RunContext) -> Iterator[Step]:
        """Yield changes to commit, changes to propose and reports of work done, best first. A second run that follows
        at once yields nothing new."""
        ...


def note_edits(ormah: Ormah, node_id: str, **changes: Any) -> list[Edit]:
    """Return the edit of a memory's note, with `updated` set; an empty list if the note stays the same.

    `changes`: the arguments of `note.edit.edit`.
    """
    seen = see(ormah, node_id)
    data = edit(seen.data, seen.path, **changes)
    if data == seen.data:
        return []
    return [Edit(node_id, seen.path, edit(data, seen.path, set={"updated": ormah.moment()}), seen.digest)]


def apply(
    ormah: Ormah, change: PlannedChange, caller: Caller, *, run: str | None, decision: Sequence[Edit] = ()
) -> Outcome | None:
    """Commit `change`, and in the same commit the lines `decision`, which record a person's decision. Return None if no
    edit is left to make.

    Raises:
        Conflict: a note in `based_on` was edited since the change was planned.
        NotFound, InvalidNote: such a note was removed or is unreadable.
        BadRequest, Conflict, NotFound: the change is no longer possible.
        VaultBusy: another process holds git.
    """
    with ormah.writing:
        for node_id, digest in change.based_on.items():
            seen = see(ormah, node_id)
            if seen.digest != digest:
                raise Conflict(f"{seen.path} was edited meanwhile", data={"id": node_id})
        if not (edits := change.edits()):
            return None
        with transaction(ormah, change.subject, kind=change.kind, caller=caller, body=change.body, run=run) as tx:
            for one in (*edits, *decision):
                if one.data is None:
                    tx.remove(one.path, node_id=one.node_id, expect=one.expect)
                else:
                    tx.put(one.path, one.data, node_id=one.node_id, expect=one.expect)
        return outcome(tx) if tx.committed is not None else None
