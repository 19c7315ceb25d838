"""Synchronise the vault with other machines through a git remote, and set that remote up.

A sync takes in edits in the folder, fetches, joins and pushes, and repeats if the remote changed meanwhile. Network
access holds no lock of the writers, so reads and writes continue. If the remote is unreachable, nothing is lost: all
changes are committed here, and a later sync pushes them. Setting up pushes this vault to an empty remote, or joins the
vault that the remote holds.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ormahd.actions.amend import PERSON, Caller
from ormahd.actions.views import saying
from ormahd.api import ConflictItem, SyncResult, SyncSetupParams, SyncSetupResult
from ormahd.errors import BadRequest, Conflict, NotFound, OrmahError, Unavailable, VaultBusy
from ormahd.git.refs import is_ancestor
from ormahd.git.remote import (
    DENIED,
    REMOTE,
    Network,
    Progress,
    Remote,
    Unreachable,
    find,
    redact_urls,
    remote_url,
    restoring_ref,
    set_upstream,
)
from ormahd.ormah import Ormah
from ormahd.sync.join import Plan, card_of, commit_plan, count_commits, merge_base, plan
from ormahd.sync.replaced import set_aside_replaced
from ormahd.sync.setup import plan_setup
from ormahd.sync.state import check_our_history, check_remote_history, note_synced
from ormahd.vault.conflicts import item, waiting
from ormahd.vault.create import CARD, Card, read_card
from ormahd.vault.transaction import HistoryMoved
from ormahd.vault.worktree import Displaced

log = logging.getLogger("ormah.sync")

JOB: Final = "job:sync"
"""The caller of syncs that run at an interval."""
ROUNDS: Final = 8
"""Maximum number of rounds: after a rejected push, another one fetches, joins and pushes."""
PAUSE: Final = (0.1, 5.0)
"""The pause between two rounds is random, up to a bound in seconds: (first bound, doubled each time; its maximum)."""
PATIENCE: Final = 10.0
"""Seconds that a join waits for a file that is being edited."""


def sync(ormah: Ormah, caller: Caller, progress: Progress) -> SyncResult:
    """Sync with the remote that the current branch follows, or with the one named `REMOTE`.

    Raises:
        Unavailable: the remote is unreachable. All changes are safe in the local vault.
        NotFound: there is no remote yet.
        Conflict: a person has to resolve something; nothing was changed.
        VaultBusy: another git operation or sync is running.
    """
    with one_at_a_time(ormah):
        return sync_with(ormah, find(ormah.vault.git, REMOTE), caller, progress)


def sync_by_itself(ormah: Ormah) -> None:
    """Run the automatic sync. Errors are logged: an unreachable remote as info, a missing one as debug."""
    try:
        done = sync(ormah, Caller(agent=JOB), lambda *_: None)
    except Unreachable as exc:
        log.info("%s", exc.message)
    except NotFound as exc:
        log.debug("%s", exc.message)
    except OrmahError as exc:
        log.warning("the vault was not synced: %s (%s)", exc.message, exc.hint)
    else:
        if done.pulled or done.pushed:
            log.info("synced with %s: %d commits came in, %d went out", done.remote, done.pulled, done.pushed)
        if done.replaced:
            log.warning("words of this machine were replaced in %d notes; see: ormahctl review", len(done.replaced))
        if done.conflicts:
            log.warning("%d conflicts were set aside; see: ormahctl review", len(done.conflicts))


@contextmanager
def one_at_a_time(ormah: Ormah) -> Iterator[None]:
    """Context manager: let one sync run at a time, and record its outcome for `status`.

    Raises:
        VaultBusy: another sync does not end in time.
    """
    state = ormah.syncing
    if not state.busy.acquire(timeout=ormah.settings.sync.timeout_seconds):
        raise VaultBusy("another sync is under way", hint="see: ormahctl status")
    try:
        if state.stopping.is_set():
            raise Unavailable("the daemon is stopping", hint="sync again when it is up")
        try:
            yield
        except Unreachable as exc:
            state.record_failure(ormah.clock(), exc.message, offline=exc.data.get("reason") != DENIED)
            raise
        except OrmahError as exc:
            if isinstance(exc, NotFound) and not ormah.settings.sync.interval_minutes and state.last is None:
                raise  # no remote is set up or expected: `doctor` need not report that
            state.record_failure(ormah.clock(), exc.message, offline=False)
            raise
        state.record_success(ormah.clock())
    finally:
        state.busy.release()


def network(ormah: Ormah) -> Network:
    """Return the network access of the vault's git, with the timeout of the settings. It ends early when the daemon
    stops."""
    return Network(ormah.vault.git, silence=ormah.settings.sync.timeout_seconds, closing=ormah.syncing.stopping)


def sync_with(ormah: Ormah, remote: Remote, caller: Caller, progress: Progress) -> SyncResult:
    """Sync with the given remote. Else as `sync`. The caller holds `one_at_a_time`."""
    vault, wire, branch = ormah.vault, network(ormah), remote.branch.removeprefix("refs/heads/")
    totals: dict[str, Any] = {"pulled": 0, "pushed": 0, "waiting": 0, "conflicts": [], "replaced": []}
    out = SyncResult(remote=remote.name, branch=branch, commit=None, **totals)

    def done() -> str:
        """Return a clause about the commits that came in before an error; empty if there were none."""
        many = "commit" if out.pulled == 1 else "commits"
        return f"{out.pulled} {many} had come in before that" if out.pulled else ""

    with saying(done, pulled=lambda: out.pulled):
        for number in range(ROUNDS):
            # Take in edits, then what the remote has
            progress(0, 0, "looking at the folder")
            ormah.reconciler.scan()
            check_our_history(vault, remote, wire)
            with vault.lineage:
                tip = wire.fetch(remote, progress)
            if tip is not None:
                progress(0, 0, "joining")
                before = vault.head()
                pulled, joined = _join_remote(ormah, remote, tip, caller)
                out.pulled += pulled
                out.conflicts += joined
                if pulled and before is not None:
                    out.replaced += map(item, set_aside_replaced(vault, before, tip))
            elif others := wire.heads(remote.address).branches:
                # None of them has the name of the vault's branch: the vault's branch and theirs would never be joined
                theirs = next(iter(others)).removeprefix("refs/heads/")
                raise Conflict(
                    f"{remote.name} has no branch {branch}, but {theirs}; nothing was changed",
                    hint=f"if that is this vault: ormahctl sync setup {redact_urls(remote.url)}",
                    data={"branches": sorted(others)},
                )
            head = vault.head()
            assert head is not None  # a vault always has a commit

            # Send what the remote lacks. It refuses if another machine was faster
            going = pushed = count_commits(vault, head, tip)
            if going:
                with vault.lineage:
                    pushed = going if wire.push(remote, head, progress) else 0
            if pushed == going:
                out.pushed += going
                out.commit, out.waiting = head, len(waiting(vault.root))
                note_synced(vault, remote, head if going else tip or head)
                return out

            # Another machine pushed meanwhile: begin again after a random pause
            pause = random.uniform(0, min(PAUSE[1], PAUSE[0] * 2**number))  # noqa: S311 - no secret hangs on it
            ormah.syncing.stopping.wait(pause)
        raise VaultBusy(
            f"the remote {remote.name} keeps moving: others push faster than we can join",
            hint="everything is safe here; sync again in a while",
        )


def _join_remote(ormah: Ormah, remote: Remote, tip: str, caller: Caller) -> tuple[int, list[ConflictItem]]:
    """Merge the commit `tip` of the remote's branch into the vault's branch. Return (number of commits that came in,
    conflicts whose other version was stored in `.ormah`)."""
    vault = ormah.vault

    def decide(head: str) -> Plan | None:
        """Return the plan for merging the remote's commit into `head`; None if `head` contains it.

        Raises:
            Conflict: the remote holds no vault, or another one.
        """
        if is_ancestor(vault.git, tip, head):
            return None
        check_remote_history(vault, remote, tip)
        base, card = merge_base(vault, head, tip), card_of(vault, tip)
        if card is None:
            what = f"{remote.name}/{remote.branch.removeprefix('refs/heads/')} holds no Ormah vault"
            hint = "set up another remote: ormahctl sync setup URL --replace"
            raise Conflict(f"{what}; nothing was taken in", hint=hint)
        if card.id != vault.id or base is None:
            raise Conflict(
                f"{remote.name} holds another vault than this one; nothing was taken in",
                hint=f"to join it: ormahctl sync setup {redact_urls(remote.url)}",
                data={"vault_id": card.id},
            )
        return plan(vault, base, head, tip)

    incoming = count_commits(vault, tip, vault.head())
    subject = f"Sync: {incoming} {'commit' if incoming == 1 else 'commits'} from {remote.name}"
    return incoming, join(ormah, decide, subject, caller)


def join(ormah: Ormah, decide: Callable[[str], Plan | None], subject: str, caller: Caller) -> list[ConflictItem]:
    """Plan the merge of another commit into HEAD, and carry it out. Return the conflicts. Do both again if HEAD moved
    meanwhile, or if a file that blocked the merge, because it was being edited, is committed now.

    `decide`: returns the plan for a HEAD commit; None if there is nothing to merge.
    """
    vault = ormah.vault
    end = time.monotonic() + PATIENCE
    while True:
        head = vault.head()
        assert head is not None
        found = decide(head)
        if found is None:
            return []
        try:
            with ormah.writing:
                done = commit_plan(vault, found, subject, source=caller.source, person=caller.source == PERSON)
        except HistoryMoved:
            if time.monotonic() > end:
                raise
            continue
        except Displaced as exc:
            if not _wait_committed(ormah, exc, end):
                raise _blocked_error(ormah, exc) from exc
            continue
        ormah.reconciler.scan()
        return [item(one) for one in waiting(vault.root) if done is not None and one.op == done.op]


def _wait_committed(ormah: Ormah, found: Displaced, end: float) -> bool:
    """Wait until the file that blocks the merge is committed as a person's edit. Return False if that does not happen
    before `end` (monotonic time)."""
    path = str(found.data["path"])
    vault = ormah.vault
    while True:
        seen = ormah.reconciler.scan()
        if vault.is_committed(path, vault.read(path)):
            return True
        if path not in seen.waiting or time.monotonic() > end:
            return False
        pause = 0.1 if seen.waiting_until is None else seen.waiting_until - time.monotonic()
        if ormah.syncing.stopping.wait(max(0.02, min(pause, 1.0))):
            return False


def _blocked_error(ormah: Ormah, found: Displaced) -> Conflict:
    """Return the error for a file that blocks the merge, with what a person can do."""
    path = str(found.data["path"])
    if ormah.vault.committed(path) is None:
        what = f"{path} is in the way: the remote has a file there, and yours is not in git; nothing was taken in"
        mend = "move it elsewhere (or remove it), and sync again"
    elif path[-3:].lower() == ".md":
        what = f"{path} was changed on another machine and has an edit here that is not committed; nothing was taken in"
        mend = "finish the edit (ormahctl doctor says why it is not taken in), and sync again"
    else:
        what = (
            f"{path} was changed on another machine and has changes here that are not committed; nothing was taken in"
        )
        mend = "commit them with git, or put the file back (git checkout), and sync again"
    return Conflict(what, hint=mend, data={"path": path, "reason": "in_the_way"})


MAX_URL: Final = 4_000


def setup(ormah: Ormah, params: SyncSetupParams, caller: Caller, progress: Progress) -> SyncSetupResult:
    """Make `url` the vault's remote and sync with it.

    `replace`: do so even if another remote is configured. `ask`: if `url` holds another vault, only return that it
    would be joined. Without `ask` it is joined.

    Raises:
        BadRequest: `url` is no address.
        Unavailable: the remote is unreachable.
        Conflict: another remote is configured, or `url` holds something other than an Ormah vault; nothing was changed.
    """
    # Check the address, and that no other remote would be replaced by mistake
    address = params.url.strip()
    if not address or len(address) > MAX_URL or "\n" in address or "\0" in address or address.startswith("-"):
        raise BadRequest("the remote's address is empty or odd", hint="give a path, ssh://, user@host:path or https://")
    with one_at_a_time(ormah):
        git = ormah.vault.git
        name = REMOTE
        known = remote_url(git, name)
        if known is not None and known != address and not params.replace:
            raise Conflict(
                f"the vault has another remote: {name} is {redact_urls(known)}; nothing was changed",
                hint="to sync with the new one instead: ormahctl sync setup URL --replace",
                data={"remote": name, "url": redact_urls(known)},
            )

        # Find out which branch to sync with
        branch = git.branch()
        if branch is None:
            raise Conflict("HEAD is detached: there is no branch to sync", hint="`git switch main` in the vault first")
        wire = network(ormah)
        progress(0, 0, "looking at the remote")
        try:
            heads = wire.heads(address)
            their_branch = branch if branch in heads.branches else heads.default
            remote = Remote(name, address, their_branch or branch, known=False)
            if their_branch is None:
                return _result("empty", remote, ormah.vault.id, synced=_first_sync(ormah, remote, caller, progress))
            return _sync_or_join(ormah, wire, remote, caller, progress, agreed=not params.ask)
        except Unreachable as exc:
            # no later sync will try a remote that is not configured yet
            if exc.data.get("reason") != DENIED and remote_url(git, name) != address:
                exc.hint = "the remote was not set up; look at the address, and repeat: ormahctl sync setup URL"
            raise


def _first_sync(ormah: Ormah, remote: Remote, caller: Caller, progress: Progress) -> SyncResult:
    """Sync with `remote`, and configure the remote once the sync succeeded."""
    done = sync_with(ormah, remote, caller, progress)
    set_upstream(ormah.vault.git, remote)
    return done


def _result(state: str, remote: Remote, vault_id: str, **more: Any) -> SyncSetupResult:
    """Return the answer of `sync setup`, with the password removed from the remote's address."""
    return SyncSetupResult(state=state, remote=remote.name, url=redact_urls(remote.url), vault_id=vault_id, **more)


