"""Write ops durably while index.lock is held, in this order: intents, files, git objects, branch, git's index.

A batch of ops shares the lock, the file of intents, the fsyncs, one move of the branch and one new index. Each op keeps
a commit of its own.
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
"""How often commits are built again because HEAD moved meanwhile. After that the op waits in the queue."""
HELD = "another git program holds index.lock"

log = logging.getLogger(__name__)


class Queued(Struct, eq=False):
    """An op whose intent is decided, and which is not in the history yet.

    `promised`: its intent is durable. A batch's intents are made durable together, before any file is written.
    `acknowledged`: its caller was told that the change is stored; from then on it is merged if need be, never refused.
    `uncertain`: a crash or an error interrupted it; `recovery.repair` must find out how far it got before anything
    else. `tried` is set when the op is done, and also when a first try failed because of `why`.
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
"""Called with (op, conflict, whether this is the last attempt) when a file is not the version that the op expects.
Returns a new intent to try, or None to leave the op out."""


class _LookAgain(Exception):
    """Raised when the branch moved, or may have, before the batch was complete. Its ops become uncertain."""


class _Placed(Struct):
    op: Queued
    writes: list[tuple[int, Write]]
    commit: str | None = None
    parent: str | None = None


class _Next(Struct):
    """The commits to which HEAD will move, built in memory (None: HEAD contains the op already), and the git processes
    that wait to write the index and to move the branch."""

    intents: tuple[Intent, ...]
    head: str | None
    commits: list[str | None]
    tip: str | None
    fresh: Fresh
    index: NextIndex
    mover: HeadMover | None

    def drop(self) -> None:
        """End the git processes that were not used."""
        if self.mover is not None:
            self.mover.drop()
        self.index.drop()


class Applier:
    """Writes one batch of ops at a time. Callers hold the writer's lock."""

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
        """`at` is called with the name of each step (tests stop there). `still` raises Unavailable when another process
        has taken over the vault's lock."""
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
        """Mark index.lock with another vault id from now on."""
        self.lock = IndexLock(self.git, vault_id)
        self._vault_id = vault_id

    def where(self, path: str) -> bytes:
        """Return the path of a file of the vault as git's trees spell it: relative to the top of the repository, as
        bytes."""
        return (self._prefix + path).encode("utf-8", "surrogateescape")

    def promise(self, ops: Sequence[Queued]) -> None:
        """Make the intents of these ops durable, where they are not yet. Raises OSError; the ops that are not
        `promised` then have none."""
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
        """Commit ops in order. Return a reason why they must wait, or None when they are done.

        Each committed op has a `result`, except one whose changes HEAD had already. `refused` is called when a file is
        not the expected version. If an exception is raised, no op of the batch was done, though some may be promised.
        """
        self._still()
        if why := busy(self.git, self.lock):
            self.lock.release()  # left by `repair`: other programs must not wait for it while we wait
            return why
        self.promise(batch)  # before the lock: after a crash the intent tells that the lock is ours
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
                begun = self._begin([op.intent for op in batch], self.git.head())  # git starts while files are placed
                self._place(batch, refused, placed)
                why = self._commit(placed, begun) if placed else None
            if why:
                self._take_back(placed)
        except _LookAgain as exc:
            # HEAD has ops that git's index lacks: the lock is kept, so that nobody commits before that is repaired.
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
        """Put the files of one op in their places. Return False when the op was left out. `root`: HEAD's tree when the
        lock was taken."""
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
        """Raise Conflict when a parent folder of a file is a file, link or submodule in HEAD, or when another file is
        in the place of a link or submodule of the op."""
        for step in intent.steps:
            if step.data is not None:
                self.objects.passable(root, self.where(step.path))
        if intent.entries:
            freed = {step.path for step in intent.steps if step.data is None}
            check(self.worktree, intent.entries, freed, self._target)

    def _unchanged(self, intent: Intent) -> None:
        """Raise Displaced when a file has changed that the op commits without writing it: another git process that held
        index.lock before (`git stash`, `git checkout`) may have replaced it."""
        for step in intent.steps:
            if step.base == step.data and (found := self.worktree.read(step.path)) != step.data:
                raise Displaced(step.path, found)

    def settle(self, intent: Intent) -> None:
        """Update the links, submodules and executable bits in the folder to those that the op brought into the history."""
        settle(self.worktree, intent.entries, self._target)

    def _target(self, oid: str) -> bytes | None:
        """Return the target of a symbolic link by its blob id; None for a submodule's commit, which is not in this
        repository."""
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
                except OSError as exc:  # it cannot be undone, so recovery must complete it from its intent
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
        except (OSError, OrmahError) as exc:  # the commit stands; its intent remains, and the next start looks at it
            why = exc.code if isinstance(exc, OrmahError) else exc.strerror
            log.error("%s is written, but not tidied up: %s", intent.name, why)
        self.at("cleared")

    # History

    def _begin(self, intents: Sequence[Intent], head: str | None) -> _Next:
        """Build the commits of these ops on `head` in memory, and start the git processes that will write the index and
        move the branch."""
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
        """Make the commits and move the branch. Return why it must wait, or None when HEAD has the commits. Until the
        branch has moved, an exception lets the caller undo everything. `begun` is used if no op was left out or
        rewritten and HEAD did not move since."""
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
        """Make the objects and the directory entries of `folders` durable, and move the branch. Raises _LookAgain when
        a step failed after the branch moved, or when git cannot say whether it moved; the files then stay."""
        works: list[Callable[[], object]] = [partial(self.objects.write, made.fresh)]
        works += [partial(sync_directory, folder) for folder in folders]
        self.flusher.each(lambda work: work(), works)
        parent = made.head
        for one, commit in zip(placed, made.commits, strict=True):
            one.commit, one.parent = commit, parent
            parent = commit or parent
        if made.mover is None or made.tip is None:
            return Moved.YES  # HEAD has it already; git's index is updated nevertheless
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
        """Whether HEAD's history contains the commit; also True when git cannot say."""
        try:
            return within(self.git, commit, self.git.head())
        except OrmahError:
            return True

    def _publish(self, placed: Sequence[_Placed], made: _Next) -> None:
        """Replace git's index with the new one, after the branch has moved."""
        self.objects.drop_replaced()
        try:
            for one in placed:
                self.settle(one.op.intent)
            made.index.publish()
        except (OSError, GitFailed) as exc:
            raise _LookAgain(f"the index cannot be written: {exc}") from exc
        self.at("index")
