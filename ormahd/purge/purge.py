"""Purges a memory: replaces the history by one in which the memory never was (DESIGN section 12).

The steps: check that it is possible (`look`); remove the memory from today's files by an ordinary op (the caller);
write the new history in a fresh clone and check every object of it (`prepare`); put it in the place of the old one
(`replace`); and `finish`, once nothing outside the repository contains the memory. `prepare` and `replace` run while
the writer is held: what callers store meanwhile is promised, and committed on top of the new history.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct, structs

from ormahd.api import PurgeRemote
from ormahd.errors import Conflict, Unavailable, VaultBusy
from ormahd.git import history_swap as swap
from ormahd.git.history_objects import OURS, REMOTE, Store
from ormahd.git.locks import in_use
from ormahd.git.process import environment
from ormahd.git.remote import shown
from ormahd.note.forgetting import Forgotten
from ormahd.purge.check import check_place, check_staged
from ormahd.purge.plan import SHOWN, Progress, Survey, leaks, survey
from ormahd.vault.vault import Vault

TAGS = "refs/tags/"
"""Prefix of refs that must not have moved since the survey: unlike a branch, a moved tag does not continue from the old
one."""
PATIENCE = 5.0
"""Seconds to wait for another git process (a fetch, a gc) before the purge gives up."""


class Stale(Conflict):
    """The history changed since the survey, or today's files contain the memory again."""


class Prepared(Struct, frozen=True):
    """A rewritten history: checked, and not in place yet."""

    survey: Survey
    clone: Store
    journal: swap.Journal
    echoes: tuple[str, ...]
    """Blobs that contain one of the memory's lines without mentioning the memory."""


def look(vault: Vault, forgotten: Forgotten, taken: Callable[[str], bool], progress: Progress) -> Survey:
    """Find what would be rewritten, without changing anything. Raises the errors of `check_place`."""
    check_place(vault)
    return survey(Store(vault.git.common), forgotten, taken, progress)


def remotes(vault: Vault, refs: Iterable[str]) -> list[PurgeRemote]:
    """Return the configured remotes, each with the commands to push the rewritten `refs` to it. The commands contain
    the last known commit of each branch (--force-with-lease), because the purge removes the tracking branches."""
    known = Store(vault.git.common).refs()
    out = vault.git.run("remote").decode("utf-8", "surrogateescape").split("\n")
    branches = [ref.removeprefix("refs/heads/") for ref in sorted(refs) if ref.startswith("refs/heads/")]
    tags = any(ref.startswith("refs/tags/") for ref in refs)
    found = []
    for name in filter(None, out):
        url = vault.git.run("remote", "get-url", "--", name).decode("utf-8", "replace").strip()
        leases = {branch: known.get(f"{REMOTE}{name}/{branch}") for branch in branches}
        seen = {branch: oid for branch, oid in leases.items() if oid} or dict.fromkeys(branches[:1])
        words = [f"--force-with-lease={branch}:{oid}" if oid else "--force" for branch, oid in seen.items()]
        push = [f"git push {' '.join([*words, name, *seen])}"] + ([f"git push --force {name} --tags"] if tags else [])
        found.append(PurgeRemote(name, shown(url), push))
    return found


def size(vault: Vault) -> int:
    """Return the size in bytes of the repository's objects on disk."""
    return Store(vault.git.common).bytes()


def prepare(vault: Vault, looked: Survey, taken: Callable[[str], bool], progress: Progress) -> Prepared:
    """Return the rewritten history, in a clone beside the objects, with every object checked. Nothing of the vault is
    changed. `looked`: the earlier survey, still valid if refs only gained commits that do not mention the memory. Call
    inside `vault.rewriting()`, so that nothing is written before `replace`.

    Raises Conflict when today's files still contain the memory, or remains of it were found; Unavailable when git or
    the rewriting failed.
    """
    git = vault.git
    folder = swap.folder_of(git)
    if swap.read_journal(git) is not None:
        raise Conflict("another purge is not finished", hint="restart the daemon: ormahctl restart")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    progress(0, 0, "copying the history")
    clone = _clone(vault, folder / swap.CLONE)
    found = _still(clone, looked) or survey(clone, looked.forgotten, taken, progress)
    branch = git.branch() or "HEAD"
    tree, count = _state(clone, branch)
    _filter(clone, found, folder / "plan.json", progress)
    if _state(clone, branch) != (tree, count):
        raise Stale("today's files changed meanwhile, and hold it", hint="repeat the command")
    shutil.rmtree(clone.git_dir / "logs", ignore_errors=True)
    progress(0, 0, "packing")
    clone.run("repack", "-a", "-d", "--quiet")
    clone.run("prune", "--expire=now")
    clone.run("fsck", "--full", "--no-dangling", "--no-progress")
    naming, echoes = leaks(clone, found.forgotten, progress)
    if naming:
        raise Conflict(
            f"{len(naming)} objects would still hold it, the first is {naming[0]}; nothing was changed",
            hint=f"look at it: git -C {vault.root} cat-file -p {naming[0].split()[-1]}",
        )
    new = clone.refs()
    now = Store(git.common)
    drop = {name: oid for name, oid in now.refs().items() if name.startswith(REMOTE)}
    journal = swap.Journal({name: (old, new[name]) for name, old in found.refs.items()}, drop, tuple(now.symbolic()),
                           found.forgotten)  # fmt: skip
    return Prepared(found, clone, journal, tuple(echoes))


