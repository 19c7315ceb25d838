"""Finds the space of a project, from `.ormah/spaces.jsonl`, which is read again when it changes."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ormahd.model.node import write_time
from ormahd.model.spaces import FILE, ProjectKey, free_name, read, spaces
from ormahd.vault.project import Project, has_commit
from ormahd.vault.reread import Reread
from ormahd.vault.vault import Vault

GLOBAL = "global"


class Home(Struct, frozen=True):
    """The space of a project, which is identified by `key`. `line`: the line to add to the file with the project's
    first memory; None: the file has it."""

    space: str
    key: str
    line: ProjectKey | None = None


class Spaces:
    """Finds the spaces of projects in one vault. Safe for many threads."""

    def __init__(self, vault: Vault) -> None:
        self._file = Reread(vault, FILE, _understand)

    def lines(self) -> tuple[list[ProjectKey], dict[str, str]]:
        """Return (all lines, oldest first; `{key: space}`)."""
        return self._file.said()

    def home(self, project: Project, now: datetime) -> Home:
        """Return the space of a project: the recorded one, found by key or, when its remote is new, by folder and
        history; else a new one, called like the project, with a suffix when another project has that name."""
        lines, named = self.lines()
        key = project.key
        if key in named:
            if not _is_copy(project, lines):
                return Home(named[key], key)
            key = f"folder:{project.folder}"  # the original still exists, so its copy is another project
            if key in named:
                return Home(named[key], key)
        since = write_time(now, "auto")
        before = next((line for line in reversed(lines) if _was(line, project)), None)
        if before is not None:
            space = named[before.key]
            return Home(
                space, key, ProjectKey(key=key, space=space, since=since, folder=project.folder, same=before.key)
            )
        name = f"{GLOBAL}-repo" if project.name.casefold() == GLOBAL else project.name
        space = free_name(name, project.ways, {one.casefold() for one in named.values()})
        return Home(space, key, ProjectKey(key=key, space=space, since=since, folder=project.folder))


def _understand(data: bytes) -> tuple[list[ProjectKey], dict[str, str]]:
    lines = read(data)
    return lines, spaces(lines)


def _is_copy(project: Project, lines: list[ProjectKey]) -> bool:
    """Whether a repository without a remote is a copy: it has the same first commit as another one that still exists."""
    if not project.key.startswith("root:"):
        return False
    folders = {line.folder for line in lines if line.key == project.key and line.folder is not None}
    return project.folder not in folders and any(has_commit(folder, project.key[5:]) for folder in folders)


def _was(line: ProjectKey, project: Project) -> bool:
    """Whether a line belongs to this project under an earlier key: it names the same folder and, when either has a
    remote, the same history. A clone that replaced something else in the folder is another project."""
    if line.folder != project.folder:
        return False
    if line.root is None or project.git is None or project.holds(line.root):
        return True
    return all(key.startswith(("root:", "folder:")) for key in (line.key, project.key))
