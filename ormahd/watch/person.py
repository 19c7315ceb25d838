"""Commit in the person's name: what a person edited, moved or deleted, and adoptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from ormahd.errors import Conflict, VaultBusy
from ormahd.model.change import Kind
from ormahd.vault.transaction import Transaction
from ormahd.vault.vault import Vault
from ormahd.watch.decide import subject

BUSY_S = 1.0
"""Seconds until a repository that another program has locked is tried again."""


class Item(Struct, frozen=True):
    """One file of a commit.

    `data`: the new bytes; None: deleted. `moved`: the note's earlier paths. `first`: the person's own bytes,
    committed before Ormah adds its lines; None: all of `data` is the person's.
    """

    path: str
    data: bytes | None
    node_id: str | None
    expect: str | None
    name: str
    moved: tuple[str, ...] = ()
    first: bytes | None = None

    def into(self, tx: Transaction) -> None:
        for old in self.moved:
            tx.remove(old, node_id=self.node_id, expect=None)
        if self.data is None:
            tx.remove(self.path, node_id=self.node_id, expect=self.expect)
        else:
            tx.put(self.path, self.data, node_id=self.node_id, expect=self.expect, first=self.first)


def commit(
    vault: Vault, verb: str, items: list[Item], *, kind: Kind, quiet: float, wait: Callable[[str, float], None],
    run: str | None = None,
) -> int:  # fmt: skip
    """Commit the files as one op. Return how many it contains.

    A file that was saved again since it was read is left out and waits (`wait` gets path and seconds), so that the
    newer save wins.
    """
    left: Mapping[str, Item] = {item.path: item for item in items}
    while left:
        sentence = subject(verb, [item.name for item in left.values()], left)
        theirs = {item.path: item.name for item in left.values() if item.first is not None}
        first = subject("Take in", list(theirs.values()), theirs) if theirs else None
        try:
            with vault.transaction(sentence, kind=kind, source="person", person=True, first=first, run=run) as tx:
                for item in left.values():
                    item.into(tx)
        except Conflict as exc:
            path = exc.data.get("path")
            lost = {name for name, item in left.items() if path == name or path in item.moved} or set(left)
            for name in lost:
                wait(name, quiet)
            left = {name: item for name, item in left.items() if name not in lost}
            continue
        except VaultBusy:
            for name in left:
                wait(name, BUSY_S)
            return 0
        if tx.committed is None:  # HEAD has the content already: the next scan indexes it
            for name in left:
                wait(name, 0.0)
            return 0
        return len(left)
    return 0
