"""Words of this machine that a sync on another one replaced: found in the history that comes in, and taken back.

The machine that joins two histories keeps its own words and sets the others aside (`sync`). Its commit says so
(`Ormah-Conflict`), and what was lost is worked out again from the commit's two parents, so that nothing else is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ormahd.errors import BadRequest, Conflict
from ormahd.git import message
from ormahd.git.refs import is_ancestor
from ormahd.model.change import Kind
from ormahd.note.merge import merge_file
from ormahd.sync.join import merge_base, plan
from ormahd.vault.conflicts import Aside, Versions, set_aside
from ormahd.vault.vault import Vault

MACHINE: Final = "Ormah-Machine"
"""The trailer of a sync: the name of the machine that joined."""
_LOG: Final = "--format=%H%x00%P%x00%an%x00%B"


class _Join(Struct, frozen=True):
    """A sync of another machine that met conflicts: what it had (`there`) and what came to it (`here`, perhaps ours)."""

    op: str
    commit: str
    there: str
    here: str
    machine: str


def tell(vault: Vault, before: str, tip: str) -> list[Aside]:
    """Set aside, and return, what this machine had said at `before` and what the syncs between it and `tip` replaced."""
    found: list[Aside] = []
    for join in _joins(vault, before, tip):
        lost = [_from_here(one) for one in _conflicts(vault, join) if one.kept == "ours"]
        if lost:
            commits = {"base": merge_base(vault, join.there, join.here), "ours": join.here, "theirs": join.commit}
            found += set_aside(vault.root, join.op, lost, commits, by=join.machine)
    return found


def _joins(vault: Vault, before: str, tip: str) -> Iterator[_Join]:
    """Joins that came in, oldest first, whose other side we had."""
    out = vault.git.run("log", "--merges", "--reverse", "-z", _LOG, f"{before}..{tip}").decode("utf-8", "replace")
    parts = out.split("\0")
    for commit, parents, author, text in zip(*[iter(parts)] * 4, strict=False):
        made = message.parse(text)
        sides = parents.split()
        op = made.trailer("Ormah-Op")
        if (
            made.trailer("Ormah-Kind") != Kind.SYNC
            or op is None
            or not made.trailers.get("Ormah-Conflict")
            or len(sides) != 2
        ):
            continue
        if is_ancestor(vault.git, sides[1], before):
            yield _Join(op, commit.strip(), sides[0], sides[1], made.trailer(MACHINE) or author)


def _conflicts(vault: Vault, join: _Join) -> list[Versions]:
    """What the other machine met when it joined."""
    return plan(vault, merge_base(vault, join.there, join.here), join.there, join.here).conflicts


def _from_here(one: Versions) -> Versions:
    """The other machine's conflict as this one sees it: its sides are exchanged."""
    values: Mapping[str, Mapping[str, str | None]] = {
        field: {"base": texts.get("base"), "ours": texts.get("theirs"), "theirs": texts.get("ours")}
        for field, texts in one.values.items()
    }
    return replace(one, kept="theirs", ours=one.theirs, theirs=one.ours, values=values)


def taken_back(vault: Vault, one: Aside, today: bytes) -> bytes:
    """Today's note with this machine's words where the other's replaced them; all else stays as it is today.

    Raises:
        BadRequest: this machine's words were not replaced, or it had no note. Conflict: the words were changed since.
    """
    versions = {side: (vault.root / file).read_bytes() for side, file in one.files.items()}
    ours, theirs = versions.get("ours"), versions.get("theirs")
    if one.kept != "theirs" or theirs is None:
        raise BadRequest(
            f"{one.path}: nothing of this machine was replaced there",
            hint="what lost is in the other version: ormahctl sync --conflicts names the files",
        )
    if ours is None:
        raise BadRequest(f"{one.path}: this machine had removed it", hint="to remove it again: ormahctl forget ID")
    base = versions.get("base")
    kept = merge_file(base, theirs, ours, one.path, keep_ours=True).data or theirs
    wanted = merge_file(base, ours, theirs, one.path, keep_ours=True).data or ours
    merged = merge_file(kept, today, wanted, one.path)
    if merged.data is None:
        what = ", ".join(conflict.field for conflict in merged.conflicts)
        raise Conflict(
            f"{one.path}: {what} was changed again since the sync; nothing was changed",
            hint="put the note right (ormahctl edit ID), then: ormahctl sync --resolve ID",
        )
    return merged.data
