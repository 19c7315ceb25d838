"""Finds changes of this machine that a sync on another machine replaced, and restores them.

A machine that joins two histories keeps its own values and sets the other side's aside (`sync`). Its commit names
the conflicts (`Ormah-Conflict`). The replaced values are computed from the two parents of that commit, so that no
other data is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ormahd.errors import BadRequest, Conflict
from ormahd.git import commit_message
from ormahd.git.refs import is_ancestor
from ormahd.model.change import Kind
from ormahd.note.merge import merge_file
from ormahd.sync.join import merge_base, plan
from ormahd.vault.conflicts import SetAside, set_aside
from ormahd.vault.vault import Vault

MACHINE: Final = "Ormah-Machine"
"""The trailer of a sync's commit: the name of the machine that made it."""
_LOG: Final = "--format=%H%x00%P%x00%an%x00%B"


class _Join(Struct, frozen=True):
    """A sync made on another machine that had conflicts. `theirs`: that machine's commit before the sync.
    `ours`: the commit that it joined, which this machine has in its history."""

    op: str
    commit: str
    theirs: str
    ours: str
    machine: str


def set_aside_replaced(vault: Vault, before: str, tip: str) -> list[SetAside]:
    """Find the values of this machine that another machine's sync replaced in a conflict. Set the versions of these
    conflicts aside, and return the conflicts. `before`: this machine's last commit. `tip`: the commit with the other
    machines' syncs; only commits after `before` are examined."""
    found: list[SetAside] = []
    for join in _joins(vault, before, tip):
        base = merge_base(vault, join.theirs, join.ours)
        # Plan the other machine's join again, and look at its conflicts from this side: ours are its theirs.
        replaced = []
        for conflict in plan(vault, base, join.theirs, join.ours).conflicts:
            values = {
                field: {"base": texts.get("base"), "ours": texts.get("theirs"), "theirs": texts.get("ours")}
                for field, texts in conflict.values.items()
            }
            swapped = replace(conflict, kept="theirs", ours=conflict.theirs, theirs=conflict.ours, values=values)
            replaced += [swapped] if conflict.kept == "ours" else []
        if replaced:
            commits = {"base": base, "ours": join.ours, "theirs": join.commit}
            found += set_aside(vault.root, join.op, replaced, commits, by=join.machine)
    return found


def _joins(vault: Vault, before: str, tip: str) -> Iterator[_Join]:
    """Yield the syncs that had conflicts and joined a commit of this machine's history. They are those between the
    commits `before` and `tip`, oldest first."""
    out = vault.git.run("log", "--merges", "--reverse", "-z", _LOG, f"{before}..{tip}").decode("utf-8", "replace")
    # `_LOG` has four fields, and each ends in NUL.
    parts = out.split("\0")
    for commit, parents, author, text in zip(*[iter(parts)] * 4, strict=False):
        made = commit_message.parse(text)
        sides = parents.split()
        op = made.trailer("Ormah-Op")
        had_conflicts = made.trailer("Ormah-Kind") == Kind.SYNC and "Ormah-Conflict" in made.trailers
        if not had_conflicts or op is None or len(sides) != 2 or not is_ancestor(vault.git, sides[1], before):
            continue
        if not is_ancestor(vault.git, commit.strip(), before):  # as git lists where the clocks of commits differ
            yield _Join(op, commit.strip(), sides[0], sides[1], made.trailer(MACHINE) or author)


def with_own_values(vault: Vault, conflict: SetAside, today: bytes) -> bytes:
    """Return the note of a conflict with this machine's values instead of those that replaced them. `today`: the note's
    bytes now, whose other values stay unchanged.

    Raises:
        BadRequest: no value of this machine was replaced, or this machine had removed the note.
        Conflict: the values were changed since the sync.
    """
    versions = {side: (vault.root / file).read_bytes() for side, file in conflict.files.items()}
    ours, theirs = versions.get("ours"), versions.get("theirs")
    if conflict.kept != "theirs" or theirs is None:
        raise BadRequest(
            f"{conflict.path}: nothing of this machine was replaced there",
            hint="what lost is in the other version: ormahctl review names the files",
        )
    if ours is None:
        raise BadRequest(f"{conflict.path}: this machine had removed it", hint="to remove it again: ormahctl forget ID")
    base = versions.get("base")
    base_now = merge_file(base, theirs, ours, conflict.path, keep_ours=True).data or theirs
    wanted = merge_file(base, ours, theirs, conflict.path, keep_ours=True).data or ours
    merged = merge_file(base_now, today, wanted, conflict.path)
    if merged.data is None:
        what = ", ".join(lost.field for lost in merged.conflicts)
        raise Conflict(
            f"{conflict.path}: {what} was changed again since the sync; nothing was changed",
            hint="put the note right (ormahctl edit ID), then: ormahctl sync --resolve ID",
        )
    return merged.data
