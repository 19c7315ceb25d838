"""What the tests of two-phase maintenance share: a vault, what its jobs would find in it, and items of an answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ormahd.actions.amend import Caller
from ormahd.actions.remember import store_memory
from ormahd.api import MaintenanceResult
from ormahd.jobs.job import RunContext
from ormahd.jobs.maintenance.kinds import CLUSTERS, CONFLICTS, KINDS, LINKS, MERGES
from ormahd.jobs.maintenance.maintenance import Maintenance
from ormahd.jobs.questions import MemoryGroup
from ormahd.model.node import CreateNodeRequest, NodeType
from ormahd.ormah import Ormah
from tests.jobs_house import JobsHouse, open_jobs_house

AGENT = Caller("claude-code")


def batches(handed: MaintenanceResult) -> dict[str, Any]:
    """Return what was handed out, as an agent reads it in JSON."""
    found = msgspec.to_builtins(handed)
    return {name: found[name] for name in (LINKS, CONFLICTS, MERGES, CLUSTERS)}


def counts(done: MaintenanceResult) -> dict[str, int]:
    """Return how many verdicts of each kind were applied."""
    found: dict[str, int] = msgspec.to_builtins(done.summary)
    return found


@dataclass
class House:
    """A vault whose clock a test can move, and what its jobs would find: pairs and clusters by the names that a test gave the memories."""

    jobs: JobsHouse
    ids: dict[str, str] = field(default_factory=dict)
    found: dict[str, list[tuple[str, ...]]] = field(
        default_factory=lambda: {LINKS: [], CONFLICTS: [], MERGES: [], CLUSTERS: []}
    )

    @property
    def ormah(self) -> Ormah:
        return self.jobs.ormah

    def told(self, name: str, content: str, **more: Any) -> str:
        request = CreateNodeRequest(
            **{"content": content, "title": name, "type": NodeType.FACT, "space": "shop"} | more
        )
        self.ids[name] = store_memory(self.ormah, request, AGENT).node_id
        return self.ids[name]

    def candidates(self, batch: str, _: RunContext) -> Iterator[MemoryGroup]:
        for names in self.found[batch]:
            rows = self.ormah.index.notes([self.ids[name] for name in names])
            if len(rows) == len(names):
                yield MemoryGroup(tuple(rows.values()), 0.8125)

    def maintenance(self) -> Maintenance:
        """With what this house would find as the candidates of each kind."""
        kinds = [replace(kind, candidates=partial(self.candidates, kind.batch)) for kind in KINDS]
        return Maintenance(self.ormah, kinds=kinds)

    def named(self, value: Any, key: str = "") -> Any:
        """`value` with the names of memories replaced by their ids."""
        if isinstance(value, str):
            return self.ids.get(value, value) if key.endswith(("_id", "_ids")) else value
        if isinstance(value, list):
            return [self.named(one, key) for one in value]
        if isinstance(value, dict):
            return {field: self.named(one, field) for field, one in value.items()}
        return value

    def judge(self, **lists: Any) -> MaintenanceResult:
        """Both phases: hand out, and settle with these results (memories by name)."""
        maintenance = self.maintenance()
        return maintenance.settle(maintenance.hand_out().receipt, self.named(lists), AGENT)

    def wait(self, **span: float) -> None:
        self.jobs.go(**span)

    def ops(self, run: str | None = None) -> list[Any]:
        return self.ormah.history.ops(run=run, limit=None)


@pytest.fixture
def house() -> Iterator[House]:
    """For a file of tests that says `house = maintenance_house.house`; so with `two`."""
    with open_jobs_house(**{"linking.similarity": 1.0}) as jobs:  # no edge that a test did not draw
        yield House(jobs, {"me": jobs.ormah.vault.self_id})


@pytest.fixture
def two(house: House) -> House:
    """Six memories; `uv` and `also uv` are one question to link, to merge and to oppose, `a` and `b` another, with `c` in a
    cluster of its own, `x` and `y` in another."""
    house.told("uv", "Python packages are installed with uv here.")
    house.told("also uv", "We install Python packages with uv.")
    house.told("a", "The till prints receipts on thermal paper.", title="Receipts")
    house.told("b", "The till's thermal paper is eighty millimetres wide.", title="Width of the paper")
    house.told("c", "Thermal paper for the till is in the left drawer.", title="Where the paper is")
    house.told("x", "The shop opens at nine on weekdays.", title="Weekday hours")
    house.told("y", "On Saturdays the shop opens at ten.", title="Saturday hours")
    house.found[LINKS] = [("uv", "also uv"), ("a", "b"), ("b", "c"), ("a", "c")]
    house.found[MERGES] = [("uv", "also uv"), ("a", "b"), ("b", "c"), ("a", "c")]
    house.found[CONFLICTS] = [("uv", "also uv"), ("x", "y")]
    house.found[CLUSTERS] = [("a", "b", "c"), ("x", "y")]
    return house


def edge(**changed: Any) -> dict[str, Any]:
    return {"source_id": "a", "target_id": "b", "edge_type": "supports"} | changed


def merge(**changed: Any) -> dict[str, Any]:
    return {"keep_id": "a", "remove_id": "b"} | changed
