"""What was committed while the history was written anew, put on top of the new one: the same files and words, other parents.

Only commits are made anew: what came after the purge's own op does not name what is purged, which is looked at here, so
that files and trees stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ormahd.git.history_objects import Commit, Store
from ormahd.note.forgetting import Forgotten

_ID = re.compile(rb"(?<![0-9a-z])[0-9a-f]{40}(?:[0-9a-f]{24})?(?![0-9a-z])")
_MOVING = ("refs/heads/", "refs/ormah/")
"""Refs that go on by commits; a tag that moves is another tag."""
_SIGNED = (b"gpgsig", b"mergetag")
"""Headers of a commit that hold for the old id only; their further lines begin with a space."""


def beyond(
    store: Store, forgotten: Forgotten, before: Mapping[str, str], now: Mapping[str, str]
) -> tuple[list[Commit], dict[str, bytes]] | None:
    """What refs that are at `now` reach beyond where they were, `before`: (commits, newest first; their bytes by id).

    None when that is no mere going on, or something of it names what is purged: then all has to be looked at anew.
    """
    if before.keys() != now.keys() or any(
        now[ref] != oid for ref, oid in before.items() if not ref.startswith(_MOVING)
    ):
        return None
    commits = list(store.commits(*now.values(), *(f"^{oid}" for oid in before.values())))
    came = [(path, new) for commit in commits for path, _, new in commit.changes if new.strip("0")]
    texts = {one.oid: one.data for one in store.objects({*(new for _, new in came), *(one.oid for one in commits)})}
    if any(forgotten.mentions(data) for data in texts.values()) or any(
        forgotten.mentions(path.encode("utf-8", "surrogateescape")) for path, _ in came
    ):
        return None
    return commits, texts


def follow(
    store: Store,
    forgotten: Forgotten,
    before: Mapping[str, str],
    now: Mapping[str, str],
    renamed: Mapping[str, str],
    name: Callable[[str, bytes], str],
) -> tuple[dict[str, str], dict[str, tuple[str, bytes]]] | None:
    """({ref: its new id}, new objects as `Objects.write` takes them) for refs that are at `now` and were at `before` when
    the history was written anew. `renamed`: old commit to new one; `name` gives an object's id. None: see `beyond`."""
    found = beyond(store, forgotten, before, now)
    if found is None:
        return None
    commits, texts = found
    names = dict(renamed)
    fresh: dict[str, tuple[str, bytes]] = {}
    for commit in reversed(commits):
        data = _moved(texts[commit.oid], names)
        names[commit.oid] = oid = name("commit", data)
        fresh[oid] = "commit", data
    moved = {ref: oid for ref, oid in now.items() if oid != before[ref]}
    if not names.keys() >= set(moved.values()):
        return None
    return {ref: names[oid] for ref, oid in moved.items()}, fresh


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
