"""A proposal about two memories is approved with the newer's words, the older's, both, or a person's own."""

from __future__ import annotations

from typing import Any

import pytest

from ormahd.actions.undo import undo
from ormahd.api import ResolveProposalResult, UndoParams
from ormahd.errors import BadRequest
from ormahd.jobs.job import Ask
from ormahd.jobs.proposals import Approval, Proposals, StoreOutcome
from ormahd.jobs.runner import CHANGES_OF
from ormahd.model.node import EdgeType, ProposalType
from tests.contract import jobs_house
from tests.contract.jobs_house import ME, House

OLD, NEW = "The build needs Node 18.", "The build needs Node 22."


house = jobs_house.house


class Two:
    """An older and a newer memory, with a proposal about them."""

    def __init__(self, house: House, kind: ProposalType, **payload: Any) -> None:
        self.house = house
        self.older = house.remember(OLD, title="Node 18")
        house.go(days=2)
        self.newer = house.remember(NEW, title="Node 22")
        self.proposals = Proposals(house.ormah, CHANGES_OF)
        usual: dict[str, Any]
        if kind is ProposalType.MERGE:
            usual = {"keep_id": self.older, "remove_id": self.newer, "title": None, "content": f"{OLD}\n\n{NEW}"}
        else:
            usual = {"kind": "tension", "source_id": self.newer, "target_id": self.older, "reason": "they differ"}
        assert self.ask(kind, usual | payload) is StoreOutcome.NEW
        self.payload = usual | payload

    def ask(self, kind: ProposalType, payload: dict[str, Any]) -> StoreOutcome:
        rows = self.house.ormah.index.notes([self.newer, self.older])
        asked = Ask(kind, tuple(rows), "About Node", "because", payload, "preview", {})
        return self.proposals.store(asked, "run", dry=False)

    def approve(self, **choice: Any) -> ResolveProposalResult:
        (one,) = self.proposals.list().proposals
        return self.proposals.resolve(one.id, "approve", ME, Approval(**choice))

    def texts(self) -> dict[str, str]:
        rows = self.house.ormah.index.notes([self.newer, self.older])
        return {row.id: row.content for row in rows.values()}

    def outdated(self) -> set[str]:
        rows = self.house.ormah.index.notes([self.newer, self.older])
        return {row.id for row in rows.values() if row.valid_until is not None}


@pytest.mark.parametrize(("keep", "text"), [("newer", NEW), ("older", OLD), (None, f"{OLD}\n\n{NEW}")])
def test_a_merge_keeps_whose_words_hold(house: House, keep: str | None, text: str) -> None:
    two = Two(house, ProposalType.MERGE)
    before = house.files()
    done = two.approve(keep=keep)
    kept = two.newer if keep == "newer" else two.older
    assert two.texts() == {kept: text}
    assert house.ormah.index.note(kept).title == ("Node 22" if keep == "newer" else "Node 18")
    assert done.op is not None
    undo(house.ormah, UndoParams(ops=[done.op]), ME, lambda *_: None)
    assert {name: data for name, data in house.files().items() if "decisions" not in name} == before


@pytest.mark.parametrize("keep", ["newer", "older"])
def test_a_conflict_is_decided_for_either(house: House, keep: str) -> None:
    two = Two(house, ProposalType.CONFLICT)
    two.approve(keep=keep)
    stays, goes = (two.newer, two.older) if keep == "newer" else (two.older, two.newer)
    assert two.outdated() == {goes}
    (edge,) = [one for one in house.ormah.index.edges_of([stays]) if one.edge is EdgeType.EVOLVED_FROM]
    assert (edge.source, edge.target) == (stays, goes)


@pytest.mark.parametrize("kind", [ProposalType.MERGE, ProposalType.CONFLICT])
def test_both_hold_and_nothing_of_the_kind_is_proposed_again(house: House, kind: ProposalType) -> None:
    two = Two(house, kind)
    done = two.approve(keep="both")
    assert (done.status, two.outdated()) == ("rejected", set())
    assert two.texts() == {two.newer: NEW, two.older: OLD}
    for other in (ProposalType.MERGE, ProposalType.CONFLICT):
        assert two.ask(other, two.payload) is StoreOutcome.KNOWN
    assert done.op is not None
    undo(house.ormah, UndoParams(ops=[done.op]), ME, lambda *_: None)
    assert len(two.proposals.list().proposals) == 1, "undone, it is open again"


def test_a_persons_own_words(house: House) -> None:
    two = Two(house, ProposalType.MERGE)
    two.approve(title="Node", content="The build needs Node 22 since November.")
    assert two.texts() == {two.older: "The build needs Node 22 since November."}
    assert house.ormah.index.note(two.older).title == "Node"


def test_a_persons_own_words_for_what_replaced_another(house: House) -> None:
    two = Two(house, ProposalType.CONFLICT)
    done = two.approve(keep="newer", content="The build needs Node 22, no longer 18.")
    assert two.texts() == {two.newer: "The build needs Node 22, no longer 18.", two.older: OLD}
    assert two.outdated() == {two.older}
    assert len(house.git("log", "--format=%H", "--grep", f"Ormah-Op: {done.op}").split()) == 1, "one commit"


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"keep": "newest"}, "keep is 'newest'"),
        ({"keep": "both", "content": "x"}, "no text to choose"),
        ({"content": "  \n"}, "the text is empty"),
        ({"content": "x" * 2_000_000}, "at most"),
    ],
)
def test_a_choice_that_makes_no_sense_changes_nothing(house: House, choice: dict[str, Any], said: str) -> None:
    two = Two(house, ProposalType.MERGE)
    head = house.head
    with pytest.raises(BadRequest, match=said):
        two.approve(**choice)
    (one,) = two.proposals.list().proposals
    with pytest.raises(BadRequest, match="not chosen from"):
        two.proposals.resolve(one.id, "reject", ME, Approval(keep="newer"))
    assert house.head == head
