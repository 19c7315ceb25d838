"""Where a memory of a file comes from, as its note's `from` says it: the file, the section, and the key of the text that stood there."""

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
"""Characters of a path that fits into a note."""
LONGEST_PLACE: Final = 300

_LINE = re.compile(rb"^from:[^\r\n]*", re.MULTILINE)


class FileOrigin(Struct, frozen=True):
    """`path`: absolute, with `~` for the home folder. `place`: the section's headings. `key`: of its title and text."""

    path: str
    place: str
    key: str

    @property
    def written(self) -> str:
        """The value of `from`."""
        return f"{SCHEME}{_packed(self.path)}#{_packed(self.place)[:LONGEST_PLACE]}#{self.key}"

    @property
    def file(self) -> Path:
        return paths.expand(Path(self.path))


def origin_of(said_in: str | None) -> FileOrigin | None:
    """Return the origin that `from` says; None if the memory comes from no file."""
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
    """Return whether two places are one; a long one is stored cut."""
    return _packed(one)[:LONGEST_PLACE] == _packed(other)[:LONGEST_PLACE]


def with_origin(data: bytes, origin: FileOrigin) -> bytes:
    """Return a note's bytes with another `from`."""
    return _LINE.sub(lambda _: f"from: {scalar_text(origin.written)}".encode(), data, count=1)


def _packed(text: str) -> str:
    """Return a text without spaces and `#`, readable otherwise."""
    return "".join(
        quote(sign, safe="") if sign.isspace() or sign in "%#" or not sign.isprintable() else sign for sign in text
    )
