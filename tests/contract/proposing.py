"""What the tests of proposals share: asking, deciding, taking back, and the lines that stand in the vault of it."""

from __future__ import annotations

import json

from ormahd.actions.amend import Caller
from ormahd.actions.undo import undo
from ormahd.actions.update import update
from ormahd.api import ProposalRow, UndoParams, UpdateParams
from ormahd.model.decision import FOLDER
from tests.contract.jobs_house import ME, House, ask, asking


def propose(house: House, *ids: str, **more: object) -> int:
    """One run that asks; how many proposals are new."""
    return house.runs(asking(ask(house.ormah, *ids, **more)))[0].asked  # type: ignore[arg-type]


def only(house: House, status: str = "pending") -> ProposalRow:
    (found,) = house.proposals.list(status=status).proposals
    return found


def statuses(house: House) -> list[str]:
    return [one.status for one in house.proposals.list(status="all").proposals]


def resolve(house: House, action: str, caller: Caller = ME) -> str:
    """Decide on the only one that waits; the op."""
    done = house.proposals.resolve(only(house).id, action, caller)
    assert done.op is not None
    return done.op


def take_back(house: House, op: str) -> None:
    undo(house.ormah, UndoParams(ops=[op]), ME, lambda *_: None)


def say(house: House, node_id: str, **fields: object) -> None:
    update(house.ormah, UpdateParams(node_id=node_id, **fields), ME)


def lines(house: House) -> list[dict[str, object]]:
    files = sorted((house.vault / FOLDER).glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
