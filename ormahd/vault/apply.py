"""Write a batch of ops durably, in this order: intents, files, git objects, branch, git's index.

`index.lock` is held meanwhile. A batch shares the lock, the file of intents, the fsyncs, one move of the branch and one
new index. Each op keeps a commit of its own, built on top of the one before.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct, field

from ormahd.errors import Conflict, OrmahError, Unavailable
from ormahd.git.index import IndexLock, NextIndex, busy
from ormahd.git.objects import FILE, Objects, TreeEntry
from ormahd.git.process import GitFailed
from ormahd.git.refs import HeadMover, Moved, find_commit, is_ancestor, within
from ormahd.git.repository import Git, Signature
from ormahd.model.change import Committed
from ormahd.process.disk import Flusher, sync_directory
from ormahd.vault.conflicts import late_save
from ormahd.vault.intents import IntentFile, Intents, WriteIntent
from ormahd.vault.worktree import Displaced, Worktree, Write

DAEMON = Signature("ormahd", "ormahd@localhost")

Fresh = dict[str, tuple[str, bytes]]
"""Git objects that are not written yet: `{id: (kind, bytes)}`."""
Changes = dict[bytes, TreeEntry | None]
"""`{path: entry}`: the entries that a tree, or git's index, must get. None: the path is removed from it."""


class Builder:
    """Builds the git objects of ops (blobs, trees, commits) in RAM. Writes nothing to disk."""

    def __init__(self, git: Git, objects: Objects) -> None:
        self._git = git
        self._objects = objects

    def build(self, intents: Sequence[WriteIntent], head: str | None, fresh: Fresh) -> tuple[list[str | None], Changes]:
        """Build the commits of these ops on top of the commit `head`. Return (for each op the id of its commit, the
        entries that git's index must get). The id is None when `head` contains the op's changes. New objects are
        added to `fresh`."""
        root = self._objects.root(head)
        parent = head
        person = self._git.identity()
        commits: list[str | None] = []
        all_changes: Changes = {}
        for intent in intents:
            changes = self._changes(intent, root, fresh)
            all_changes |= changes
            tree = self._objects.edit(root, changes, fresh)
            commit = self._commit(intent, tree, root, parent, head, person, fresh)
            commits.append(commit)
            if commit is not None:
                root, parent = tree, commit
        return commits, all_changes

    def _changes(self, intent: WriteIntent, root: str | None, fresh: Fresh) -> Changes:
        changes: Changes = {}
        for step in intent.steps:
            path = os.fsencode(step.path)
            old = self._objects.file(root, path, fresh)
            changes[path] = (
                None
                if step.data is None
                else TreeEntry(FILE if old is None else old.mode, self._objects.add_blob(step.data, fresh))
            )
        return changes

    def _commit(
        self, intent: WriteIntent, tree: str, root: str | None, parent: str | None, head: str | None, person: Signature | None,
        fresh: Fresh,
    ) -> str | None:  # fmt: skip
        """Return the id of the op's commit, or None when HEAD contains all its changes. `tree`: the tree to commit;
        `root`: the tree of its parent.

        If the op joins another history, the commit `intent.joins` becomes the second parent, even when no file
        changes. When the result would be a fast-forward, `intent.joins` itself is returned: otherwise two machines
        would for ever answer each other's merge commits with new ones.
        """
        parents = [] if parent is None else [parent]
        other = intent.joins
        if other is None or (head is not None and is_ancestor(self._git, other, head)):
            if tree == root:
                return None
        elif (
            parent == head
            and tree == self._objects.root(other)
            and (head is None or is_ancestor(self._git, head, other))
        ):
            return other
        else:
            parents.append(other)
        seconds = int(intent.time.timestamp())
        committer = person or DAEMON
        author = (
            person or Signature("person", DAEMON.email)
            if intent.person
            else Signature.named(intent.source, DAEMON.email)
        )
        return self._objects.add_commit(
            tree, parents, author.line(seconds), committer.line(seconds), intent.message, fresh
        )


ATTEMPTS = 5
"""How often commits are built again because HEAD moved meanwhile. After that the op waits in the queue."""
HELD = "another git program holds index.lock"

log = logging.getLogger(__name__)


class Queued(Struct, eq=False):
    """One op in the writer's queue.

    `done`: event that is set when the op is over; it then has a `result`, an `error`, or (nothing to commit) neither.
    `tried`: event that is set with `done`, and also when a first try failed because of `why`.
    """

    intent: WriteIntent
    tried: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    why: str | None = None
    result: Committed | None = None
    error: BaseException | None = None


class _Interrupted(Exception):
    """Raised when the branch moved, or may have moved, but the batch could not be completed."""


class _Placed(Struct):
    op: Queued
    writes: list[tuple[int, Write]]
    commit: str | None = None
    parent: str | None = None


