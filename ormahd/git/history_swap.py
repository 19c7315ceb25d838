"""From the old history to the new one, so that a kill at any instant leaves the one or the other whole.

The new objects are put beside the old ones first; then the journal promises the rest; then the refs move, each by
compare-and-swap; then what nothing leads to any more is dropped by git itself (`repack -a -d`, `prune`). At every moment
the repository is complete for whoever looks at it, and after a crash the next start does what was promised and is left.
The journal stays until index and state are cleaned too (`finish`).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from ormahd.errors import Conflict
from ormahd.git.history_objects import REMOTE, Store
from ormahd.git.locks import in_use
from ormahd.git.process import GitFailed
from ormahd.git.repository import Git
from ormahd.note.forgetting import Forgotten
from ormahd.process.disk import sync, sync_directory, write_durably

FOLDER = "ormah-purge"
"""In the git directory: on the same file system as the objects, and nothing that a person or an editor looks into."""
CLONE = "clone.git"
JOURNAL = "journal.json"

SCRATCH = (
    "ORIG_HEAD", "FETCH_HEAD", "AUTO_MERGE", "COMMIT_EDITMSG", "MERGE_MSG", "SQUASH_MSG", "TAG_EDITMSG", "NOTES_EDITMSG",
    "gc.log", "logs", "rr-cache", "lost-found", "objects/info/commit-graph", "objects/info/commit-graphs",
)  # fmt: skip
"""What git keeps of earlier states beside refs and objects: reflogs, messages, recorded conflicts, lists of commits."""

PATIENCE = 20.0
"""Seconds that a git of a killed life may take to end."""

At = Callable[[str], None]


class Journal(Struct, frozen=True):
    """What is promised. `refs`: {name: (old id, new id)}; `drop`: refs that go, {name: id}; `symbolic`: those that go
    and only name another."""

    refs: Mapping[str, tuple[str, str]]
    drop: Mapping[str, str]
    symbolic: tuple[str, ...]
    forgotten: Forgotten

    def encode(self) -> bytes:
        return json.dumps(asdict(self) | {"forgotten": asdict(self.forgotten)}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Journal:
        found = json.loads(data)
        refs = {name: (old, new) for name, (old, new) in found["refs"].items()}
        return cls(refs, found["drop"], tuple(found["symbolic"]), Forgotten.of(found["forgotten"]))


def folder_of(git: Git) -> Path:
    return git.common / FOLDER


def read_journal(git: Git) -> Journal | None:
    """What was promised and is not finished, or None."""
    try:
        return Journal.decode((folder_of(git) / JOURNAL).read_bytes())
    except FileNotFoundError:
        return None


def switch(git: Git, clone: Store, journal: Journal, at: At) -> None:
    """Give the repository the clone's history. The caller sees to it that nobody writes. Raises Conflict, with nothing
    changed, when a ref is not where the clone was made from."""
    _adopt_packs(git, clone)
    at("purge-packs")
    write_durably(folder_of(git) / JOURNAL, journal.encode())
    at("purge-promised")
    try:
        _move_refs(git, journal.refs, journal.drop, journal.symbolic)
    except GitFailed as exc:
        (folder_of(git) / JOURNAL).unlink()
        raise Conflict(f"the refs have moved meanwhile: {exc.stderr.strip()}", hint="repeat the command") from exc
    at("purge-refs")
    clean(git, at)


def clean(git: Git, at: At) -> None:
    """Drop the old history. Can be repeated; what is reachable, staged or not, stays."""
    for name in SCRATCH:
        path = git.common / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    at("purge-scratch")
    _plain_index(git)
    at("purge-index")
    git.run("pack-refs", "--all")
    at("purge-packed-refs")
    git.run("repack", "-a", "-d", "--quiet")
    at("purge-repacked")
    git.run("prune", "--expire=now")
    sync_directory(git.common / "objects/pack")
    at("purge-pruned")
    shutil.rmtree(folder_of(git) / CLONE, ignore_errors=True)
    at("purge-cleaned")


def finish(git: Git) -> None:
    """Everything else is cleaned too: nothing is left to be remembered of it."""
    folder = folder_of(git)
    (folder / JOURNAL).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def is_clean(git: Git) -> bool:
    """Whether the promised part of the repository is done, so that only `finish` is left."""
    return not (folder_of(git) / CLONE).exists()


def recover(git: Git, at: At) -> str | None:
    """After a crash, before anything is written: what was not promised is dropped, what was is done. A sentence when a
    person has to do something about it. The journal of a promise stays for whoever cleans index and state."""
    if not folder_of(git).is_dir():
        return None
    journal = read_journal(git)
    if journal is None:
        finish(git)
        return "a purge was interrupted before it changed the history: repeat it"
    if is_clean(git):
        return None
    deadline = time.monotonic() + PATIENCE
    while busy := in_use(git, git.git_dir / "index.lock"):
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    if busy:
        return "a purge was interrupted, and another git is at work in the vault: restart ormahd when that is done"
    _unlock(git, journal)
    now = Store(git.common).refs()
    waiting = {name: pair for name, pair in journal.refs.items() if now.get(name) == pair[0] != pair[1]}
    moved = [
        name for name, (old, new) in journal.refs.items()
        if old != new and name not in waiting and now.get(name, new) != new and _reaches(git, now[name], old)
    ]  # fmt: skip
    drop = {name: oid for name, oid in journal.drop.items() if now.get(name) == oid}
    _move_refs(git, waiting, drop, journal.symbolic)
    clean(git, at)
    if moved:
        return f"a purge was interrupted, and {', '.join(moved)} went on from the old history: purge it again"
    return None


def _unlock(git: Git, journal: Journal) -> None:
    """Locks of refs that a git of ours left when it was ended with us: younger than the promise, and nobody's."""
    since = (folder_of(git) / JOURNAL).stat().st_mtime_ns
    names = ["HEAD", "packed-refs", "index.ormah-purge", *journal.refs, *journal.drop]
    for path in (git.common / f"{name}.lock" for name in names):
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_mtime_ns >= since:
                path.unlink()


