"""Paths whose content git changes on its way into the history: by a filter (git-crypt, transcrypt, LFS), by an encoding, by `ident`.

What a person encrypts must not be committed in plain text, and our objects are made without git. So nothing is ever written
at such a path: notes there are found and whispered, and stay as they are.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Final

from ormahd.errors import Conflict
from ormahd.vault.disk import is_pipe
from ormahd.vault.git import Git

CHANGING: Final = ("filter", "working-tree-encoding", "ident")
"""Attributes that make a blob another text than the file."""
_PIPE: Final = "a pipe in the place of .gitattributes"
"""Said of paths that git would wait for ever to tell the attributes of."""
_UNSET: Final = frozenset({b"unspecified", b"unset", b""})
_SIZE: Final = 1_000_000
"""Bytes of an attributes file that are read; git itself reads no more than 100 MB."""
_MOST: Final = 20_000
"""Paths that are remembered."""
_State = tuple[tuple[int, int], ...]


class Attributes:
    """Asks git for the attributes of our paths, where an attributes file speaks of one that matters. Safe from any thread."""

    def __init__(self, git: Git, prefix: str) -> None:
        """`prefix`: the vault's folder within its repository, with a slash at its end, or ""."""
        self._git = git
        self._prefix = prefix
        self._lock = threading.Lock()
        self._known: dict[str, tuple[_State, str | None]] = {}
        """Of each path: how the attributes files stood that may speak of it, and what was found."""
        self._speaking: dict[Path, tuple[tuple[int, int], bool]] = {}
        self._everywhere: list[Path] | None = None

    def changing(self, paths: Collection[str]) -> dict[str, str]:
        """Return those of `paths` (relative to the vault) whose content git would change, each with the attribute: `filter=crypt`."""
        with self._lock:
            stats = {file: _stat(file) for file in {file for path in paths for file in self._files(path)}}
            piped = {file for file in stats if is_pipe(file)}
            blocked = {path for path in paths if piped.intersection(self._files(path))} if piped else set()
            states = {path: tuple(stats[file] for file in self._files(path)) for path in paths}
            if len(self._known) > _MOST:
                self._known.clear()
            unknown = [
                path for path in paths if path not in blocked and self._known.get(path, ((), None))[0] != states[path]
            ]
            asked: dict[str, str | None] = {}
            if unknown and any(self._speaks(file, stat) for file, stat in stats.items() if file not in piped):
                asked = self._asked(unknown)
            self._known |= {path: (states[path], asked.get(path)) for path in unknown}
            found = {path: _PIPE if path in blocked else self._known[path][1] for path in paths}
        return {path: said for path, said in found.items() if said is not None}

    def refuse(self, paths: Collection[str]) -> None:
        """Raise Conflict when git would change what is about to be written at one of `paths`; nothing was changed then."""
        found = self.changing(paths)
        if found:
            path, said = min(found.items())
            raise Conflict(
                f"{path} is not written: git's attributes have {said} for it (git-crypt, LFS or the like), and Ormah would commit "
                "it without that; nothing was changed",
                hint=f"exempt Ormah's folder in .gitattributes ({_exempt(path)}), or set vault.path to a folder outside",
                data={"path": path, "attribute": said},
            )

    def _asked(self, paths: Collection[str]) -> dict[str, str | None]:
        names = b"".join(os.fsencode(self._prefix + path) + b"\0" for path in paths)
        fields = self._git.run("check-attr", "-z", "--stdin", *CHANGING, input=names).split(b"\0")
        found: dict[str, str | None] = dict.fromkeys(paths)
        for name, attribute, value in zip(fields[0::3], fields[1::3], fields[2::3], strict=False):
            if value not in _UNSET:
                path = os.fsdecode(name).removeprefix(self._prefix)
                found[path] = found.get(path) or f"{os.fsdecode(attribute)}={os.fsdecode(value)}"
        return found

    def _files(self, path: str) -> list[Path]:
        """The attributes files that may speak of a path: the person's own, the repository's, and one in each folder on the way."""
        if self._everywhere is None:
            chosen = self._git.run("config", "--type=path", "--get", "core.attributesFile", ok=(0, 1)).strip()
            home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
            usual = Path(os.fsdecode(chosen)) if chosen else Path(home, "git", "attributes")
            self._everywhere = [usual, self._git.common / "info" / "attributes"]
        found, folder = list(self._everywhere), ""
        for part in ["", *PurePosixPath(self._prefix + path).parts[:-1]]:
            folder = f"{folder}/{part}" if part else folder
            found.append(Path(f"{self._git.top}{folder}/.gitattributes"))
        return found

    def _speaks(self, file: Path, stat: tuple[int, int]) -> bool:
        """Whether a file may set one of these attributes: where it names none, git need not be asked."""
        known = self._speaking.get(file)
        if known is None or known[0] != stat:
            text = b""
            with contextlib.suppress(OSError), file.open("rb") as opened:
                text = opened.read(_SIZE)
            known = stat, b"[attr]" in text or any(name.encode() in text for name in CHANGING)
            self._speaking[file] = known
        return known[1]


def _stat(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _exempt(path: str) -> str:
    folder = path.partition("/")[0]
    return f"`{folder}/** !filter`" if "/" in path else f"`{path} !filter`"
