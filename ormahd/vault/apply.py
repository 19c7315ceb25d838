"""Making ops durable: the files into their places, the objects, the branch, the index, in this order.

Several ops go together when they wait together: each keeps its own commit, and they share the lock, the flushes, one
move of the branch and one new index.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from ormahd.errors import Conflict, OrmahError
from ormahd.git.index import IndexLock
from ormahd.git.locks import busy
from ormahd.git.objects import Objects
from ormahd.git.process import GitFailed
from ormahd.git.refs import Moved, find_commit, within
from ormahd.git.repository import Git
from ormahd.model.change import Committed
from ormahd.process.batcher import Place
from ormahd.process.disk import Flusher, sync_directory
from ormahd.vault.ahead import Ahead, Made
from ormahd.vault.build import Builder
from ormahd.vault.conversion import Conversion
from ormahd.vault.intents import Intent, Intents
from ormahd.vault.landing import Landing
from ormahd.vault.rebase import late_save
from ormahd.vault.tree_entries import check, settle
from ormahd.vault.worktree import Displaced, Worktree, Write

ATTEMPTS = 5
"""How often a commit is built again because HEAD moved meanwhile, before the op waits like any other."""
HELD = "another git command holds index.lock"

log = logging.getLogger(__name__)


class Queued(Struct, eq=False):
    """An op that is decided and not in the history yet.

    `promised`: its intent is durable. Ops that wait together are promised together, before anything is written of them, or
    their callers told anything.
    `acknowledged`: its caller was told that it is stored, so that it must be merged, never refused.
    `uncertain`: a crash stopped it somewhere; what is done of it must be looked at first.
    """

    intent: Intent
    promised: bool = False
    acknowledged: bool = False
    uncertain: bool = False
    done: threading.Event = field(default_factory=threading.Event)
    place: Place = field(default_factory=Place)
    result: Committed | None = None
    error: BaseException | None = None


Refused = Callable[["Queued", Conflict, bool], Intent | None]
"""Asked when a file is not as expected: (op, what is wrong, whether it is the last time) -> a new intent, or None."""


class _LookAgain(Exception):
    """The branch has moved, and it must be found out with which ops: they become uncertain."""


class _Placed(Struct):
    op: Queued
    writes: list[tuple[int, Write]]
    commit: str | None = None
    parent: str | None = None


class Applier:
    """The one that writes. Callers hold the writer's lock."""

    def __init__(
        self,
        git: Git,
        objects: Objects,
        conversion: Conversion,
        worktree: Worktree,
        intents: Intents,
        flusher: Flusher,
        *,
        vault_id: str,
        prefix: str,
        at: Callable[[str], None],
        still: Callable[[], None],
    ) -> None:
        """`still` raises Unavailable when the vault is not ours any more."""
        self.git = git
        self.objects = objects
        self.conversion = conversion
        self.worktree = worktree
        self.intents = intents
        self.lock = IndexLock(git, vault_id)
        self.flusher = flusher
        self._vault_id = vault_id
        self._prefix = prefix
        self.at = at
        self._still = still
        self._ahead = Ahead(git, objects, Builder(git, objects, conversion, self.where), flusher)

    def rename(self, vault_id: str) -> None:
        """The vault has another id from now on."""
        self.lock = IndexLock(self.git, vault_id)
        self._vault_id = vault_id

    def where(self, path: str) -> bytes:
        """A path of the vault as git's trees have it."""
        return (self._prefix + path).encode("utf-8", "surrogateescape")

    def begin(self, batch: Sequence[Queued]) -> None:
        """`apply` of these ops comes next: what of it needs no lock may begin."""
        self._ahead.begin([op.intent for op in batch])

    def apply(self, batch: Sequence[Queued], refused: Refused) -> str | None:
        """Bring ops into the history, in order; why it must wait, or None. Those that are through have a `result` (None
        when HEAD had it all). `refused` is asked when a file is not as expected: a new intent to try, or None to leave
        the op out. An exception means that nothing of the batch was done."""
        self._still()
        with self.worktree.held():
            return self._apply(batch, refused)

    def _apply(self, batch: Sequence[Queued], refused: Refused) -> str | None:
        if why := busy(self.git, self.lock):
            self.lock.release()  # one that a repair left us; nobody is to wait for it while we wait
            return why
        if not self.lock.take(batch[0].intent.op):
            return HELD
        placed: list[_Placed] = []
        landing: Landing | None = None
        keep = False
        try:
            why = busy(self.git, self.lock, held=True)
            if why is None:
                self.at("locked")
                landing = Landing(self.git, self._vault_id, self.flusher, self._ahead.built(), batch[-1].intent)
                self._place(batch, refused, placed)
                why = self._commit(placed, landing) if placed else None
            if why:
                self._take_back(placed)
        except _LookAgain as exc:
            # HEAD has ops that the index does not know: nobody may commit from it before that is completed.
            keep = True
            for one in placed:
                one.op.acknowledged = one.op.uncertain = True
            return str(exc)
        except BaseException:
            self._take_back(placed)
            raise
        finally:
            if not keep:
                self.lock.release()
            if landing is not None:  # after the lock: whatever goes wrong with ending it, nobody waits for that
                landing.close()
        if why:
            return why
        self.at("unlocked")
        for one in placed:
            self._finish(one)
        return None

    # Files

    def _place(self, batch: Sequence[Queued], refused: Refused, placed: list[_Placed]) -> None:
        waiting = [_Placed(op, self._writes(op.intent)) for op in batch]
        try:
            self.flusher.each(self.worktree.stage, [write for one in waiting for _, write in one.writes])
            self.at("staged")
        except BaseException:
            self._take_back(waiting)
            raise
        root = self.objects.root(self.git.head())
        for number, one in enumerate(waiting):
            try:
                if self._place_one(one, refused, root):
                    placed.append(one)
            except BaseException:
                self._take_back(waiting[number:])
                raise
        self.at("placed")

    def _place_one(self, one: _Placed, refused: Refused, root: str | None) -> bool:
        """`root`: HEAD's tree as the lock was taken."""
        for attempt in range(ATTEMPTS):
            try:
                self._check(one.op.intent, root)
                self._unchanged(one.op.intent)
                for _, write in one.writes:
                    self.worktree.place(write)
                    self.at("exchanged")
                return True
            except Conflict as conflict:
                self._take_back([one])
                intent = refused(one.op, conflict, attempt == ATTEMPTS - 1)
                if intent is None:
                    break
                one.op.intent = intent
                one.writes = self._writes(intent)
                self.flusher.each(self.worktree.stage, [write for _, write in one.writes])
        return False

    def _check(self, intent: Intent, root: str | None) -> None:
        """Raise Conflict where the repository has something else than a folder on the way to a file."""
        for step in intent.steps:
            if step.data is not None:
                self.objects.passable(root, self.where(step.path))
        if intent.entries:
            freed = {step.path for step in intent.steps if step.data is None}
            check(self.worktree, intent.entries, freed, self._target)

    def _unchanged(self, intent: Intent) -> None:
        """Raise Displaced where a file that the op only brings into the history is another one by now: a git that held index.lock before us
        (`git stash`, `git checkout`) may have put it back."""
        for step in intent.steps:
            if step.base == step.data and (found := self.worktree.read(step.path)) != step.data:
                raise Displaced(step.path, found)

    def settle(self, intent: Intent) -> None:
        """Bring the folder into step with what came in beside the files."""
        settle(self.worktree, intent.entries, self._target)

    def _target(self, oid: str) -> bytes | None:
        """Where a link leads; None for a submodule's commit, which is not in this repository."""
        return self.git.read(oid, "blob") if self.git.resolve(f"{oid}^{{blob}}") else None

    @staticmethod
    def _writes(intent: Intent) -> list[tuple[int, Write]]:
        return [
            (number, Write(step.path, step.old, step.data, intent.token(number), step.first is not None))
            for number, step in enumerate(intent.steps)
            if step.base != step.data
        ]

    def _take_back(self, placed: Sequence[_Placed]) -> None:
        for one in reversed(placed):
            for _, write in reversed(one.writes):
                try:
                    self.worktree.take_back(write)
                except OSError as exc:  # then it cannot be undone, and must be rolled forward from its intent
                    log.error("%s cannot be taken back: %s", write.path, exc.strerror)
                    one.op.acknowledged = one.op.uncertain = True

    def _finish(self, one: _Placed) -> None:
        intent = one.op.intent
        if one.commit is not None:
            stats = {number: write.stat for number, write in one.writes}
            changes = tuple(step.change(stats.get(number)) for number, step in enumerate(intent.steps))
            one.op.result = Committed(
                intent.op, one.commit, intent.kind, intent.source, intent.subject, intent.time, changes, one.parent
            )
        try:
            for number, write in one.writes:
                late = self.worktree.finish(write)
                if late is not None:
                    log.warning("%s", late_save(self.worktree, intent, number, late))
            self.intents.done(intent.op)
        except (OSError, OrmahError) as exc:  # the commit stands; its intent stays for the next start to look at
            why = exc.code if isinstance(exc, OrmahError) else exc.strerror
            log.error("%s is written, but not tidied up: %s", intent.name, why)
        self.at("cleared")

    # History

    def _commit(self, placed: Sequence[_Placed], landing: Landing) -> str | None:
        """Why it must wait, or None when HEAD has it. Until the branch has moved an exception undoes everything."""
        for attempt in range(ATTEMPTS):
            head = self.git.head()
            made = self._made(placed, head)
            index = landing.index(made.told)
            if not attempt:
                self._sync_folders(placed)
            tip = made.tip
            if tip is None:
                break  # HEAD has it already; the index is told nevertheless
            self._ahead.write(made)
            self.at("objects")
            index.ready()
            self.at("index-ready")
            outcome = self._move(head, tip, placed, landing)
            if outcome is Moved.HELD:
                return "another git command holds the branch's lock"
            if outcome is Moved.YES:
                break
            if any(find_commit(self.git, one.op.intent.op, since=head) for one in placed):
                raise _LookAgain("an earlier attempt has moved the branch")
            if why := busy(self.git, self.lock, held=True):
                return why
        else:
            return "the branch keeps moving under other commits"
        self.at("ref")
        self.objects.drop_replaced()
        try:
            for one in placed:
                self.settle(one.op.intent)
            landing.publish()
        except (OSError, GitFailed) as exc:
            raise _LookAgain(f"the index cannot be written: {exc}") from exc
        self.at("index")
        return None

    def _made(self, placed: Sequence[_Placed], head: str | None) -> Made:
        """The commits of all ops, each noted where it belongs."""
        made = self._ahead.take([one.op.intent for one in placed], head)
        for one, commit in zip(placed, made.commits, strict=True):
            one.commit, one.parent = commit, head
            head = commit or head
        return made

    def _sync_folders(self, placed: Sequence[_Placed]) -> None:
        folders: set[str] = set()
        for one in placed:
            for _, write in one.writes:
                folders |= self.worktree.folders(write)
        self.flusher.each(sync_directory, sorted(folders))

    def _move(self, head: str | None, tip: str, placed: Sequence[_Placed], landing: Landing) -> Moved:
        """Move the branch. Raises _LookAgain where something failed and it has moved, or git cannot say: then the files stay."""
        try:
            self.intents.moving([tip])
            self.at("moving")
            outcome = landing.move(head, tip, placed[-1].op.intent)
            self.intents.moved()
        except (OSError, OrmahError) as exc:
            try:
                moved = within(self.git, tip, self.git.head())
            except OrmahError:
                moved = True
            if moved:
                raise _LookAgain(f"the branch has moved, but {exc}") from exc
            raise
        return outcome
