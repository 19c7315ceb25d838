"""Read the git attributes that apply to the vault's files (gitattributes(5)): filters, line ends, encodings,
`ident`.

Git itself is asked (`git check-attr`), and only for paths whose attributes files name an attribute that matters
here. Answers are cached until one of those files, or git's configuration, changes.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from ormahd.git.repository import Git

ASKED: Final = ("filter", "working-tree-encoding", "ident", "text", "crlf", "eol")
_UNSET: Final = frozenset({"unspecified", "unset", ""})
_UTF8: Final = frozenset({"utf-8", "utf8"})
_SYSTEM: Final = "/etc/gitattributes"
_SIZE: Final = 1_000_000
"""The number of bytes that are read of an attributes file; git itself reads no more than 100 MB."""
_MOST: Final = 20_000
"""The largest number of paths whose rules are cached; at more, the cache is cleared."""
_State = tuple[tuple[int, int, int], ...]


class Word(StrEnum):
    """A word for what git may do to the content of a file, because of an attributes file or git's configuration."""

    FILTER = "filter"
    ENCODING = "working-tree-encoding"
    IDENT = "ident"
    TEXT = "text"
    """Line ends are converted to LF in the history."""
    CRLF = "crlf"
    """Line ends are converted to CRLF in the folder."""
    PIPE = "pipe"
    """Not an attribute: the attributes file itself is a pipe, and git would block when reading it."""


_ALL: Final = frozenset(Word) - {Word.PIPE}
REFUSING: Final = frozenset({Word.FILTER, Word.ENCODING, Word.PIPE})
"""The words because of which Ormah may be unable to write a file."""


class Rule(Struct, frozen=True):
    """How git converts the content of one file between the folder and the history; by default not at all.

    `filter`: the name of the filter. `encoding`: the encoding in the folder. `ident`, `text`: as in `Word`.
    """

    filter: str | None = None
    missing: bool = False
    """Whether the attributes name a filter (`filter`) that git's configuration does not define."""
    encoding: str | None = None
    ident: bool = False
    text: bool = False
    crlf: bool = False
    """Whether a checkout gives the file CRLF."""
    pipe: bool = False
    """Whether git cannot be asked, because an attributes file is a pipe."""

    @property
    def unwritable(self) -> str | None:
        """Return why Ormah cannot write to the path, as a clause; None if it can."""
        if self.pipe:
            return "git cannot be asked for its attributes: there is a pipe in the place of .gitattributes"
        if self.missing:
            return (
                f"git's attributes have filter={self.filter} for it, and git's configuration has no filter of that name"
            )
        if self.encoding is not None:
            return f"git's attributes have working-tree-encoding={self.encoding} for it, and Ormah writes UTF-8"
        return None


