"""Find rules of gitattributes(5) by which git would convert a file of the vault: filters, line ends, encodings, `ident`.

Git itself is asked (`git check-attr`), and only where an attributes file other than the vault's own one may name such a
rule. Answers are cached until one of those files changes.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Final

from ormahd.git.repository import Git

ASKED: Final = ("text", "filter", "working-tree-encoding", "ident")
_NO_RULE: Final = {
    "text": {"unset", "unspecified"},
    "filter": {"unset", "unspecified", "set", ""},
    "working-tree-encoding": {"unset", "unspecified", "set", "", "utf-8", "utf8"},
    "ident": {"unset", "unspecified"},
}
"""{attribute: values (in lower case) with which git leaves the content of a file alone}. Where `text` is none of these,
`eol` and `core.autocrlf` may count too."""
PIPE: Final = -1
"""The size that counts for an attributes file that is a named pipe."""
State = tuple[tuple[str, int, int, int], ...]


class ConversionRules:
    """Tells for paths of one vault by which rule git would convert them. Thread-safe."""

    def __init__(self, git: Git, own: bytes) -> None:
        """`own`: the content of the vault's own `.gitattributes`, which has no such rule."""
        self._git = git
        self._own = own
        self._lock = threading.Lock()
        self._known: dict[str, tuple[State, str | None]] = {}
        home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        chosen = git.settings().get("core.attributesfile")
        usual = os.path.expanduser(chosen) if chosen else os.path.join(home, "git", "attributes")
        self._everywhere = ["/etc/gitattributes", os.path.join(git.top, usual), f"{git.git_dir}/info/attributes"]

    def find(self, paths: Collection[str]) -> dict[str, str]:
        """Return `{path: the rule as it is written, such as "filter=lfs"}` for those of `paths` that git would
        convert."""
        with self._lock:
            states = {path: self._state(path) for path in paths}
            unknown = [path for path, state in states.items() if state and self._known.get(path, ((),))[0] != state]
            piped = {path for path in unknown if any(size == PIPE for _, _, size, _ in states[path])}
            rules = dict.fromkeys(piped, "a pipe in the place of .gitattributes")  # git would block on it
            for path, rule in (self._ask([one for one in unknown if one not in piped]) | rules).items():
                self._known[path] = states[path], rule
            found = {path: self._known[path][1] for path, state in states.items() if state}
        return {path: rule for path, rule in found.items() if rule is not None}

    def _state(self, path: str) -> State:
        """Return (file, mtime, size, inode) of each attributes file that applies to a path, except files with the
        content of the vault's own `.gitattributes`."""
        folder = os.fspath(self._git.top)
        files = [*self._everywhere, f"{folder}/.gitattributes"]
        for part in path.split("/")[:-1]:
            folder = f"{folder}/{part}"
            files.append(f"{folder}/.gitattributes")
        state = []
        for file in files:
            try:
                found = os.stat(file)
            except OSError:
                continue
            size = PIPE if stat.S_ISFIFO(found.st_mode) else found.st_size
            own = stat.S_ISREG(found.st_mode) and size == len(self._own) and Path(file).read_bytes() == self._own
            if not own:
                state.append((file, found.st_mtime_ns, size, found.st_ino))
        return tuple(state)

    def _ask(self, paths: Collection[str]) -> dict[str, str | None]:
        """Ask git for the conversion rules of these paths. Return {path: rule; None: no rule}."""
        if not paths:
            return {}
        rules: dict[str, str | None] = dict.fromkeys(paths)
        names = b"".join(os.fsencode(path) + b"\0" for path in paths)
        fields = os.fsdecode(self._git.run("check-attr", "-z", "--stdin", *ASKED, input=names)).split("\0")
        for path, name, value in zip(fields[0::3], fields[1::3], fields[2::3], strict=False):
            if value.lower() not in _NO_RULE[name] and rules[path] is None:
                rules[path] = name if value == "set" else f"{name}={value}"
        return rules