def _adopt_packs(git: Git, clone: Store) -> None:
    """The clone's packs beside our own, durably; the index of each comes last, because by it git finds a pack."""
    source, target = clone.git_dir / "objects/pack", git.common / "objects/pack"
    target.mkdir(parents=True, exist_ok=True)
    for file in sorted(source.glob("pack-*"), key=lambda path: path.suffix == ".idx"):
        new = target / file.name
        if new.exists():
            continue
        try:
            os.link(file, new)
        except OSError:  # a file system without links
            part = target / f"tmp_{file.name}"  # `git prune` tidies what is called so
            shutil.copyfile(file, part)
            os.replace(part, new)
        with open(new, "rb") as opened:
            sync(opened.fileno())
    sync_directory(target)


def _move_refs(
    git: Git, refs: Mapping[str, tuple[str, str]], drop: Mapping[str, str], symbolic: tuple[str, ...]
) -> None:
    """All of them, or none, each from where it is known to be. Raises GitFailed."""
    lines = ["start"]
    lines += [f"update {name} {new} {old}" for name, (old, new) in refs.items() if old != new]
    lines += [f"delete {name} {oid}" for name, oid in drop.items()]
    git.run("update-ref", "--no-deref", "--stdin", input=os.fsencode("\n".join([*lines, "prepare", "commit", ""])))
    for name in symbolic:
        if name.startswith(REMOTE) and git.run("symbolic-ref", "--quiet", name, ok=(0, 1)):
            git.run("symbolic-ref", "--delete", name)
    for folder in sorted({git.ref_files.folder(name) for name in (None, "refs/heads", *refs, *drop)}):
        sync_directory(folder)


def _plain_index(git: Git) -> None:
    """The index without what it remembers of solved conflicts, and in one piece; entries, staged or not, as they are."""
    index, copy = git.git_dir / "index", git.git_dir / "index.ormah-purge"
    if not index.exists():
        return
    shutil.copyfile(index, copy)
    try:
        env = {"GIT_INDEX_FILE": str(copy)}
        git.run("update-index", "--clear-resolve-undo", "--no-split-index", "--force-write-index", env=env)
        os.replace(copy, index)
    finally:
        copy.unlink(missing_ok=True)
    for shared in git.git_dir.glob("sharedindex.*"):
        with contextlib.suppress(FileNotFoundError):
            shared.unlink()
    sync_directory(git.git_dir)


def _reaches(git: Git, commit: str, old: str) -> bool:
    """Whether the history of `commit` has `old` in it; one that is gone is in none."""
    try:
        git.run("merge-base", "--is-ancestor", old, commit)
    except GitFailed:
        return False
    return True
