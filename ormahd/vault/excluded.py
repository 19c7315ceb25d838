"""Decides which paths the reconciler never reads: dot folders, templates, ignored paths (DESIGN section 5)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from ormahd.model.node import NodeType
from ormahd.process import own_files

IgnoredByGit = Callable[[Iterable[str]], set[str]]
"""Returns those of the given paths (posix, relative to the vault's root) that git ignores."""

_TEMPLATER = ".obsidian/plugins/templater-obsidian/data.json"
_TEMPLATE_SETTINGS = ((".obsidian/templates.json", "folder"), (_TEMPLATER, "templates_folder"))
_TEMPLATE_FILES = ((".obsidian/daily-notes.json", "template"), (".obsidian/zk-prefixer.json", "template"))
"""Settings of core plug-ins (daily notes, unique notes) that name a single file, with or without `.md`."""
_MAX_SETTINGS = 1_000_000
REMEMBERED = 20_000
"""Number of paths for which git's answer stays cached, in addition to those of the current call."""
_CONFLICTED = re.compile(r"(?i)(.+?)(?: \([^()]*(?:conflict|konflikt|conflit)[^()]*\)|(?:\.sync-|_)conflict-[\w-]+)")
"""Matches the stems of conflicted copies of Dropbox, Nextcloud, Syncthing and ownCloud."""
_OURS = re.compile(rf"(?:{'|'.join(NodeType)})/\d{{4}}-\d{{2}}/[^/]+")


def is_note_name(name: str) -> bool:
    """Whether a file name can be a note's: `*.md` in any case, no dot file. This excludes backups, swap and lock files
    of editors (`x.md~`, `.x.md.swp`, `#x.md#`, `.#x.md`, `4913`, `x.tmp`)."""
    return name[-3:].lower() == ".md" and not name.startswith(".")


def conflicted_copy(name: str) -> str | None:
    """Return the name of the original if `name` is that of a conflicted copy, which a program that synchronises folders
    made; else None."""
    stem, dot, ending = name.rpartition(".")
    found = _CONFLICTED.fullmatch(stem)
    return found and f"{found[1]}{dot}{ending}"


def template_folders(root: Path) -> frozenset[str]:
    """Return the folders (posix, relative, casefolded) that hold templates: `templates`, and those in Obsidian's
    settings."""
    return frozenset({"templates", *_paths_in_settings(root, _TEMPLATE_SETTINGS)})


def _paths_in_settings(root: Path, settings: Iterable[tuple[str, str]]) -> set[str]:
    """Return the paths in these settings of Obsidian (posix, relative, casefolded). `settings`: (file, key)."""
    values = (json_setting(root / file, key) for file, key in settings)
    paths = {value.replace("\\", "/").strip("/ ").casefold() for value in values if isinstance(value, str)}
    return paths - {"", "."}


def json_setting(file: Path, key: str) -> Any:
    """Return one value of another program's JSON file, unchecked; None when the file cannot be read."""
    try:
        data = json.loads(own_files.read(file, limit=_MAX_SETTINGS))
    except (OSError, ValueError, RecursionError):
        return None
    return data.get(key) if isinstance(data, dict) else None


class Excluded:
    """Decides for one vault which paths the reconciler never reads: those in dot folders, templates, and paths that
    git ignores. What git said about a path is cached until an ignore file changes."""

    def __init__(self, root: Path, ignored_by_git: IgnoredByGit, ignore_files: Collection[Path] = ()) -> None:
        """`ignored_by_git` returns those of the given paths that git ignores. `ignore_files`: ignore files outside
        the vault's folder (`info/exclude`)."""
        self._root = root
        self._ask = ignored_by_git
        self._outside = tuple(ignore_files)
        self._known: dict[str, bool] = {}
        self._signature: dict[str, tuple[int, int, int]] = {}
        self._templates: tuple[str, ...] = ()
        self._files: frozenset[str] = frozenset()
        self.changed = True
        """Whether an ignore file or a template setting changed since the last full walk, so that every path must be
        checked again."""
        self.refresh()

    def refresh(self) -> None:
        """Read the template settings again, and check whether an ignore file outside the vault's folder has changed.
        Called before each walk."""
        before = self._templates, self._files
        self._templates = tuple(sorted(template_folders(self._root)))
        self._files = frozenset(path.removesuffix(".md") for path in _paths_in_settings(self._root, _TEMPLATE_FILES))
        if before != (self._templates, self._files):
            self.changed = True
        for file in self._outside:
            try:
                found: os.stat_result | None = os.stat(file)
            except OSError:
                found = None
            self.record_ignore_file(str(file), found)

    def record_ignore_file(self, name: str, found: os.stat_result | None) -> None:
        """Record the stat of the ignore file `name` (None: the file is missing). If it differs from the recorded one,
        everything that is cached about ignored paths is dropped."""
        state = (0, 0, 0) if found is None else (found.st_size, found.st_mtime_ns, found.st_ino)
        if self._signature.get(name, (0, 0, 0)) != state:
            self._signature[name] = state
            self._known.clear()
            self.changed = True

    def is_template(self, path: str) -> bool:
        """Whether `path` is a template file or lies in a folder of templates. Not so for Ormah's own notes, which may
        be in a space with the name of such a folder (`templates/<type>/<month>/…`)."""
        folded = path.casefold()
        if folded.removesuffix(".md") in self._files:
            return True
        for folder in self._templates:
            if folded.startswith(folder + "/"):
                # of our notes, or of their folders: `fact`, `fact/2026-11`, `fact/2026-11/x`
                return not any(_OURS.fullmatch(folded[len(folder) + 1 :] + end) for end in ("", "/x", "/2000-01/x"))
        return False

    def original_of_copy(self, path: str) -> str | None:
        """Return the name of the file beside `path` of which `path` is a conflicted copy; None if it is no copy."""
        folder, _, name = path.rpartition("/")
        original = conflicted_copy(name)
        return original if original is not None and (self._root / folder / original).exists() else None

    def is_excluded_by_name(self, path: str) -> bool:
        """Whether the name of a path, or of a folder above it, excludes it."""
        dotted = any(part.startswith(".") for part in path.split("/"))
        return dotted or self.is_template(path) or self.original_of_copy(path) is not None

    def ignored_by_git(self, paths: Collection[str]) -> set[str]:
        """Return the paths in `paths` (files and folders) that git ignores."""
        unknown = [path for path in paths if path not in self._known]
        if unknown:
            ignored = self._ask(unknown)
            if len(self._known) > REMEMBERED + len(paths):  # entries of files that no longer exist
                self._known = {path: self._known[path] for path in paths if path in self._known}
            self._known.update((path, path in ignored) for path in unknown)
        return {path for path in paths if self._known[path]}
