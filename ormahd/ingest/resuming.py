"""Goes on reading a transcript that grew where the last read ended, if nothing before that place can have changed.

The place is the beginning of the last prompt, together with what stands just before it. The next read begins there only if those bytes are
the same, and nothing that follows takes back what was before: in Claude Code's transcripts every new line hangs on the prompt's branch, in
Codex's no line rolls turns back. After a rewind, a compaction or a rewrite the file is read whole, and the turns' keys decide what is new.
Gemini CLI writes a message again when it changes, and may replace all of them, so its chats are always read whole.
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
"""Bytes before the place that are compared."""
WORTH: Final = 1 << 16
"""Bytes below which a file is read whole: that takes a millisecond."""


def begin(ormah: Ormah, source: str, stream: BinaryIO, found: str, reading: Reading) -> None:
    """Set where to begin to read a source, and leave the stream there: at its beginning, or at the last prompt that was read."""
    goes_on = _GOES_ON.get(found)
    place = ormah.sessions.place(source) if goes_on is not None else None
    if goes_on is not None and place is not None and _stands(stream, place) and goes_on(stream, place):
        reading.at, reading.known = place.offset, place.leaf
    stream.seek(reading.at)


def remember(ormah: Ormah, source: str, stream: BinaryIO, reading: Reading) -> None:
    """Store where the next read of a source may begin."""
    if reading.resume is not None and reading.resume[0] >= WORTH:
        offset, leaf = reading.resume
        ormah.sessions.keep_place(source, SourcePlace(offset, _digest(stream, offset), leaf))


def _stands(stream: BinaryIO, place: SourcePlace) -> bool:
    return _digest(stream, place.offset) == place.digest


def _digest(stream: BinaryIO, offset: int) -> str:
    """Return the digest of the bytes before an offset, and their number: a file that is shorter has another one."""
    begin = max(0, offset - BEFORE)
    stream.seek(begin)
    data = stream.read(offset - begin)
    return f"{hashlib.blake2b(data, digest_size=16).hexdigest()}-{len(data)}"


def _is_not_rolled_back(stream: BinaryIO, place: SourcePlace) -> bool:
    """Return whether a place is one of Codex, and no line from there on takes turns back."""
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
    """Return whether each line from the place on follows the line before it, or one that came after the place."""
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
"""{format whose files only grow: whether a read may begin at a place}."""