def _clone(vault: Vault, place: Path) -> Store:
    git = vault.git
    clone = Store.make(place, git.object_format)
    clone.run("symbolic-ref", "HEAD", git.branch() or "refs/heads/main")
    clone.run("config", "fastimport.unpackLimit", "0")
    refs = [f"+{prefix}*:{prefix}*" for prefix in OURS]
    clone.run("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", str(git.common), *refs)
    return clone


def _still(clone: Store, looked: Survey) -> Survey | None:
    """Return the earlier survey updated to the clone. None when a new survey is needed: refs changed otherwise than by
    new commits, or a new commit mentions the memory."""
    now, before, forgotten = clone.refs(), looked.refs, looked.forgotten
    if before.keys() != now.keys() or any(now[ref] != oid for ref, oid in before.items() if ref.startswith(TAGS)):
        return None
    commits = list(clone.commits(*now.values(), *(f"^{oid}" for oid in before.values())))
    came = [(path, new) for commit in commits for path, _, new in commit.changes if new.strip("0")]
    objects = clone.objects({*(new for _, new in came), *(commit.oid for commit in commits)})
    names = (path.encode("utf-8", "surrogateescape") for path, _ in came)
    if any(forgotten.mentions(one.data) for one in objects) or any(map(forgotten.mentions, names)):
        return None
    changed = looked.changed + len(commits)
    return structs.replace(looked, refs=now, commits=looked.commits + len(commits), changed=changed)


def _state(clone: Store, branch: str) -> tuple[str, int]:
    """Return (today's tree, number of commits that lead to it): the rewriting must change neither."""
    tree = clone.run("rev-parse", f"{branch}^{{tree}}").decode().strip()
    return tree, int(clone.run("rev-list", "--count", branch))


def _filter(clone: Store, found: Survey, plan: Path, progress: Progress) -> None:
    data: dict[str, object] = {name: sorted(getattr(found, name)) for name in ("drop", "rewrite", "names")}
    data |= {"messages": found.messages, "forgotten": structs.asdict(found.forgotten)}
    with open(
        os.open(plan, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w", encoding="utf-8"
    ) as file:
        json.dump(data, file)
    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "ormahd.purge.filter", str(plan)], cwd=clone.git_dir, env=_environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    ) as child:  # fmt: skip
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith(SHOWN):
                progress(int(line[1:]), found.commits, "writing the history anew")
            else:
                said = [*said, line.rstrip()][-20:]
    plan.unlink()
    if child.returncode:
        raise Unavailable(
            f"git-filter-repo failed ({child.returncode}); nothing was changed: {' '.join(said[-3:])}",
            hint="`git fsck` in the vault says whether the history is sound",
        )


def _environment() -> Mapping[str, str]:
    """Return git's environment with PYTHONPATH set to find this package, because the child runs in the clone."""
    here = str(Path(__file__).parents[2])
    return environment() | {"PYTHONPATH": os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])}


def replace(vault: Vault, prepared: Prepared, at: Callable[[str], None]) -> None:
    """Put the new history in place. Call inside the same `vault.rewriting()` as `prepare`. Raises Stale when a git
    process moved a ref meanwhile although index.lock was held; VaultBusy when another git is still running after
    `PATIENCE`."""
    check_place(vault)
    deadline = time.monotonic() + PATIENCE
    while in_use(vault.git, vault.git.git_dir / "index.lock"):
        if time.monotonic() > deadline:
            raise VaultBusy(
                "another git is at work in the vault", hint="repeat when it is done", data={"stored": False}
            )
        time.sleep(0.05)
    store = Store(vault.git.common)
    now = store.refs()
    if {name: oid for name, oid in now.items() if name.startswith(OURS)} != prepared.survey.refs:
        raise Stale("the history went on while it was written anew", hint="repeat the command")
    journal = structs.replace(
        prepared.journal, symbolic=tuple(store.symbolic()),
        drop={name: oid for name, oid in now.items() if name.startswith(REMOTE)},
    )  # fmt: skip
    check_staged(vault, prepared.survey.forgotten)
    swap.switch(vault.git, prepared.clone, journal, at)


def discard(vault: Vault) -> None:
    """Remove the clone that `prepare` made, when it will not be used."""
    if swap.read_journal(vault.git) is None:
        swap.finish(vault.git)


def pending(vault: Vault) -> Forgotten | None:
    """Return the memory that was purged from the history but must still be removed from index and state (see `finish`);
    None: there is none."""
    journal = swap.read_journal(vault.git)
    return None if journal is None or not swap.is_clean(vault.git) else journal.forgotten


def finish(vault: Vault) -> None:
    """End the purge by deleting its journal and folder. Called once nothing outside the repository contains the memory."""
    swap.finish(vault.git)