class Attributes:
    """Tells how git converts each file of the vault, by git's attributes and configuration. Caches git's answers.
    Thread-safe."""

    def __init__(self, git: Git, prefix: str) -> None:
        """`prefix`: the vault's folder within its repository, ending in a slash, or ""."""
        self._git = git
        self._prefix = prefix
        self._top = os.fspath(git.top)
        self._lock = threading.Lock()
        self._known: dict[str, tuple[_State, Rule | None]] = {}
        """{path: (states of the attributes files that apply to it, its rule then; None: git changes nothing)}."""
        self._read: dict[str, tuple[tuple[int, int, int], frozenset[Word]]] = {}
        """{path of an attributes file: ((mtime in ns, size, inode), the words in it)}."""
        self._settings: Mapping[str, str] = {}
        self._everywhere: list[str] = []
        self._always: frozenset[Word] = frozenset()
        self.version = 0
        """Incremented when git's configuration changes: the output of a filter may then be different."""

    def words(self, path: str) -> frozenset[Word]:
        """Return which `Word`s occur in the attributes files that apply to a path (relative to the vault); usually
        none.

        `git check-attr` is not run, so a `Word` may occur only for a pattern that does not match the path.
        """
        with self._lock:
            self._follow_settings()
            return self._look(path, {})[1]

    def rule(self, path: str) -> Rule | None:
        """Return what git does to the content of a path; None if it leaves the content alone."""
        return self.rules([path]).get(path)

    def rules(self, paths: Collection[str]) -> dict[str, Rule]:
        """Return `{path: rule}` for those of `paths` whose content git changes."""
        found: dict[str, Rule | None] = {}
        unknown: dict[str, _State] = {}
        files: dict[str, tuple[tuple[int, int, int], frozenset[Word]]] = {}
        with self._lock:
            self._follow_settings()
            for path in paths:
                state, words = self._look(path, files)
                known = self._known.get(path)
                if not words:
                    continue
                if Word.PIPE in words:
                    found[path] = Rule(pipe=True)
                    continue
                if known is not None and known[0] == state:
                    found[path] = known[1]
                else:
                    unknown[path] = state
            if unknown:
                asked = self._asked(unknown)
                if len(self._known) + len(asked) > _MOST:
                    self._known.clear()
                self._known |= {path: (unknown[path], rule) for path, rule in asked.items()}
                found |= asked
        return {path: rule for path, rule in found.items() if rule is not None}

    def ask_of(self, paths: Iterable[str]) -> None:
        """Cache the rules of `paths` with one call of git, so that `unwritable` need not call git for each path."""
        files: dict[str, tuple[tuple[int, int, int], frozenset[Word]]] = {}
        with self._lock:
            self._follow_settings()
            asked = [path for path in paths if self._look(path, files)[1] & REFUSING]
        self.rules(asked)

    def unwritable(self, path: str) -> str | None:
        """Return why Ormah cannot write to a path, as a clause; None if the attributes do not forbid it.

        A filter may still fail when it runs.
        """
        rule = self.rule(path) if self.words(path) & REFUSING else None
        return None if rule is None else rule.unwritable

    def filter_of(self, path: str) -> str | None:
        """Return the name of the filter that git applies to a path, or None."""
        rule = self.rule(path)
        return None if rule is None else rule.filter

    def _follow_settings(self) -> None:
        settings = self._git.settings()
        if settings is self._settings:
            return
        self._settings = settings
        self._known.clear()
        self.version += 1
        home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        chosen = settings.get("core.attributesfile")
        usual = os.path.expanduser(chosen) if chosen else os.path.join(home, "git", "attributes")
        self._everywhere = [_SYSTEM, os.path.join(self._top, usual), f"{self._git.common}/info/attributes"]
        words = set()
        if self._git.flag("core.autocrlf", default=False):
            words.add(Word.TEXT)
            if settings.get("core.autocrlf", "").lower() != "input":
                words.add(Word.CRLF)
        elif settings.get("core.eol", "").lower() == "crlf":
            words.add(Word.CRLF)
        self._always = frozenset(words)

    def _look(
        self, path: str, files: dict[str, tuple[tuple[int, int, int], frozenset[Word]]]
    ) -> tuple[_State, frozenset[Word]]:
        """Return (the states of the attributes files that apply to `path`, the `Word`s in them). If CRLF is the only
        `Word`, none is returned.

        `files` is a cache that several calls share: {attributes file: (its state, its `Word`s)}. A state is (mtime in
        ns, size, inode).
        """
        state = []
        words = self._always
        for file in self._files(path):
            found = files.get(file)
            if found is None:
                found = files[file] = self._words(file)
            state.append(found[0])
            words |= found[1]
        return tuple(state), words if words - {Word.CRLF} else frozenset()

    def _files(self, path: str) -> list[str]:
        """Return the attributes files that apply to `path`, whether they exist or not: those of the system, the
        person and the repository, and one in each folder above `path`."""
        where = self._top
        found = [*self._everywhere, f"{where}/.gitattributes"]
        for part in (self._prefix + path).split("/")[:-1]:
            where = f"{where}/{part}"
            found.append(f"{where}/.gitattributes")
        return found

    def _words(self, file: str) -> tuple[tuple[int, int, int], frozenset[Word]]:
        try:
            found = os.stat(file)
        except OSError:
            return (0, 0, 0), frozenset()
        state = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stat.S_ISFIFO(found.st_mode):
            return state, frozenset({Word.PIPE})
        known = self._read.get(file)
        if known is None or known[0] != state:
            text = b""
            with contextlib.suppress(OSError), open(file, "rb") as opened:
                text = opened.read(_SIZE)
            known = self._read[file] = state, _words_of(text.decode("utf-8", "replace").splitlines())
        return known

    def _asked(self, paths: Iterable[str]) -> dict[str, Rule | None]:
        names = b"".join(os.fsencode(self._prefix + path) + b"\0" for path in paths)
        fields = [
            os.fsdecode(field)
            for field in self._git.run("check-attr", "-z", "--stdin", *ASKED, input=names).split(b"\0")
        ]
        said: dict[str, dict[str, str]] = {path: {} for path in paths}
        for name, attribute, value in zip(fields[0::3], fields[1::3], fields[2::3], strict=False):
            said[name.removeprefix(self._prefix)][attribute] = value
        return {path: self._rule(values) for path, values in said.items()}

    def _rule(self, said: Mapping[str, str]) -> Rule | None:
        """Return the rule for one file that follows from `said`, its `{attribute: value}`, decided as in git's
        convert.c (`convert_attrs`)."""
        name = said["filter"] if said["filter"] not in {*_UNSET, "set"} else None
        known = name is not None and any(key.startswith(f"filter.{name}.") for key in self._settings)
        encoding = said["working-tree-encoding"]
        text, crlf = self._line_ends(said)
        rule = Rule(
            name,
            name is not None and not known,
            None if encoding in {*_UNSET, "set"} or encoding.lower() in _UTF8 else encoding,
            said["ident"] == "set",
            text,
            crlf,
        )
        return None if rule == Rule() else rule

    def _line_ends(self, said: Mapping[str, str]) -> tuple[bool, bool]:
        """Return (whether line ends become LF in the history, whether they become CRLF in the folder)."""
        text = said["text"] if said["text"] in {"set", "unset", "auto", "input"} else said["crlf"]
        if text == "unset":
            return False, False
        if said["eol"] in {"lf", "crlf"}:
            return True, said["eol"] == "crlf"
        if text == "input":
            return True, False
        return text in {"set", "auto"} or Word.TEXT in self._always, Word.CRLF in self._always


def _words_of(lines: Iterable[str]) -> frozenset[Word]:
    """Return a `Word` for each attribute that `lines`, the lines of an attributes file, set. Unsetting (`-text`) does
    not count."""
    found = set()
    for line in lines:
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0].startswith("[attr]"):
            return _ALL  # a macro: it may stand for any attribute
        for word in words[1:]:
            name, _, value = word.partition("=")
            if name == "eol":
                found |= {Word.TEXT, Word.CRLF} if value == "crlf" else {Word.TEXT}
            elif name in {"text", "crlf"}:
                found.add(Word.TEXT)
            elif name in {Word.FILTER, Word.ENCODING, Word.IDENT}:
                found.add(Word(name))
    return frozenset(found)
