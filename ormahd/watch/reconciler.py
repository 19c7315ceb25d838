"""The reconciler: brings in changes from outside (DESIGN section 5, "Adopt what happens outside").

A scan walks the folder (`scan`), reads changed files, decides on each (`decide`, with `identity`), commits in the
person's name what is not in the history, and updates the index. A file that is being edited waits until it is at rest.
"Our own commits" are those that Ormah makes, in contrast to those of git run by hand.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol

from msgspec.structs import replace

from ormahd.errors import Conflict
from ormahd.git.attributes import Rule
from ormahd.model.change import Committed, FileState, Kind, finding, sha256
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind, claim
from ormahd.process import disk, priority
from ormahd.settings import VaultSettings
from ormahd.vault.choices import Choices, agree, agreed
from ormahd.vault.conversion import FilterFailed
from ormahd.vault.excluded import Excluded
from ormahd.vault.identity import Identity, RepositoryView
from ormahd.vault.releasing import ReleasedFiles
from ormahd.vault.vault import Vault
from ormahd.watch.again import OwnData, Reverts
from ormahd.watch.decide import Context, Decision, File, FileAction, Guard, decide, of_skipped, plain
from ormahd.watch.reading import RestCheck, read_stable
from ormahd.watch.round import Round
from ormahd.watch.scan import FileStat, MetFiles, ScanResult, WalkResult, below, differs, hidden, homes, seen, walk

OURS_S = 1.0
"""The longest time in seconds that a scan waits until a commit of Ormah's own is reported, because otherwise it would
walk the whole folder needlessly."""
FEW = 10
"""The number of paths up to which git is asked about each whether it is ignored. Beyond it, git is not asked about
folders with files of HEAD, because it compares each with its whole index."""
LEAST_FILES = 200
"""`Reconciler.files` reads at least so many files before it lets a waiting scan run, so that it makes progress."""
MOST_WALKS = 100
"""`Reconciler.files` walks the folder again after each scan that it lets run, but about so many times at most."""


class _ScanLock:
    """A lock whose holder can see whether other threads wait for it, and let them run first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._change = threading.Condition()
        self._waiting = 0

    def __enter__(self) -> None:
        with self._change:
            self._waiting += 1
        self._lock.acquire()
        with self._change:
            self._waiting -= 1
            self._change.notify_all()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @property
    def wanted(self) -> bool:
        """Whether another thread waits for the lock."""
        return self._waiting > 0

    def stand_aside(self) -> None:
        """Wait until no thread waits for the lock any more. Called after releasing it."""
        with self._change:
            self._change.wait_for(lambda: not self._waiting)


class Apply(Protocol):
    """What the reconciler needs from the index: a function that updates it. `upserts`: {path: (bytes, state)}.
    `removals`: paths of deleted notes. `head`: the commit up to which the index is then complete (None: as before).
    `notes`: {path: the parsed note; None: not parsed yet}."""

    def __call__(
        self, upserts: Mapping[str, tuple[bytes, FileState]], removals: Collection[str], head: str | None,
        notes: Mapping[str, Note | None] | None,
    ) -> None: ...  # fmt: skip


