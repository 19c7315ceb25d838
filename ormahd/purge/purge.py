"""Purge a memory: replace the history by one in which the memory never was (DESIGN section 12).

The steps:
1. `look` checks that the history can and may be rewritten; its errors say what the person can do.
2. The caller removes the memory from today's files by an ordinary op.
3. `prepare` writes the new history in a fresh clone and checks every object of it.
4. `replace` puts it in the place of the old one.
5. `finish` ends the purge, once nothing outside the repository contains the memory.

`prepare` and `replace` run while no other writer can write: what callers store meanwhile is promised, and committed
on top of the new history.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from ormahd.errors import Conflict, Unavailable
from ormahd.git.history import OURS, REMOTE, Store
from ormahd.note.forgetting import Forgotten

if TYPE_CHECKING:
    from ormahd.purge.plan import PurgeSurvey
    from ormahd.vault.vault import Vault
import json
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from msgspec import Struct, structs

from ormahd.api import PurgeRemote
from ormahd.errors import VaultBusy
from ormahd.git import history as swap
from ormahd.git.index import in_use
from ormahd.git.process import environment
from ormahd.git.remote import shown
from ormahd.purge.plan import SHOWN, Progress, PurgeSurvey, leaks, survey
from ormahd.vault.vault import Vault

ROOM = 3
"""Free disk space that is needed, in multiples of the repository's size: for the clone, its new objects, and the old
ones until they are deleted."""
SPARE = 50_000_000
"""Bytes of free disk space that are needed in addition to `ROOM`."""
_EXTENSIONS = {"objectformat", "worktreeconfig", "noop", "noop-v1"}


def check_place(vault: Vault) -> None:
    """Raise Conflict, with what to do, when the history of this kind of repository cannot be replaced."""
    git, root = vault.git, vault.root
    if vault.prefix:
        raise Conflict(
            f"the vault is a folder of the repository {git.top}, whose history is not only the vault's",
            hint="purge there by hand with git-filter-repo, or give the vault a repository of its own",
        )
    if git.git_dir != git.common or any((git.common / "worktrees").glob("*")):
        raise Conflict(
            "the repository has linked worktrees, which would keep the old history",
            hint=f"git -C {root} worktree list; then `git worktree remove PATH`, or `git worktree prune` for one that is gone",
        )
    if vault.git.run("rev-parse", "--show-superproject-working-tree").strip():
        raise Conflict(
            "the vault is a submodule: the repository around it names its commits",
            hint="purge in a clone of its own, and update the submodule there",
        )
    if git.object_format != "sha1":
        raise Conflict(
            f"the repository names its objects by {git.object_format}, which git-filter-repo cannot rewrite",
            hint="begin a new vault with today's notes: ormahctl export, ormahctl import",
        )
    if git.branch() is None:
        raise Conflict("HEAD is detached: its commits belong to no branch", hint=f"git -C {root} switch -c NAME")
    _check_filters(vault)
    _check_objects(vault)
    _check_refs(vault)


def _check_filters(vault: Vault) -> None:
    rules = vault.attributes.rules(
        [path for path in vault.tree() if path[-3:].lower() == ".md" or path.startswith(".ormah/")]
    )
    filtered = sorted(path for path, rule in rules.items() if rule.filter is not None)
    if filtered:
        raise Conflict(
            f"{filtered[0]} goes through git's filter {rules[filtered[0]].filter}: in the history nobody can look for what names the "
            "memory, and a filter may keep its text elsewhere (LFS); nothing was changed",
            hint="`ormahctl forget ID` takes a memory out of today's notes. Out of the history, in a fresh clone: `git filter-repo "
            "--invert-paths --path PATH` for each path that it had (`git log --follow --name-only --format= -- PATH` lists them), "
            "then push with --force",
            data={"path": filtered[0]},
        )


def _check_objects(vault: Vault) -> None:
    common, root = vault.git.common, vault.root
    alternates = common / "objects/info/alternates"
    if alternates.exists():
        raise Conflict(
            f"the repository borrows objects from {alternates.read_text('utf-8', 'replace').strip()}",
            hint=f"git -C {root} repack -a -d && rm {alternates}",
        )
    if (common / "shallow").exists():
        raise Conflict("the repository is a shallow clone", hint=f"git -C {root} fetch --unshallow")
    kept = sorted(path.name for path in (common / "objects/pack").glob("pack-*.keep"))
    if kept:
        raise Conflict(
            f"{kept[0]} forbids git to drop that pack", hint=f"remove it, if nobody needs it: {common / 'objects/pack'}"
        )
    listed = vault.git.run("config", "--local", "--get-regexp", "^extensions\\.", ok=(0, 1)).decode("utf-8", "replace")
    odd = {line.split(" ")[0].partition(".")[2].casefold() for line in listed.splitlines()} - _EXTENSIONS
    if odd:
        raise Conflict(
            f"the repository uses extensions.{min(odd)}, with which its history is not replaced",
            hint="purge by hand with git-filter-repo",
        )


def _check_refs(vault: Vault) -> None:
    store = Store(vault.git.common)
    other = [name for name in store.refs() if not name.startswith((*OURS, REMOTE))]
    if "refs/stash" in other:
        raise Conflict(
            "there is stashed work, which is tied to the old history",
            hint=f"git -C {vault.root} stash pop (or `git stash drop`), then repeat",
        )
    if other:
        raise Conflict(
            f"{other[0]} is neither a branch nor a tag, and leads to the old history",
            hint=f"remove it, if nobody needs it: git -C {vault.root} update-ref -d {other[0]}",
        )


def check(vault: Vault, found: PurgeSurvey, *, rewrite_foreign: bool) -> None:
    """Raise Conflict when the history must not be rewritten: it has commits made by hand (unless `rewrite_foreign`), or
    the memory is in staged changes. Raise Unavailable when there is too little disk space."""
    if found.foreign and not rewrite_foreign:
        oid, subject = found.foreign[0]
        more = f", and {len(found.foreign) - 1} more" if len(found.foreign) > 1 else ""
        raise Conflict(
            f"the history has commits that Ormah did not make: {oid[:8]} “{found.forgotten.text(subject)}”{more}",
            hint="they get other ids too, and lose signatures; if that is well: --rewrite-foreign",
            data={"commits": [oid for oid, _ in found.foreign[:100]]},
        )
    check_staged(vault, found.forgotten)
    size, free = Store(vault.git.common).bytes(), shutil.disk_usage(vault.git.common).free
    if free < ROOM * size + SPARE:
        raise Unavailable(
            f"there are {free / 1e6:.0f} MB free beside {vault.git.common}, and a purge may need "
            f"{(ROOM * size + SPARE) / 1e6:.0f}",
            hint="make room, and repeat",
        )  # fmt: skip


def check_staged(vault: Vault, forgotten: Forgotten) -> None:
    """Raise Conflict when staged changes contain the memory, because git's index would keep it."""
    out = vault.git.run("diff-index", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames", "HEAD")
    records = iter(out.split(b"\0"))
    for meta in filter(None, records):
        path, (_, mode, _, oid, _) = os.fsdecode(next(records)), meta.split(b" ")
        if mode in {b"000000", b"160000"}:
            continue
        if forgotten.mentions(vault.blob(oid.decode(), path)) or forgotten.mentions(os.fsencode(path)):
            raise Conflict(
                f"{path} is staged, and holds it", hint=f"git -C {vault.root} restore --staged {path}, or commit it"
            )


TAGS = "refs/tags/"
"""Prefix of the refs that must not have moved since the survey. A branch may have moved, since it continues from its
old commit; a moved tag does not."""
PATIENCE = 5.0
"""Seconds to wait for another git process (a fetch, a gc) before the purge gives up."""


class Stale(Conflict):
    """Raised when the history changed since the survey, or today's files contain the memory again."""


class Prepared(Struct, frozen=True):
    """A rewritten history that is complete and checked, in the repository `clone`, but has not replaced the old one
    yet."""

    survey: PurgeSurvey
    clone: Store
    journal: swap.Journal
    echoes: tuple[str, ...]
    """Blobs that contain one of the memory's lines without mentioning the memory."""


def look(vault: Vault, forgotten: Forgotten, taken: Callable[[str], bool], progress: Progress) -> PurgeSurvey:
    """Find what would be rewritten, without changing anything. Raises the errors of `check_place`."""
    check_place(vault)
    return survey(Store(vault.git.common), forgotten, taken, progress)


def remotes(vault: Vault, found: PurgeSurvey) -> list[PurgeRemote]:
    """Return the remotes that may have what is purged, each with the commands to push the rewritten refs to it.

    The commands contain the last known commit of each branch (--force-with-lease), because the purge removes the
    tracking branches.
    """
    known, refs = Store(vault.git.common).refs(), found.refs
    out = vault.git.run("remote").decode("utf-8", "surrogateescape").split("\n")
    branches = [ref.removeprefix("refs/heads/") for ref in sorted(refs) if ref.startswith("refs/heads/")]
    tags = any(ref.startswith("refs/tags/") for ref in refs)
    named = []
    for name in filter(None, out):
        if not tags and _never_had(
            vault, found, {oid for ref, oid in known.items() if ref.startswith(f"{REMOTE}{name}/")}
        ):
            continue
        url = vault.git.run("remote", "get-url", "--", name).decode("utf-8", "replace").strip()
        leases = {branch: known.get(f"{REMOTE}{name}/{branch}") for branch in branches}
        seen = {branch: oid for branch, oid in leases.items() if oid} or dict.fromkeys(branches[:1])
        words = [f"--force-with-lease={branch}:{oid}" if oid else "--force" for branch, oid in seen.items()]
        push = [f"git push {' '.join([*words, name, *seen])}"] + ([f"git push --force {name} --tags"] if tags else [])
        named.append(PurgeRemote(name, shown(url), push))
    return named


def _never_had(vault: Vault, found: PurgeSurvey, tips: Collection[str]) -> bool:
    """Whether a remote never got what is purged. `tips`: the commits of its branches when they were last fetched.

    True when no object in the history of `tips` is to be purged. False without `tips`: an earlier purge may have
    removed the tracking branches, so nothing is known.
    """
    if not tips:
        return False
    gone = {*found.drop, *found.rewrite, *found.messages}
    for line in (
        vault.git.run("rev-list", "--objects", *sorted(tips), "--").decode("utf-8", "surrogateescape").split("\n")
    ):
        oid, _, path = line.partition(" ")
        if oid in gone or path in found.names:
            return False
    return True


def size(vault: Vault) -> int:
    """Return the size in bytes of the repository's objects on disk."""
    return Store(vault.git.common).bytes()


def prepare(vault: Vault, looked: PurgeSurvey, taken: Callable[[str], bool], progress: Progress) -> Prepared:
    """Rewrite the history in a clone beside the repository's objects, check every object of the clone, and return
    it. Nothing of the vault is changed. `looked`: the earlier survey, still valid if refs only gained commits that
    do not mention the memory. Call inside `vault.rewriting()`, so that nothing is written before `replace`.

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


def _still(clone: Store, looked: PurgeSurvey) -> PurgeSurvey | None:
    """Return the earlier survey `looked`, updated to the refs of the clone. None: a new survey is needed, because
    refs changed otherwise than by new commits, or a new commit mentions the memory."""
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
    """Return (id of the tree of the branch's last commit, number of commits in its history). Rewriting the history
    must change neither."""
    tree = clone.run("rev-parse", f"{branch}^{{tree}}").decode().strip()
    return tree, int(clone.run("rev-list", "--count", branch))


def _filter(clone: Store, found: PurgeSurvey, plan: Path, progress: Progress) -> None:
    data: dict[str, object] = {name: sorted(getattr(found, name)) for name in ("drop", "rewrite", "names")}
    data |= {"messages": found.messages, "forgotten": structs.asdict(found.forgotten)}
    with open(
        os.open(plan, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w", encoding="utf-8"
    ) as file:
        json.dump(data, file)
    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "ormahd.purge.plan", str(plan)], cwd=clone.git_dir, env=_environment(),
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
    """Replace the repository's history by the prepared one. Call inside the same `vault.rewriting()` as `prepare`.
    `at` is called with the name of each step. Raises Stale when a git process moved a ref meanwhile although
    index.lock was held; VaultBusy when another git process is still running after `PATIENCE`."""
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
    """Remove the clone that `prepare` made, because it will not be used."""
    if swap.read_journal(vault.git) is None:
        swap.finish(vault.git)


def pending(vault: Vault) -> Forgotten | None:
    """Return the memory that was purged from the history and must still be removed from the index and the state,
    before `finish` is called; None: no purge is unfinished."""
    journal = swap.read_journal(vault.git)
    return None if journal is None or not swap.is_clean(vault.git) else journal.forgotten


def finish(vault: Vault) -> None:
    """End the purge by deleting its journal and its folder. Called once nothing outside the repository contains the
    memory."""
    swap.finish(vault.git)
