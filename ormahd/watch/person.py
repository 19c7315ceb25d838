"""Commits in the person's name: what they edited, moved, deleted, and what was adopted of theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from ormahd.errors import Conflict, VaultBusy
from ormahd.model.change import Kind
from ormahd.vault.transaction import Transaction
from ormahd.vault.vault import Vault
from ormahd.watch.decide import subject

BUSY_S = 1.0
"""Seconds until a repository that somebody else holds is looked at again."""


class Item(Struct, frozen=True):
    """One file of a commit. `data` None: it was deleted. `moved` are the paths that the note had before. `first`: the
    person's bytes, which go into a commit of their own before ours are added; None: all of `data` is the person's."""

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
    """One op; how many files it holds. A file that was saved again since it was read drops out and waits (`wait` gets
    path and seconds), the rest goes on: a newer save always wins."""
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
        if tx.committed is None:  # HEAD has it by now: the next look brings it to the index
            for name in left:
                wait(name, 0.0)
            return 0
        return len(left)
    return 0
