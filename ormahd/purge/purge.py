"""Purge: put a history in which a memory never was in the place of the vault's (DESIGN section 12).

1. The caller removes the memory from today's files by an ordinary op.
2. While no other writer can write, `rewrite` makes a new git directory in `.ormah/tmp/purge`: git-filter-repo rewrites a
   fresh clone, every object of it is checked, and it gets the configuration of the old one.
3. `exchange` exchanges the two git directories in one step, and deletes the old one. The new one holds the file `PURGE_MARK`,
   which says what was purged.
4. The caller cleans index, state and archive, and calls `finish`, which deletes `PURGE_MARK`.

After a crash before step 3 the old history is whole; after it the new one is, and `PURGE_MARK` tells what is left to clean.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from msgspec import structs

from ormahd.api import PurgeRemote
from ormahd.errors import Conflict, Unavailable, VaultBusy
from ormahd.git.history import OURS, PURGE_MARK, PURGE_PLACE, REMOTE, Store, drop_unused
from ormahd.git.process import environment
from ormahd.git.remote import shown
from ormahd.note.forgetting import Forgotten
from ormahd.process.disk import rename2, sync_directory, write_durably
from ormahd.purge.filter import SHOWN
from ormahd.purge.survey import Progress, PurgeSurvey, survey
from ormahd.vault.vault import Vault

ROOM = 3
"""Free disk space that is needed, in multiples of the repository's size: for the clone, its new objects and packs."""
SPARE = 50_000_000
"""Bytes of free disk space that are needed in addition to `ROOM`."""
KEPT = ("config", "description", "hooks", "info")
"""Files and folders of the git directory, besides objects, refs and index, that the new one gets too."""


def check(vault: Vault) -> None:
    """Raise Conflict, with what to do, if the repository has something that would keep the old history or is not carried
    over; Unavailable if there is too little disk space."""
    git, root = vault.git, vault.root
    store = Store(git.git_dir)
    if git.branch() is None:
        raise Conflict("HEAD is detached: its commits belong to no branch", hint=f"git -C {root} switch -c NAME")
    extended = git.run("config", "--local", "--get-regexp", "^extensions\\.", ok=(0, 1)).decode("utf-8", "replace")
    if extended:
        raise Conflict(
            f"the repository uses {extended.split()[0]}, with which its history is not replaced",
            hint="purge by hand with git-filter-repo, or begin a new vault: ormahctl export, ormahctl import",
        )
    for name in store.refs():
        if name == "refs/stash":
            raise Conflict(
                "there is stashed work, which is tied to the old history",
                hint=f"git -C {root} stash pop (or `git stash drop`), then repeat",
            )
        if not name.startswith((*OURS, REMOTE)):
            raise Conflict(
                f"{name} is neither a branch nor a tag, and leads to the old history",
                hint=f"remove it, if nobody needs it: git -C {root} update-ref -d {name}",
            )
    needed, free = ROOM * store.bytes() + SPARE, shutil.disk_usage(git.git_dir).free
    if free < needed:
        raise Unavailable(
            f"there are {free / 1e6:.0f} MB free beside {git.git_dir}, and a purge may need {needed / 1e6:.0f}",
            hint="make room, and repeat",
        )


def look(vault: Vault, forgotten: Forgotten, taken: Callable[[str], bool], progress: Progress) -> PurgeSurvey:
    """Return what a purge would change, without changing anything. `taken`: tells whether a name leads to another
    memory. Raises the errors of `check` and `survey`."""
    check(vault)
    return survey(Store(vault.git.git_dir), forgotten, taken, progress)


def remotes(vault: Vault, found: PurgeSurvey) -> list[PurgeRemote]:
    """Return the remotes that may have what is purged, each with the commands to push the new history to it.

    The commands contain the last known commit of each branch (--force-with-lease), because the purge removes the
    tracking branches.
    """
    known = Store(vault.git.git_dir).refs()
    branches = [ref.removeprefix("refs/heads/") for ref in sorted(known) if ref.startswith("refs/heads/")]
    tags = any(ref.startswith("refs/tags/") for ref in known)
    named = []
    for name in vault.git.run("remote").decode("utf-8", "surrogateescape").split():
        tips = {oid for ref, oid in known.items() if ref.startswith(f"{REMOTE}{name}/")}
        if not tags and _never_had(vault, found, tips):
            continue
        url = vault.git.run("remote", "get-url", "--", name).decode("utf-8", "replace").strip()
        leases = {branch: known.get(f"{REMOTE}{name}/{branch}") for branch in branches}
        seen = {branch: oid for branch, oid in leases.items() if oid} or dict.fromkeys(branches[:1])
        words = [f"--force-with-lease={branch}:{oid}" if oid else "--force" for branch, oid in seen.items()]
        push = [f"git push {' '.join([*words, name, *seen])}"] + ([f"git push --force {name} --tags"] if tags else [])
        named.append(PurgeRemote(name=name, url=shown(url), push=push))
    return named


def _never_had(vault: Vault, found: PurgeSurvey, tips: Collection[str]) -> bool:
    """Whether a remote never got what is purged. `tips`: the commits of its branches when they were last fetched; without
    them nothing is known, since an earlier purge may have removed the tracking branches."""
    if not tips:
        return False
    gone = {*found.drop, *found.rewrite, *found.messages}
    listed = vault.git.run("rev-list", "--objects", *sorted(tips), "--").decode("utf-8", "surrogateescape")
    rows = (line.partition(" ") for line in listed.split("\n"))
    return not any(oid in gone or path in found.names for oid, _, path in rows)


