"""Forgetting for good: a history in which a memory never was, in the place of the one that it was in (DESIGN 12).

In this order: look whether it can be done (`check`), take the memory out of today's files by an ordinary op (the caller),
write the history anew in a fresh clone and look at every object of it (`prepare`, beside everything else), put it in the
place of the old one while nobody writes (`replace`), and `finish` once nothing outside of the repository holds it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ormahd.core.purge import Forgotten
from ormahd.errors import Conflict, Unavailable, VaultBusy
from ormahd.vault import git_purge_swap as swap
from ormahd.vault.git_busy import in_use
from ormahd.vault.git_purge import SHOWN, Progress, Survey, leaks, survey
from ormahd.vault.git_purge_store import OURS, REMOTE, Store
from ormahd.vault.git_remote import shown
from ormahd.vault.git_run import environment
from ormahd.vault.vault import Vault

ROOM = 3
"""Times the repository's size that must be free: for the clone, its new objects, and the old ones until they go."""
SPARE = 50_000_000
"""Bytes free beside that."""
PATIENCE = 5.0
"""Seconds that another git (a fetch, a gc) may go on before the purge gives up."""
_EXTENSIONS = {"objectformat", "worktreeconfig", "noop", "noop-v1"}


class Stale(Conflict):
    """Today's files changed while the history was written anew, and hold it again."""


@dataclass(frozen=True, slots=True)
class Remote:
    """Another repository that may have the old history. `push`: what a person types to put the new one there."""

    name: str
    url: str
    push: list[str]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A history written anew, checked, and not in its place yet."""

    survey: Survey
    clone: Store
    journal: swap.Journal
    echoes: tuple[str, ...]
    """Blobs that hold one of the memory's lines, though they do not name it."""


def look(vault: Vault, forgotten: Forgotten, taken: Callable[[str], bool], progress: Progress) -> Survey:
    """What would be rewritten; nothing is changed. Raises what `check_place` raises."""
    check_place(vault)
    return survey(Store(vault.git.common), forgotten, taken, progress)


def check_place(vault: Vault) -> None:
    """Raise Conflict, naming the mend, where the repository is none whose history can be replaced."""
    git, root = vault.git, vault.root
    if vault.prefix:
        raise Conflict(
            f"the vault is a folder of the repository {git.top}, whose history is not only the vault's",
            hint="purge there by hand with git-filter-repo, or give the vault a repository of its own",
        )
    if git.git_dir != git.common or any((git.common / "worktrees").glob("*")):
        raise Conflict(
            "the repository has linked worktrees, which would keep the old history",
            hint=f"`git -C {root} worktree list` names them, `git worktree remove PATH` removes one",
        )
    if vault.git.run("rev-parse", "--show-superproject-working-tree").strip():
        raise Conflict(
            "the vault is a submodule: the repository around it names its commits",
            hint="purge in a clone of its own, and update the submodule there",
        )
    if git.branch() is None:
        raise Conflict("HEAD is detached: its commits belong to no branch", hint=f"git -C {root} switch -c NAME")
    _check_objects(vault)
    _check_refs(vault)


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


def check(vault: Vault, found: Survey, *, rewrite_foreign: bool) -> None:
    """Raise Conflict where what was found must not be rewritten: commits made by hand, staged work that holds it."""
    if found.foreign and not rewrite_foreign:
        oid, subject = found.foreign[0]
        more = f", and {len(found.foreign) - 1} more" if len(found.foreign) > 1 else ""
        raise Conflict(
            f"the history has commits that Ormah did not make: {oid[:8]} “{found.forgotten.text(subject)}”{more}",
            hint="they get other ids too, and lose signatures; if that is well: --rewrite-foreign",
            data={"commits": [oid for oid, _ in found.foreign[:100]]},
        )
    staged = _staged(vault, found)
    if staged:
        raise Conflict(
            f"{staged} is staged, and holds it", hint=f"git -C {vault.root} restore --staged {staged}, or commit it"
        )
    size, free = Store(vault.git.common).bytes(), shutil.disk_usage(vault.git.common).free
    if free < ROOM * size + SPARE:
        raise Unavailable(
            f"there are {free / 1e6:.0f} MB free beside {vault.git.common}, and a purge may need "
            f"{(ROOM * size + SPARE) / 1e6:.0f}",
            hint="make room, and repeat",
        )  # fmt: skip


