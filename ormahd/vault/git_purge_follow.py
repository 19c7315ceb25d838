"""What was committed while the history was written anew, put on top of the new one: the same files and words, other parents.

Only commits are made anew: what came after the purge's own op does not name what is purged, which is looked at here, so
that files and trees stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ormahd.core.purge import Forgotten
from ormahd.vault.git_purge_store import Store

_ID = re.compile(rb"(?<![0-9a-z])[0-9a-f]{40}(?:[0-9a-f]{24})?(?![0-9a-z])")
_SIGNED = (b"gpgsig", b"mergetag")
"""Headers of a commit that hold for the old id only; their further lines begin with a space."""


def follow(
    store: Store,
    forgotten: Forgotten,
    before: Mapping[str, str],
    now: Mapping[str, str],
    renamed: Mapping[str, str],
    name: Callable[[str, bytes], str],
) -> tuple[dict[str, str], dict[str, tuple[str, bytes]]] | None:
    """({ref: its new id}, new objects as `Objects.write` takes them) for refs that are at `now` and were at `before` when
    the history was written anew. `renamed`: old commit to new one; `name` gives an object's id.

    None when that is no mere going on, or something of it names what is purged: then all has to be written anew.
    """
    if before.keys() != now.keys() or any(
        now[ref] != oid for ref, oid in before.items() if ref.startswith("refs/tags/")
    ):
        return None
    fresh: dict[str, tuple[str, bytes]] = {}
    names = dict(renamed)
    commits = list(store.commits(*now.values(), *(f"^{oid}" for oid in before.values())))
    blobs = {new for commit in commits for _, _, new in commit.changes if new.strip("0")}
    paths = {path for commit in commits for path, _, _ in commit.changes}
    texts = {one.oid: one for one in store.objects([*blobs, *(commit.oid for commit in commits)])}
    if any(forgotten.mentions(one.data) for one in texts.values()) or any(
        forgotten.mentions(path.encode("utf-8", "surrogateescape")) for path in paths
    ):
        return None
    for commit in reversed(commits):
        data = _moved(texts[commit.oid].data, names)
        names[commit.oid] = oid = name("commit", data)
        fresh[oid] = "commit", data
    if any(oid not in names for ref, oid in now.items() if oid != before[ref]):
        return None
    return {ref: names[oid] for ref, oid in now.items() if oid != before[ref]}, fresh


def _moved(data: bytes, names: Mapping[str, str]) -> bytes:
    """A commit with other parents, and without a signature that no longer holds."""

    def other(found: re.Match[bytes]) -> bytes:
        return names.get(found[0].decode(), found[0].decode()).encode()

    header, gap, words = data.partition(b"\n\n")
    lines: list[bytes] = []
    dropping = False
    for line in header.split(b"\n"):
        dropping = line.startswith(_SIGNED) or (dropping and line.startswith(b" "))
        if not dropping:
            lines.append(_ID.sub(other, line) if line.startswith(b"parent ") else line)
    return b"\n".join(lines) + gap + _ID.sub(other, words)