class Reconciler:
    """Brings changes in the folder into history and index. Thread-safe; one scan runs at a time."""

    undecided: frozenset[str] = frozenset()
    """Unchanged files that need a new decision, which no scan could carry out yet."""
    asked: Mapping[str, str] = MappingProxyType({})
    """{path of a file that a request is adopting: id of the request's run}."""

    def __init__(
        self,
        vault: Vault,
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
        self.known = known
        self.settings = settings
        self._apply = apply
        self._touched = touched
        self.position = position
        self.look = RepositoryView(vault)
        self.identity = Identity(self.look, vault.home)
        self.released = ReleasedFiles(vault)
        self.reverts = Reverts(vault)
        self.staged: set[str] = set()
        """Files that a scan did not adopt or commit because the person has staged them."""
        self._staged_now: set[str] | None = None
        self.left_to_git: set[str] = set()
        """Files that are only indexed because git cannot convert them to blobs."""
        self.context = Context(
            vault.id, vault.adopt, vault.home, self.identity, clock, check_secrets,
            released=self.released.holds, staged=self._is_staged, folders=vault.folders, agreed=agreed(vault),
            unwritable=vault.attributes.unwritable,
        )  # fmt: skip
        self.excluded = Excluded(vault.root, self._ignored, self.look.ignore_files)
        self.rest = RestCheck(settings.quiet_seconds)
        self._scanning = _ScanLock()
        self.book = threading.Lock()
        self.overlay: dict[str, FileState] = {}
        self.racy: set[str] = set()
        self.wrote: set[str] = set()
        """Files that our own commits wrote and no scan has compared with HEAD since: the old bytes may be back."""
        self.during: dict[str, str | None] = {}
        """{path: sha256} of the files that our own commits wrote since the scan began; None: deleted, or written by a
        sync. These commits update the index themselves."""
        self.said: dict[str, tuple[dict[str, Any], ...]] = {}
        self.skipped: list[tuple[str, str]] = []
        self.own = OwnData()
        self.met = MetFiles()
        self.cold = True
        self.anew = 0
        """How often `forget` was called. A scan that is running then aborts."""
        self.head: str | None = None
        """The last commit that is known here: HEAD before the last walk, or a later commit of our own."""
        self.told: str | None = None
        """The commit up to which the index is complete; None: unknown. At HEAD, events in `.git` need no scan."""
        self.walked: str | None = None
        """The commit that the last walk saw as HEAD, replaced by each later commit of our own on top of it."""
        vault.listen(self._committed)

    def renew(self) -> None:
        """Use the vault's new card from now on. Called after the vault joined another one and got its id."""
        with self._scanning:
            vault = self.vault
            self.identity = Identity(self.look, vault.home)
            self.context = replace(
                self.context,
                vault_id=vault.id,
                mode=vault.adopt,
                home=vault.home,
                identity=self.identity,
                folders=vault.folders,
            )
            self.cold = True

    def forget(self) -> None:
        """Record that the index was emptied: the running scan aborts, and the next one treats every file as new."""
        with self.book:
            self.anew += 1
            self.overlay.clear()
            self.told = None

    def untold(self) -> None:
        """Record that the index lacks a commit of our own. The next scan of the whole folder makes it complete."""
        with self.book:
            self.told = None

    def renew_choices(self, here: Choices) -> None:
        """Use the card's new choices of what to adopt from now on. `here`: the choices made on this machine."""
        vault = self.vault
        with self._scanning:
            agree(vault, here)
            self.context = replace(self.context, mode=vault.adopt, folders=vault.folders, agreed=agreed(vault))

    @contextmanager
    def asked_for(self, paths: Collection[str], run: str) -> Iterator[None]:
        """Context manager: the first commits of the files `paths`, by any scan during the block, belong to the run
        `run`."""
        asked = dict.fromkeys(paths, run)
        with self.book:
            self.asked = {**self.asked, **asked}
        try:
            yield
        finally:
            with self.book:
                self.asked = {path: by for path, by in self.asked.items() if asked.get(path) != by}

    def take_again(self, paths: Collection[str], *, wanted: bool) -> set[str]:
        """Run a scan that decides again on these files, even if unchanged; with `wanted` it adopts them. Return those
        that have to wait."""
        with self._scanning:
            self.context = replace(self.context, wanted=set(paths) if wanted else set())
            try:
                out = Round(self, None, None, lambda: False, again=paths).run()
            finally:
                self.context = replace(self.context, wanted=set())
        return out.waiting & set(paths)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Context manager: keep scans from running during the block, in which the caller may read and decide on
        files."""
        with self._scanning:
            with self.book:
                self.head = self.vault.head()
            self.begin(WalkResult())
            yield

    @contextmanager
    def still(self) -> Iterator[None]:
        """Context manager: keep scans from running during the block, which replaces the history; then reload the
        history.

        The new HEAD counts as known, because it has the same files as the old one.
        """
        with self._scanning:
            yield
            self.look.reopen()
            with self.book:
                self.head = self.told = self.walked = self.vault.head()

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
            first = Round(self, paths, progress, stopping)
            out = first.run()
            with self.book:
                missed = self.during.keys() & first.fed
            # Our own commits wrote files whose older bytes this scan was giving to the index: scan these again.
            return out if not missed else out + Round(self, missed, None, stopping).run()

    def superseded(self, path: str, digest: str | None) -> bool:
        """Whether a commit of our own wrote something else than `digest` to `path` since the scan began.

        What the scan has read is then outdated, and the commit updates the index itself."""
        with self.book:
            return path in self.during and self.during[path] != digest

    def behind(self) -> bool:
        """Whether HEAD is at a commit that the index does not have yet. If a commit of our own that is just being
        written may be the cause, wait until it is in the index (`stays`)."""
        return self.stays(lambda: self.vault.head() != self.told)

    def stays(self, moving: Callable[[], bool]) -> bool:
        """Return the last result of `moving`. It is called again as long as it returns True and a commit of our own,
        which may be the cause, is being written, for at most `OURS_S` seconds."""
        end = time.monotonic() + OURS_S
        while moving() and self.vault.writing and time.monotonic() < end:
            time.sleep(0.005)
        return moving()

    def unread(self, paths: set[str]) -> set[str]:
        """Return those of `paths` that exist and were created or changed since a scan examined them."""
        known = self.known()
        with self.book:
            rows = {**known, **self.overlay}
        found = set()
        for path in paths:
            with suppress(OSError):  # it is gone: a scan tells whether the path rests
                stat = os.lstat(self.vault.root / path)
                if path in rows:
                    new = differs(rows[path], seen(path, stat))
                else:
                    with self.book:
                        new = self.met.lacks(path, stat.st_ctime_ns)  # else the index has lost it
                if new:
                    found.add(path)
        return found

    def folders(self) -> set[str]:
        """Return all folders that contain files of HEAD, directly or in subfolders."""
        return homes(self.look.tree(self.head or self.vault.head()))

    def problems(self, *, fresh: bool = False) -> list[dict[str, Any]]:
        """Return what `doctor` is to say about the vault's files: dicts {level, what, path, line, mend}.

        Files that this process has not read yet are included only with `fresh`, which reads all files.
        """
        if fresh:
            for _ in self.files():
                pass
        found = [problem for problems in list(self.said.values()) for problem in problems]
        found += [of_skipped(path, why) for path, why in self.skipped]
        found += self.own.said.values()
        context = self.context
        if context.agreed is not None:
            for folder in Choices(context.home, context.mode, context.folders).beyond(context.agreed):
                found.append(finding(f"{folder}/" if folder else None, "info",
                                     "another machine chose to adopt all notes here; those that lie only on this one are left alone",
                                     f"to adopt them too: ormahctl vault adopt {folder + '/' if folder else '--all'}"))  # fmt: skip
        if self.vault.notices():
            found.append(finding(None, "warning", "HEAD is detached: commits belong to no branch",
                                 "`git switch -c NAME` in the vault keeps them"))  # fmt: skip
        return found + [finding(None, "warning", *one) for one in disk.findings(self.vault.root)]

    def files(self, *, gives_way: bool = False) -> Iterator[tuple[str, bytes, FileState]]:
        """Yield (path, bytes, state) of every file as the index should have it, for `rebuild` and `verify`.

        Of a file with conflict markers, or with changes that are not committed yet, the version in HEAD is yielded.
        With `gives_way`, waiting scans run in between; the files are then not all of one moment.
        """
        done: set[str] = set()
        while True:
            with self._scanning:
                if (yield from self._files(done, gives_way=gives_way)):
                    return
            self._scanning.stand_aside()

    def _files(self, done: set[str], *, gives_way: bool) -> Generator[tuple[str, bytes, FileState], None, bool]:
        """Yield the files whose paths are not in `done`, and add each path to `done`. Return True if none is left;
        with `gives_way` it may end early with False, because a scan waits."""
        self.head = self.vault.head()
        found = walk(self.vault.root, {}, self.excluded)
        self.skipped = found.skipped
        self.begin(found)
        self.said = {path: said for path, said in self.said.items() if path in found.present}
        tree = self.look.tree(self.head)
        guard = Guard(self.skipped)
        least = max(LEAST_FILES, len(found.changed) // MOST_WALKS)
        left = sorted(found.changed.keys() - done, key=lambda path: (len(path), path))
        for count, path in enumerate(priority.giving(left)):
            if gives_way and count >= least and self._scanning.wanted:
                return False
            ought: list[tuple[str, bytes, FileState]] = []
            with guard.file(path):
                file = self.read(found.changed[path], tree)
                ought = [] if file is None else list(self._indexed(file, tree))
                done.add(path)  # not if it failed: a later walk reports it again
            yield from ought
        for path in [*hidden(found, tree), *sorted(guard.refused & tree.keys())]:
            yield path, *self.as_committed(path, tree[path])
        return True

    def passed_by(self, found: WalkResult, paths: Collection[str]) -> None:
        """Update the list `skipped` by `found`, the result of a walk of `paths`: files that the walk could read are
        removed, files that it skipped are added."""
        looked, still = below(list(paths)), self.still_refused(found)
        kept = [one for one in self.skipped if not looked(one[0]) or one in still]
        self.skipped = [one for one in kept if one not in found.skipped] + found.skipped

    def still_refused(self, found: WalkResult) -> list[tuple[str, str]]:
        """Return (path, reason) of notes that an earlier scan skipped, that are unreadable now too, and whose stat is
        unchanged.

        The scan does not try to read them again, and so does not find out that they are unreadable.
        """
        named = {path for path, _ in found.skipped} | found.changed.keys()
        return [
            (path, why)
            for path, why in self.skipped
            if path in found.present and path not in named and not os.access(self.vault.root / path, os.R_OK)
        ]

    def as_committed(self, path: str, blob: str) -> tuple[bytes, FileState]:
        """Return (bytes, state) of the note `blob` of HEAD, for a path where the folder has something else or cannot be
        read.

        The state has an impossible stat, so that any file that appears there counts as changed.
        """
        data = self.vault.readable(blob, path) or b""
        return data, FileState(path, 0, 0, 0, sha256(data), None, self.context.space_at(path))

    def _indexed(self, file: File, tree: Mapping[str, str]) -> Iterator[tuple[str, bytes, FileState]]:
        """Yield (path, bytes, state) of the file as the index should have it; nothing if it should not have it."""
        decision = decide(file, self.context)
        self.note(file, decision)
        if decision.node_id is not None:
            self.identity.took(file.path, decision.node_id)
        seen = file.seen
        row = self.known().get(file.path)
        if decision.act in {FileAction.INDEX, FileAction.PLAIN, FileAction.FIND}:
            yield file.path, plain(file, decision), self.state(file, decision)
        elif file.path not in tree and row is not None and row.digest == file.digest:
            # It may now be committed, and could not be before. Until it is, it stays indexed as it was.
            was = Decision(FileAction.PLAIN if row.lent is None else FileAction.FIND, row.lent, file.data)
            yield file.path, plain(file, was), replace(self.state(file, was), size=0, mtime_ns=0, inode=0)
        elif file.path in tree and not file.at_head:
            data = self.vault.readable(tree[file.path], file.path)
            if data is None or parse(data, file.path).kind is NoteKind.CONFLICTED:
                return
            held = decision.act is FileAction.HOLD
            # The next scan must find an edit that is not committed yet: leave its stat unknown.
            stat = (seen.size, seen.mtime_ns, seen.inode) if held else (0, 0, 0)
            yield file.path, data, FileState(file.path, *stat, sha256(data))

    def chosen_anew(self, row: FileState) -> bool:
        """Whether the first scan has to decide again on a note that was only indexed, because by the present choices
        of what to adopt it may be adopted."""
        return self.cold and row.lent is not None and self.context.mode_at(row.path) != "index"

    def state(self, file: File, decision: Decision | None = None, digest: str | None = None) -> FileState:
        """Return the state of a file for the index. It includes the space that was chosen for its folder and, for a
        file that is only indexed, its id."""
        seen = file.seen
        lent = decision.node_id if decision is not None and decision.act is FileAction.FIND else None
        space = self.context.space_at(file.path)
        return FileState(file.path, seen.size, seen.mtime_ns, seen.inode, digest or file.digest, lent, space)

    def lent(self, path: str, data: bytes, renamed: Mapping[str, str] | None = None) -> str | None:
        """Return the id under which a file is only indexed; None if it is not to be only indexed. `renamed`: {path:
        id} to use instead of the present list of renamed notes."""
        context, note = self.context, parse(data, path)
        mode = context.mode_of(path, data)
        if note.kind in {NoteKind.APART, NoteKind.CONFLICTED} or mode == "none" or not data.strip():
            return None
        if note.kind is not NoteKind.FOREIGN and (mode != "index" or context.is_ours(path, data, note)):
            return None
        own = claim(note.kind, note.id)
        return own or self.identity.lent(context.vault_id, path, renamed)

    def complete(self, upserts: dict[str, tuple[bytes, FileState]]) -> None:
        """Complete the states in `upserts`, of files that our own commits wrote: add the space of the folder and, if
        the file is now only indexed (an undo released it), its id."""
        context = self.context
        for path, (data, state) in upserts.items():
            theirs = context.mode_of(path, data) == "index" and not path.startswith(f"{context.home}/")
            lent = self.lent(path, data) if theirs else None
            if lent is not None or context.folders:
                upserts[path] = data, replace(state, lent=lent, space=context.space_at(path))

    def first_path(self, node_id: str, paths: Collection[str]) -> str | None:
        """Return which of several files with the same id had it first. Called by the index."""
        return self.identity.first_path(node_id, paths)

    # Our own commits, and steps of a scan

    def _committed(self, some: Sequence[Committed]) -> None:
        for done in some:
            self._follow(done)

    def _follow(self, done: Committed) -> None:
        """Take in a commit of our own. The next scan reads its files again: their mtimes are too recent to trust."""
        with self.book:
            self.head = done.commit
            if done.parent is not None and done.kind is not Kind.SYNC:
                # Only if the preceding commit is known: changes from elsewhere reach the index by the next scan.
                self.told = done.commit if self.told == done.parent else self.told
                self.walked = done.commit if self.walked == done.parent else self.walked
                self.own.since = done.commit if self.own.since == done.parent else self.own.since
            for change in done.changes:
                data = None if done.kind is Kind.SYNC else change.data
                self.during[change.path] = None if data is None else sha256(data)
                self.racy.add(change.path)
                self.wrote.add(change.path)
                self.overlay.pop(change.path, None)
            if done.kind is not Kind.SYNC:
                self.met.some([change.path for change in done.changes])
        self.look.written([change.path for change in done.changes])
        self.look.follow(done)

    def begin(self, found: WalkResult) -> None:
        """Prepare `identity` and the file list of the last known HEAD for a scan that found these changed files.

        A commit of our own that `_committed` has not received yet is ignored: to receive it later costs less than to
        ask git for everything now.
        """
        head = self.head
        tree = self.look.tree(head)
        self._staged_now = None
        self.vault.attributes.ask_of(found.changed)

        def read(path: str) -> str | None:
            try:
                file = self.read(found.changed[path], tree)
            except OSError:  # reported at its own turn; until it can be read, it counts as in HEAD
                before = self.identity.at_head(path)
                return None if before is None else before[0]
            return None if file is None else claim(file.note.kind, file.note.id)

        self.identity.begin(head, found.changed, read)

    def read(self, seen: FileStat, tree: Mapping[str, str]) -> File | None:
        """Read and parse a changed file; None if its stat is not `seen` any more. Raises OSError. `tree`: HEAD's
        files."""
        data = read_stable(self.vault.root, seen)
        return None if data is None else self.understand(seen, data, tree)

    def understand(self, seen: FileStat, data: bytes, tree: Mapping[str, str]) -> File:
        oid = tree.get(seen.path)
        note = parse(data, seen.path)
        at_head, unconverted = self._stands(seen.path, data, note, oid)
        self.identity.saw(seen.path, note, oid if at_head else None)
        return File(seen, data, note, at_head, unconverted=unconverted)

    def _stands(self, path: str, data: bytes, note: Note, oid: str | None) -> tuple[bool, str | None]:
        """Return (whether a file equals HEAD's blob `oid`, why git cannot convert it to a blob; None: it can).

        Git's filters run only for files that may be committed."""
        conversion = self.vault.conversion
        self.left_to_git.discard(path)
        if self.vault.attributes.words(path) and not self.context.ours(path, claim(note.kind, note.id)):
            if self.context.unwritable(path) is not None:
                self.left_to_git.add(path)
            return conversion.is_raw(data, oid), None
        try:
            return conversion.stands(path, data, oid), None
        except FilterFailed as exc:
            self.left_to_git.add(path)
            return False, exc.message

    def given_back_by_git(self) -> set[str]:
        """Return the files in `left_to_git` that git can convert now. Each filter is tried on one file only."""
        tried: dict[Rule | None, bool] = {}
        found = set()
        for path in sorted(self.left_to_git):
            rule = self.vault.attributes.rule(path)
            if rule not in tried:
                tried[rule] = self._takes(path)
            if tried[rule]:
                found.add(path)
        return found

    def _takes(self, path: str) -> bool:
        try:
            self.vault.conversion.checked_in(path, self.vault.read(path) or b"")
        except Conflict:
            return False
        return True

    def _is_staged(self, path: str) -> bool:
        """Whether the person has staged the file; git is asked once per scan. A staged file is added to `staged`."""
        if self._staged_now is None:
            self._staged_now = self.look.staged()
        if path in self._staged_now:
            self.staged.add(path)
        return path in self._staged_now

    def _ignored(self, paths: Iterable[str]) -> set[str]:
        """Return those of `paths` that git ignores. To save time, git is not asked about files of HEAD."""
        tree = self.look.tree(self.head)
        asked = [path for path in paths if path not in tree]
        if len(asked) > FEW:
            folders = self.folders()
            asked = [path for path in asked if path not in folders]
        return self.vault.is_ignored(asked)

    def tell(
        self, upserts: Mapping[str, tuple[bytes, FileState]], removals: Collection[str], *, head: str | None,
        notes: Mapping[str, Note | None] | None = None,
    ) -> None:  # fmt: skip
        """Update the index. `head`: the commit up to which the index is then complete (None: as before)."""
        self._apply(upserts, removals, head=head, notes=notes)
        self.told = head or self.told
        with self.book:
            for path in (*upserts, *removals):
                self.overlay.pop(path, None)

    def keep(self, touched: Sequence[FileState]) -> None:
        """Store in the index the new stat of files whose bytes did not change."""
        self._touched(touched)
        with self.book:
            for state in touched:
                if self.overlay.get(state.path) == state:
                    del self.overlay[state.path]

    def note(self, file: File, decision: Decision) -> None:
        if decision.problems:
            self.said[file.path] = decision.problems
        else:
            self.said.pop(file.path, None)
