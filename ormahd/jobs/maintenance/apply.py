"""Applies an agent's accepted verdicts by the changes of the jobs: one commit per change, and one for all links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ormahd.actions.amend import Caller, clean
from ormahd.errors import BadRequest, Conflict, InvalidNote, NotFound, OrmahError
from ormahd.jobs.job import PlannedChange, apply
from ormahd.jobs.links.change import Draft, EdgeToAdd, count_of
from ormahd.jobs.maintenance.check import AcceptedItem, Checked
from ormahd.jobs.maintenance.issue import stale
from ormahd.jobs.maintenance.kinds import KINDS, AgentVerdict, conflict
from ormahd.model.node import EdgeType
from ormahd.ormah import Ormah

REFUSING: Final = (BadRequest, Conflict, NotFound, InvalidNote)
"""Errors that lead to the refusal of one item; the other items are still applied."""
SO_ALREADY: Final = "it is so already"


class VerdictApplier:
    """Applies the accepted verdicts of one phase two, as one run. The source of the commits is `caller`, the agent
    that judged."""

    def __init__(self, ormah: Ormah, caller: Caller, run: str, checked: Checked) -> None:
        self._ormah, self._caller, self._checked = ormah, caller, checked
        self.run = run
        self.counts = {kind.results: 0 for kind in KINDS}
        self.commits: list[str] = []

    def apply(self) -> None:
        """Apply all accepted items. If a change is not possible, add its item to the refused ones.

        All edges are written in one commit; but a `contradicts` edge is written like a conflict, in one of its own.

        Raises:
            VaultBusy: another process holds git, and a change could not be queued.
        """
        draft = Draft(self._ormah)
        drawn: list[AcceptedItem] = []
        for accepted in sorted(self._checked.taken, key=lambda accepted: accepted.kind.change is not None):
            if drawn and accepted.kind.change is not None:
                self._commit(drawn, self._links(draft))
                drawn = []
            judgement = self._judgement(accepted)
            try:
                self._check_fresh(accepted)
                change = accepted.kind.change
                if change is None and accepted.result.edge_type == EdgeType.CONTRADICTS:
                    change = conflict
                if change is not None:
                    self._commit([accepted], change(self._ormah, judgement))
                elif draft.add(_wish(accepted, judgement)):
                    drawn.append(accepted)
                else:
                    self._checked.refuse(accepted.name, accepted.asked.ids[0], SO_ALREADY)
            except REFUSING as exc:
                self._refuse(accepted, exc)
        if drawn:
            self._commit(drawn, self._links(draft))

    def _commit(self, items: Sequence[AcceptedItem], change: PlannedChange) -> None:
        """Commit the change of these items, or refuse them."""
        try:
            done = apply(self._ormah, change, self._caller, run=self.run)
        except REFUSING as exc:
            for accepted in items:
                self._refuse(accepted, exc)
            return
        for accepted in items:
            if done is None:
                self._checked.refuse(accepted.name, accepted.asked.ids[0], SO_ALREADY)
                continue
            self.counts[accepted.kind.results] += 1
            if accepted.kind.batch == accepted.batch:
                self._checked.verdicts[accepted.batch, accepted.asked.ids] = accepted.result.verdict
        if done is not None and done.commit is not None:
            self.commits.append(done.commit)

    def _links(self, draft: Draft) -> PlannedChange:
        body = "\n".join([f"Judged by {self._caller.source}.", "", *(draft.sentence(wish) for wish in draft.made)])
        return draft.change(subject=f"Link {count_of(len(draft.made))} of memories", body=body)

    def _judgement(self, accepted: AcceptedItem) -> AgentVerdict:
        reason = " ".join((clean(self._ormah, accepted.result.reason, []) or "").split())
        return AgentVerdict(accepted.result, reason, self._caller.source)

    def _check_fresh(self, accepted: AcceptedItem) -> None:
        rows = self._ormah.index.notes(list(accepted.asked.ids))
        if (changed := stale(rows, accepted.asked)) is not None:
            raise Conflict(changed[1], data={"id": changed[0]})

    def _refuse(self, accepted: AcceptedItem, error: OrmahError) -> None:
        why = error.message if error.hint is None else f"{error.message} ({error.hint})"
        self._checked.refuse(
            accepted.name, str(error.data.get("id") or accepted.asked.ids[0]), why, (accepted.batch, accepted.asked)
        )


def _wish(accepted: AcceptedItem, judgement: AgentVerdict) -> EdgeToAdd:
    item, weight = accepted.result, accepted.result.weight or accepted.asked.score or 0.5
    return EdgeToAdd(item.source_id, item.target_id, EdgeType(item.edge_type), weight, judgement.reason)
