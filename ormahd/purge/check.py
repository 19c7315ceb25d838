"""Checks whether the history can and may be rewritten; each error says what the person can do."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from ormahd.errors import Conflict, Unavailable
from ormahd.git.history_objects import OURS, REMOTE, Store
from ormahd.note.forgetting import Forgotten

if TYPE_CHECKING:
    from ormahd.purge.plan import Survey
    from ormahd.vault.vault import Vault

ROOM = 3
"""Free disk space that is needed, in repository sizes: for the clone, its new objects, and the old ones until they are
deleted."""
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


def check(vault: Vault, found: Survey, *, rewrite_foreign: bool) -> None:
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
