"""Set up the vault's remote: an empty one gets all local data, one with an Ormah vault is joined."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ormahd.actions.asking import ask_before
from ormahd.actions.partly import saying
from ormahd.actions.sync import going, join, network, one_at_a_time, only_as_root, sync_with
from ormahd.api import SyncSetupResult
from ormahd.errors import BadRequest, Conflict
from ormahd.git.network import Network, Progress
from ormahd.git.refs import is_ancestor
from ormahd.git.remote import Remote, as_before, configured, follow, shown
from ormahd.sync.join import card_of, count, merge_base, plan
from ormahd.sync.setup import plan_setup
from ormahd.sync.state import check_here
from ormahd.vault.create import CARD, read_card

if TYPE_CHECKING:
    from ormahd.actions.caller import Caller
    from ormahd.ormah import Ormah
    from ormahd.sync.join import Plan
    from ormahd.vault.create import Card

MAX_URL: Final = 4_000


def setup(
    ormah: Ormah, url: str, caller: Caller, progress: Progress, *, replace: bool = False, agreed: bool = True,
    yes: bool = False,
) -> SyncSetupResult:  # fmt: skip
    """Make `url` the vault's remote and sync with it.

    `replace`: even if another remote is configured. Without `agreed` another vault is only reported, not joined.

    Raises:
        BadRequest: not an address. Unavailable: the remote is unreachable. Conflict: another remote is configured, or `url`
        holds something other than an Ormah vault; nothing was changed.
    """
    address = url.strip()
    if not address or len(address) > MAX_URL or "\n" in address or "\0" in address or address.startswith("-"):
        raise BadRequest("the remote's address is empty or odd", hint="give a path, ssh://, user@host:path or https://")
    with one_at_a_time(ormah):
        only_as_root(ormah)
        git = ormah.vault.git
        name = ormah.settings.sync.remote
        known = configured(git, name)
        if known is not None and known != address and not replace:
            raise Conflict(
                f"the vault has another remote: {name} is {shown(known)}; nothing was changed",
                hint="to sync with the new one instead: ormahctl sync setup URL --replace",
                data={"remote": name, "url": shown(known)},
            )
        branch = git.branch()
        if branch is None:
            raise Conflict("HEAD is detached: there is no branch to sync", hint="`git switch main` in the vault first")
        wire = network(ormah)
        progress(0, 0, "looking at the remote")
        heads = wire.heads(address)
        there = branch if branch in heads.branches else heads.default
        if there is None:
            remote = Remote(name, address, branch, known=False)
            return _begin(ormah, remote, "empty", caller, progress, yes)
        remote = Remote(name, address, there, known=False)
        return _not_empty(ormah, wire, remote, caller, progress, agreed, yes)


def _begin(ormah: Ormah, remote: Remote, state: str, caller: Caller, progress: Progress, yes: bool) -> SyncSetupResult:
    """Run the first sync; the remote is configured once it succeeded."""
    chance = random.Random()  # noqa: S311 - no secret hangs on it
    done = sync_with(ormah, remote, caller, progress, chance, yes=yes)
    follow(ormah.vault.git, remote)
    return SyncSetupResult(state, remote.name, shown(remote.url), ormah.vault.id, None, 0, done)


def _not_empty(
    ormah: Ormah, wire: Network, remote: Remote, caller: Caller, progress: Progress, agreed: bool, yes: bool
) -> SyncSetupResult:
    check_here(ormah.vault, remote, lambda: wire.heads(remote.address).branches.get(remote.branch))
    with as_before(ormah.vault.git, remote) as keep:
        with ormah.vault.lineage:
            tip = wire.fetch(remote, progress)
        return _fetched(ormah, tip, remote, caller, progress, agreed, yes, keep)


def _fetched(
    ormah: Ormah, tip: str | None, remote: Remote, caller: Caller, progress: Progress, agreed: bool, yes: bool,
    keep: Callable[[], None],
) -> SyncSetupResult:  # fmt: skip
    """Decide by what was fetched: sync, join, or refuse. `keep` must be called to keep the fetched refs."""
    vault = ormah.vault
    card = None if tip is None else card_of(vault, tip)
    if tip is None or card is None:
        raise Conflict(
            f"{shown(remote.url)} holds something else than an Ormah vault (its "
            f"{remote.branch.removeprefix('refs/heads/')} lacks {CARD}); nothing was changed",
            hint="make an empty repository for the vault: git init --bare FOLDER",
        )
    head = vault.head()
    assert head is not None
    related = merge_base(vault, head, tip) is not None
    if card.id == vault.id:
        if not related:
            raise Conflict(
                "the remote has this vault with another history: one of them was rewritten; nothing was changed",
                hint="see what differs with git in the vault; `git push --force` hands out this one",
            )
        keep()
        return _begin(ormah, remote, "ours", caller, progress, yes)
    memories = sum(path.lower().endswith(".md") for path in vault.git.listing(tip))
    if not agreed:
        return SyncSetupResult("would_join", remote.name, shown(remote.url), card.id, vault.id, memories, None)
    former = vault.id
    _join(ormah, remote, tip, card, caller, progress, yes)
    keep()
    follow(vault.git, remote)  # the join is complete, even if the push fails now
    with saying(lambda: "the two vaults are one here, and what only this machine has was not handed out yet"):
        done = _begin(ormah, remote, "joined", caller, progress, yes)
    assert done.synced is not None
    done.synced.pulled += count(vault, tip, head)
    return SyncSetupResult("joined", done.remote, done.url, card.id, former, memories, done.synced)


def _join(ormah: Ormah, remote: Remote, tip: str, card: Card, caller: Caller, progress: Progress, yes: bool) -> None:
    """Join another vault: take over its id and self node, and keep the notes of both."""
    vault = ormah.vault
    progress(0, 0, "joining")
    ormah.reconciler.scan()

    def decide(head: str) -> Plan | None:
        if is_ancestor(vault.git, tip, head):
            return None
        base = merge_base(vault, head, tip)  # not None if this vault was once part of the other one
        found = plan_setup(vault, head, tip, card) if base is None else plan(vault, base, head, tip)
        hint = "to join it all the same: ormahctl sync setup URL --yes"
        ask_before(vault, f"joining the vault of {remote.name}", going(found), yes=yes, hint=hint)
        vault.remember_id()
        return found

    join(ormah, decide, f"Join the vault of {remote.name}", caller)
    with ormah.writing:
        # read the card again: another machine may have changed it
        vault.become(read_card(vault.read(CARD) or b"", vault.root))
        ormah.reconciler.renew()
    ormah.reconciler.scan()
