"""Continues the reading of a transcript that has grown where the last read ended, if nothing before can have changed.

A place is the offset at which the last prompt begins, with a hash of the bytes just before it. The next read begins
there only if these bytes are unchanged, and no later line takes back earlier turns. In Claude Code's transcripts,
each later line must follow the prompt or a later line; in Codex's, no later line may roll turns back. Otherwise, such
as after a rewind, a compaction or a rewrite, the whole file is read, and the keys of the turns show which are new.
Gemini CLI writes changed messages again and may replace all, so its chats are always read whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, Final

from ormahd.ingest.readers import claude_code, codex
from ormahd.ingest.readers.lines import CHUNK, objects
from ormahd.ingest.readers.turns import Reading, text_at
from ormahd.sessions.archive import SourcePlace

if TYPE_CHECKING:
    from ormahd.ormah import Ormah

BEFORE: Final = 4096
"""Number of bytes before a place that must be unchanged."""
WORTH: Final = 1 << 16
"""Smallest offset that is stored as a place. Reading fewer bytes again takes about a millisecond."""


def begin(ormah: Ormah, source: str, stream: BinaryIO, found: str, reading: Reading) -> None:
    """Move the stream to the offset where the read is to begin, and set `reading` accordingly: to the place that is
    stored for `source` (the path of a transcript) if the transcript still fits it, else to the start. `found`: the
    name of the transcript's format."""
    goes_on = _GOES_ON.get(found)
    place = ormah.sessions.place(source) if goes_on is not None else None
    if goes_on is not None and place is not None and _stands(stream, place) and goes_on(stream, place):
        reading.at, reading.known = place.offset, place.leaf
    stream.seek(reading.at)


def remember(ormah: Ormah, source: str, stream: BinaryIO, reading: Reading) -> None:
    """Store where the next read of `source` (the path of a transcript) may begin. The read that has just ended has
    set this in `reading.resume`."""
    if reading.resume is not None and reading.resume[0] >= WORTH:
        offset, leaf = reading.resume
        ormah.sessions.keep_place(source, SourcePlace(offset, _digest(stream, offset), leaf))


def _stands(stream: BinaryIO, place: SourcePlace) -> bool:
    return _digest(stream, place.offset) == place.digest


def _digest(stream: BinaryIO, offset: int) -> str:
    """Return a hash of the last `BEFORE` bytes before an offset, followed by the number of these bytes. The number
    differs if the file has become too short for the offset."""
    begin = max(0, offset - BEFORE)
    stream.seek(begin)
    data = stream.read(offset - begin)
    return f"{hashlib.blake2b(data, digest_size=16).hexdigest()}-{len(data)}"


def _is_not_rolled_back(stream: BinaryIO, place: SourcePlace) -> bool:
    """Return whether a read of a rollout of Codex may begin at `place`: the place is one of Codex, and no line after
    it rolls turns back."""
    if codex.resumed(place.leaf) is None:
        return False
    stream.seek(place.offset)
    before = b""
    while chunk := stream.read(CHUNK):
        if codex.ROLLED_BACK in before + chunk:
            return False
        before = chunk[-len(codex.ROLLED_BACK) :]
    return True


def _hangs_on(stream: BinaryIO, place: SourcePlace) -> bool:
    """Return whether a read of a transcript of Claude Code may begin at `place`: each line after it has as its parent
    the line just before the place, or another line after the place. So no line continues an older branch."""
    known = {place.leaf}
    stream.seek(place.offset)
    for line in objects(stream, Reading()):
        uuid = text_at(line, "uuid")
        if line.get("type") not in claude_code.TOLD or uuid is None or line.get("isSidechain") is True:
            continue
        if (text_at(line, "parentUuid") or text_at(line, "logicalParentUuid")) not in known:
            return False
        known.add(uuid)
    return True


_GOES_ON: Final[dict[str, Callable[[BinaryIO, SourcePlace], bool]]] = {
    claude_code.NAME: _hangs_on, codex.NAME: _is_not_rolled_back,
}  # fmt: skip
"""Format whose transcripts are appended to -> the check whether a read may begin at a place."""
