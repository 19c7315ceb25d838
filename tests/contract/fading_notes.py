"""What the tests of fading share: a memory of a printer, its tier, and that it is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ormahd.actions.lookup import get
from ormahd.api import NodeParams
from ormahd.model.node import Tier
from ormahd.model.strength import SPREAD, share_of
from tests.jobs_house import JobsHouse, open_jobs_house

Prepare = Callable[[JobsHouse], str]
"""Makes a memory, perhaps with a life of its own; its id."""


def tier(house: JobsHouse, node_id: str) -> Tier:
    return house.row(node_id).tier


def fact(house: JobsHouse, **more: object) -> str:
    return house.remember("The printer stands on the third floor, beside the kitchen.", title="Printer", **more)


def opened(house: JobsHouse, node_id: str) -> None:
    house.go(seconds=1)
    get(house.ormah, NodeParams(node_id=node_id))


@pytest.fixture
def busy_house() -> Iterator[JobsHouse]:
    """As if something was asked every day, and with two weeks for a fact: a file of tests says `house = busy_house`."""
    with open_jobs_house(**{"decay.idle_share": 1.0, "decay.days": 14.0}) as found:
        yield found


def spread(node_id: str) -> float:
    """By what its id multiplies a memory's lease."""
    return 1 + SPREAD * share_of(node_id)
