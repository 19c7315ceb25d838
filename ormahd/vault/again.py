"""Files that a scan decides on again although nobody touched them: something else changed what they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ormahd.vault.scan import Seen, Walk, seen

if TYPE_CHECKING:
    from ormahd.vault.round import Round


def led_elsewhere(scan: Round, found: Walk) -> set[str]:
    """Notes that stand as they stood while HEAD came to have others in their place: a branch was led back without its files
    (`git reset --soft`, `--mixed`), or to a commit that lacks them. Their stat tells nothing, so they count as changed in `found`."""
    owner = scan.owner
    before, now = owner.position(), owner.walked
    if scan.paths is not None or before is None or before == now:
        return set()
    others = owner.look.differing(before, now)
    paths = {path for path in scan.known if others is None or path in others}
    found.changed.update(_seen(scan, filter(owner.identity.present, paths - found.changed.keys())))
    return paths


def decided_anew(scan: Round) -> None:
    """Files that the person gave back to us, of which they chose something else, that they had staged and have committed, or that git
    can make blobs of again."""
    owner = scan.owner
    committed = owner.staged - owner.look.staged() if owner.staged else set()
    owner.staged -= committed
    paths = (
        (owner.released.take_dropped() | committed | owner.given_back_by_git())
        .union(scan.again)
        .difference(scan.decided)
    )
    scan.take(_seen(scan, filter(scan.owner.identity.present, paths)), forced=True)


def copies_of_the_taken(scan: Round) -> None:
    """A file that nobody touched lost its id to one that has it rightly now: from here on it is a copy."""
    paths = scan.outdone.difference(scan.decided, scan.moved)
    scan.take(_seen(scan, filter(scan.owner.identity.present, paths)), forced=True)
    scan.feed()


def copies_of_the_vanished(scan: Round) -> None:
    """An id is free again: a copy that had to stand back may have it now."""
    again: dict[str, Seen] = {}
    identity = scan.owner.identity
    maybe = {path for path in scan.known if path not in scan.tree}
    maybe.update(path for node_id in scan.vanished for path in identity.paths(node_id))
    for path in maybe.difference(scan.decided, scan.moved):
        if scan.owner.context.ours(path, None) and identity.present(path):
            with scan.guard.file(path):
                met = seen(path, (scan.vault.root / path).lstat())
                file = scan.owner.read(met, scan.tree)
                if file is not None and file.note.id in scan.vanished:
                    again[path] = met
    scan.take(again, forced=True)
    scan.feed()
    scan.commit_all()


def _seen(scan: Round, paths: Iterable[str]) -> dict[str, Seen]:
    found: dict[str, Seen] = {}
    for path in paths:
        with scan.guard.file(path):
            found[path] = seen(path, (scan.vault.root / path).lstat())
    return found
