"""The reconciler: brings in changes from outside (DESIGN section 5, "Adopt what happens outside").

A scan walks the folder (`scan`), reads changed files, decides on each (`decide`, with `identity`), commits in the
person's name what is not in the history, and updates the index. Files at rest are brought in; files that are being
edited wait. "Our own commits" are those that Ormah makes, in contrast to those of git run by hand.
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
"""Seconds that a scan waits, at most, until a commit of Ormah's own is reported. Without waiting, it would scan the
whole folder needlessly."""
FEW = 10
"""Largest number of paths for which git is asked about all of them whether they are ignored. For more, folders with
files of HEAD are not asked about, because git checks each against its whole index."""
LEAST_FILES = 200
"""Number of files that a comparison reads between two scans that it lets go first, so that it comes to an end."""
MOST_WALKS = 100
"""Number of walks of the folder that a comparison makes at most, however many scans it lets go first."""


class _ScanLock:
    """A lock whose holder sees that others wait for it, and may let them go first."""

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
        """Wait, without the lock, until each thread that waited for it has had it."""
        with self._change:
            self._change.wait_for(lambda: not self._waiting)


class Apply(Protocol):
    """Updates the index: new bytes by path, deleted paths, the commit that the vault has reached, and notes that are
    already parsed."""

    def __call__(
        self, upserts: Mapping[str, tuple[bytes, FileState]], removals: Collection[str], head: str | None,
        notes: Mapping[str, Note | None] | None,
    ) -> None: ...  # fmt: skip


class Reconciler:
    """Keeps history and index in step with the folder. One scan at a time; thread-safe."""

    undecided: frozenset[str] = frozenset()
    """Unchanged files that need another decision, and have to wait for it."""
    asked: Mapping[str, str] = MappingProxyType({})
    """{path: run} of the files that a request is adopting."""

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
        """`known` returns every file as the index has it. `apply` updates the index with files that are in the history
        without a commit by Ormah, and with plain text. `touched` gives it the new stat of files whose bytes did not change.
        `position` returns the commit up to which it is complete. Ormah's commits reach it through `vault.listen` only."""
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
        """Files that are not memories yet because the person has staged them."""
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
        """Files of our own commits that no scan has read since. Their content may be the content before the commit."""
        self.during: dict[str, str | None] = {}
        """{path: digest} of files that our own commits wrote since the scan began; None: deleted, or brought by a
        sync. The commit itself updates the index."""
        self.said: dict[str, tuple[dict[str, Any], ...]] = {}
        self.skipped: list[tuple[str, str]] = []
        self.own = OwnData()
        self.met = MetFiles()
        self.cold = True
        self.anew = 0
        """How often the index was replaced: a scan that was running then is aborted."""
        self.head: str | None = None
        """The last known commit: HEAD before the last walk, or a later commit of our own."""
        self.told: str | None = None
        """The commit up to which the index is complete. If HEAD is there, an event in `.git` needs no scan."""
        self.walked: str | None = None
        """HEAD before the last walk, moved on by our own commits: the state that the scans know."""
        vault.listen(self._committed)

    def renew(self) -> None:
        """Use the vault's new card (it joined another vault) from now on."""
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
        """Note that the index is empty: the next scan treats every file as new."""
        with self.book:
            self.anew += 1
            self.overlay.clear()
            self.told = None

    def untold(self) -> None:
        """Note that the index was not given a commit of our own: the next scan of the whole folder makes it complete."""
        with self.book:
            self.told = None

    def renew_choices(self, here: Choices) -> None:
        """Use the card's new choices of what to adopt from now on; `here`: what was chosen on this machine."""
        vault = self.vault
        with self._scanning:
            agree(vault, here)
            self.context = replace(self.context, mode=vault.adopt, folders=vault.folders, agreed=agreed(vault))

    @contextmanager
    def asked_for(self, paths: Collection[str], run: str) -> Iterator[None]:
        """Make the first commits of these files during the block part of `run`, whichever scan makes them."""
        asked = dict.fromkeys(paths, run)
        with self.book:
            self.asked = {**self.asked, **asked}
        try:
            yield
        finally:
            with self.book:
                self.asked = {path: by for path, by in self.asked.items() if asked.get(path) != by}

    def take_again(self, paths: Collection[str], *, wanted: bool) -> set[str]:
        """Decide again on unchanged files; with `wanted` adopt them. Return those that could not be brought in yet."""
        with self._scanning:
            self.context = replace(self.context, wanted=set(paths) if wanted else set())
            try:
                out = Round(self, None, None, lambda: False, again=paths).run()
            finally:
                self.context = replace(self.context, wanted=set())
        return out.waiting & set(paths)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Block scans during the block, with the file list of HEAD loaded."""
        with self._scanning:
            with self.book:
                self.head = self.vault.head()
            self.begin(WalkResult())
            yield

    @contextmanager
    def still(self) -> Iterator[None]:
        """Block scans during the block. Afterwards reload the history.

        If HEAD has the same files as before, under another commit, no scan is needed for that.
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
        """Compare the folder with what is known, and bring in the differences; with `paths` (files or folders at
        rest) only those.

        Raises Unavailable if the vault is missing, and ScanAborted once `stopping` returns true. What was brought in
        until then stays; the next scan continues.
        """
        with self._scanning:
            first = Round(self, paths, progress, stopping)
            out = first.run()
            with self.book:
                missed = self.during.keys() & first.fed
            # Our own commits wrote files whose older bytes this scan was giving to the index: scan these again.
            return out if not missed else out + Round(self, missed, None, stopping).run()

    def superseded(self, path: str, digest: str | None) -> bool:
        """Whether a commit of our own wrote something else to `path` since the scan began. That commit updates the
        index itself, and is newer than what the scan has read."""
        with self.book:
            return path in self.during and self.during[path] != digest

    def behind(self) -> bool:
        """Whether HEAD has something that the index was not given, and that no commit of our own is about to report."""
        return self.stays(lambda: self.vault.head() != self.told)

    def stays(self, moving: Callable[[], bool]) -> bool:
        """Whether `moving` ("HEAD is elsewhere") still returns true after waiting for a commit of our own that may
        explain it."""
        end = time.monotonic() + OURS_S
        while moving() and self.vault.writing and time.monotonic() < end:
            time.sleep(0.005)
        return moving()

    def unread(self, paths: set[str]) -> set[str]:
        """Return which of these files were created, or changed, since a scan met them last."""
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
        """Return the folders that contain files of HEAD, directly or below."""
        return homes(self.look.tree(self.head or self.vault.head()))

    def problems(self, *, fresh: bool = False) -> list[dict[str, Any]]:
        """Return the findings for `doctor`: {level, what, path, line, mend}.

        Files unchanged since the process started are included only with `fresh=True`, which reads all files.
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
        return found + [
            finding(None, "warning", *one) for one in disk.findings(self.vault.root, self.vault.git.git_dir)
        ]

    def files(self, *, gives_way: bool = False) -> Iterator[tuple[str, bytes, FileState]]:
        """Yield every file with the bytes that the index should have, for `rebuild` and `verify`.

        A file that is not at rest, conflicted or not committed yet is given as HEAD has it. With `gives_way` scans that
        wait go first, so that edits are found meanwhile: then the files are not all of one moment.
        """
        done: set[str] = set()
        while True:
            with self._scanning:
                if (yield from self._files(done, gives_way=gives_way)):
                    return
            self._scanning.stand_aside()

    def _files(self, done: set[str], *, gives_way: bool) -> Generator[tuple[str, bytes, FileState], None, bool]:
        """Yield the files that are not in `done`, and add them to it. Return False if a scan waits: then there are more."""
        self.head = self.vault.head()
        found = walk(self.vault.root, {}, self.excluded, max_bytes=self.settings.max_note_bytes)
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
        """Update the list of skipped files after a walk of some paths: paths that it could read are removed from the
        list."""
        looked, still = below(list(paths)), self.still_refused(found)
        kept = [one for one in self.skipped if not looked(one[0]) or one in still]
        self.skipped = [one for one in kept if one not in found.skipped] + found.skipped

    def still_refused(self, found: WalkResult) -> list[tuple[str, str]]:
        """Return the notes that could not be read before and still cannot, though nothing else about them changed:
        no scan reads them."""
        named = {path for path, _ in found.skipped} | found.changed.keys()
        return [
            (path, why)
            for path, why in self.skipped
            if path in found.present and path not in named and not os.access(self.vault.root / path, os.R_OK)
        ]

    def as_committed(self, path: str, blob: str) -> tuple[bytes, FileState]:
        """Return a note as HEAD has it, for a path where something else is, or that cannot be read.

        The state has no stat, so that the next file there counts as changed.
        """
        data = self.vault.readable(blob, path) or b""
        return data, FileState(path, 0, 0, 0, sha256(data), None, self.context.space_at(path))

    def _indexed(self, file: File, tree: Mapping[str, str]) -> Iterator[tuple[str, bytes, FileState]]:
        """Yield a file as the index should have it; nothing if it should have nothing."""
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
        """Whether the settings may now give a note that was only indexed another decision than in the last process."""
        return self.cold and row.lent is not None and self.context.mode_at(row.path) != "index"

    def state(self, file: File, decision: Decision | None = None, digest: str | None = None) -> FileState:
        """Return what the index keeps of a file; for one that is only indexed, also its id and space."""
        seen = file.seen
        lent = decision.node_id if decision is not None and decision.act is FileAction.FIND else None
        space = self.context.space_at(file.path)
        return FileState(file.path, seen.size, seen.mtime_ns, seen.inode, digest or file.digest, lent, space)

    def lent(self, path: str, data: bytes, renamed: Mapping[str, str] | None = None) -> str | None:
        """Return the id under which a file is indexed without containing it; None if it is not such a file.
        `renamed`: the list of renames of another state."""
        context, note = self.context, parse(data, path)
        mode = context.mode_of(path, data)
        if note.kind in {NoteKind.APART, NoteKind.CONFLICTED} or mode == "none" or not data.strip():
            return None
        if note.kind is not NoteKind.FOREIGN and (mode != "index" or context.is_ours(path, data, note)):
            return None
        own = claim(note.kind, note.id)
        return own or self.identity.lent(context.vault_id, path, renamed)

    def complete(self, upserts: dict[str, tuple[bytes, FileState]]) -> None:
        """Add to files of our own commits what only the reconciler knows: the folder's space, and the id of a file
        that an undo gave back to the person."""
        context = self.context
        for path, (data, state) in upserts.items():
            theirs = context.mode_of(path, data) == "index" and not path.startswith(f"{context.home}/")
            lent = self.lent(path, data) if theirs else None
            if lent is not None or context.folders:
                upserts[path] = data, replace(state, lent=lent, space=context.space_at(path))

    def first_path(self, node_id: str, paths: Collection[str]) -> str | None:
        """Return which of several files with one id had it first (called by the index)."""
        return self.identity.first_path(node_id, paths)

    # Our own commits, and steps of a scan

    def _committed(self, some: Sequence[Committed]) -> None:
        for done in some:
            self._follow(done)

    def _follow(self, done: Committed) -> None:
        """Update after a commit of our own: its files are known, and too young to trust their mtime."""
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
        """Load the file list of the last known HEAD, and the ids of the changed files.

        A commit of our own that is not reported yet is not waited for: its report follows soon, and is faster than
        asking git for everything.
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
        """Read a changed file; None if it was moved or changed meanwhile. Raises OSError."""
        data = read_stable(self.vault.root, seen)
        return None if data is None else self.understand(seen, data, tree)

    def understand(self, seen: FileStat, data: bytes, tree: Mapping[str, str]) -> File:
        oid = tree.get(seen.path)
        note = parse(data, seen.path)
        at_head, unconverted = self._stands(seen.path, data, note, oid)
        self.identity.saw(seen.path, note, oid if at_head else None)
        return File(seen, data, note, at_head, unconverted=unconverted)

    def _stands(self, path: str, data: bytes, note: Note, oid: str | None) -> tuple[bool, str | None]:
        """Return whether a file equals HEAD's blob, and why git cannot convert it (None: it can). Filters run only
        for files that may be committed."""
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
        """Return the files that git could not convert and now can. Each filter is tried on one file."""
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
        """Whether the person has staged the file; git is asked once per scan."""
        if self._staged_now is None:
            self._staged_now = self.look.staged()
        if path in self._staged_now:
            self.staged.add(path)
        return path in self._staged_now

    def _ignored(self, paths: Iterable[str]) -> set[str]:
        """Return the paths that git ignores; paths in HEAD are not asked about, to save time."""
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
        """Update the index; `head` only once it has everything of that commit, so that it never claims more than it
        holds."""
        self._apply(upserts, removals, head=head, notes=notes)
        self.told = head or self.told
        with self.book:
            for path in (*upserts, *removals):
                self.overlay.pop(path, None)

    def keep(self, touched: Sequence[FileState]) -> None:
        """Give the index the new stat of files whose bytes did not change."""
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
