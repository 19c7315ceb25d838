"""Notes that are only indexed keep their ids when a person renames or moves them, and released ones stay released."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ormahd.errors import VaultBusy
from ormahd.model.change import Kind, sha256
from ormahd.model.files import FileState
from ormahd.vault import released
from ormahd.vault.renamed import RENAMED, write
from ormahd.vault.vault import Vault
from ormahd.watch.person import BUSY_S
from ormahd.watch.reading import read_stable
from ormahd.watch.scan import Seen, Walk

if TYPE_CHECKING:
    from ormahd.watch.round import Round


def same_notes(
    gone: Sequence[FileState], new: Sequence[Seen], known: Collection[str], read: Callable[[Seen], bytes | None]
) -> dict[str, str]:
    """Which new files are notes that are gone from where they were: {path: id}. A file of the same inode and time is the same; so is one
    of the same bytes, of several that under the same name. A place that was `known` before is another's only by its inode."""
    left = {row.path: row for row in gone}
    found: dict[str, str] = {}
    for met in new:
        row = next(
            (
                row
                for row in left.values()
                if (row.inode, row.mtime_ns, row.size) == (met.inode, met.mtime_ns, met.size)
            ),
            None,
        )
        if row is not None:
            found[met.path] = str(left.pop(row.path).lent)
    sizes = {row.size for row in left.values()}
    for met in new:
        if met.path in found or met.path in known or met.size not in sizes:
            continue
        try:
            data = read(met)
        except OSError:
            continue  # the scan names it
        name = met.path.rpartition("/")[2]
        alike = [row for row in left.values() if data is not None and row.digest == sha256(data)]
        if alike:
            row = min(alike, key=lambda row: (row.path.rpartition("/")[2] != name, row.path))
            found[met.path] = str(left.pop(row.path).lent)
    return found


def commit_renamed(vault: Vault, moved: Mapping[str, str], renamed: Mapping[str, str]) -> bool:
    """Have the history say where notes are by now; False: git is busy."""
    before = vault.read(RENAMED)
    data = write(renamed)
    if data == (before or b""):
        return True
    what = (
        f"a note that was renamed: {next(iter(moved))}" if len(moved) == 1 else f"{len(moved)} notes that were renamed"
    )
    try:
        with vault.transaction(f"Follow {what}", kind=Kind.EDIT, source="person", person=True) as tx:
            tx.put(RENAMED, data, node_id=None, expect=None if before is None else sha256(before))
    except VaultBusy:
        return False
    return True


def follow(turn: Round, found: Walk) -> dict[str, str]:
    """Notes that are only found and stand elsewhere now keep their ids: {path: id}. Said in one commit, before anything else is told of
    them; while git is busy they wait, and what is `found` is without them."""
    gone = [row for path in found.gone if (row := turn.known.get(path)) is not None and row.lent is not None]
    if not gone or turn.half_done:
        return {}
    identity = turn.owner.identity
    new = [met for _, met in sorted(found.changed.items())]
    moved = same_notes(gone, new, turn.known, lambda met: read_stable(turn.vault.root, met))
    if not moved:
        return {}
    said = {path: node_id for path, node_id in identity.renamed().items() if node_id not in moved.values()}
    said |= {path: node_id for path, node_id in moved.items() if node_id != identity.lent(turn.vault.id, path, said)}
    if commit_renamed(turn.vault, moved, said):
        identity.rename(said)
        return moved
    waiting = {*moved, *(row.path for row in gone)}
    for path in waiting:
        found.changed.pop(path, None)
        turn.out.wait(path, BUSY_S)
    found.gone = [path for path in found.gone if path not in waiting]
    return {}


def follow_released(turn: Round, found: Walk) -> None:
    """Have the list of released files say where they are by now. One is known by its inode, also when it was edited as well, or by its
    bytes of today. While git is busy they wait, and what is `found` is without them."""
    listed = turn.owner.released.files()
    gone = [turn.known[path] for path in found.gone if path in listed and path in turn.known]
    if not gone or turn.half_done:
        return
    new = [met for path, met in sorted(found.changed.items()) if path not in turn.known and path not in turn.tree]
    moved: dict[str, FileState] = {}
    for row in gone:
        met = next((met for met in new if met.path not in moved and _is_same(turn, row, met)), None)
        if met is not None:
            moved[met.path] = row
    if not moved or _relist(turn.vault, moved):
        return
    waiting = {*moved, *(row.path for row in moved.values())}
    for path in waiting:
        found.changed.pop(path, None)
        turn.out.wait(path, BUSY_S)
    found.gone = [path for path in found.gone if path not in waiting]


def _is_same(turn: Round, row: FileState, met: Seen) -> bool:
    if row.inode == met.inode:
        return True
    if row.size != met.size:
        return False
    try:
        data = read_stable(turn.vault.root, met)
    except OSError:
        return False  # the scan names it
    return data is not None and sha256(data) == row.digest


def _relist(vault: Vault, moved: Mapping[str, FileState]) -> bool:
    """Write the list with the new paths; False: git is busy."""
    before = vault.read(released.PATH) or b""
    listed = released.read(before)
    lines = [
        released.Released(path, row.digest, listed[row.path].node_id)
        for path, row in moved.items()
        if row.path in listed
    ]
    data = released.with_files(released.without_files(before, {row.path for row in moved.values()}), lines)
    what = f"{next(iter(moved))}" if len(moved) == 1 else f"{len(moved)} files"
    try:
        with vault.transaction(f"Follow what was released: {what}", kind=Kind.EDIT, source="person", person=True) as tx:
            tx.put(released.PATH, data, node_id=None, expect=sha256(before))
    except VaultBusy:
        return False
    return True
