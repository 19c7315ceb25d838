"""Write a batch of ops durably, in this order: intents, files, git objects, branch, git's index.

`index.lock` is held meanwhile. A batch shares the lock, the file of intents, the fsyncs, one move of the branch and one
new index. Each op keeps a commit of its own, built on top of the one before.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct, field

from ormahd.errors import Conflict, OrmahError
from ormahd.git.index import IndexLock, NextIndex, busy
from ormahd.git.objects import EXECUTABLE, FILE, Objects, TreeEntry
from ormahd.git.process import GitFailed
from ormahd.git.refs import HeadMover, Moved, find_commit, is_ancestor, within
from ormahd.git.repository import Git, Signature
from ormahd.model.change import Committed
from ormahd.process.disk import Flusher, sync_directory
from ormahd.vault.conflicts import late_save
from ormahd.vault.conversion import Conversion
from ormahd.vault.intents import FileStep, Intents, WriteIntent
from ormahd.vault.transaction import check, settle
from ormahd.vault.worktree import Displaced, Worktree, Write

DAEMON = Signature("ormahd", "ormahd@localhost")

Fresh = dict[str, tuple[str, bytes]]
"""Git objects that are not written yet: `{id: (kind, bytes)}`."""
Told = dict[bytes, TreeEntry | None]
"""`{path: entry}`: the entries that git's index must get. None: the path is removed from it."""


class Builder:
    """Builds the git objects of ops (blobs, trees, commits) in RAM. Writes nothing to disk."""

    def __init__(self, git: Git, objects: Objects, conversion: Conversion, where: Callable[[str], bytes]) -> None:
        """`where` converts a path relative to the vault's root to the path in git's trees."""
        self._git = git
        self._objects = objects
        self._conversion = conversion
        self._where = where

    def build(self, intents: Sequence[WriteIntent], head: str | None, fresh: Fresh) -> tuple[list[str | None], Told]:
        """Build the commits of these ops on top of the commit `head`. Return (for each op the id of its commit, the
        entries that git's index must get). The id is None when `head` contains the op's changes. New objects are
        added to `fresh`."""
        root = self._objects.root(head)
        parent = head
        person = self._git.identity()
        commits: list[str | None] = []
        told: Told = {}
        for intent in intents:
            before = None
            if intent.first is not None and (tree := self._first(intent, root, fresh)) != root:
                author, committer = _who(intent, person)
                parents = [] if parent is None else [parent]
                before = self._objects.add_commit(tree, parents, author, committer, intent.first, fresh)
                root, parent = tree, before
            changes = self._changes(intent, root, fresh)
            told |= changes
            tree = self._objects.edit(root, changes, fresh)
            commit = self._commit(intent, tree, root, parent, head, person, fresh)
            commits.append(commit or before)
            if commit is not None:
                root, parent = tree, commit
        return commits, told

    def _first(self, intent: WriteIntent, root: str | None, fresh: Fresh) -> str:
        """Return the id of the tree of the op's first commit, which has the files as the person wrote them. `root`:
        the tree before the op."""
        changes = {
            self._where(step.path): self._entry(step.path, step.first, root, fresh, self._looks(intent, step))
            for step in intent.steps
            if step.first is not None
        }
        return self._objects.edit(root, changes, fresh)

    def _entry(self, name: str, data: bytes, root: str | None, fresh: Fresh, looks: bool) -> TreeEntry:
        """Return the tree entry for the file `name` with the bytes `data`. If `looks`, it gets the executable bit of
        the file on disk, else that of the file in the tree `root`. The blob is added to `fresh`."""
        path = self._where(name)
        old = self._objects.find(root, path, fresh)
        runs = old is not None and old.mode == EXECUTABLE
        if looks and self._runs(path) not in (runs, None) and self._trusts_modes():
            runs = not runs
        return TreeEntry(
            EXECUTABLE if runs else FILE, self._objects.add_blob(self._conversion.checked_in(name, data), fresh)
        )

    @staticmethod
    def _looks(intent: WriteIntent, step: FileStep) -> bool:
        """Whether the commit takes the executable bit from the file on disk, as `git add` does: when the op is the
        person's and the file existed before."""
        return intent.person and step.old is not None

    def _runs(self, path: bytes) -> bool | None:
        """Whether the file at a path is executable by its owner; None: there is no such file."""
        try:
            mode = os.lstat(os.path.join(os.fsencode(self._git.top), path)).st_mode
        except OSError:
            return None
        return bool(mode & stat.S_IXUSR) if stat.S_ISREG(mode) else None

    def _trusts_modes(self) -> bool:
        """Whether the executable bit is meaningful on this file system (`core.fileMode`, which git detects)."""
        return self._git.flag("core.filemode", default=True)

    def _changes(self, intent: WriteIntent, root: str | None, fresh: Fresh) -> Told:
        changes: Told = {}
        for step in intent.steps:
            path = self._where(step.path)
            data = step.in_history
            changes[path] = (
                None if data is None else self._entry(step.path, data, root, fresh, self._looks(intent, step))
            )
        for entry in intent.entries:
            path = self._where(entry.path)
            file = changes[path] if path in changes else self._objects.find(root, path, fresh)
            oid = entry.oid or (file.oid if file is not None else None)
            if entry.removed:
                changes[path] = None
            elif oid is not None:
                changes[path] = TreeEntry(entry.mode.encode(), oid)
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
        elif parent == head and tree == self._objects.root(other) and _within(self._git, head, other):
            return other
        else:
            parents.append(other)
        author, committer = _who(intent, person)
        return self._objects.add_commit(tree, parents, author, committer, intent.message, fresh)


