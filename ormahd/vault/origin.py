"""Tells from the history whether the person or Ormah made a file.

The person made it if the first op that names its memory is an adoption or a person's edit; or, when no op names it, if
the commit that first added its path is one of these or was made by hand. Ormah made it if it came by `remember`, an
import, a merge or any other op.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from ormahd.git.oplog import UNTOLD
from ormahd.model.change import Kind
from ormahd.vault.vault import Vault

BY_PERSON = frozenset({Kind.ADOPT, Kind.EDIT})
NAMED = 200
"""Up to this many paths, git lists only their commits; for more, it lists the whole history."""


def made_by_person(vault: Vault, files: Iterable[tuple[str, str | None]]) -> set[str]:
    """Return the paths of those files, given as (path, id of the memory or None), that a person made."""
    asked = {path: node for path, node in files if not path.startswith(".ormah/")}
    first = vault.oplog.view().came_by if any(node is not None for node in asked.values()) else {}
    told = {path: first[node] for path, node in asked.items() if node is not None and node in first}
    found = {path for path, kind in told.items() if kind is None or kind in BY_PERSON}
    untold = [path for path in asked if path not in told]
    return found | _added_by_person(vault, untold)


def _added_by_person(vault: Vault, paths: list[str]) -> set[str]:
    """Return those of `paths` that a person's commit added first, or that the history never had."""
    if not paths:
        return set()
    only = [vault.prefix + path for path in paths] if len(paths) <= NAMED else []
    kinds: dict[str, str] = {}
    kind = ""
    arguments = ["--format=%x01%(trailers:key=Ormah-Kind,valueonly)", "--name-only", "--no-renames", "--diff-filter=A"]
    for record in vault.git.log(*arguments, "HEAD", "--", *only):
        for line in os.fsdecode(record).split("\n"):
            if line.startswith("\x01"):
                kind = line[1:].strip()
            elif line:
                kinds[line.removeprefix(vault.prefix)] = kind  # commits come newest first, so the oldest one wins
    return {path for path in paths if kinds.get(path, "") in {"", *BY_PERSON, *UNTOLD}}
