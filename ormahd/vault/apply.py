"""Making ops durable: promise, files, objects, branch, index, in this order, with index.lock held.

Several ops go together when they wait together: each keeps its own commit, and they share the lock, the promise, the
flushes, one move of the branch and one new index.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct, field

from ormahd.errors import Conflict, OrmahError
from ormahd.git.index import IndexLock, NextIndex
from ormahd.git.locks import busy
from ormahd.git.objects import Objects
from ormahd.git.process import GitFailed
from ormahd.git.refs import HeadMover, Moved, find_commit, within
from ormahd.git.repository import Git
from ormahd.model.change import Committed
from ormahd.process.disk import Flusher, sync_directory
from ormahd.vault.build import DAEMON, Builder, Fresh
from ormahd.vault.conversion import Conversion
from ormahd.vault.intents import Intent, Intents
from ormahd.vault.rebase import late_save
from ormahd.vault.tree_entries import check, settle
from ormahd.vault.worktree import Displaced, Worktree, Write

ATTEMPTS = 5
"""How often a commit is built again because HEAD moved meanwhile, before the op waits like any other."""
HELD = "another git program holds index.lock"

log = logging.getLogger(__name__)


class Queued(Struct, eq=False):
    """An op that is decided and not in the history yet.

    `promised`: its intent is durable. Ops that go together are promised together, before a file of them is touched.
    `acknowledged`: its caller was told that it is stored, so that it must be merged, never refused.
    `uncertain`: a crash stopped it somewhere; what is done of it must be looked at first.
    `tried` is set when it is done, or for the first time could not be done for `why`.
    """

    intent: Intent
    promised: bool = False
    acknowledged: bool = False
    uncertain: bool = False
    tried: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    why: str | None = None
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


class _Next(Struct):
    """What HEAD is to become: commits that are built (None: HEAD has all of that op), and the gits that wait to be told to
    write the index and to move the branch."""

    intents: tuple[Intent, ...]
    head: str | None
    commits: list[str | None]
    tip: str | None
    fresh: Fresh
    index: NextIndex
    mover: HeadMover | None

    def drop(self) -> None:
        """End what was not used."""
        if self.mover is not None:
            self.mover.drop()
        self.index.drop()


class Applier:
    """Writes one batch of ops. Callers hold the writer's lock."""

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
        self._promising = threading.Lock()
        self._builder = Builder(git, objects, conversion, self.where)

    def rename(self, vault_id: str) -> None:
        """Mark the lock with another vault id from now on."""
        self.lock = IndexLock(self.git, vault_id)
        self._vault_id = vault_id

    def where(self, path: str) -> bytes:
        """Return a path of the vault as git's trees have it."""
        return (self._prefix + path).encode("utf-8", "surrogateescape")

    def promise(self, ops: Sequence[Queued]) -> None:
        """Make the intents durable that are not yet. Raises OSError: those that are not `promised` then have none."""
        with self._promising:
            new = [op for op in ops if not op.promised]
            if not new:
                return
            self.at("promising")
            self.intents.write_all([op.intent for op in new])
            for op in new:
                op.promised = True
            self.at("promised")

    def apply(self, batch: Sequence[Queued], refused: Refused) -> str | None:
        """Bring ops into the history, in order; why it must wait, or None. Those that are through have a `result` (None
        when HEAD had it all). `refused` is asked when a file is not as expected: a new intent to try, or None to leave
        the op out. An exception means that nothing of the batch was done, except that it may be promised."""
        self._still()
        if why := busy(self.git, self.lock):
            self.lock.release()  # one that a repair left us; nobody is to wait for it while we wait
            return why
        self.promise(
            batch
        )  # before the lock: by the intent a lock is known as ours, also where the vault is still being made
        if not self.lock.take(batch[0].intent.op):
            return HELD
        with self.worktree.held():
            return self._locked(batch, refused)

    def _locked(self, batch: Sequence[Queued], refused: Refused) -> str | None:
        placed: list[_Placed] = []
        begun: _Next | None = None
        keep = False
        try:
            why = busy(self.git, self.lock, held=True)
            if why is None:
                self.at("locked")
                begun = self._begin([op.intent for op in batch], self.git.head())  # gits start while we place the files
                self._place(batch, refused, placed)
                why = self._commit(placed, begun) if placed else None
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
            if begun is not None:
                begun.drop()
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
        """Bring the files of one op into their places; whether it was not left out. `root`: HEAD's tree as the lock was taken."""
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
        """Return where a link leads; None for a submodule's commit, which is not in this repository."""
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

    def _begin(self, intents: Sequence[Intent], head: str | None) -> _Next:
        """Build the commits of these ops on `head` in memory, and start the gits that write the index and move the branch."""
        fresh: Fresh = {}
        commits, told = self._builder.build(intents, head, fresh)
        tip = next((commit for commit in reversed(commits) if commit is not None), None)
        index = NextIndex(self.git, self._vault_id, told)
        try:
            mover = None if tip is None else self._mover(intents[-1])
        except BaseException:
            index.drop()
            raise
        return _Next(tuple(intents), head, commits, tip, fresh, index, mover)

    def _mover(self, last: Intent) -> HeadMover:
        return HeadMover(
            self.git,
            who=self.git.identity() or DAEMON,
            seconds=int(last.time.timestamp()),
            reason=f"ormah ({last.kind}): {last.message.splitlines()[0]}",
        )

    def _commit(self, placed: Sequence[_Placed], begun: _Next) -> str | None:
        """Why it must wait, or None when HEAD has it. Until the branch has moved an exception undoes everything. `begun` is
        used where no op was left out or rewritten, and HEAD has not moved since."""
        intents = tuple(one.op.intent for one in placed)
        folders = {folder for one in placed for _, write in one.writes for folder in self.worktree.folders(write)}
        for attempt in range(ATTEMPTS):
            head = self.git.head()
            fits = not attempt and begun.intents == intents and begun.head == head
            made = begun if fits else self._begin(intents, head)
            try:
                outcome = self._move(placed, made, sorted(folders))
                folders = set()
                if outcome is Moved.YES:
                    self._publish(placed, made)
                    return None
            finally:
                made.drop()
            if outcome is Moved.HELD:
                return "another git program holds the branch's lock"
            if any(find_commit(self.git, one.op.intent.op, since=head) for one in placed):
                raise _LookAgain("an earlier attempt has moved the branch")
            if why := busy(self.git, self.lock, held=True):
                return why
        return "the branch keeps moving under other commits"

    def _move(self, placed: Sequence[_Placed], made: _Next, folders: Sequence[str]) -> Moved:
        """Make the objects and the names in `folders` durable and move the branch. Raises _LookAgain where something failed and
        it has moved, or git cannot say: then the files stay."""
        works: list[Callable[[], object]] = [partial(self.objects.write, made.fresh)]
        works += [partial(sync_directory, folder) for folder in folders]
        self.flusher.each(lambda work: work(), works)
        parent = made.head
        for one, commit in zip(placed, made.commits, strict=True):
            one.commit, one.parent = commit, parent
            parent = commit or parent
        if made.mover is None or made.tip is None:
            return Moved.YES  # HEAD has it already; the index is told nevertheless
        self.at("objects")
        made.index.ready()
        self.at("index-ready")
        try:
            self.intents.moving([made.tip])
            self.at("moving")
            outcome = made.mover.move(made.head, made.tip)
            self.intents.moved()
        except (OSError, OrmahError) as exc:
            if self._may_have(made.tip):
                raise _LookAgain(f"the branch has moved, but {exc}") from exc
            raise
        if outcome is Moved.YES:
            self.at("ref")
        return outcome

    def _may_have(self, commit: str) -> bool:
        """Whether HEAD's history has the commit, or git cannot say."""
        try:
            return within(self.git, commit, self.git.head())
        except OrmahError:
            return True

    def _publish(self, placed: Sequence[_Placed], made: _Next) -> None:
        """Put the new index in the old one's place: the branch has moved."""
        self.objects.drop_replaced()
        try:
            for one in placed:
                self.settle(one.op.intent)
            made.index.publish()
        except (OSError, GitFailed) as exc:
            raise _LookAgain(f"the index cannot be written: {exc}") from exc
        self.at("index")
