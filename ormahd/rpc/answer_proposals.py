"""`agent.proposals`, `agent.resolve_proposal`: what jobs would like to do, and what is decided on it."""

from __future__ import annotations

from ormahd import api
from ormahd.actions.caller import Caller
from ormahd.actions.views import iso
from ormahd.errors import BadRequest
from ormahd.index.rows import NodeRow
from ormahd.jobs.choosing import Choice, text_of
from ormahd.jobs.proposals import Proposals, Shown
from ormahd.model.node import short_id
from ormahd.rpc.handling import Handler, ProgressFn, result

MOST = 1_000
"""Proposals in one answer."""


class ProposalMethods:
    """One method here answers one method of the wire; nothing is decided."""

    def __init__(self, proposals: Proposals) -> None:
        self._proposals = proposals

    def table(self) -> dict[str, Handler]:
        return {"agent.proposals": self.proposals, "agent.resolve_proposal": self.resolve}

    def proposals(self, params: api.ProposalsParams, _caller: Caller, _: ProgressFn) -> api.Result:
        if not 1 <= params.limit <= MOST:
            raise BadRequest(f"limit is {params.limit}", hint=f"1 to {MOST}")
        found = self._proposals.list(status=params.status, type=params.type, limit=params.limit)
        return api.ProposalsResult(
            proposals=[_row(one) for one in found.proposals], pending=found.pending, behind=found.behind
        )

    def resolve(self, params: api.ResolveProposalParams, caller: Caller, _: ProgressFn) -> api.Result:
        choice = Choice(params.keep, params.content, params.title)
        done = self._proposals.resolve(params.proposal_id, params.action, caller, choice)
        return result(done, api.ResolveProposalResult)


def _row(shown: Shown) -> api.ProposalRow:
    row = shown.row
    title, content = text_of(row, shown.nodes) or (None, None)
    return api.ProposalRow(
        id=row.id, short_id=short_id(row.id), type=row.type, status=row.status, source_nodes=list(row.nodes),
        proposed_action=row.action, reason=row.reason or None, created=iso(row.created) or "", resolved=iso(row.resolved),
        preview=row.preview, evidence=row.evidence, nodes=[_node(node) for node in shown.nodes], resolved_by=shown.by,
        op=row.op, title=title, content=content,
    )  # fmt: skip


def _node(node: NodeRow) -> api.ProposalNode:
    return api.ProposalNode(
        id=node.id, short_id=short_id(node.id), type=node.type, tier=node.tier, space=node.space, title=node.title,
        content=node.content, created=iso(node.created) or "", updated=iso(node.updated),
    )  # fmt: skip
