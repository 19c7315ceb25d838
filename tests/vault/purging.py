"""A purge of the vault alone: what `ormahd.actions.purge` does, without index and state."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from ormahd.core.purge import Forgotten
from ormahd.vault import purge, purge_check
from ormahd.vault.change import Kind
from ormahd.vault.git_purge import Survey
from ormahd.vault.vault import Vault
from tests.vault.git_house import sha


def nobody(_: str) -> bool:
    return False


def silent(*_: object) -> None:
    pass


def forget_today(vault: Vault, found: Survey) -> None:
    tree = vault.tree()
    with vault.transaction("Purge: a memory was removed", kind=Kind.PURGE, source="person", queue=False) as tx:
        for path, oid in tree.items():
            data = vault.blob(oid)
            if oid in found.drop:
                tx.remove(path, node_id=None, expect=sha(data))
            elif found.forgotten.mentions(data):
                tx.put(path, found.forgotten.without(path, data), node_id=None, expect=sha(data))


def purge_all(
    vault: Vault, node_id: str | None, *secrets: str, foreign: bool = True, meanwhile: Callable[[], None] = lambda: None
) -> purge.Prepared:
    """Everything from looking to finishing; `meanwhile` is called when the new history is ready."""
    found = purge.look(vault, Forgotten(node_id, secrets), nobody, silent)
    purge_check.check(vault, found, rewrite_foreign=foreign)
    forget_today(vault, found)
    prepared = purge.prepare(vault, found, nobody, silent)
    meanwhile()
    with vault.rewriting() as at:
        assert purge.replace(vault, prepared, at)
    assert purge.pending(vault) == prepared.survey.forgotten
    purge.finish(vault)
    return prepared


def everything(git_dir: Path) -> bytes:
    """The content of every object, reachable or not, and of every other file of the repository."""
    objects = subprocess.run(
        ["git", "--git-dir", str(git_dir), "cat-file", "--batch-all-objects", "--batch"],
        capture_output=True,
        check=True,
    )
    files = [path for path in git_dir.rglob("*") if path.is_file() and "objects" not in path.relative_to(git_dir).parts]
    return objects.stdout + b"".join(str(path).encode() + path.read_bytes() for path in files)
