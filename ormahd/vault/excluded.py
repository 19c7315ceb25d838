"""What the observer never looks at: dot folders, templates, ignored paths (DESIGN section 5)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from ormahd.model.node import NodeType

IgnoredByGit = Callable[[Iterable[str]], set[str]]
"""Those of the given paths (posix, relative to the vault's root) that git leaves out."""

_TEMPLATE_SETTINGS = ((".obsidian/templates.json", "folder"),
                      (".obsidian/plugins/templater-obsidian/data.json", "templates_folder"))  # fmt: skip
_TEMPLATE_FILES = ((".obsidian/daily-notes.json", "template"), (".obsidian/zk-prefixer.json", "template"))
"""Settings of the core plug-ins (daily notes, unique notes) that name one file, with or without `.md`."""
_MAX_SETTINGS = 1_000_000
REMEMBERED = 20_000
"""Paths whose answer is remembered (4 MB), beyond those that are asked about together."""
_OURS = re.compile(rf"(?:{'|'.join(NodeType)})/\d{{4}}-\d{{2}}/[^/]+")


def is_note_name(name: str) -> bool:
    """True for a file that can be a note: `*.md` in any case, no dot file. Editors' backups, swap and lock files
    (`x.md~`, `.x.md.swp`, `#x.md#`, `.#x.md`, `4913`, `x.tmp`) are none of these."""
    return name[-3:].lower() == ".md" and not name.startswith(".")


def template_folders(root: Path) -> frozenset[str]:
    """Folders (posix, relative, casefolded) that hold templates: `templates`, and what Obsidian is set to."""
    return frozenset({"templates", *_named(root, _TEMPLATE_SETTINGS)})


def template_files(root: Path) -> frozenset[str]:
    """Single files (as `template_folders`, without `.md`) that Obsidian is set to make notes of."""
    return frozenset(path.removesuffix(".md") for path in _named(root, _TEMPLATE_FILES))


def _named(root: Path, settings: Iterable[tuple[str, str]]) -> set[str]:
    values = (_setting(root / file, key) for file, key in settings)
    paths = {value.replace("\\", "/").strip("/ ").casefold() for value in values if isinstance(value, str)}
    return paths - {"", "."}


def _setting(file: Path, key: str) -> Any:
    """One value of a JSON file that belongs to somebody else and may be anything; None where it cannot be read."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as handle:
            data = json.loads(handle.read(_MAX_SETTINGS))
    except (OSError, ValueError, RecursionError):
        return None
    return data.get(key) if isinstance(data, dict) else None


class Excluded:
    """Answers for one vault, remembered between scans until an ignore file changes."""

    def __init__(self, root: Path, ignored_by_git: IgnoredByGit, ignore_files: Collection[Path] = ()) -> None:
        """`ignore_files` are those outside the vault's folder that count too (`info/exclude`)."""
        self._root = root
        self._ask = ignored_by_git
        self._outside = tuple(ignore_files)
        self._known: dict[str, bool] = {}
        self._signature: dict[str, tuple[int, int, int]] = {}
        self._templates: tuple[str, ...] = ()
        self._files: frozenset[str] = frozenset()
        self.changed = True
        """An ignore file changed since the last full walk: what is known must be asked about again."""
        self.refresh()

    def refresh(self) -> None:
        """Read the settings again; call before a walk."""
        before = self._templates, self._files
        self._templates = tuple(sorted(template_folders(self._root)))
        self._files = template_files(self._root)
        if before != (self._templates, self._files):
            self.changed = True
        for file in self._outside:
            try:
                found: os.stat_result | None = os.stat(file)
            except OSError:
                found = None
            self.ignore_file(str(file), found)

    def ignore_file(self, name: str, found: os.stat_result | None) -> None:
        """Take note of a `.gitignore`; a changed one makes every remembered answer a new question."""
        state = (0, 0, 0) if found is None else (found.st_size, found.st_mtime_ns, found.st_ino)
        if self._signature.get(name, (0, 0, 0)) != state:
            self._signature[name] = state
            self._known.clear()
            self.changed = True

    def template(self, path: str) -> bool:
        """True when `path` is a template, or lies in a folder of them. Our own notes of a space of that name
        (`templates/<type>/<month>/…`) are none."""
        folded = path.casefold()
        if folded.removesuffix(".md") in self._files:
            return True
        for folder in self._templates:
            if folded.startswith(folder + "/"):
                return not _could_be_ours(folded[len(folder) + 1 :])
        return False

    def by_name(self, path: str) -> str | None:
        """Why a path is left out by its name alone, or None. Parents count."""
        if any(part.startswith(".") for part in path.split("/")):
            return "dot folder"
        return "templates" if self.template(path) else None

    def by_git(self, paths: Collection[str]) -> set[str]:
        """Those of `paths` (files and folders) that git ignores."""
        unknown = [path for path in paths if path not in self._known]
        if unknown:
            ignored = self._ask(unknown)
            if len(self._known) > REMEMBERED + len(paths):  # of files that came and went
                self._known = {path: self._known[path] for path in paths if path in self._known}
            self._known.update((path, path in ignored) for path in unknown)
        return {path for path in paths if self._known[path]}


def _could_be_ours(rest: str) -> bool:
    """True for `fact`, `fact/2026-11` and files below: where notes of a space that is called like the folder lie."""
    return (
        bool(_OURS.fullmatch(rest)) or bool(_OURS.fullmatch(rest + "/x")) or bool(_OURS.fullmatch(rest + "/2000-01/x"))
    )