def _who(intent: WriteIntent, person: Signature | None) -> tuple[str, str]:
    """Return the author and committer lines of a commit. `person`: the identity that git is configured with, or
    None."""
    seconds = int(intent.time.timestamp())
    committer = person or DAEMON
    if intent.person:
        author = person or Signature("person", DAEMON.email)
    else:
        author = Signature.named(intent.source, DAEMON.email)
    return author.line(seconds), committer.line(seconds)


def _within(git: Git, commit: str | None, other: str) -> bool:
    """Whether `commit` is an ancestor of `other`; True for None (no commit yet)."""
    return commit is None or is_ancestor(git, commit, other)


ATTEMPTS = 5
"""How often commits are built again because HEAD moved meanwhile. After that the op waits in the queue."""
HELD = "another git program holds index.lock"

log = logging.getLogger(__name__)


class Queued(Struct, eq=False):
    """One op in the writer's queue: its intent is decided, but it is not in the history yet.

    `promised`: the intent is durable. A batch's intents are made durable together, before any file is written.
    `acknowledged`: the caller got the answer that the change is stored. The op may then be merged, but never refused.
    `uncertain`: a crash or an error interrupted the op. `recovery.repair` must first find out how far it got.
    `done`: event that is set when the op is over; it then has a `result`, an `error`, or (nothing to commit) neither.
    `tried`: event that is set with `done`, and also when a first try failed because of `why`.
    """

    intent: WriteIntent
    promised: bool = False
    acknowledged: bool = False
    uncertain: bool = False
    tried: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    why: str | None = None
    result: Committed | None = None
    error: BaseException | None = None


Refused = Callable[["Queued", Conflict, bool], WriteIntent | None]
"""Called with (op, conflict, whether this is the last attempt) when a file is not the version that the op expects.
Returns a new intent to try, or None to leave the op out."""