def remotes(vault: Vault, refs: Iterable[str]) -> list[Remote]:
    """The configured remotes, and how to give them the rewritten `refs`. A lease by the commit that was last seen there:
    after the purge no tracking branch is left to take it from."""
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
        found.append(Remote(name, shown(url), push))
    return found


def size(vault: Vault) -> int:
    """Bytes of the repository's objects on disk."""
    return Store(vault.git.common).bytes()


def _staged(vault: Vault, found: Survey) -> str | None:
    """A path whose staged version, other than HEAD's, holds it."""
    records = iter(
        vault.git.run("diff-index", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames", "HEAD").split(b"\0")
    )
    for meta in records:
        if not meta:
            break
        path, oid = os.fsdecode(next(records)), meta.split(b" ")[3].decode()
        if not oid.strip("0") or meta.split(b" ")[1] == b"160000":
            continue
        data = vault.blob(oid)
        if found.forgotten.mentions(data) or found.forgotten.mentions(os.fsencode(path)):
            return path
    return None


def prepare(vault: Vault, forgotten: Forgotten, taken: Callable[[str], bool], progress: Progress) -> Prepared:
    """The new history, in a clone beside the objects, with every object looked at. Nothing of the vault is changed.

    Raises Conflict when today's files still hold it, or something was left; Unavailable when git or the rewriting failed.
    """
    git = vault.git
    folder = swap.folder_of(git)
    if swap.read_journal(git) is not None:
        raise Conflict("another purge is not finished", hint="restart the daemon: ormahctl down, ormahctl up")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    progress(0, 0, "copying the history")
    clone = _clone(vault, folder / swap.CLONE)
    found = survey(clone, forgotten, taken, progress)
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


def _state(clone: Store, branch: str) -> tuple[str, int]:
    """Today's tree, and the number of commits: what the rewriting must leave alone."""
    tree = clone.run("rev-parse", f"{branch}^{{tree}}").decode().strip()
    return tree, int(clone.run("rev-list", "--count", "--branches", "--tags", "--glob=refs/ormah/"))


def _filter(clone: Store, found: Survey, plan: Path, progress: Progress) -> None:
    data: dict[str, object] = {name: sorted(getattr(found, name)) for name in ("drop", "rewrite", "names")}
    data |= {"messages": found.messages, "forgotten": asdict(found.forgotten)}
    with open(
        os.open(plan, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w", encoding="utf-8"
    ) as file:
        json.dump(data, file)
    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "ormahd.vault.git_purge_filter", str(plan)], cwd=clone.git_dir, env=_environment(),
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
    """Of git's, and where Python finds us: the child runs in the clone."""
    here = str(Path(__file__).parents[2])
    return environment() | {"PYTHONPATH": os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])}


def replace(vault: Vault, prepared: Prepared, at: Callable[[str], None]) -> bool:
    """Put the new history in its place; False when the old one went on meanwhile, so that it has to be prepared again.
    Only inside `vault.rewriting()`."""
    check_place(vault)
    deadline = time.monotonic() + PATIENCE
    while in_use(vault.git, vault.git.git_dir / "index.lock"):
        if time.monotonic() > deadline:
            raise VaultBusy(
                "another git is at work in the vault", hint="repeat when it is done", data={"stored": False}
            )
        time.sleep(0.05)
    now = Store(vault.git.common).refs()
    ours = {name: oid for name, oid in now.items() if name.startswith(OURS)}
    theirs = {name: oid for name, oid in now.items() if name.startswith(REMOTE)}
    if ours != prepared.survey.refs or theirs != prepared.journal.drop:
        return False
    check(vault, prepared.survey, rewrite_foreign=True)
    swap.switch(vault.git, prepared.clone, prepared.journal, at)
    return True


def discard(vault: Vault) -> None:
    """Drop what `prepare` made, when it is not to be used."""
    if swap.read_journal(vault.git) is None:
        swap.finish(vault.git)


def pending(vault: Vault) -> Forgotten | None:
    """What was purged from the history, and has still to be cleaned out of index and state (see `finish`)."""
    journal = swap.read_journal(vault.git)
    return None if journal is None or not swap.is_clean(vault.git) else journal.forgotten


def finish(vault: Vault) -> None:
    """Nothing outside of the repository holds it any more."""
    swap.finish(vault.git)
