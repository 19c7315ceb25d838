"""The origin of a memory made from a file, as stored in the field `from` of its note.

It has the path of the file, the place of the section, and the key of the section's text at that time.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from msgspec import Struct

from ormahd import paths
from ormahd.note.write import text as scalar_text

SCHEME: Final = "file://"
LONGEST_PATH: Final = 650
"""Maximum number of characters of a path in `from`."""
LONGEST_PLACE: Final = 300

_LINE = re.compile(rb"^from:[^\r\n]*", re.MULTILINE)


class FileOrigin(Struct, frozen=True):
    """Says from which section of which file a memory was made. `path`: absolute, with `~` for the home folder.
    `place`: the section's headings. `key`: the key of the section's title and text (`Section.key`)."""

    path: str
    place: str
    key: str

    @property
    def written(self) -> str:
        """The origin in the form in which the field `from` of a note states it."""
        return f"{SCHEME}{_packed(self.path)}#{_packed(self.place)[:LONGEST_PLACE]}#{self.key}"

    @property
    def file(self) -> Path:
        return paths.expand(Path(self.path))


def origin_of(said_in: str | None) -> FileOrigin | None:
    """Parse a value of the field `from`; return None if it says that the memory was not made from a file."""
    if said_in is None or not said_in.startswith(SCHEME):
        return None
    path, _, rest = said_in.removeprefix(SCHEME).partition("#")
    place, _, key = rest.rpartition("#")
    return FileOrigin(unquote(path), unquote(place), key)


def short(path: Path) -> str:
    """Return a path with `~` for the home folder, so that it means the same on another machine."""
    home = paths.known_home()
    if home is not None and home in path.parents:
        return f"~/{path.relative_to(home).as_posix()}"
    return path.as_posix()


def same_place(one: str, other: str) -> bool:
    """Return whether two places (`Section.place`) are equal after they are cut to the length that is stored in a
    note."""
    return _packed(one)[:LONGEST_PLACE] == _packed(other)[:LONGEST_PLACE]


def with_origin(data: bytes, origin: FileOrigin) -> bytes:
    """Return a note's bytes with the value of its field `from` replaced by `origin`."""
    return _LINE.sub(lambda _: f"from: {scalar_text(origin.written)}".encode(), data, count=1)


def _packed(text: str) -> str:
    """Return a text with white space, `%`, `#` and unprintable characters percent-encoded; all else stays readable."""
    return "".join(
        quote(sign, safe="") if sign.isspace() or sign in "%#" or not sign.isprintable() else sign for sign in text
    )