class _LookAgain(Exception):
    """Raised when the branch moved, or may have moved, but the batch could not be completed. The ops of the batch
    become `uncertain`."""


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
        """`at` is called with the name of each step (tests interrupt a write there). `still` raises Unavailable when
        another process has taken over the vault's lock."""
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
        """Use another vault id from now on in index.lock, where it marks the lock as Ormah's."""
        self.lock = IndexLock(self.git, vault_id)
        self._vault_id = vault_id

    def where(self, path: str) -> bytes:
        """Return the path of a file of the vault as git's trees spell it: relative to the top of the repository, as
        bytes."""
        return (self._prefix + path).encode("utf-8", "surrogateescape")

    def promise(self, ops: Sequence[Queued]) -> None:
        """Make the intents of those ops durable that are not `promised` yet, and mark these ops as promised. If it
        raises OSError, no intent of theirs is on disk."""
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
        """Commit the ops of `batch` in order. Return None when all are done, or else the reason why they must wait.

        Each committed op gets a `result`, except one whose changes HEAD had already. `refused` is called when a file
        is not the version that its op expects. If an exception is raised, no op of the batch was done, though some
        may be promised.
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
            # HEAD has ops that git's index lacks: keep the lock, so that no program commits before that is repaired.
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
        """Write the files of one op to the folder. When a file is not the expected version, `refused` gives another
        intent to try, or none. Return False when it gave none, so that the op is left out. `root`: HEAD's tree when
        index.lock was taken."""
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

    def _check(self, intent: WriteIntent, root: str | None) -> None:
        """Raise Conflict when HEAD has a file, symlink or submodule in the place of a folder that the op needs, or
        when the vault's folder has another file in the place of a symlink or submodule that the op brings in."""
        for step in intent.steps:
            if step.data is not None:
                self.objects.passable(root, self.where(step.path))
        if intent.entries:
            freed = {step.path for step in intent.steps if step.data is None}
            check(self.worktree, intent.entries, freed, self._target)

    def _unchanged(self, intent: WriteIntent) -> None:
        """Raise Displaced when a file that the op commits without writing it was changed since the op was decided. A
        git process that held index.lock before us (`git stash`, `git checkout`) may have replaced the file."""
        for step in intent.steps:
            if step.base == step.data and (found := self.worktree.read(step.path)) != step.data:
                raise Displaced(step.path, found)

    def settle(self, intent: WriteIntent) -> None:
        """Make the symlinks, submodules and executable bits in the folder match `intent.entries`, which were
        committed."""
        settle(self.worktree, intent.entries, self._target)

    def _target(self, oid: str) -> bytes | None:
        """Return the target of the symlink with this blob id; None when the id is that of a submodule's commit, which
        is not in this repository."""
        return self.git.read(oid, "blob") if self.git.resolve(f"{oid}^{{blob}}") else None

    @staticmethod
    def _writes(intent: WriteIntent) -> list[tuple[int, Write]]:
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
        except (OSError, OrmahError) as exc:  # the commit is made; its intent remains, and the next start examines it
            why = exc.code if isinstance(exc, OrmahError) else exc.strerror
            log.error("%s is written, but not tidied up: %s", intent.name, why)
        self.at("cleared")

    # History

    def _begin(self, intents: Sequence[WriteIntent], head: str | None) -> _Next:
        """Build the commits of these ops on the commit `head` in RAM, and start the git processes that will write the
        index and move the branch."""
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

    def _mover(self, last: WriteIntent) -> HeadMover:
        return HeadMover(
            self.git,
            who=self.git.identity() or DAEMON,
            seconds=int(last.time.timestamp()),
            reason=f"ormah ({last.kind}): {last.message.splitlines()[0]}",
        )

    def _commit(self, placed: Sequence[_Placed], begun: _Next) -> str | None:
        """Commit the ops in `placed`, whose files are written already, and move the branch. Return None when HEAD has
        the commits, or else the reason why the batch must wait.

        If an exception is raised before the branch has moved, the caller can undo the changes of files. `begun`:
        commits that were built in advance; they are used if no op was left out or rewritten and HEAD did not move
        since.
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
        """Make the objects and the directory entries of `folders` durable, and move the branch to the last commit.
        Raises _LookAgain when a step failed after the branch moved, or when git cannot say whether it moved; the
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
        """Whether HEAD's history contains the commit. Also True when git cannot say."""
        try:
            return within(self.git, commit, self.git.head())
        except OrmahError:
            return True

    def _publish(self, placed: Sequence[_Placed], made: _Next) -> None:
        """Replace git's index with the one that has the new commits' files, after the branch has moved."""
        self.objects.drop_replaced()
        try:
            for one in placed:
                self.settle(one.op.intent)
            made.index.publish()
        except (OSError, GitFailed) as exc:
            raise _LookAgain(f"the index cannot be written: {exc}") from exc
        self.at("index")
