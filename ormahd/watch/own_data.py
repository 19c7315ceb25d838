"""Commit the vault's own data (the card and the `.jsonl` files in `.ormah/`) where a person changed it, or moved the
branch without the files (`git reset --mixed`)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from typing import Any

from ormahd.errors import Conflict, OrmahError, VaultBusy
from ormahd.model.change import Kind, finding, sha256
from ormahd.note.markdown import conflict_line
from ormahd.note.merge import is_lines
from ormahd.vault.create import CARD, read_card
from ormahd.vault.vault import Vault
from ormahd.watch.decide import BUSY_S, Guard
from ormahd.watch.reading import RestCheck, read_stable
from ormahd.watch.scan import seen

DATA = ".ormah"
_PASSED_BY = frozenset({"tmp", "conflicts"})
"""Folders in `.ormah/` that only the daemon uses and that are not committed."""


def bring_in_own_data(
    vault: Vault, tree: Mapping[str, str], rest: RestCheck, guard: Guard, quiet: float, later: Callable[[float], None]
) -> tuple[int, dict[str, dict[str, Any]]]:
    """Commit the files of own data that differ from HEAD, whose files are `tree`. Return how many were committed, and
    `{path: finding for doctor}` of those that a person has to mend first. `later` is called with the seconds after which
    a scan is to try again."""
    if CARD not in tree or not os.path.lexists(vault.root / CARD):
        return 0, {}
    changes: dict[str, bytes | None] = {}
    said: dict[str, dict[str, Any]] = {}
    for path in sorted(_paths(vault, tree)):
        with guard.file(path):
            met = None
            if os.path.lexists(vault.root / path):
                found = os.lstat(vault.root / path)
                if not stat.S_ISREG(found.st_mode):
                    continue
                met = seen(path, found)
            data = None if met is None else read_stable(vault.root, met)
            if met is None and path == CARD:
                continue
            if met is None:
                wait = rest.missing_gone(path)
            elif data is None:
                wait = quiet
            elif vault.git.oid("blob", data) == tree.get(path) or vault.writes(path, data):
                continue
            else:
                wait = rest.missing(met)
            if wait > 0:
                later(wait)
            elif (why := _unfit(vault, path, data)) is not None:
                mend = f"mend it, or have what is in the history: git -C {vault.root} restore {path}"
                said[path] = finding(path, "warning", f"{why}: it is not committed", mend)
            else:
                changes[path] = data
    return _commit(vault, changes, quiet, later) if changes else 0, said


def _paths(vault: Vault, tree: Mapping[str, str]) -> set[str]:
    """Return the paths of the card and of all `.jsonl` files in `.ormah/` that are in HEAD or in the folder."""
    found = {path for path in tree if path == CARD or (path.startswith(f"{DATA}/") and is_lines(path))}
    for folder, inner, names in os.walk(vault.root / DATA):
        inner[:] = [name for name in inner if name not in _PASSED_BY]
        found |= {os.path.relpath(os.path.join(folder, name), vault.root) for name in names if name.endswith(".jsonl")}
    return found


def _unfit(vault: Vault, path: str, data: bytes | None) -> str | None:
    """Return why the file cannot be committed as it is, or None."""
    if data is None:
        return None
    try:
        if path == CARD:
            read_card(data, vault.root)
        elif b"\0" in data or conflict_line(data.decode()):
            return "it has marks of a conflict, or is no text"
    except UnicodeDecodeError:
        return "it is no text"
    except OrmahError as exc:
        return exc.message
    return None


def _commit(vault: Vault, changes: Mapping[str, bytes | None], quiet: float, later: Callable[[float], None]) -> int:
    names = [path.removeprefix(f"{DATA}/") for path in changes]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    try:
        with vault.transaction(
            f"Edit: {', '.join(names[:3])}{more}", kind=Kind.EDIT, source="person", person=True
        ) as tx:
            for path, data in changes.items():
                tx.put(path, data or b"", node_id=None, expect=None if data is None else sha256(data))
    except (Conflict, VaultBusy) as exc:  # another program writes, or wrote, them: the next scan decides again
        later(BUSY_S if isinstance(exc, VaultBusy) else quiet)
        return 0
    return len(changes)
