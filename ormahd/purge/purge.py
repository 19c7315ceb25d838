"""Purge: put a history in which a memory never was in the place of the vault's (DESIGN section 12).

1. The caller removes the memory from today's files by an ordinary op.
2. While no other writer can write, `replace_history` makes a new git directory in `.ormah/tmp/purge`: git-filter-repo rewrites a
   fresh clone, every object of it is checked, and it gets the configuration of the old one.
3. It exchanges the two git directories in one step, and deletes the old one. The new one holds the file `PURGE_MARK`,
   which says what was purged.
4. The caller cleans index, state and archive, and calls `end_purge`, which deletes `PURGE_MARK`.

After a crash before step 3 the old history is whole; after it the new one is, and `PURGE_MARK` tells what is left to clean.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from ormahd.api import PurgeRemote
from ormahd.errors import Conflict, Unavailable, VaultBusy
from ormahd.git.history import PURGE_MARK, PURGE_PLACE, REMOTE, Store, drop_unused
from ormahd.git.process import environment
from ormahd.git.remote import redact_urls, synced_key
from ormahd.note.forgetting import Forgotten
from ormahd.process.disk import rename2, sync_directory, write_durably
from ormahd.purge.survey import Progress, PurgeSurvey, survey
from ormahd.vault.vault import Vault

COPIED_FOLDERS = ("hooks", "info")
"""Folders of the old git directory, besides objects and refs, that are copied into the new one."""


def survey_vault(vault: Vault, forgotten: Forgotten, taken: Callable[[str], bool], progress: Progress) -> PurgeSurvey:
    """Return what a purge would change in the vault's repository. `taken`: tells whether a name leads to another
    memory.

    Raises Conflict if HEAD is detached or work is stashed, because that would keep the old history.
    """
    store = Store(vault.git.git_dir)
    if vault.git.branch() is None or "refs/stash" in store.refs():
        why = "HEAD is detached, or there is stashed work, which is tied to the old history"
        raise Conflict(why, hint=f"git -C {vault.root} switch main, and git stash pop (or drop); then repeat")
    return survey(store, forgotten, taken, progress)


def remotes(vault: Vault, found: PurgeSurvey) -> list[PurgeRemote]:
    """Return the remotes that may have what is purged, each with the command that pushes the new history to it.

    A remote that was never fetched counts as one that may have it. The command contains the last known commit of each
    branch (--force-with-lease), because the purge removes the tracking branches.
    """
    known = Store(vault.git.git_dir).refs()
    named = []
    for name in vault.git.run("remote").decode("utf-8", "surrogateescape").split():
        prefix = f"{REMOTE}{name}/"
        tips = {ref.removeprefix(prefix): oid for ref, oid in known.items() if ref.startswith(prefix)}
        ours = {branch: oid for branch, oid in tips.items() if f"refs/heads/{branch}" in known}
        listed = vault.git.run("rev-list", "--objects", f"--remotes={name}").decode("utf-8", "surrogateescape")
        rows = [line.partition(" ") for line in listed.splitlines()]
        changed = found.drop | found.rewrite
        if tips and not any(oid in changed or path in found.names for oid, _, path in rows):
            continue
        leases = [f"--force-with-lease={branch}:{oid}" for branch, oid in ours.items()] or ["--force"]
        push = " ".join(["git push", *leases, name, *(ours or ["HEAD:main"])])
        url = vault.git.run("remote", "get-url", "--", name).decode("utf-8", "replace").strip()
        named.append(PurgeRemote(name=name, url=redact_urls(url), push=[push]))
    return named


def replace_history(
    vault: Vault, forgotten: Forgotten, taken: Callable[[str], bool], progress: Progress, at: Callable[[str], None]
) -> PurgeSurvey:
    """Replace the vault's history by a rewritten and checked clone, in one step, and delete the old one. Return what
    was changed. To be called inside `vault.rewriting()`. `taken`: see `survey_vault`. `at` is called with the name of each
    step.

    Raises:
        VaultBusy: today's files contain the memory again, or another git wrote meanwhile.
        Conflict: the new history would still contain the memory.
        Unavailable: git or the rewriting failed.
        In all of these cases nothing was changed.
    """
    git, place = vault.git, vault.root / PURGE_PLACE
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(mode=0o700, parents=True)

    # A clone has no objects that no ref leads to, and no reflogs.
    progress(0, 0, "copying the history")
    old, new = Store(git.git_dir), Store.clone(git.git_dir, place / "git")
    refs = old.refs()
    found = survey(new, forgotten, taken, progress)
    before = new.run("rev-parse", "HEAD^{tree}"), new.run("rev-list", "--count", "HEAD")
    progress(0, 0, "writing the history anew")
    _run_filter(new, found, place / "plan.json")
    ids = [line.split() for line in (new.git_dir / "filter-repo/commit-map").read_bytes().splitlines()[1:]]
    found.commits, found.changed = len(ids), sum(old_id != new_id for old_id, new_id in ids)
    if before != (new.run("rev-parse", "HEAD^{tree}"), new.run("rev-list", "--count", "HEAD")):
        raise VaultBusy("today's files hold it again; its history is not rewritten yet", hint="repeat the command")

    # Nothing that git or git-filter-repo keeps beside the history may contain the memory.
    progress(0, 0, "checking every object")
    for name in ("logs", "filter-repo"):
        shutil.rmtree(new.git_dir / name, ignore_errors=True)
    new.run("repack", "-a", "-d", "--quiet")
    new.run("prune", "--expire=now")
    new.run("fsck", "--full", "--no-dangling", "--no-progress")
    for item in new.objects(trees=True):
        if found.forgotten.mentions(item.data):
            raise Conflict(f"a {item.kind} of the new history would still hold it ({item.oid}); nothing was changed")

    # Make the new git directory like the old one: its index holds today's files, and a lock keeps other gits out.
    for name in COPIED_FOLDERS:
        if (git.git_dir / name).is_dir():
            shutil.copytree(git.git_dir / name, new.git_dir / name, symlinks=True, dirs_exist_ok=True)
    shutil.copy2(git.git_dir / "config", new.git_dir / "config")
    for ref, oid in refs.items():
        if ref.startswith(REMOTE):  # a sync with that remote is refused while it has the old history
            new.run("config", synced_key(ref.removeprefix(REMOTE)), oid)
    write_durably(new.git_dir / PURGE_MARK, json.dumps(msgspec.to_builtins(found.forgotten)).encode(), mode=0o600)
    new.run("--work-tree", str(vault.root), "read-tree", "HEAD")
    new.run("--work-tree", str(vault.root), "update-index", "-q", "--refresh", ok=(0, 1))
    shutil.copy2(git.git_dir / "index.lock", new.git_dir / "index.lock")
    os.sync()

    # Exchange the two, unless another git has written into the old one meanwhile.
    if refs != old.refs():
        raise VaultBusy("another git moved a branch or tag meanwhile", hint="repeat the command")
    at("purge-written")
    root = os.open(vault.root, os.O_RDONLY)
    try:
        if not rename2(root, f"{PURGE_PLACE}/git", root, ".git", exchange=True):
            why = f"the file system of {vault.root} cannot exchange two folders in one step; nothing was changed"
            raise Unavailable(why, hint="move the vault to another disk, purge it there, and move it back")
    finally:
        os.close(root)
    sync_directory(vault.root)
    at("purge-exchanged")
    drop_unused(vault.root)
    at("purge-removed")
    return found


def _run_filter(clone: Store, found: PurgeSurvey, plan: Path) -> None:
    """Rewrite the clone in a child process, as `found` says. `plan`: the file by which the child gets `found`, which
    can be large. Raises Unavailable if the child fails."""
    plan.touch(mode=0o600)
    plan.write_text(json.dumps(msgspec.to_builtins(found)), "utf-8")
    places = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]  # it runs in the clone
    env = environment() | {"PYTHONPATH": os.pathsep.join(places)}
    command = [sys.executable, "-P", "-m", "ormahd.purge.filter", str(plan)]
    done = subprocess.run(
        command, cwd=clone.git_dir, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode:
        stderr = done.stderr.decode("utf-8", "replace").strip()
        why = f"git-filter-repo failed ({done.returncode}); nothing was changed: {stderr[-300:]}"
        raise Unavailable(why, hint="`git fsck` in the vault says whether the history is sound")


def unfinished_purge(vault: Vault) -> Forgotten | None:
    """Return the memory that was purged from the history and must still be removed from the index and the state,
    before `end_purge` is called; None: no purge is unfinished."""
    try:
        return msgspec.convert(json.loads((vault.git.git_dir / PURGE_MARK).read_bytes()), Forgotten)
    except FileNotFoundError:
        return None


def end_purge(vault: Vault) -> None:
    """End the purge: delete `PURGE_MARK`. Called once nothing outside the repository contains the memory."""
    (vault.git.git_dir / PURGE_MARK).unlink(missing_ok=True)
