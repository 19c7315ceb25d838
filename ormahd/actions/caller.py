"""Who asks, from where, and which space that means."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from ormahd.errors import BadRequest
from ormahd.vault.git_name import repository_name

PERSON = "person"


class Caller(Struct, frozen=True):
    """`agent` as the call named it, `cwd` an absolute path, or None where the caller did not say."""

    agent: str | None = None
    cwd: str | None = None

    @property
    def source(self) -> str:
        """The origin that notes and commits carry: `person`, `agent:NAME`, `job:NAME`."""
        name = " ".join((self.agent or "unknown").split())[:100]
        if name == PERSON or name.startswith(("agent:", "job:", "system:")):
            return name
        return f"agent:{name}"


def detect_space(cwd: str | None, vault: Path) -> str | None:
    """The space of somebody who works in `cwd`: the repository's name, else the folder's; None for home, `/` and the vault.

    Source: seeds (REFERENCE 1.8), but the repository's name does not change with its folder (`repository_name`).
    """
    if not cwd or not os.path.isabs(cwd) or "\x00" in cwd:
        return None
    here = Path(os.path.normpath(cwd))
    home = Path.home()
    nowhere = {home, Path(home.anchor)}
    if here in nowhere or here == vault or vault in here.parents:
        return None
    found = repository_name(here)
    # a home directory that is itself a repository (dotfiles) is not the project of everything below it
    name = found[0] if found and found[1] not in nowhere else here.name
    name = " ".join(name.split())[:100]
    if not name or name in {".", ".."}:
        return None
    return "global-repo" if name.casefold() == "global" else name


def check_space(space: str | None) -> str | None:
    """A space that the caller named. Blank means global; `global` itself is refused, because it is no space."""
    if space is None or not space.strip():
        return None
    if space.casefold() == "global":
        raise BadRequest("'global' is no space", hint="send null (ormahctl: --global) for a global memory")
    return " ".join(space.split())
