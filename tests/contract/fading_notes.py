"""What the tests of fading share: a memory of a printer, its tier, and that it is opened."""

from __future__ import annotations

from collections.abc import Callable

from ormahd.actions.get import get
from ormahd.core.node import Tier
from tests.jobs_house import JobsHouse

Prepare = Callable[[JobsHouse], str]
"""Makes a memory, perhaps with a life of its own; its id."""


def tier(house: JobsHouse, node_id: str) -> Tier:
    return house.row(node_id).tier


def fact(house: JobsHouse, **more: object) -> str:
    return house.remember("The printer stands on the third floor, beside the kitchen.", title="Printer", **more)


def opened(house: JobsHouse, node_id: str) -> None:
    house.go(seconds=1)
    get(house.ormah, node_id)
