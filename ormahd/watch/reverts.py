"""Adoptions that were taken back by `git revert`, typed by hand: what git did is brought to what `ormahctl undo` does.

Git takes our lines out, and leaves the files tracked; reverting the commit with the person's own bytes, it deletes them. So the
files are put back where they are missing, are unknown to git again where they were before, and are listed as released.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ormahd.errors import Conflict, VaultBusy
from ormahd.git.message import FOLLOWS, TAKEN
from ormahd.git.oplog import Entry, View
from ormahd.model.change import Kind, sha256
from ormahd.note.note import parse
from ormahd.vault import custody, released
from ormahd.vault.history import read_ops
from ormahd.vault.released import Released
from ormahd.vault.three_way import changed, node_of
from ormahd.vault.vault import Vault
from ormahd.watch.decide import label, subject


class Reverted(Struct, frozen=True):
    """A file whose adoption was reverted: its bytes and its id as they were, what the history had of it before the adoption
    (None: nothing), and the commit that reverted it."""

    data: bytes
    node_id: str | None
    held: bytes | None
    by: str


class Reverts:
    """The reverts of one vault's history that nothing was done about yet."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._head: str | None = None
        self._files: Mapping[str, Reverted] = {}

    def files(self) -> Mapping[str, Reverted]:
        """By path. Read again when HEAD is another."""
        view = self._vault.oplog.view()
        if view.head != self._head:
            self._files = self._read(view)
            self._head = view.head
        return self._files

    def _read(self, view: View) -> dict[str, Reverted]:
        by_hand = {entry.commit for entry in view.entries if entry.op is None}
        followed = {entry.follows for entry in view.entries}
        firsts = {op: commit for commit, op in view.firsts.items()}
        found: dict[str, Reverted] = {}
        for entry in reversed(view.entries):
            if entry.kind != Kind.ADOPT and entry.files != TAKEN:
                continue
            by = _by(view, entry, firsts)
            if by in by_hand and by not in followed:
                did = custody.read(self._vault, read_ops(self._vault, view, [entry])[0])
                places = self._places(by)
                for key, held in did.held.items():
                    before, _ = did.pairs[key]
                    if before is not None:
                        found[places.get(key, before.path)] = Reverted(before.data, node_of(key), held, by)
        return found

    def _places(self, by: str) -> dict[str, str]:
        """Where each note stood that a commit by hand changed, by key: it may have been moved since its adoption."""
        pairs = changed(self._vault, self._vault.git.resolve(f"{by}^1"), by)
        return {key: stood.path for key, (before, after) in pairs.items() if (stood := after or before) is not None}

    def follow(self, paths: list[str]) -> set[str]:
        """Leave these files to the person, in one commit for each revert; those that were left. A file that changes meanwhile, or
        a git that is held, is for the next scan."""
        files = self.files()
        done: set[str] = set()
        for by in dict.fromkeys(files[path].by for path in paths):
            some = {path: files[path] for path in paths if files[path].by == by}
            if self._leave(by, some):
                done.update(some)
        return done

    def _leave(self, by: str, files: Mapping[str, Reverted]) -> bool:
        vault = self._vault
        now = {path: vault.read(path) for path in files}
        names = [label(parse(one.data, path)) for path, one in files.items()]
        body = f"Their adoption was reverted by hand ({by[:12]}). The files stay in the folder, without Ormah's lines."
        tx = vault.transaction(
            subject("Release", names), kind=Kind.UNDO, source="person", person=True, body=body,
            trailers=[custody.LEFT_OUT, (FOLLOWS, by)],
        )  # fmt: skip
        listed = vault.read(released.PATH)
        lines = []
        try:
            with tx:
                for path, one in files.items():
                    there = now[path]
                    data = one.data if there is None else there
                    expect = None if there is None else sha256(there)
                    tx.leave(path, data, node_id=one.node_id, expect=expect, held=one.held)
                    lines.append(Released(path, sha256(data), one.node_id))
                new = released.with_files(listed or b"", lines)
                tx.put(released.PATH, new, node_id=None, expect=None if listed is None else sha256(listed))
        except (Conflict, VaultBusy):
            return False
        return tx.committed is not None


def _by(view: View, entry: Entry, firsts: Mapping[str, str]) -> str | None:
    """What took the op back; of the commit that goes before it, where only that one was reverted."""
    by = view.undone_by(entry)
    if by is None and entry.op is not None and entry.op in firsts:
        by = view.taken_back.get(firsts[entry.op])
    return by
