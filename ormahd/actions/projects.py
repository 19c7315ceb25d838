"""Which project a caller works in, and which space that project has."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import structs

from ormahd.actions.amend import commit
from ormahd.actions.caller import Caller
from ormahd.core.note import digest
from ormahd.core.spaces import FILE, with_line
from ormahd.journal import places
from ormahd.ormah import Ormah
from ormahd.vault.change import Kind
from ormahd.vault.project import Project, find_project
from ormahd.vault.spaces import Home


def project_at(cwd: str | None, vault: Path) -> Project | None:
    """The project of somebody who works in `cwd`: the repository around it, else the folder; None for home, `/` and the vault."""
    if not cwd or not os.path.isabs(cwd) or "\x00" in cwd:
        return None
    here = Path(os.path.normpath(cwd))
    home = Path.home()
    nowhere = frozenset({home, Path(home.anchor)})
    if here in nowhere or here == vault or vault in here.parents:
        return None
    return find_project(here, nowhere)


def home_of(ormah: Ormah, cwd: str | None) -> Home | None:
    """The space of whoever works in `cwd`."""
    project = project_at(cwd, ormah.vault.root)
    return None if project is None else ormah.spaces.home(project, ormah.clock())


def space_of(ormah: Ormah, caller: Caller) -> str | None:
    """The space that a caller works in: that of the folder in which its session began, else of its working directory."""
    found = home_of(ormah, _place(ormah, caller))
    return None if found is None else found.space


def settle(ormah: Ormah, caller: Caller) -> str | None:
    """The same for a caller who is about to store a memory: the vault remembers whose space it is, in a commit of its own."""
    project = project_at(_place(ormah, caller), ormah.vault.root)
    if project is None:
        return None
    found = ormah.spaces.home(project, ormah.clock())
    if found.line is None:
        return found.space
    root = project.root()
    with ormah.writing:
        found = ormah.spaces.home(project, ormah.clock())  # somebody else may have said so by now
        if found.line is None:
            return found.space
        data = ormah.vault.read(FILE)
        line = structs.replace(found.line, root=root)
        commit(
            ormah, f"Space {found.space}: belongs to {line.key}", kind=Kind.SPACE, caller=caller,
            body=f"It is the same project as {line.same}." if line.same else "",
            fill=lambda tx: tx.put(
                FILE, with_line(data or b"", line), node_id=None, expect=None if data is None else digest(data)
            ),
        )  # fmt: skip
    return found.space


def _place(ormah: Ormah, caller: Caller) -> str | None:
    began = None if caller.session is None else places.began(ormah.state, caller.session)
    return caller.cwd if began is None else began
