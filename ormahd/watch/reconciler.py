"""The reconciler: brings in changes from outside (DESIGN section 5, "What happens outside").

A scan walks the folder (`scan`), reads changed files (`reading`), decides on each (`decide`, with `identity`), commits
in the person's name what is not in the history, and updates the index. A file that is being edited waits until it is at
rest. "Our own commits" are those that Ormah makes, in contrast to those of git run by hand.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import chain
from typing import Any

from msgspec.structs import replace

from ormahd.errors import NotReady
from ormahd.git.index import under_way
from ormahd.index.history import History
from ormahd.model.change import Committed, FileState, Kind, finding, sha256
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind, claim
from ormahd.process import disk, priority
from ormahd.settings import VaultSettings
from ormahd.vault.excluded import Excluded
from ormahd.vault.vault import Vault
from ormahd.watch.decide import (
    BUSY_S,
    CommitItem,
    Context,
    Decision,
    File,
    FileAction,
    Guard,
    commit,
    decide,
    label,
    of_skipped,
    plain,
)  # fmt: skip
from ormahd.watch.identity import Identity, RepositoryView
from ormahd.watch.own_data import bring_in_own_data
from ormahd.watch.reading import RestCheck, read_stable
from ormahd.watch.scan import (
    FileStat,
    ScanAborted,
    ScanResult,
    WalkResult,
    behind,
    below,
    differs,
    homes,
    seen,
    unseen,
    walk,
)  # fmt: skip

OURS_S = 1.0
"""The longest time in seconds that a scan waits until a commit of Ormah's own is reported, because otherwise it would
walk the whole folder needlessly."""
FEW = 10
"""The number of paths up to which git is asked about each whether it is ignored. Beyond it, git is not asked about
folders with files of HEAD, because it compares each with its whole index."""
BATCH = 500
"""The largest number of files in one update of the index, and in one commit."""
BATCH_BYTES = 32_000_000
"""Once the notes collected in memory have so many bytes, they are given to the index and committed."""
COLD_NS = 10_000_000_000
"""The first scan of a process reads files again whose mtime is at most so many nanoseconds before the newest one."""
RACY_NS = 2_000_000_000
"""A file whose mtime is less than so many nanoseconds before the time of reading may change again and keep its mtime:
FAT has a resolution of 2 s. Such a file is read again. Git has the same rule."""
MASS = 20
"""The log warns if so many notes or more are deleted at once, and they are more than half of all. They are committed
nevertheless, because that may be intended, and `git revert` restores them."""

Upserts = Mapping[str, tuple[bytes, FileState]]

log = logging.getLogger(__name__)


Apply = Callable[[Upserts, Collection[str], str | None, Mapping[str, Note | None] | None], None]
"""A function that updates the index. Arguments: {path: (bytes, state)}, the paths of deleted notes, the commit up to which
the index is then complete (None: as before), {path: the parsed note; None: not parsed yet}."""


class Reconciler:
    """Brings changes in the folder into history and index. Thread-safe; one scan runs at a time."""

    def __init__(
        self,
        vault: Vault,
        history: History,
        *,
        known: Callable[[], Mapping[str, FileState]],
        settings: VaultSettings,
        clock: Callable[[], datetime],
        apply: Apply,
        touched: Callable[[Sequence[FileState]], None],
        position: Callable[[], str | None],
        check_secrets: bool = True,
    ) -> None:
        """The functions connect to the index. `known` returns {path: state in the index}. `apply` updates it, but
        not for Ormah's own commits, which reach it through `vault.listen`. `touched` stores the new stat of files whose
        bytes did not change. `position` returns the commit up to which the index is complete."""
        self.vault = vault
        self.look = RepositoryView(vault)
        self.excluded = Excluded(vault.root, self._ignored, self.look.ignore_files)
        self.cold = True
        """Whether no scan of the whole folder has ended yet."""
        self.told: str | None = None
        """The commit up to which the index is complete; None: unknown. At HEAD, events in `.git` need no scan."""
        self._known = known
        self._quiet = settings.quiet_seconds
        self._apply = apply
        self._touched = touched
        self._position = position
        self._identity = Identity(self.look, history)
        self._context = Context(vault.id, self._identity, clock, check_secrets, vault.unwritable_path)
        self._rest = RestCheck(settings.quiet_seconds)
        self._scanning = threading.Lock()
        self._book = threading.Lock()
        self._walked: str | None = None
        """The commit that the last walk saw as HEAD, replaced by each later commit of our own on top of it."""
        self._overlay: dict[str, FileState] = {}
        """States of files that are newer than those in the index."""
        self._racy: set[str] = set()
        """Files that the next scan reads even if their stat is the same."""
        self._left: dict[str, str] = {}
        """{path: sha256} of the files that were decided on and not committed."""
        self._during: dict[str, str | None] = {}
        """{path: sha256} of the files that our own commits wrote since the scan began; None: deleted, or written by a
        sync. These commits update the index themselves."""
        self._anew = 0
        """How often `forget` was called. A scan that is running then aborts."""
        self._said: dict[str, tuple[dict[str, Any], ...]] = {}
        self._said_of_own_data: dict[str, dict[str, Any]] = {}
        self._skipped: list[tuple[str, str]] = []
        vault.listen(self._committed)

    def renew(self) -> None:
        """Use the vault's new card from now on. Called after the vault joined another one and got its id."""
        with self._scanning:
            self._context = replace(self._context, vault_id=self.vault.id)
            self.cold = True

    def forget(self) -> None:
        """Record that the index was emptied: the running scan aborts, and the next one treats every file as new."""
        with self._book:
            self._anew += 1
            self._overlay.clear()
            self.told = None

    def untold(self) -> None:
        """Record that the index lacks a commit of our own. The next scan of the whole folder makes it complete."""
        with self._book:
            self.told = None

    @contextmanager
    def still(self) -> Iterator[None]:
        """Context manager: keep scans from running during the block, which replaces the history; then reload the
        history.

        The new HEAD counts as known, because it has the same files as the old one.
        """
        with self._scanning:
            yield
            self.look.reopen()
            with self._book:
                self.told = self._walked = self.vault.head()

    # Scans and queries

    def scan(
        self,
        *,
        paths: Collection[str] | None = None,
        progress: Callable[[int, int], None] | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> ScanResult:
        """Find what differs between folder, HEAD and index, and bring it in; with `paths` (files or folders at rest)
        only there.

        Raises Unavailable if the vault is missing, and ScanAborted once `stopping` returns true. What was brought in
        until then stays, and the next scan continues.
        """
        with self._scanning:
            first = _Scan(self, paths, progress, stopping)
            out = first.run()
            with self._book:
                missed = self._during.keys() & first.fed
            # Our own commits wrote files whose older bytes this scan was giving to the index: scan these again.
            return out if not missed else out + _Scan(self, missed, None, stopping).run()

    def superseded(self, path: str, digest: str | None) -> bool:
        """Whether a commit of our own wrote something else than `digest` to `path` since the scan began.

        What the scan has read is then outdated, and the commit updates the index itself."""
        with self._book:
            return path in self._during and self._during[path] != digest

    def behind(self) -> bool:
        """Whether HEAD is at a commit that the index does not have yet. If a commit of our own that is just being
        written may be the cause, wait until it is in the index."""
        return self._stays(lambda: self.vault.head() != self.told)

    def _stays(self, moving: Callable[[], bool]) -> bool:
        """Return the last result of `moving`. It is called again as long as it returns True and a commit of our own,
        which may be the cause, is being written, for at most `OURS_S` seconds."""
        end = time.monotonic() + OURS_S
        while moving() and self.vault.writing and time.monotonic() < end:
            time.sleep(0.005)
        return moving()

    def unread(self, paths: Iterable[str]) -> set[str]:
        """Return those of `paths` that a scan may still have to bring in: HEAD does not have their content, or HEAD has
        moved."""
        if self.behind():
            return set(paths)
        tree = self.look.tree(self.vault.head())
        found = set()
        for path in paths:
            with suppress(OSError):  # one that may not be read counts as in HEAD
                data = self.vault.read(path)
                if data is not None and self.vault.git.oid("blob", data) != tree.get(path):
                    found.add(path)
        return found

    def problems(self, *, fresh: bool = False) -> list[dict[str, Any]]:
        """Return what `doctor` is to say about the vault's files: dicts {level, what, path, line, mend}.

        Files that this process has not read yet are included only with `fresh`, which reads all files.
        """
        if fresh:
            for _ in self.files():
                pass
        found = [problem for problems in list(self._said.values()) for problem in problems]
        found += [of_skipped(path, why) for path, why in self._skipped]
        found += self._said_of_own_data.values()
        if self.vault.notices():
            found.append(finding(None, "warning", "HEAD is detached: commits belong to no branch",
                                 "`git switch -c NAME` in the vault keeps them"))  # fmt: skip
        return found + [finding(None, "warning", *one) for one in disk.findings(self.vault.root)]

    def files(self) -> Iterator[tuple[str, bytes, FileState]]:
        """Yield (path, bytes, state) of every file as the index should have it, for `rebuild` and `verify`.

        Of a file with conflict markers, or with changes that are not committed yet, the version in HEAD is yielded,
        and of one that may not be read.
        """
        with self._scanning:
            self._walked = self.vault.head()
            found = walk(self.vault.root, {}, self.excluded)
            self._skipped = found.skipped
            self._said = {path: said for path, said in self._said.items() if path in found.present}
            tree = self._begin(found)
            guard = Guard(self._skipped)
            for path, met in priority.giving(sorted(found.changed.items(), key=lambda one: (len(one[0]), one[0]))):
                ought: list[tuple[str, bytes, FileState]] = []
                with guard.file(path):
                    file = self._read(met, tree)
                    ought = [] if file is None else list(self._indexed(file, tree))
                yield from ought
            for path in sorted(guard.refused & tree.keys() | behind(found, tree, self.excluded)):
                data = self.vault.blob(tree[path])
                yield path, data, FileState(path, 0, 0, 0, sha256(data))

    def _indexed(self, file: File, tree: Mapping[str, str]) -> Iterator[tuple[str, bytes, FileState]]:
        """Yield (path, bytes, state) of the file as the index should have it; nothing if it should not have it."""
        decision = decide(file, self._context)
        self._note(file, decision)
        if decision.node_id is not None:
            self._identity.took(file.path, decision.node_id)
        if decision.act in {FileAction.INDEX, FileAction.PLAIN}:
            yield file.path, plain(file, decision), _state(file)
        elif file.path in tree and (data := self._last_whole(file.path, tree[file.path])) is not None:
            # The next scan must find an edit that is not committed yet: leave its stat unknown.
            state = _state(file) if decision.act is FileAction.HOLD else FileState(file.path, 0, 0, 0, "")
            yield file.path, data, replace(state, digest=sha256(data))

    def _last_whole(self, path: str, oid: str) -> bytes | None:
        """Return the last committed version of a file without conflict markers; None if there is none. `oid`: the blob
        in HEAD, which another git may have committed with conflict markers."""
        older = self.vault.git.log("--format=", "--raw", "--no-abbrev", "--no-renames", "--diff-filter=AM", "--", path)
        for one in chain([oid], (record.split()[3].decode() for record in older if record[:1] == b":")):
            if parse(data := self.vault.blob(one), path).kind is not NoteKind.CONFLICTED:
                return data
        return None

    # Our own commits

    def _committed(self, some: Sequence[Committed]) -> None:
        """Take in commits of our own. The next scan reads their files again: their mtimes are too recent to trust."""
        for done in some:
            with self._book:
                if done.parent is not None and done.kind is not Kind.SYNC:
                    # Only if the preceding commit is known: changes from elsewhere reach the index by the next scan.
                    self.told = done.commit if self.told == done.parent else self.told
                    self._walked = done.commit if self._walked == done.parent else self._walked
                for change in done.changes:
                    self._during[change.path] = (
                        sha256(change.data) if change.data is not None and done.kind is not Kind.SYNC else None
                    )
                    self._racy.add(change.path)
                    self._overlay.pop(change.path, None)

    # Steps of a scan

    def _begin(self, found: WalkResult) -> dict[str, str]:
        """Prepare `_identity` for a scan that found these changed files, and return the files of the last known HEAD.

        A commit of our own that `_committed` has not received yet is ignored: to receive it later costs less than to
        ask git for everything now.
        """
        tree = self.look.tree(self._walked)

        def read(path: str) -> str | None:
            try:
                file = self._read(found.changed[path], tree)
            except OSError:  # reported at its own turn; until it can be read, it counts as in HEAD
                return self._identity.at_head(path)
            return None if file is None else claim(file.note.kind, file.note.id)

        self._identity.begin(self._walked, found.changed, read)
        return tree

    def _read(self, met: FileStat, tree: Mapping[str, str]) -> File | None:
        """Read and parse a changed file; None if its stat is not `met` any more. Raises OSError. `tree`: HEAD's
        files."""
        data = read_stable(self.vault.root, met)
        return None if data is None else self._understand(met, data, tree)

    def _understand(self, met: FileStat, data: bytes, tree: Mapping[str, str]) -> File:
        oid = tree.get(met.path)
        note = parse(data, met.path)
        at_head = oid is not None and self.vault.git.oid("blob", data) == oid
        self._identity.saw(met.path, note, oid if at_head else None)
        return File(met, data, note, at_head)

    def _note(self, file: File, decision: Decision) -> None:
        if decision.problems:
            self._said[file.path] = decision.problems
        else:
            self._said.pop(file.path, None)

    def _ignored(self, paths: Iterable[str]) -> set[str]:
        """Return those of `paths` that git ignores. To save time, git is not asked about files of HEAD."""
        tree = self.look.tree(self._walked or self.vault.head())
        asked = [path for path in paths if path not in tree]
        if len(asked) > FEW:
            folders = homes(tree)
            asked = [path for path in asked if path not in folders]
        return self.vault.is_ignored(asked)


def _state(file: File) -> FileState:
    met = file.seen
    return FileState(file.path, met.size, met.mtime_ns, met.inode, file.digest)


class _Scan:
    """One scan of the vault or, with `paths`, of some files and folders: finds changes and brings them into index and
    history."""

    def __init__(
        self, owner: Reconciler, paths: Collection[str] | None, progress: Callable[[int, int], None] | None,
        stopping: Callable[[], bool],
    ) -> None:  # fmt: skip
        self.owner = owner
        self.vault = owner.vault
        self.identity = owner._identity
        self.quiet = owner._quiet
        self.paths = paths
        self.progress = progress
        self.stopping = stopping
        self.out = ScanResult()
        self.rows: Mapping[str, FileState] = owner._known()
        with owner._book:
            self.anew = owner._anew
            owner._during = {}
            self.known: Mapping[str, FileState] = {**self.rows, **owner._overlay} if owner._overlay else self.rows
        self.upserts: dict[str, tuple[bytes, FileState]] = {}
        self.notes: dict[str, Note | None] = {}
        self.removals: list[str] = []
        self.restated: list[FileState] = []
        self.bytes = 0
        self.items: dict[str, list[CommitItem]] = {"Add": [], "Move": [], "Edit": []}
        self.waiting_ids: set[str | None] = set()
        self.moved: set[str] = set()
        """Paths that a moved note has left."""
        self.vanished: set[str] = set()
        """Ids that a file lost in this scan."""
        self.outdone: set[str] = set()
        """Files whose id this scan gave to another file."""
        self.decided: set[str] = set()
        self.fed: set[str] = set()
        self.on_its_way = False
        """Whether the scan left out files because a commit of our own, not reported yet, gives them to the index."""

    def run(self) -> ScanResult:
        owner = self.owner
        last = owner._position()
        found, rested = self.walk()
        self.guard = Guard(found.skipped)
        self.led_elsewhere(found, last)
        self.tree = owner._begin(found)
        self.why_busy = self.vault.busy()
        # During a rebase the index keeps its earlier content: notes may be missing from the folder for a while. An empty
        # index takes what is there.
        self.half_done = bool(self.rows) and under_way(self.vault.git) is not None
        self.out.skipped = found.skipped
        if self.paths is None:
            owner._skipped = found.skipped
            if owner.cold or self.behind:
                missed = unseen(found, self.tree, self.known, owner.excluded)
                found.gone += [path for path in missed if self.identity.at_head(path) is not None]
        self.take(found.changed)
        self.gone(found, rested)
        self.feed()
        self.commit_all()
        if self.outdone:  # unchanged files whose id another file has now: they count as copies of it
            self.again(self.outdone)
        if self.vanished:
            self.again(self.copies_of_the_vanished())
            self.commit_all()
        with owner._book:
            owner._racy |= self.guard.refused  # read again by each scan, so that `doctor` goes on naming them
        if self.finish() and self.paths is None and not self.half_done:
            self.own_data()
        if self.paths is None:
            owner.cold = False
        else:
            looked = below(self.paths)
            kept = [one for one in owner._skipped if not looked(one[0])]
            owner._skipped = kept + found.skipped
        self.out.problems = [problem for problems in owner._said.values() for problem in problems]
        return self.out

    # Walking

    def walk(self) -> tuple[WalkResult, set[str] | None]:
        """Walk the folder. Return (the result, rested). `rested`: the paths at or below `paths` that do not exist and
        are known to be at rest; None if no such paths are known."""
        owner = self.owner
        if owner.cold:
            now = time.time_ns()
            latest = max((row.mtime_ns for row in self.known.values() if row.mtime_ns <= now), default=0)
            with owner._book:
                owner._racy |= {path for path, row in self.known.items() if row.mtime_ns > latest - COLD_NS}
        with owner._book:
            doubted = set(owner._racy)
            # Before the walk: a commit during it may have been read only in part.
            owner._walked = self.vault.head()
        self.behind = owner._stays(self.not_told)
        found = walk(self.vault.root, self.known, owner.excluded, paths=self.paths, doubted=doubted)
        if self.paths is None or not (found.gone or self.behind):
            return found, None
        # An absent note may have moved: only a walk of the whole folder tells a move from a deletion. And a commit
        # made by hand may have changed more than the paths at rest.
        self.paths = None
        return walk(self.vault.root, self.known, owner.excluded, doubted=doubted), set(found.gone)

    def not_told(self) -> bool:
        """Whether HEAD, before the walk, was another commit than the one up to which the index is complete."""
        with self.owner._book:
            return self.owner.told != self.owner._walked

    def moved_on(self) -> bool:
        """Whether HEAD is neither where it was before the walk nor at a later commit of our own."""
        head = self.vault.head()
        with self.owner._book:
            return head != self.owner._walked

    def led_elsewhere(self, found: WalkResult, last: str | None) -> None:
        """Add to `found.changed` the unchanged files whose content in HEAD has changed since the commit `last`.

        A person may have moved the branch without the files (`git reset --soft`, `--mixed`), or to a commit that lacks
        these notes. The stat of the files does not show that.
        """
        now = self.owner._walked
        if self.paths is not None or last is None or last == now:
            return
        others = self.owner.look.differing(last, now)
        paths = {path for path in self.known if others is None or path in others}
        found.changed.update(self.seen(paths - found.changed.keys()))

    def seen(self, paths: Iterable[str]) -> dict[str, FileStat]:
        found: dict[str, FileStat] = {}
        for path in filter(self.identity.present, paths):
            with self.guard.file(path):
                found[path] = seen(path, (self.vault.root / path).lstat())
        return found

    # Changed files

    def take(self, changed: Mapping[str, FileStat], *, forced: bool = False) -> None:
        for count, path in enumerate(priority.giving(sorted(changed, key=lambda path: (len(path), path)))):
            if self.stopping():
                raise ScanAborted
            with self.guard.file(path):
                self.one(changed[path], forced)
            if self.bytes > BATCH_BYTES or len(self.upserts) + len(self.restated) >= BATCH:
                self.feed()
                self.commit_all()
            if self.progress is not None:
                self.progress(count + 1, len(changed))

    def one(self, met: FileStat, forced: bool) -> None:
        owner, path = self.owner, met.path
        data = read_stable(self.vault.root, met)
        if data is None:
            if self.identity.present(path):
                self.out.wait(path, self.quiet)
            return
        row = self.known.get(path)
        digest = sha256(data)
        if row is not None and row.digest == digest and not forced and self.stands(path, data, digest):
            self.touched(met, row)
            return
        if not forced and self.ours(path, data, digest):
            return
        file = owner._understand(met, data, self.tree)
        wait = 0.0
        if self.half_done:
            if file.note.kind is NoteKind.CONFLICTED:
                owner._note(file, decide(file, owner._context))
            wait = BUSY_S
        elif not file.at_head:
            wait = owner._rest.missing(met)
            if wait <= 0 and self.why_busy is not None and file.note.kind is not NoteKind.CONFLICTED:
                wait = BUSY_S
        if wait > 0:
            self.waiting_ids.add(file.note.id)
            self.out.wait(path, wait)
            return

        self.decided.add(path)
        owner._left.pop(path, None)
        decision = decide(file, owner._context)
        owner._note(file, decision)
        before = self.identity.at_head(path)
        if before is not None and before != decision.node_id:
            self.vanished.add(before)
        if decision.node_id is not None:
            self.identity.took(path, decision.node_id)
            self.outdone.update(self.identity.paths(decision.node_id))
        if decision.act is FileAction.HOLD:
            self.hold(file)
        elif decision.act in {FileAction.INDEX, FileAction.PLAIN}:
            if not file.at_head:
                owner._left[path] = digest
            self.upsert(file, plain(file, decision))
        else:
            self.enlist(file, decision)

    def stands(self, path: str, data: bytes, digest: str) -> bool:
        """Whether a file whose bytes the index has already needs no decision: HEAD has the same bytes, or this process
        has decided not to commit them."""
        return self.owner._left.get(path) == digest or self.vault.git.oid("blob", data) == self.tree.get(path)

    def ours(self, path: str, data: bytes, digest: str) -> bool:
        """Whether a commit of our own has written these bytes to `path` since the scan began, or is about to.

        Such a commit updates the index itself. If it fails, a later scan finds the file changed.
        """
        with self.owner._book:
            if self.owner._during.get(path) == digest:
                return True
        promised = self.vault.writes(path, data)
        self.on_its_way |= promised
        return promised

    def touched(self, met: FileStat, row: FileState) -> None:
        """Record the new stat of a file whose bytes did not change, so that it is not read by every scan."""
        if differs(row, met):
            state = replace(row, size=met.size, mtime_ns=met.mtime_ns, inode=met.inode)
            with self.owner._book:
                self.owner._overlay[met.path] = state
            if row is self.rows.get(met.path):  # else the index has other bytes
                self.restated.append(state)
        self.doubt(met)

    def doubt(self, met: FileStat) -> None:
        with self.owner._book:
            if abs(time.time_ns() - met.mtime_ns) < RACY_NS:  # a file written now has a time near the present
                self.owner._racy.add(met.path)
            else:
                self.owner._racy.discard(met.path)

    def hold(self, file: File) -> None:
        """Keep the last committed version of a file with conflict markers in the index, and record the file's state,
        so that it is not read by every scan."""
        path, row = file.path, self.rows.get(file.path)
        data = self.owner._last_whole(path, self.tree[path]) if path in self.tree else None
        # Also if it is known: an earlier scan may have found it empty, in the middle of being written.
        if data is not None and (row is None or row.digest != sha256(data)):
            self.upsert(file, data, sha256(data))
            return
        with self.owner._book:
            self.owner._overlay[path] = _state(file)
        self.doubt(file.seen)

    def upsert(self, file: File, data: bytes, digest: str | None = None) -> None:
        self.upserts[file.path] = (data, replace(_state(file), digest=digest or file.digest))
        self.notes[file.path] = file.note if data is file.data else None
        self.bytes += len(data)
        self.out.indexed += 1
        self.doubt(file.seen)

    def enlist(self, file: File, decision: Decision) -> None:
        """Put the file among those to commit."""
        moved: tuple[str, ...] = ()
        if decision.node_id is not None and file.path not in self.tree:
            moved = tuple(self.identity.moved_from(decision.node_id, file.path))
            self.moved.update(moved)
        verb = "Move" if moved else "Edit" if file.path in self.tree else "Add"
        self.items[verb].append(
            CommitItem(file.path, decision.data, decision.node_id, file.digest, label(file.note), moved)
        )
        self.bytes += len(decision.data)
        if len(self.items[verb]) >= BATCH:
            self.commit_all()

    # Files that need a new decision although they did not change

    def again(self, paths: Iterable[str]) -> None:
        self.take(self.seen(set(paths).difference(self.decided, self.moved)), forced=True)
        self.feed()

    def copies_of_the_vanished(self) -> Iterator[str]:
        """Yield the copies of notes that lost their id or were deleted in this scan: a copy may now have the id."""
        maybe = {path for path in self.known if path not in self.tree}
        maybe.update(path for node_id in self.vanished for path in self.identity.paths(node_id))
        for path, met in self.seen(maybe).items():
            with self.guard.file(path):
                file = self.owner._read(met, self.tree)
                if file is not None and file.note.id in self.vanished:
                    yield path

    # Gone files

    def gone(self, found: WalkResult, rested: set[str] | None) -> None:
        """Remove from the index the files that no longer exist, and commit their deletion in the person's name.
        `rested`: as from `walk`."""
        rest = self.owner._rest
        deleted = []
        for path in found.gone:
            if path in self.moved or self.vault.writes(path, None):
                self.on_its_way |= path not in self.moved
                continue
            if self.half_done:
                self.out.wait(path, BUSY_S)
                continue
            self.owner._said.pop(path, None)
            node = self.identity.at_head(path)
            if path not in self.tree:
                self.removals.append(path)
                self.out.removed += 1
            elif node is not None and node in self.waiting_ids:
                self.out.wait(path, self.quiet)
                continue
            elif (rested is None or path not in rested) and (seconds := rest.missing_gone(path)) > 0:
                self.out.wait(path, seconds)
                continue
            elif self.why_busy is not None:
                self.out.wait(path, BUSY_S)
                continue
            else:
                deleted.append(path)
            if node is not None:
                self.vanished.add(node)
        if deleted:
            self.delete(deleted)
        rest.forget_gone(self.out.waiting)

    def delete(self, paths: list[str]) -> None:
        if len(paths) >= MASS and len(paths) * 2 > len(self.known):
            log.warning("%d of %d notes were deleted outside; taken in. `git revert` in the vault brings them back",
                        len(paths), len(self.known))  # fmt: skip
        for at in range(0, len(paths), BATCH):
            items = []
            for path in paths[at : at + BATCH]:
                note = parse(self.vault.blob(self.tree[path]), path)
                items.append(CommitItem(path, None, claim(note.kind, note.id), None, label(note)))
            self.out.removed += self.commit("Delete", items)

    # Output: to the index and to the history

    def feed(self) -> None:
        """Give the collected files to the index, in batches.

        One call contains both changed and deleted paths, so that a moved note is never twice in the index, or missing
        from it.
        """
        owner, notes = self.owner, self.notes
        if self.anew != owner._anew:
            raise NotReady("the index was begun anew during the scan", hint="it is scanned again by itself")
        paths = list(self.upserts)
        for at in range(0, max(len(paths), len(self.removals)), BATCH):
            part = {path: self.upserts[path] for path in paths[at : at + BATCH]}
            gone = self.removals[at : at + BATCH]
            self.fed.update(part, gone)

            def tell(some: list[str], part: Upserts = part, gone: list[str] = gone) -> None:
                owner._apply({path: part[path] for path in some}, gone, None, notes)
                with owner._book:
                    for path in (*some, *gone):
                        owner._overlay.pop(path, None)

            self.guard.all(list(part), str, tell)
        self.upserts, self.notes, self.removals, self.bytes = {}, {}, [], 0
        if self.restated:
            owner._touched(self.restated)
            with owner._book:
                for state in self.restated:
                    if owner._overlay.get(state.path) == state:
                        del owner._overlay[state.path]
            self.restated = []

    def commit_all(self) -> None:
        for verb, items in self.items.items():
            self.items[verb] = []
            self.out.edited += self.commit(verb, items)

    def commit(self, verb: str, items: list[CommitItem]) -> int:
        done = 0

        def some(part: list[CommitItem]) -> None:
            nonlocal done
            done += commit(self.vault, verb, part, quiet=self.quiet, wait=self.out.wait)

        self.guard.all(items, lambda item: item.path, some)
        return done

    def own_data(self) -> None:
        owner = self.owner
        if self.why_busy is None:
            done, owner._said_of_own_data = bring_in_own_data(
                self.vault, self.tree, owner._rest, self.guard, self.quiet, lambda seconds: self.out.wait("", seconds)
            )
            self.out.edited += done
        else:
            self.out.wait("", BUSY_S)

    def finish(self) -> bool:
        """If the index now has everything of HEAD, record HEAD in the index. Return False only if HEAD has moved
        during the scan; another scan is then scheduled."""
        owner = self.owner
        if owner._stays(self.moved_on):
            self.out.wait("", 0.0)
            return False
        with owner._book:
            walked = owner._walked
        if owner.told == walked or self.paths is not None or self.out.waiting or self.half_done:
            return True
        if self.on_its_way:  # HEAD may have that commit already, and the index not
            self.out.wait("", self.quiet)
        else:
            owner._apply({}, (), walked, None)
            owner.told = walked or owner.told
        return True
