"""A house whose files are damaged or locked away, and the memories that were acknowledged in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ormahd.errors import NotReady
from tests.house import House, open_house, wait_until

T = TypeVar("T")


def answered(ask: Callable[[], T]) -> T:
    """What is answered once the index is made anew; until then, nothing but that is said."""

    def once() -> list[T]:
        try:
            return [ask()]
        except NotReady:
            return []

    return wait_until(once, "an answer", 120)[0]  # type: ignore[no-any-return]


@dataclass
class Told:
    """A house, and what was acknowledged in it."""

    house: House
    memories: dict[str, str] = field(default_factory=dict)

    def remember(self, space: str | None = None) -> str:
        name = f"keeper{len(self.memories)}"
        said = {"content": f"the lamp of {name} burns oil", "title": name, "space": space}
        node_id = str(answered(lambda: self.house.call("agent.remember", **said)).node_id)
        self.memories[node_id] = name
        return node_id

    def path(self, node_id: str) -> Path:
        return self.house.vault / self.house.call("agent.get", node_id=node_id).path

    def findings(self) -> str:
        return "\n".join(f"{one.path} {one.what} {one.mend}" for one in self.house.call("admin.doctor").findings)

    def all_are_found(self) -> None:
        house = self.house
        for node_id, name in self.memories.items():
            assert name in answered(lambda one=node_id: house.call("agent.get", node_id=one)).content  # type: ignore[misc]
            assert node_id in self.recalled(name)

    def recalled(self, query: str) -> set[str]:
        """The ids of the results, once the index is whole: until then an answer says that it may lack some."""

        def whole() -> list[set[str]]:
            found = answered(lambda: self.house.call("agent.recall", query=query))
            return [] if "index" in found.degraded else [{one.id for one in found.results}]

        return wait_until(whole, "a whole index", 120)[0]  # type: ignore[no-any-return]

    def settled(self) -> None:
        """As if nothing had been: a new one can be written, all are found and in the history, nothing is left to do."""
        house = self.house
        wait_until(lambda: house.call("hello").phase == "ready", "it is ready")
        self.remember()
        wait_until(lambda: answered(lambda: house.call("admin.verify")).ok, "the index is the vault's", 120)
        self.all_are_found()
        wait_until(lambda: house.git("status", "--porcelain") == "", lambda: house.git("status"), 60)
        history = house.git("log", "--format=%B")
        assert [one for one in self.memories if one not in history] == []


@contextmanager
def telling(count: int) -> Iterator[Told]:
    """A house with so many memories, whose daemon runs."""
    with open_house() as house:
        house.start()
        told = Told(house)
        for _ in range(count):
            told.remember()
        yield told
