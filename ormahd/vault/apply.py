"""Write a batch of ops durably, in this order: git objects, branch, files, git's index.

`index.lock` is held meanwhile. Once the branch has moved, each op is durable: after a crash `recovery` brings the files
and git's index in line with the commits, from which commit to which the lock says. A batch shares the lock, the fsyncs,
one move of the branch and one new index. Each op keeps a commit of its own, built on top of the one before.
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
from ormahd.git.refs import HeadMover, Moved, is_ancestor, within
from ormahd.git.repository import Git, Signature
from ormahd.model.change import Committed
from ormahd.process.disk import Flusher, sync_directory
from ormahd.vault.conflicts import merge_late_save
from ormahd.vault.lock import VaultLock
from ormahd.vault.op import PlannedOp
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

    def build(self, ops: Sequence[PlannedOp], head: str | None, fresh: Fresh) -> tuple[list[str | None], Changes]:
        """Build the commits of these ops on top of the commit `head`. Return (the id of each op's commit, the entries
        that git's index must get). An id is None when `head` contains the op's changes. New objects are added to
        `fresh`."""
        root = self._objects.root_tree(head)
        parent = head
        commits: list[str | None] = []
        all_changes: Changes = {}
        for op in ops:
            changes = self._changes(op, root, fresh)
            all_changes |= changes
            tree = self._objects.edit(root, changes, fresh)
            commit = self._commit(op, tree, root, parent, head, fresh)
            commits.append(commit)
            if commit is not None:
                root, parent = tree, commit
        return commits, all_changes

    def _changes(self, op: PlannedOp, root: str | None, fresh: Fresh) -> Changes:
        """Return the changes of a tree that the op makes, and add their blobs to `fresh`. `root`: the tree before the
        op; a file that it has keeps its mode."""
        changes: Changes = {}
        for change in op.changes:
            path = os.fsencode(change.path)
            old = self._objects.file_entry(root, path, fresh)
            changes[path] = (
                None
                if change.data is None
                else TreeEntry(FILE if old is None else old.mode, self._objects.add_blob(change.data, fresh))
            )
        return changes

    def _commit(
        self, op: PlannedOp, tree: str, root: str | None, parent: str | None, head: str | None, fresh: Fresh
    ) -> str | None:
        """Return the id of the op's commit; None when the commit before it contains all its changes. A new commit is
        added to `fresh`. `tree`: the tree to commit; `parent`, `root`: the commit before it and that one's tree;
        `head`: HEAD's commit.

        If the op joins another history, the commit `op.joins` becomes the second parent, even when no file changes.
        When the result would be a fast-forward, `op.joins` itself is returned: otherwise two machines would for ever
        answer each other's merge commits with new ones.
        """
        parents = [] if parent is None else [parent]
        other = op.joins
        if other is None or (head is not None and is_ancestor(self._git, other, head)):
            if tree == root:
                return None
        elif (
            parent == head
            and tree == self._objects.root_tree(other)
            and (head is None or is_ancestor(self._git, head, other))
        ):
            return other
        else:
            parents.append(other)
        seconds = int(op.time.timestamp())
        person = self._git.identity()
        committer = person or DAEMON
        author = person or Signature("person", DAEMON.email) if op.person else Signature.named(op.source, DAEMON.email)
        return self._objects.add_commit(tree, parents, author.line(seconds), committer.line(seconds), op.message, fresh)


ATTEMPTS = 5
"""How often commits are built again because HEAD moved meanwhile. After that the op waits in the queue."""
HELD = "another git program holds index.lock"

log = logging.getLogger(__name__)


class Queued(Struct, eq=False):
    """One op in the writer's queue. `done`: set when the op is over; the op then has a `result` or an `error`, or
    neither if there was nothing to commit. `tried`: set with `done`, and also when a first try failed because of
    `why`."""

    plan: PlannedOp
    tried: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    why: str | None = None
    result: Committed | None = None
    error: BaseException | None = None


class _Ready(Struct):
    """An op whose files are the versions that it expects. `writes`: the changes of its files in the folder. `commit`,
    `parent`: its commit, and the commit before it."""

    op: Queued
    writes: list[Write]
    commit: str | None = None
    parent: str | None = None


class _Next(Struct):
    """The commits of a batch, built in RAM, and the git processes that were started to write git's index and to move
    the branch. `commits`: one id for each op (None: HEAD contains its changes). `tip`: the commit to which HEAD will
    move (None: HEAD need not move)."""

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
    """Writes one batch of ops at a time: the commits, the branch, the files in the folder and git's index. Callers
    must hold the writer's `_writing_lock`, and have called `recovery.finish_write`."""

    def __init__(
        self,
        git: Git,
        objects: Objects,
        worktree: Worktree,
        flusher: Flusher,
        *,
        at: Callable[[str], None],
        vault_lock: VaultLock,
    ) -> None:
        """`at` is called with the name of each step (tests interrupt a write there). `vault_lock`: checked before each
        batch, because another process may have taken over the vault."""
        self.git = git
        self.objects = objects
        self.worktree = worktree
        self.lock = IndexLock(git)
        self.flusher = flusher
        self.at = at
        self._vault_lock = vault_lock
        self.unfinished = False
        """Whether the branch has moved, or may have, and files and git's index do not follow it yet: then the lock stays,
        so that no program commits before `recovery.finish_write` has ended it."""
        self._refused = set[str]()
        """Paths of files that could not be replaced after their commit, such as immutable ones."""
        self._builder = Builder(git, objects)

    def apply(self, ops: Sequence[Queued]) -> str | None:
        """Commit the ops in order. Return None when all ops are over, otherwise the reason why they must wait.

        Each committed op gets a `result`. An op whose changes HEAD contains already gets none. An op gets an `error` if
        a file is not the version that it expects. If an exception is raised, either nothing was committed, or Ormah
        cannot know whether it was.
        """
        self._vault_lock.keep()
        if why := busy(self.git, self.lock):
            return why
        if not self.lock.take(ops[0].plan.op):
            return HELD
        self.unfinished = False
        try:
            with self.worktree.held():
                return self._apply_locked(ops)
        finally:
            if not self.unfinished:
                self.lock.release()
                self.at("unlocked")

    def _apply_locked(self, ops: Sequence[Queued]) -> str | None:
        """Do what `apply` does, while `index.lock` is held and the folder of staged files is open."""
        if why := busy(self.git, self.lock, held=True):
            return why
        self.at("locked")
        root = self.objects.root_tree(self.git.head())
        ready: list[_Ready] = []
        try:
            for op in ops:
                self._check_op(op, root, ready)
            why = self._commit(ready) if ready else None
        finally:
            if not self.unfinished:
                for write in [write for one in ready for write in one.writes if not write.placed]:
                    self.worktree.drop(write)
        return why

    # Files

    def _check_op(self, op: Queued, root: str | None, ready: list[_Ready]) -> None:
        """Add the op to `ready` if all its files are the versions that it expects; else give it an error.

        A git process that held index.lock before (`git stash`, `git checkout`) may have replaced the files. `root`: the
        tree of HEAD, which may have a link or a submodule where the op expects a folder.
        """
        writes = [Write(one.path, one.old, one.data) for one in op.plan.changes if one.base != one.data]
        ready.append(_Ready(op, writes))
        op.error = None
        try:
            for change in op.plan.changes:
                if change.data is not None:
                    self.objects.check_passable(root, os.fsencode(change.path))
                if change.base == change.data and (found := self.worktree.read(change.path)) != change.data:
                    raise Displaced(change.path, found)
            for write in writes:
                self.worktree.check(write, probe=write.path in self._refused)
        except Conflict as conflict:
            op.error = conflict
            ready.pop()
            for write in writes:
                self.worktree.drop(write)

    def _place_files(self, one: _Ready) -> None:
        """Put the new versions of a committed op's files into the folder. A version that a person saved meanwhile is
        merged. A file that cannot be written gives the op an error."""
        for write in one.writes:
            try:
                self.worktree.place(write)
                self.at("exchanged")
            except Displaced as displaced:
                if displaced.found is not None:
                    self._merge_late_save(one, write, displaced.found)
                elif write.data is not None and self.worktree.is_absent(write.path) == (write.old is None):
                    raise Unavailable(f"the staged version of {write.path} is gone") from displaced
                elif write.data is not None:
                    self.worktree.write_where_moved(write)
            except Conflict as conflict:  # a person has put a link or a folder there
                log.warning("%s is committed, and not written: %s", write.path, conflict.message)
            except OSError as exc:  # the next scan takes what is there for a person's, and commits it
                self._refused.add(write.path)
                log.error("%s is committed, but cannot be written: %s", write.path, exc.strerror)
                one.op.error = Unavailable(
                    f"the change is committed, but {write.path} cannot be written: {exc.strerror}",
                    hint="make the file writable; `ormahctl history` has the change, `ormahctl undo` brings it back",
                )

    def _merge_late_save(self, one: _Ready, write: Write, late: bytes) -> None:
        """Merge `late`, which a person saved into the file of `write` meanwhile, into the op's version of it, and log
        that."""
        change = next(change for change in one.op.plan.changes if change.path == write.path)
        log.warning("%s", merge_late_save(self.worktree, change, late, one.op.plan.op))

    # History

    def _prepare(self, ops: Sequence[PlannedOp], head: str | None) -> _Next:
        """Build the commits of these ops on the commit `head` in RAM, and start two git processes: one prepares the new
        index, the other will move the branch."""
        fresh: Fresh = {}
        commits, changes = self._builder.build(ops, head, fresh)
        tip = next((commit for commit in reversed(commits) if commit is not None), None)
        index = NextIndex(self.git, changes)
        last = ops[-1]
        try:
            who, seconds = self.git.identity() or DAEMON, int(last.time.timestamp())
            reason = f"ormah ({last.kind}): {last.message.splitlines()[0]}"
            mover = None if tip is None else HeadMover(self.git, who=who, seconds=seconds, reason=reason)
        except BaseException:
            index.drop()
            raise
        return _Next(head, commits, tip, fresh, index, mover)

    def _commit(self, ready: Sequence[_Ready]) -> str | None:
        """Commit the ops in `ready`, and bring the files and git's index in line. Return None when that is done,
        otherwise the reason why the batch must wait. If an exception is raised before the branch has moved, nothing was
        changed."""
        staged: list[Write] = [write for one in ready for write in one.writes]
        for _ in range(ATTEMPTS):
            made = self._prepare([one.op.plan for one in ready], self.git.head())
            try:
                outcome = self._move_branch(ready, made, staged)
                staged = []
                if outcome is Moved.YES:
                    self._update_folder(ready, made)
                    return None
            finally:
                made.drop()
            if outcome is Moved.HELD:
                return "another git program holds the branch's lock"
            if why := busy(self.git, self.lock, held=True):
                return why
        return "the branch keeps moving under other commits"

    def _move_branch(self, ready: Sequence[_Ready], made: _Next, staged: Sequence[Write]) -> Moved:
        """Write the objects, the files `staged` and the lock's note durably, then move the branch to `made.tip`. Return
        whether it moved; also `Moved.YES` if it need not move."""
        # Write all that the commits need, in parallel.
        parent = made.head
        for one, commit in zip(ready, made.commits, strict=True):
            one.commit, one.parent = commit, parent
            parent = commit or parent
        works: list[Callable[[], object]] = [partial(self.objects.write, made.fresh)]
        works += [partial(self.worktree.stage, write) for write in staged]
        if made.tip is not None:
            works.append(partial(self.lock.note_move, ready[0].op.plan.op, made.head, made.tip))
        self.flusher.each(lambda work: work(), works)
        self.at("objects")
        made.index.wait()
        self.at("index-ready")
        if made.mover is None or made.tip is None:
            return Moved.YES  # HEAD has it already; files and git's index are brought in line nevertheless

        # Move the branch. If that fails, find out whether it has moved nevertheless.
        self.at("moving")
        self.unfinished = True
        try:
            outcome = made.mover.move(made.head, made.tip)
        except (OSError, OrmahError) as exc:
            try:
                self.unfinished = within(self.git, made.tip, self.git.head())
            except OrmahError:  # git cannot tell: the branch may have moved
                self.unfinished = True
            if not self.unfinished:
                raise
            unknown = f"it is not known whether the change was written: {exc}"
            raise Unavailable(
                unknown, hint="look at `ormahctl history` and `ormahctl doctor` before you repeat it"
            ) from None
        self.unfinished = outcome is Moved.YES
        if self.unfinished:
            self.at("ref")
        return outcome

    def _update_folder(self, ready: Sequence[_Ready], made: _Next) -> None:
        """Bring the files and git's index in line with the commits to which the branch has moved, and give the ops
        their results. The ops are durable: if something fails here, `recovery.finish_write` repeats it before the next
        write."""
        self.objects.drop_replaced()
        try:
            for one in ready:
                self._place_files(one)
            self.at("placed")

            # Make the files durable before git's index.
            writes = [write for one in ready for write in one.writes]
            folders = {folder for one in writes for folder in self.worktree.folders(one)}
            self.flusher.each(sync_directory, sorted(folders))
            made.index.publish()
            self.at("index")
            for one in ready:
                for write in one.writes:  # remove the displaced version, and bring in what an editor wrote into it
                    if (late := self.worktree.finish(write)) is not None:
                        self._merge_late_save(one, write, late)
        except (OSError, OrmahError) as exc:
            log.error("what was committed is brought into the folder by the next write or start: %s", exc)
        else:
            self.unfinished = False
        finally:
            for one in ready:
                if one.commit is None:
                    continue
                plan, stats = one.op.plan, {write.path: write.stat for write in one.writes if write.placed}
                one.op.result = Committed(
                    op=plan.op,
                    commit=one.commit,
                    kind=plan.kind,
                    source=plan.source,
                    subject=plan.subject,
                    time=plan.time,
                    changes=tuple(change.committed(stats.get(change.path)) for change in plan.changes),
                    parent=one.parent,
                )