def rewrite(vault: Vault, forgotten: Forgotten, taken: Callable[[str], bool], progress: Progress) -> None:
    """Make a complete and checked git directory with the new history. Nothing of the vault is changed. Call inside `vault.rewriting()`, so that nothing is written before `exchange`.

    Raises:
        VaultBusy: today's files still contain the memory. Conflict: remains of it were found. Unavailable: git or the
        rewriting failed.
    """
    git, place = vault.git, vault.root / PURGE_PLACE
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(mode=0o700, parents=True)

    progress(0, 0, "copying the history")
    branch = git.branch() or "refs/heads/main"
    clone = Store.make(place / "git")
    clone.run("symbolic-ref", "HEAD", branch)
    clone.run("config", "fastimport.unpackLimit", "0")
    before_refs = Store(git.git_dir).refs()
    refs = [f"+{prefix}*:{prefix}*" for prefix in OURS]
    clone.run("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", str(git.git_dir), *refs)

    found = survey(clone, forgotten, taken, progress)
    before = _tree_and_count(clone, branch)
    _filter(clone, found, place / "plan.json", progress)
    if _tree_and_count(clone, branch) != before:
        raise VaultBusy(
            "today's files hold it again; it is forgotten, but its history is not rewritten yet",
            hint="repeat the command",
        )

    progress(0, 0, "packing")
    shutil.rmtree(clone.git_dir / "logs", ignore_errors=True)
    clone.run("repack", "-a", "-d", "--quiet")
    clone.run("prune", "--expire=now")
    clone.run("fsck", "--full", "--no-dangling", "--no-progress")
    for count, one in enumerate(clone.objects(trees=True)):
        if found.forgotten.mentions(one.data):
            raise Conflict(
                f"the {one.kind} {one.oid} would still hold it; nothing was changed",
                hint=f"look at it: git -C {clone.git_dir} cat-file -p {one.oid}",
            )
        if count % 2000 == 0:
            progress(count, 0, "checking every object")

    # From here it is made like the old one: its index holds today's files, and a lock keeps other gits out.
    for name in KEPT:
        old, new = git.git_dir / name, clone.git_dir / name
        if old.is_dir():
            shutil.copytree(old, new, symlinks=True, dirs_exist_ok=True)
        elif old.exists():
            shutil.copy2(old, new)
    write_durably(clone.git_dir / PURGE_MARK, json.dumps(structs.asdict(found.forgotten)).encode())
    (clone.git_dir / PURGE_MARK).chmod(0o600)
    options = ["--work-tree", str(vault.root)]
    clone.run(*options, "read-tree", "HEAD")
    clone.run(*options, "update-index", "-q", "--refresh", ok=(0, 1))
    shutil.copy2(git.git_dir / "index.lock", clone.git_dir / "index.lock")
    os.sync()
    if before_refs != Store(git.git_dir).refs():
        raise VaultBusy("another git moved a branch or tag meanwhile", hint="repeat the command")


def _tree_and_count(clone: Store, branch: str) -> tuple[str, int]:
    """Return (id of the tree of the branch's last commit, number of commits in its history). Rewriting the history
    must change neither."""
    tree = clone.run("rev-parse", f"{branch}^{{tree}}").decode().strip()
    return tree, int(clone.run("rev-list", "--count", branch))


def _filter(clone: Store, found: PurgeSurvey, plan: Path, progress: Progress) -> None:
    """Rewrite the clone in a child process, as `found` says. The plan is a file, because it can be large."""
    data: dict[str, object] = {name: sorted(getattr(found, name)) for name in ("drop", "rewrite", "names")}
    data |= {"messages": found.messages, "forgotten": structs.asdict(found.forgotten)}
    plan.touch(mode=0o600)
    plan.write_text(json.dumps(data), "utf-8")
    printed: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "ormahd.purge.filter", str(plan)],
        cwd=clone.git_dir,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith(SHOWN):
                progress(int(line[1:]), found.commits, "writing the history anew")
            else:
                printed = [*printed, line.rstrip()][-3:]
    plan.unlink()
    if child.returncode:
        raise Unavailable(
            f"git-filter-repo failed ({child.returncode}); nothing was changed: {' '.join(printed)}",
            hint="`git fsck` in the vault says whether the history is sound",
        )


def _environment() -> Mapping[str, str]:
    """Return git's environment with PYTHONPATH set to find this package, because the child runs in the clone."""
    here = str(Path(__file__).parents[2])
    return environment() | {"PYTHONPATH": os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])}


def exchange(vault: Vault, at: Callable[[str], None]) -> None:
    """Put the git directory that `rewrite` made in the place of the vault's, in one step, and delete the old one. Call
    inside the same `vault.rewriting()`. `at` is called with the name of each step."""
    at("purge-written")
    root, place = os.open(vault.root, os.O_RDONLY), os.open(vault.root / PURGE_PLACE, os.O_RDONLY)
    try:
        if not rename2(place, "git", root, ".git", exchange=True):
            raise Unavailable(
                f"the file system of {vault.root} cannot exchange two folders in one step; nothing was changed",
                hint="move the vault to another disk, purge it there, and move it back",
            )
    finally:
        os.close(root)
        os.close(place)
    sync_directory(vault.root)
    at("purge-exchanged")
    drop_unused(vault.root)
    at("purge-removed")


def pending(vault: Vault) -> Forgotten | None:
    """Return the memory that was purged from the history and must still be removed from the index and the state,
    before `finish` is called; None: no purge is unfinished."""
    try:
        return Forgotten.of(json.loads((vault.git.git_dir / PURGE_MARK).read_bytes()))
    except FileNotFoundError:
        return None


def finish(vault: Vault) -> None:
    """End the purge. Called once nothing outside the repository contains the memory."""
    (vault.git.git_dir / PURGE_MARK).unlink(missing_ok=True)
