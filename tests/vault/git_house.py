"""What the tests of the vault's writing side share: a clock that only goes forward, git as a person types it, short verbs."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ormahd.index.database import Database
from ormahd.index.history import History
from ormahd.model.change import Committed, Kind
from ormahd.settings import VaultSettings
from ormahd.vault.vault import Vault

START = datetime(2026, 11, 21, 20, 0, tzinfo=UTC)


def ticking(start: datetime = START) -> Callable[[], datetime]:
    """A clock that goes a second further each time it is read."""
    seconds = itertools.count()
    return lambda: start + timedelta(seconds=next(seconds))


def git(folder: Path, *arguments: str, ok: bool = True, env: dict[str, str] | None = None, stdin: str = "") -> str:
    """Git as the person types it; its output without the last line break."""
    done = subprocess.run(
        ["git", *arguments], cwd=folder, input=stdin, capture_output=True, text=True, env={**os.environ, **(env or {})}
    )
    if ok and done.returncode:
        raise AssertionError(f"git {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout.rstrip("\n")


def commit_by_hand(root: Path, files: dict[str, bytes | None], message: str = "by hand") -> str:
    """Write files (None: remove one), and commit as a person does; the commit."""
    for path, data in files.items():
        file = root / path
        if data is None:
            file.unlink()
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
    git(root, "add", "-A")
    git(root, "commit", "-qm", message)
    return git(root, "rev-parse", "HEAD")


def kinds_since(root: Path, commit: str) -> list[str]:
    """The kinds of our commits since `commit`, newest first. `init`: empty files were begun, for the lines of the commit after it."""
    return git(root, "log", "--format=%(trailers:key=Ormah-Kind,valueonly,separator=)", f"{commit}..HEAD").split()


def children() -> set[str]:
    """The ids of this process's children, also of those that other tests left to themselves."""
    return {child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()}


def sha(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def open_vault(root: Path, *, wait: float = 0.0, recover: bool = True, **kwargs: object) -> Vault:
    clock = kwargs.pop("clock", None) or ticking()
    settings = VaultSettings(path=root, busy_wait_seconds=wait)
    vault = Vault.open(settings, clock=clock, **kwargs)  # type: ignore[arg-type]
    if recover:
        vault.recover()
    return vault


@functools.cache
def history_of(vault: Vault) -> History:
    """The vault's history, in tables beside it that are only there for this."""
    return History(Database(vault.root.parent / f"{vault.root.name}.index"), vault.git)


def put(
    vault: Vault, *files: tuple[str, bytes], subject: str = "remember: a thing", **kwargs: object
) -> Committed | None:
    """Store files over what the vault says they are."""
    options = {"kind": Kind.REMEMBER, "source": "agent:test"} | kwargs
    with vault.transaction(subject, **options) as tx:  # type: ignore[arg-type]
        for path, data in files:
            tx.put(path, data, node_id=node_of(path), expect=sha(vault.read(path)))
    return tx.committed


def remove(vault: Vault, path: str, **kwargs: object) -> Committed | None:
    options = {"kind": Kind.FORGET, "source": "person"} | kwargs
    with vault.transaction("forget: a thing", **options) as tx:  # type: ignore[arg-type]
        tx.remove(path, node_id=node_of(path), expect=sha(vault.read(path)))
    return tx.committed


def node_of(path: str) -> str:
    digest = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


def sound(root: Path, *, top: Path | None = None) -> None:
    """Nothing left behind: no lock, no staged file, a clean tree and a sound repository."""
    where = Path(git(root, "rev-parse", "--absolute-git-dir"))
    left = [path.name for path in where.iterdir() if path.name.endswith(".lock") or "ormah" in path.name]
    assert left == []
    assert [str(path) for path in (where / "refs").rglob("*.lock")] == []
    tmp = root / ".ormah/tmp"
    assert not tmp.is_dir() or [path.name for path in tmp.iterdir()] == []
    assert git(top or root, "status", "--porcelain", "--untracked-files=all") == ""
    git(root, "fsck", "--strict", "--no-dangling")


def batch(vault: Vault, turn: int) -> None:
    """As many files as make a pack."""
    put(vault, *((f"t{turn}/{number}.md", b"%d %d\n" % (turn, number)) for number in range(30)))