def _sync_or_join(
    ormah: Ormah, wire: Network, remote: Remote, caller: Caller, progress: Progress, *, agreed: bool
) -> SyncSetupResult:
    """Sync with a remote that has commits. If it holds another vault, join that one if the person `agreed`, else return
    that it would be joined.

    Raises:
        Conflict: the remote holds no vault, or this vault with an unrelated history.
    """
    vault = ormah.vault
    check_our_history(vault, remote, wire)
    with restoring_ref(vault.git, remote) as keep:
        with vault.lineage:
            tip = wire.fetch(remote, progress)

        # The remote must hold a vault
        card = None if tip is None else card_of(vault, tip)
        if tip is None or card is None:
            raise Conflict(
                f"{redact_urls(remote.url)} holds something else than an Ormah vault (its "
                f"{remote.branch.removeprefix('refs/heads/')} lacks {CARD}); nothing was changed",
                hint="make an empty repository for the vault: git init --bare FOLDER",
            )
        head = vault.head()
        assert head is not None

        # It is this vault
        related = merge_base(vault, head, tip) is not None
        if card.id == vault.id:
            if not related:
                raise Conflict(
                    "the remote has this vault with another history: one of them was rewritten; nothing was changed",
                    hint="see what differs with git in the vault; `git push --force` hands out this one",
                )
            keep()
            return _result("ours", remote, vault.id, synced=_first_sync(ormah, remote, caller, progress))

        # It is another vault
        memories = sum(path.lower().endswith(".md") for path in vault.tree(tip))
        if not agreed:
            return _result("would_join", remote, card.id, former_id=vault.id, memories=memories)
        former = vault.id
        _join_other_vault(ormah, remote, tip, card, caller, progress)
        keep()
        set_upstream(vault.git, remote)  # the join is complete, even if the push fails now
        with saying(lambda: "the two vaults are one here, and what only this machine has was not handed out yet"):
            done = _first_sync(ormah, remote, caller, progress)
        done.pulled += count_commits(vault, tip, head)
        return _result("joined", remote, card.id, former_id=former, memories=memories, synced=done)


def _join_other_vault(ormah: Ormah, remote: Remote, tip: str, card: Card, caller: Caller, progress: Progress) -> None:
    """Join another vault: take over its id and self node, and keep the notes of both. `tip`: its last commit. `card`:
    its card."""
    vault = ormah.vault
    progress(0, 0, "joining")
    ormah.reconciler.scan()

    def decide(head: str) -> Plan | None:
        """Return the plan for joining the other vault; None if `head` contains its commit."""
        if is_ancestor(vault.git, tip, head):
            return None
        base = merge_base(vault, head, tip)  # not None if this vault was once part of the other one
        found = plan_setup(vault, head, tip, card) if base is None else plan(vault, base, head, tip)
        vault.remember_id()
        return found

    join(ormah, decide, f"Join the vault of {remote.name}", caller)
    with ormah.writing:
        # read the card again: another machine may have changed it
        vault.adopt_card(read_card(vault.read(CARD) or b"", vault.root))
    ormah.reconciler.scan()
