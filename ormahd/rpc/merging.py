"""Answer git's merge driver: merge three versions of a file that arrive in a `g` frame (DESIGN section 5).

The bodies are byte strings with length prefixes, because the driver loads neither JSON nor msgpack so that it starts
quickly. Answering takes no lock: while git runs the driver it holds `index.lock`, and a write of the daemon may be waiting
for that lock. Answering also needs no file and no git process, except for a path with a git filter: there git runs the
filter, which takes no lock either.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ormahd.errors import BadRequest
from ormahd.note.merge import merge_file

MERGED: Final = b"="
"""Mark of a reply: the file was merged, and its bytes follow."""
CONFLICT: Final = b"!"
"""Mark of a reply: both sides changed the same field, so git writes conflict markers for a person to resolve."""
REFUSED: Final = b"x"
"""Mark of a reply: the file was not merged, and our version is kept unchanged.

The versions are different notes, or the path has a filter and its merge conflicts or the filter failed.
"""
OUTCOMES: Final = {MERGED: "ok", CONFLICT: "conflict", REFUSED: "refused"}
"""{mark: its name in the log}."""
LENGTH: Final = 4


def answer(body: bytes) -> bytes:
    """Merge the versions in a request's body. Return the body of the reply.

    Request: path in the repository, base, ours, theirs, each after its length (4 bytes, big endian). An empty base
    means that both sides added the file. Reply: `MERGED`, `CONFLICT` or `REFUSED`, then lines for people (UTF-8)
    after their length. After `MERGED` follows the merged file. After `CONFLICT` follows nothing, or ours and theirs,
    each after its length; both are already merged except for the conflicting fields.

    Raises:
        BadRequest: the body does not have four parts.
    """
    path, base, ours, theirs = _parts(body)
    name = path.decode("utf-8", "surrogateescape")
    merged = merge_file(base or None, ours, theirs, name)
    if merged.data is not None:
        return MERGED + _part(_words(f"{_shown(name)}: {reason}" for reason in merged.reasons)) + merged.data
    if identity := [conflict for conflict in merged.conflicts if conflict.field == "id"]:
        versions = (value for conflict in identity for value in (conflict.base, conflict.ours, conflict.theirs))
        ids = ", ".join(dict.fromkeys(value[:8] for value in versions if value))
        advice = "the file is kept as it was. `git add` it to go on with it"
        return REFUSED + _part(_words([f"{_shown(name)}: not merged, these are different notes ({ids}); {advice}"]))
    fields = sorted({conflict.field for conflict in merged.conflicts})
    listed = fields[0] if len(fields) == 1 else f"{', '.join(fields[:-1])} and {fields[-1]}"
    sides = [merge_file(base or None, *pair, name, keep_ours=True).data for pair in ((ours, theirs), (theirs, ours))]
    settled = b"".join(_part(side) for side in sides if side is not None) if None not in sides else b""
    sentence = f"{_shown(name)}: both sides changed {listed}; both versions stand in the file"
    return CONFLICT + _part(_words([sentence])) + settled


def _parts(body: bytes) -> list[bytes]:
    """Return the four parts of the body: path, base, ours and theirs.

    Raises:
        BadRequest: the body does not have exactly four parts.
    """
    parts, at = [], 0
    while at < len(body):
        start = at + LENGTH
        at = start + int.from_bytes(body[at:start], "big")
        parts.append(body[start:at])
    if len(parts) != 4 or at != len(body):
        raise BadRequest("merge: the body is not path, base, ours and theirs", hint="see PROTOCOL.md")
    return parts


def _part(data: bytes) -> bytes:
    """Return `data` with its length in front, as a part of a body."""
    return len(data).to_bytes(LENGTH, "big") + data


def _words(lines: Iterable[str]) -> bytes:
    """Return lines for people as bytes, each with the program's name in front."""
    return "".join(f"ormah: {line}\n" for line in lines).encode("utf-8", "replace")


def _shown(name: str) -> str:
    """Return a path for a terminal: unprintable characters become "?"."""
    return "".join(c if c.isprintable() else "?" for c in name)