class _Next(Struct):
    """The commits of a batch, built in RAM, and the git processes that were started to write git's index and to move
    the branch. `commits`: one id for each op (None: HEAD contains its changes). `tip`: the commit to which HEAD will
    move (None: HEAD need not move)."""

    intents: tuple[WriteIntent, ...]
    head: str | None
    commits: list[str | None]
    tip: str | None
    fresh: Fresh
    index: NextIndex
    mover: HeadMover | None

    def drop(self) -> None:
        """End those of the git processes that are still running, because they were not used."""
        if self.mover is not None:
            self.mover.drop()
        self.index.drop()


class Applier:
    """Writes one batch of ops at a time: the files in the folder, the commits, the branch and git's index. Callers
    must hold the writer's `_writing_lock`."""

    def __init__(
        self,
        git: Git,
        objects: Objects,
        worktree: Worktree,
        intents: Intents,
        flusher: Flusher,
        *,
        at: Callable[[str], None],
        still: Callable[[], None],
    ) -> None:
        """`at` is called with the name of each step (tests interrupt a write there). `still` raises Unavailable when
        another process has taken over the vault's lock."""
        self.git = git
        self.objects = objects
        self.worktree = worktree
        self.intents = intents
        self.lock = IndexLock(git)
        self.flusher = flusher
        self.at = at
        self.interrupted: list[IntentFile] = []
        """Batches that a crash or an error interrupted; `recovery.finish` must run before the next batch."""
        self._still = still
        self._stuck = False
        """Whether a file of the present batch could not be put back."""
        self._builder = Builder(git, objects)

    def apply(self, ops: Sequence[Queued]) -> str | None:
        """Commit the ops in order. Return None when all are over, or else the reason why they must wait.

        Each committed op gets a `result`, except one whose changes HEAD had already. An op gets an `error` if a file is
        not the version that it expects. If an exception is raised, no op was done.
        """
        self._still()
        if why := busy(self.git, self.lock):
            return why
        self.at("promising")
        batch = self.intents.write([op.intent for op in ops])  # after a crash the intent tells that the lock is ours
        self.at("promised")
        keep = self._stuck = False
        try:
            if not self.lock.take(batch.ops[0].op):
                return HELD
            with self.worktree.held():
                why, keep = self._locked(ops)
        finally:
            if keep or self._stuck:
                self.interrupted.append(batch)
            else:
                self.intents.done(batch)
                self.at("cleared")
        return why

    def _locked(self, ops: Sequence[Queued]) -> tuple[str | None, bool]:
        """Commit the ops while index.lock is held, and release it. Return (the reason why they must wait or None,
        whether they were interrupted, so that the lock and the intents stay)."""
        placed: list[_Placed] = []
        begun: _Next | None = None
        keep = False
        why = None
        try:
            why = busy(self.git, self.lock, held=True)
            if why is None:
                self.at("locked")
                begun = self._begin([op.intent for op in ops], self.git.head())  # git starts while files are placed
                self._place(ops, placed)
                why = self._commit(placed, begun) if placed else None
            if why:
                self._take_back(placed)
        except _Interrupted as exc:
            # HEAD may have ops that git's index lacks: keep the lock, so that no program commits before that is mended.
            keep = True
            log.warning("a write was interrupted: %s", exc)
            for one in placed:
                self._tell_interrupted(one, exc)
        except BaseException:
            self._take_back(placed)
            raise
        finally:
            if not keep:
                self.lock.release()
            if begun is not None:
                begun.drop()
        if why is None and not keep:
            self.at("unlocked")
            for one in placed:
                self._finish(one)
        return why, keep

    # Files

    def _place(self, ops: Sequence[Queued], placed: list[_Placed]) -> None:
        """Write the files of the ops to the folder. An op with a file that is not the expected version gets an error,
        and is left out; the others are added to `placed`."""
        waiting = [_Placed(op, self._writes(op.intent)) for op in ops]
        try:
            self.flusher.each(self.worktree.stage, [write for one in waiting for _, write in one.writes])
            self.at("staged")
        except BaseException:
            self._take_back(waiting)
            raise
        root = self.objects.root(self.git.head())
        for number, one in enumerate(waiting):
            try:
                self._check(one.op.intent, root)
                for _, write in one.writes:
                    self.worktree.place(write)
                    self.at("exchanged")
                placed.append(one)
            except Conflict as conflict:
                self._take_back([one])
                one.op.error = conflict
            except BaseException:
                self._take_back(waiting[number:])
                raise
        self.at("placed")

    def _check(self, intent: WriteIntent, root: str | None) -> None:
        """Raise Conflict when HEAD has a file, symlink or submodule in the place of a folder that the op needs, or when a file that
        the op commits without writing it was changed since the op was decided: a git process that held index.lock
        before us (`git stash`, `git checkout`) may have replaced it."""
        for step in intent.steps:
            if step.data is not None:
                self.objects.passable(root, os.fsencode(step.path))
            if step.base == step.data and (found := self.worktree.read(step.path)) != step.data:
                raise Displaced(step.path, found)

    @staticmethod
    def _writes(intent: WriteIntent) -> list[tuple[int, Write]]:
        return [
            (number, Write(step.path, step.old, step.data, intent.token(number)))
            for number, step in enumerate(intent.steps)
            if step.base != step.data
        ]

    def _take_back(self, placed: Sequence[_Placed]) -> None:
        for one in reversed(placed):
            for _, write in reversed(one.writes):
                try:
                    self.worktree.take_back(write)
                except OSError as exc:
                    log.error("%s cannot be taken back: %s", write.path, exc.strerror)
                    self._stuck = True

    def _result(self, one: _Placed) -> None:
        if one.commit is not None:
            intent = one.op.intent
            stats = {number: write.stat for number, write in one.writes}
            changes = tuple(step.change(stats.get(number)) for number, step in enumerate(intent.steps))
            one.op.result = Committed(
                intent.op, one.commit, intent.kind, intent.source, intent.subject, intent.time, changes, one.parent
            )

    def _tell_interrupted(self, one: _Placed, exc: _Interrupted) -> None:
        """Give the op its result if HEAD has its commit, else an error."""
        try:
            if one.commit is not None and within(self.git, one.commit, self.git.head()):
                self._result(one)
                return
        except OrmahError:
            pass  # git does not say what HEAD is
        one.op.error = Unavailable(
            f"it is not known whether the change was written: {exc}",
            hint="look at `ormahctl history` and `ormahctl doctor` before you repeat it",
        )

    def _finish(self, one: _Placed) -> None:
        self._result(one)
        intent = one.op.intent
        try:
            for number, write in one.writes:
                late = self.worktree.finish(write)
                if late is not None:
                    log.warning("%s", late_save(self.worktree, intent, number, late))
        except (OSError, OrmahError) as exc:  # the commit is made; the next start sets what was staged aside
            why = exc.code if isinstance(exc, OrmahError) else exc.strerror
            log.error("%s is written, but not tidied up: %s", intent.name, why)

    # History

    def _begin(self, intents: Sequence[WriteIntent], head: str | None) -> _Next:
        """Build the commits of these ops on the commit `head` in RAM, and start the git processes that will write the
        index and move the branch."""
        fresh: Fresh = {}
        commits, changes = self._builder.build(intents, head, fresh)
        tip = next((commit for commit in reversed(commits) if commit is not None), None)
        index = NextIndex(self.git, changes)
        last = intents[-1]
        try:
            mover = None if tip is None else HeadMover(
                self.git, who=self.git.identity() or DAEMON, seconds=int(last.time.timestamp()),
                reason=f"ormah ({last.kind}): {last.message.splitlines()[0]}",
            )  # fmt: skip
        except BaseException:
            index.drop()
            raise
        return _Next(tuple(intents), head, commits, tip, fresh, index, mover)

    def _commit(self, placed: Sequence[_Placed], begun: _Next) -> str | None:
        """Commit the ops in `placed`, whose files are written already, and move the branch. Return None when HEAD has
        the commits, or else the reason why the batch must wait.

        If an exception is raised before the branch has moved, the caller can undo the changes of files. `begun`:
        commits that were built in advance; they are used if no op was left out and HEAD did not move since.
        """
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
                    self._publish(made)
                    return None
            finally:
                made.drop()
            if outcome is Moved.HELD:
                return "another git program holds the branch's lock"
            if any(find_commit(self.git, one.op.intent.op, since=head) for one in placed):
                raise _Interrupted("an earlier attempt has moved the branch")
            if why := busy(self.git, self.lock, held=True):
                return why
        return "the branch keeps moving under other commits"

    def _move(self, placed: Sequence[_Placed], made: _Next, folders: Sequence[str]) -> Moved:
        """Make the objects and the directory entries of `folders` durable, and move the branch to the last commit.
        Raises _Interrupted when a step failed after the branch moved, or when git cannot say whether it moved; the
        files of the ops are then left as written."""
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
            self.at("moving")
            outcome = made.mover.move(made.head, made.tip)
        except (OSError, OrmahError) as exc:
            if self._may_have(made.tip):
                raise _Interrupted(str(exc)) from exc
            raise
        if outcome is Moved.YES:
            self.at("ref")
        return outcome

    def _may_have(self, commit: str) -> bool:
        """Whether HEAD's history contains the commit. Also True when git cannot say."""
        try:
            return within(self.git, commit, self.git.head())
        except OrmahError:
            return True

    def _publish(self, made: _Next) -> None:
        """Replace git's index with the one that has the new commits' files, after the branch has moved."""
        self.objects.drop_replaced()
        try:
            made.index.publish()
        except (OSError, GitFailed) as exc:
            raise _Interrupted(f"git's index cannot be written: {exc}") from exc
        self.at("index")
