"""Joins two histories of one vault: decides what each file becomes, and writes one commit with both histories as
parents.

Notes are matched by id and merged three ways, with the last common commit as the base. A join never stops for
conflicts. Where both sides changed the same field, the note gets our value; a note removed on one side and changed
on the other stays. All versions are then set aside for a person.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct, field

from ormahd.errors import BadRequest, Conflict, Unavailable
from ormahd.git.objects import REGULAR
from ormahd.model.change import Committed, Kind, sha256
from ormahd.model.node import short_id
from ormahd.note.merge import merge_file
from ormahd.vault.conflicts import ConflictVersions, drop, set_aside
from ormahd.vault.create import ATTRIBUTES, CARD, Card, read_card
from ormahd.vault.three_way import Joined, Pair, Version, changed, join, node_of, write
from ormahd.vault.transaction import PathChange, Transaction, is_local
from ormahd.vault.vault import Vault
from ormahd.vault.worktree import safe_path


class Plan(Struct):
    """The planned join of the commit `other` to the commit `head`. `base`: their merge base, or None. `changes`: `{key:
    (our version, wanted version)}` of the files that change here. `reasons`: a sentence for each choice between two
    changes."""

    base: str | None
    head: str
    other: str
    changes: dict[str, Pair] = field(default_factory=dict)
    conflicts: list[ConflictVersions] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


# ---------------------------------------------------------------- looking


def merge_base(vault: Vault, commit: str, other: str) -> str | None:
    """Return the merge base of two commits; None: their histories have no common commit."""
    out = vault.git.run("merge-base", commit, other, ok=(0, 1)).decode().split()
    return out[0] if out else None


def count_commits(vault: Vault, commits: str, without: str | None) -> int:
    """Return the number of commits in the history of the commit `commits` that are not in that of `without` (None:
    all)."""
    found = set(vault.git.run("rev-list", commits, *([] if without is None else [f"^{without}"])).split())
    if found and without is not None:  # where the clocks of commits differ, git lists some that both have
        found -= set(vault.git.run("rev-list", without).split())
    return len(found)


def card_of(vault: Vault, commit: str) -> Card | None:
    """Return the card of the vault in this commit; None: the commit has no card. Raises Unavailable, Incompatible."""
    line = vault.git.run("ls-tree", commit, "--", CARD).decode().split()
    return read_card(vault.blob(line[2]), vault.root) if line and line[0].encode() in REGULAR else None


def check_files(vault: Vault, base: str | None, other: str) -> None:
    """Raise Conflict when the other side has a file that must not be in a vault. That is a file with an unsafe path, or
    that belongs to the running daemon; a link; a submodule; or rules by which git would convert files."""
    for path, _, entry in vault.differences(base, other):
        if entry is None:
            continue
        try:
            safe_path(path)
            odd = is_local(path) or path.casefold() == ".ormah" or entry.mode not in REGULAR
            if path.rpartition("/")[2].casefold() == ".gitattributes":
                odd = vault.blob(entry.oid) != ATTRIBUTES.encode()
        except BadRequest:
            odd = True
        if odd:
            raise Conflict(
                f"the remote has a file that no vault may have: {path!r}; nothing was taken in",
                hint="take it out of the remote: `git rm --cached` it in a clone, commit, push",
                data={"path": path, "reason": "path"},
            )


# ---------------------------------------------------------------- deciding


def plan(vault: Vault, base: str | None, head: str, other: str) -> Plan:
    """Plan the join of `other` to `head`. Reads only the history.

    Raises:
        Conflict: the other side has a file that this vault cannot take; nothing was changed.
    """
    check_files(vault, base, other)
    out = Plan(base, head, other)
    ours_changed, theirs_changed = _with_shared_keys(changed(vault, base, head), changed(vault, base, other))
    wanted: dict[str, Version | None] = {}
    now: dict[str, Version | None] = {}
    for key in {**ours_changed, **theirs_changed}:
        before = (ours_changed.get(key) or theirs_changed[key])[0]
        ours = ours_changed[key][1] if key in ours_changed else before
        theirs = theirs_changed[key][1] if key in theirs_changed else before
        now[key] = ours
        wanted[key] = resolved(out, key, before, ours, theirs)
    separate_paths(vault, out, wanted)
    out.changes = {key: (now[key], wanted[key]) for key in wanted if now[key] != wanted[key]}
    return out


def _with_shared_keys(ours: Mapping[str, Pair], theirs: Mapping[str, Pair]) -> tuple[dict[str, Pair], dict[str, Pair]]:
    """Return both mappings with one key per file. If only one side gave a file an id, the entry of the other side gets
    this id as its key too. `ours`, `theirs`: the changes of each side, as `three_way.changed` returns them."""
    by_place: dict[str, str] = {}
    for pairs in (theirs, ours):
        for key, (before, _) in pairs.items():
            if before is not None and (before.path not in by_place or node_of(key) is not None):
                by_place[before.path] = key

    def keyed(pairs: Mapping[str, Pair]) -> dict[str, Pair]:
        """Return the changes of one side under the keys that both sides share."""
        return {key if pair[0] is None else by_place[pair[0].path]: pair for key, pair in pairs.items()}

    return keyed(ours), keyed(theirs)


def resolved(out: Plan, key: str, base: Version | None, ours: Version | None, theirs: Version | None) -> Version | None:
    """Return the version that a file gets by the join (None: it is removed). Conflicts are added to the plan `out`, and
    a sentence for each choice between two changes. `base`, `ours`, `theirs`: as for `three_way.join`."""
    joined = join(base, ours, theirs)
    if not joined.conflicts:
        out.reasons += [f"{joined.version.path}: {reason}" for reason in joined.reasons if joined.version]
        return _at_new_path(base, ours, theirs, joined)

    # A conflict. If one side removed the file, the other side's version stays. Otherwise the fields are merged, with our
    # values where both sides changed one.
    fields: tuple[str, ...] = ("note",)
    values: dict[str, dict[str, str | None]] = {}
    if ours is None or theirs is None:
        version, kept_side = ours or theirs, "ours" if theirs is None else "theirs"
    else:
        data = None if base is None else base.data
        merged = merge_file(data, ours.data, theirs.data, ours.path, keep_ours=True)
        result = Joined(Version(ours.path, merged.data or ours.data), (), merged.reasons)
        version, kept_side = _at_new_path(base, ours, theirs, result), "ours"
        fields = tuple(lost.field for lost in merged.conflicts)
        values = {
            lost.field: {"base": lost.base, "ours": lost.ours, "theirs": lost.theirs} for lost in merged.conflicts
        }
        out.reasons += [f"{ours.path}: {reason}" for reason in merged.reasons]

    # Set all versions aside.
    assert version is not None
    before, our, their = (None if side is None else side.data for side in (base, ours, theirs))
    about = version.path, node_of(key), fields
    out.conflicts.append(ConflictVersions(*about, kept=kept_side, base=before, ours=our, theirs=their, values=values))
    return version


def _at_new_path(base: Version | None, ours: Version | None, theirs: Version | None, joined: Joined) -> Version | None:
    """Return the merged file, at the path to which a side moved it. If both sides moved it, it gets the shorter path,
    which is the same on both machines."""
    version = joined.version
    if version is None or ours is None or theirs is None or ours.path == theirs.path:
        return version
    before = None if base is None else base.path
    moved = [side.path for side in (ours, theirs) if side.path != before]
    return Version(min(moved, key=lambda path: (len(path), path)), version.data)


def separate_paths(vault: Vault, out: Plan, wanted: dict[str, Version | None]) -> None:
    """Rename the files that would get the path of another file. The new names are the same on every machine. `wanted`:
    `{key: planned version}`, in which the paths are changed."""
    by_path: dict[str, list[str]] = {}
    for key, version in wanted.items():
        if version is not None:
            by_path.setdefault(version.path, []).append(key)
    crowded = {path: sorted(keys) for path, keys in by_path.items() if len(keys) > 1}
    if not crowded:
        return
    taken = {*vault.tree(out.head), *vault.tree(out.other), *by_path}
    for path, keys in crowded.items():
        for key in keys[1:]:
            version = wanted[key]
            assert version is not None
            place = PurePosixPath(path)
            node = node_of(key)
            tails = [short_id(node), node] if node else [sha256(version.data)[:8], sha256(version.data)]
            names = (str(place.with_name(f"{place.stem}_{tail}{place.suffix}")) for tail in tails)
            name = next(name for name in names if name not in taken)
            taken.add(name)
            wanted[key] = Version(name, version.data)
            out.reasons.append(f"{name}: both sides had a file {path}, and both are kept")


# ---------------------------------------------------------------- doing


def commit_plan(
    vault: Vault, found: Plan, subject: str, *, source: str, person: bool, body: Sequence[str] = ()
) -> Committed | None:
    """Save the versions in conflict under `.ormah/conflicts`, and commit the files of the plan `found`. Return the
    commit; None if HEAD contains all changes already.

    Raises:
        Conflict: a file, or HEAD, is not what the plan was made from; nothing was changed.
        VaultBusy: another program holds git's locks; nothing was changed.
    """
    sentences = [*body, *found.reasons]
    for conflict in found.conflicts:
        fields = ", ".join(conflict.fields)
        sentences.append(f"{conflict.path}: {fields} was changed on both sides; {conflict.kept} was kept")
    changed_nodes = {node_of(key) for key, (now, wanted) in found.changes.items() if now != wanted}
    unchanged = dict.fromkeys(conflict.node for conflict in found.conflicts if conflict.node not in changed_nodes)
    trailers = [("Ormah-Nodes", node) for node in unchanged if node]
    trailers += [*(("Ormah-Conflict", conflict.path) for conflict in found.conflicts), ("Ormah-Machine", hostname())]
    text = "\n".join(sentences)
    tx = vault.transaction(subject, kind=Kind.SYNC, source=source, person=person, body=text, trailers=trailers)
    commits = {"base": found.base, "ours": found.head, "theirs": found.other}
    set_aside(vault.root, tx.op, found.conflicts, commits)
    try:
        with tx:
            write(tx, found.changes)
            _expect_equal_untracked(vault, tx)
            tx.join(found.other, on=found.head)
    finally:
        if tx.committed is None and not vault.has_op(tx.op):
            drop(vault.root, tx.op)
    return tx.committed


def hostname() -> str:
    """Return the name of this machine, for the commits of its syncs."""
    return " ".join(socket.gethostname().split())[:60] or "unnamed"


def _expect_equal_untracked(vault: Vault, tx: Transaction) -> None:
    """Let the join replace an untracked file that has the same bytes as the incoming file at its path. Otherwise the
    commit would raise Conflict for it."""
    for path, wish in tx.wishes.items():
        if wish.expect is None and wish.data is not None and os.path.lexists(vault.root / path):
            try:
                existing = vault.read(path)
            except (Conflict, Unavailable):
                continue  # the transaction raises a more exact error
            if existing == wish.data:
                tx.wishes[path] = PathChange(wish.node_id, sha256(wish.data), wish.data)
