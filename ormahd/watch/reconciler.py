"""The reconciler: brings in changes from outside (DESIGN section 5, "What happens outside").

A scan walks the folder (`walk`), reads changed files (`reading`), decides on each (`decide`, with `identity`), commits
in the person's name what is not in the history (`edits`), and updates the index. A file that is being edited waits until it
is at rest. Commits of Ormah's own reach the index by themselves.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from ormahd.errors import OrmahError, Unavailable
from ormahd.git.index import operation_under_way
from ormahd.index.history import History
from ormahd.index.index import Index
from ormahd.model.change import Clock, Committed, FileState, Kind, finding, sha256
from ormahd.model.lines import is_lines
from ormahd.note.markdown import conflict_line
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind, claim
from ormahd.process import disk, priority
from ormahd.settings import VaultSettings
from ormahd.vault.create import CARD, read_card
from ormahd.vault.excluded import Excluded, is_note_name
from ormahd.vault.vault import Vault
from ormahd.watch.decide import Context, Decision, File, FileAction, decide
from ormahd.watch.edits import BUSY_S, FileEdit, commit, label
from ormahd.watch.identity import HeadFiles, Identity
from ormahd.watch.reading import FileStat, RestCheck, read_stable
from ormahd.watch.walk import MEND_UNREADABLE, WalkResult, below, folders_of, walk

BATCH = 500
"""The largest number of files in one update of the index, and in one commit."""
BATCH_BYTES = 32_000_000
"""Once the notes collected in memory have so many bytes, they are given to the index and committed."""
COLD_NS = 10_000_000_000
"""The first scan of a process reads files again whose mtime is at most so many nanoseconds before the newest one."""
RACY_NS = 2_000_000_000
"""A file whose mtime is less than so many nanoseconds before the time of reading may change again and keep its mtime:
FAT has a resolution of 2 s. Such a file is read again. Git has the same rule."""
FAULTS: Final = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""Exceptions that unexpected content of one file may cause, in contrast to a failing disk, database or repository."""
_DENIED: Final = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_SUCH_FILE: Final = {errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ENXIO}
OF_ONE_FILE: Final = frozenset(_DENIED | _NO_SUCH_FILE)
"""Error numbers of the system that concern one path only, in contrast to a full or failing disk."""
OWN_DATA = ".ormah"
LOCAL: Final = frozenset({"tmp", "conflicts"})
"""Folders in `.ormah/` that only the daemon uses and that are not committed."""

Progress = Callable[[int, int], None]
"""A function that is called with (files done, all changed files)."""

log = logging.getLogger(__name__)


class ScanAborted(Unavailable):
    """The scan ended before it had read the whole vault, because Ormah is stopping."""

    def __init__(self) -> None:
        super().__init__("the vault was not read to its end: Ormah is stopping", hint="`ormahctl up` starts it again")


class ScanResult(Struct):
    """The result of a scan. `waiting_until`: when to scan again, in `time.monotonic()`; None: another scan is not
    needed."""

    indexed: int = 0
    """The number of files that were indexed without a commit: the history has them already, or is not to have them."""
    edited: int = 0
    """The number of files that a person added, edited or moved, and that were committed."""
    removed: int = 0
    skipped: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """{path: finding for `doctor`} of the files that were not read."""
    waiting: set[str] = field(default_factory=set)
    """The paths of files that are not at rest yet, or wait for another git to end. "": the whole folder."""
    waiting_until: float | None = None

    def wait(self, path: str, seconds: float) -> None:
        """Record that `path` waits for a scan that begins after `seconds`."""
        self.waiting.add(path)
        until = time.monotonic() + seconds
        self.waiting_until = until if self.waiting_until is None else min(self.waiting_until, until)


class Reconciler:
    """Brings changes in the folder into history and index. Thread-safe; one scan runs at a time."""

    def __init__(
        self,
        vault: Vault,
        index: Index,
        history: History,
        *,
        settings: VaultSettings,
        clock: Clock,
        observed: Callable[[int, Sequence[str]], None] = lambda _count, _ids: None,
        check_secrets: bool = True,
    ) -> None:
        """`observed` is called after each update of the index with the number of files and the ids of notes in it."""
        self.vault = vault
        self.index = index
        self.history = history
        self.clock = clock
        self.observed = observed
        self.check_secrets = check_secrets
        self.quiet = settings.quiet_seconds
        self.head_files = HeadFiles(vault)
        self.excluded = Excluded(vault.root, self._ignored, [vault.git.git_dir / "info/exclude"])
        self.rest = RestCheck(settings.quiet_seconds)
        self.findings: dict[str, tuple[dict[str, Any], ...]] = {}
        """{path: what `doctor` is to say} of files that were read."""
        self.skipped: Mapping[str, dict[str, Any]] = {}
        """The same of those that the last scan did not read."""
        self.trusted_ns: int | None = None
        """Files with an older mtime are those that the index has, if their stat is the same. None: no scan has ended yet."""
        self.scanning = threading.Lock()
        """Held during a scan. A caller that replaces the history holds it too."""
        self.stopping = threading.Event()
        """Set once: a scan that runs then aborts."""
        self.reached: str | None = None
        """The commit that the last scan found as HEAD, or the last of Ormah's own commits on top of it."""
        vault.listen(self._follow)

    def _follow(self, batch: Sequence[Committed]) -> None:
        """Record that the vault's own commits moved HEAD. Not so for a sync, because its files must be scanned."""
        for done in batch:
            if done.parent == self.reached and done.kind is not Kind.SYNC:
                self.reached = done.commit

    def scan(
        self, *, rested: Collection[str] = (), only: Collection[str] | None = None, progress: Progress | None = None
    ) -> ScanResult:
        """Find what differs between folder, HEAD and index, and bring it in.

        `rested`: paths of files or folders that are known to be at rest, existing or not. `only`: examine only these
        files, which exist and are in the index; the first scan, and one after HEAD has moved, examine the whole folder
        in any case. Raises Unavailable if the vault is missing, and ScanAborted once `stopping` is set; the next scan
        then continues.
        """
        with self.scanning:
            return _Scan(self, progress).run(rested, only)

    def lacks_head(self) -> bool:
        """Whether HEAD is at a commit that the index does not have yet."""
        with self.vault.between_writes():
            return self.vault.head() != self.index.position

    def pending_paths(self, paths: Iterable[str]) -> set[str]:
        """Return the paths in `paths` that a scan may still have to bring in: all if HEAD has moved, otherwise the
        files whose content HEAD does not have. A file that may not be read counts as in HEAD."""
        if self.lacks_head():
            return set(paths)
        found = set()
        for path in paths:
            with suppress(OSError):  # one that may not be read counts as in HEAD
                data = self.vault.read(path)
                if data is not None and not self.vault.is_committed(path, data):
                    found.add(path)
        return found

    def problems(self, *, fresh: bool = False) -> list[dict[str, Any]]:
        """Return what `doctor` is to say about the vault's files: dicts {level, what, path, line, mend}.

        With `fresh`, all files are read first; otherwise files that this process has not read yet are missing from the
        result.
        """
        if fresh:
            for _ in self.files():
                pass
        found = [problem for problems in list(self.findings.values()) for problem in problems]
        found += self.skipped.values()
        if self.vault.notices():
            what, mend = "HEAD is detached: commits belong to no branch", "`git switch -c NAME` in the vault keeps them"
            found.append(finding(None, "warning", what, mend))
        return found + [finding(None, "warning", *row) for row in disk.findings(self.vault.root)]

    def files(self) -> Iterator[tuple[str, bytes, FileState]]:
        """Yield (path, bytes, state) of every file as the index should have it, for `rebuild` and `verify`.

        A file that may not be read is yielded as it is in HEAD. So is a file with changes that are not committed yet. A
        file with conflict markers is yielded as in its last commit without them.
        """
        with self.scanning:
            yield from _Scan(self).files()

    def _ignored(self, paths: Iterable[str]) -> set[str]:
        """Return the paths in `paths` that git ignores. To save time, git is not asked about files of HEAD and their
        folders."""
        tree = self.head_files.at(self.vault.head())
        folders = folders_of(tree)
        return self.vault.ignored_paths([path for path in paths if path not in tree and path not in folders])


class _Scan:
    """One pass over the vault: finds changes, and brings them into index and history."""

    def __init__(self, owner: Reconciler, progress: Progress | None = None) -> None:
        """`progress` is called after each changed file. HEAD, the index's rows and its position are read at one
        moment."""
        self.owner = owner
        self.progress = progress
        self.vault = owner.vault
        self.index = owner.index
        self.result = ScanResult()
        self.begun_ns = time.time_ns()
        with self.vault.between_writes():
            self.head = owner.reached = self.vault.head()
            self.position = self.index.position
            self.rows = self.index.known_files()
        self.tree = owner.head_files.at(self.head)
        self.upserts: dict[str, tuple[bytes, FileState]] = {}
        self.notes: dict[str, Note | None] = {}
        self.removals: list[str] = []
        self.new_stats: list[FileState] = []
        self.collected_bytes = 0
        self.edits: dict[str, list[FileEdit]] = {"Add": [], "Move": [], "Edit": [], "Delete": []}
        self.waiting_ids: set[str | None] = set()
        self.decided: set[str] = set()
        self.moved: set[str] = set()
        """Paths that a moved note has left."""
        self.lost_ids: set[str] = set()
        """Ids that a file lost in this scan."""
        self.displaced: set[str] = set()
        """Files whose id this scan gave to another file."""

    def run(self, rested: Collection[str], only: Collection[str] | None) -> ScanResult:
        """Make the scan, and return its result. `rested`, `only`: see `Reconciler.scan`."""
        owner = self.owner
        # The first scan trusts a stat only if its mtime is clearly older than the newest one.
        self.why_busy = self.vault.busy()
        since = owner.trusted_ns
        if since is None:
            past = [row.mtime_ns for row in self.rows.values() if row.mtime_ns <= self.begun_ns]
            since = max(past, default=0) - COLD_NS
        if owner.trusted_ns is None or self.position != self.head:
            only = None

        # Find what changed. During a person's rebase or merge, nothing is brought in.
        self.walk(since=since, only=only)
        if self.rows and operation_under_way(self.vault.git):
            return self.postpone()

        # Bring it in, and decide again on files that these changes concern.
        self.bring_in(self.found.changed)
        if only is None:
            self.bring_in_deletions(rested)
        self.update_index()
        self.commit_all()
        if self.displaced or self.lost_ids:
            self.decide_again()
        if self.record_head() and only is None:
            self.commit_own_data()
        if only is None:
            owner.trusted_ns = self.begun_ns - RACY_NS
        owner.rest.keep(self.result.waiting)
        return self.result

    def postpone(self) -> ScanResult:
        """Leave everything to a later scan, because a rebase or merge is under way, and return the result.

        Until it ends, notes may be missing from the folder; the index keeps what it has. Only the files with conflict
        markers are recorded, for `doctor`.
        """
        for path, seen in self.found.changed.items():
            with self.skipping_faults(path):
                file, row = self.read(seen), self.rows.get(path)
                if file is not None and file.note.kind is NoteKind.CONFLICTED:
                    self.decide(file)
                if file is None or row is None or row.digest != file.note.digest:
                    self.result.wait(path, BUSY_S)
        for path in self.found.absent(self.rows):
            self.result.wait(path, BUSY_S)
        return self.result

    def walk(self, *, since: int | None, only: Collection[str] | None = None) -> None:
        """Walk the folder, and prepare the decisions: set `known`, `found`, `identity` and `context`. `since`: see
        `walk.walk`; None: read all files. `only`: see `Reconciler.scan`."""
        owner = self.owner
        self.known: Mapping[str, FileState] = {} if since is None else self.rows
        if owner.trusted_ns is None:
            # The settings that decide about files that are no memories may have changed since the last process.
            self.known = {path: row for path, row in self.known.items() if path in self.memories}
        if only is None:
            self.found = walk(self.vault.root, self.known, owner.excluded, since=since)
        else:
            skipped = {path: why for path, why in owner.skipped.items() if path not in only}
            self.found = WalkResult(present=set(self.rows), skipped=skipped)
        owner.skipped = self.result.skipped = self.found.skipped
        changed = self.found.changed
        self.identity = Identity(self.vault, owner.history, self.tree, changed)
        changed.update(self.stats(only or ()))
        self.context = Context(self.vault, self.identity, owner.clock, owner.check_secrets)
        if since is not None and self.position not in {None, self.head}:
            # A person may have moved the branch without the files (`git reset --mixed`), which no stat shows.
            others = owner.head_files.differing(self.position, self.head)
            moved = self.rows.keys() if others is None else self.rows.keys() & others.keys()
            changed.update(self.stats(moved - changed.keys()))

    @functools.cached_property
    def memories(self) -> set[str]:
        """The paths of the files that are memories in the index."""
        return {path for path, kind in self.index.kinds().items() if kind == NoteKind.NOTE}

    def stats(self, paths: Iterable[str]) -> dict[str, FileStat]:
        """Return {path: stat} of the files in `paths` that are regular files and can be examined."""
        found: dict[str, FileStat] = {}
        for path in filter(self.identity.is_present, paths):
            with self.skipping_faults(path):
                found[path] = FileStat.of(path, (self.vault.root / path).lstat())
        return found

    @contextmanager
    def skipping_faults(self, path: str) -> Iterator[None]:
        """Context manager: an error in the block that may be due to the file at `path` ends the block, and the file is
        skipped."""
        try:
            yield
        except OSError as exc:
            self.found.present.discard(path)
            self.found.skip(path, "warning", f"cannot be read or written: {exc.strerror or exc}", MEND_UNREADABLE)
        except FAULTS as exc:
            log.exception("a file of the vault cannot be taken in; the others are")
            mend = "change the file or move it out of the vault; please report it, the log has the rest"
            self.found.skip(path, "error", f"cannot be taken in: {type(exc).__name__}: {exc}", mend)

    # Changed files

    def read(self, seen: FileStat) -> File | None:
        """Read and parse a changed file; None if its stat is not `seen` any more. Raises OSError."""
        data = read_stable(self.vault.root, seen)
        return None if data is None else self.parse_file(seen, data)

    def parse_file(self, seen: FileStat, data: bytes) -> File:
        """Return the file with the stat `seen` and the bytes `data`, parsed, and tell `identity` of it."""
        note, at_head = parse(data, seen.path), self.is_at_head(seen.path, data)
        self.identity.record_file(seen.path, note, self.tree[seen.path] if at_head else None)
        return File(seen, data, note, at_head)

    def is_at_head(self, path: str, data: bytes) -> bool:
        """Whether HEAD has the file `path` with exactly these bytes."""
        return path in self.tree and self.vault.git.oid("blob", data) == self.tree[path]

    def decide(self, file: File) -> Decision:
        """Decide what to do with a file. Record its problems for `doctor`, and the id that it gets."""
        decision = decide(file, self.context)
        if decision.problems:
            self.owner.findings[file.path] = decision.problems
        else:
            self.owner.findings.pop(file.path, None)
        if decision.node_id is not None:
            self.identity.record_owner(file.path, decision.node_id)
        return decision

    def bring_in(self, changed: Mapping[str, FileStat], *, forced: bool = False) -> None:
        """Bring in the changed files, shortest path first, and give them to the index and the history in batches.
        `changed`: {path: stat}. `forced`: decide also on files that equal what the index has. Raises ScanAborted."""
        for count, path in enumerate(priority.giving(shortest_first(changed)), 1):
            if self.owner.stopping.is_set():
                raise ScanAborted
            with self.skipping_faults(path):
                self.bring_in_file(changed[path], forced)
            collected_files = max(map(len, (self.upserts, self.new_stats, *self.edits.values())))
            if collected_files >= BATCH or self.collected_bytes > BATCH_BYTES:
                self.update_index()
                self.commit_all()
            if self.progress is not None and not forced:
                self.progress(count, len(changed))

    def bring_in_file(self, seen: FileStat, forced: bool) -> None:
        """Read one changed file, and collect it for the index or for a commit; or let it wait until it is at rest."""
        path = seen.path
        data = read_stable(self.vault.root, seen)
        if data is None:  # it was written meanwhile, or deleted
            if self.identity.is_present(path):
                self.result.wait(path, self.owner.quiet)
            return
        row = self.known.get(path)
        if row is not None and row.digest == sha256(data) and self.is_at_head(path, data) and not forced:
            self.record_stat(seen, row)
            return

        # Conflict markers: the index gets the version before them. An edit: wait until the file is at rest.
        file = self.parse_file(seen, data)
        if file.note.kind is NoteKind.CONFLICTED:
            self.decide(file)
            self.index_head(path, seen.state(""))
            return
        wait = 0.0
        if not file.at_head:
            wait = self.owner.rest.seconds_until_rest(path, seen) or (BUSY_S if self.why_busy else 0.0)
        if wait > 0:
            self.waiting_ids.add(file.note.id)
            self.result.wait(path, wait)
            if row is None:  # until then the index has what HEAD has
                self.index_head(path, FileState(path, 0, 0, 0, ""))
            return

        # Decide, and note which other files need a new decision because an id moves.
        self.decided.add(path)
        decision = self.decide(file)
        before = self.identity.id_at_head(path)
        if before is not None and before != decision.node_id:
            self.lost_ids.add(before)
        if decision.node_id is not None:
            self.displaced.update(self.identity.paths_at_head(decision.node_id))

        # Collect the file for a commit, or only for the index.
        if decision.act is FileAction.COMMIT:
            self.collect_edit(file, decision)
        elif row is not None and row.digest == file.note.digest and not (file.at_head or path in self.memories):
            self.record_stat(seen, row)  # it was left uncommitted before
        else:
            self.collect_row(seen.state(file.note.digest), decision.data, file.note if decision.data is data else None)

    def record_stat(self, seen: FileStat, row: FileState) -> None:
        """Record the new stat of a file whose content the index has already, so that later scans do not read it."""
        if seen.differs(row):
            self.new_stats.append(seen.state(row.digest))

    def index_head(self, path: str, state: FileState) -> None:
        """Have the index hold the last committed version of a file that has no conflict markers, with the file's state
        `state`."""
        data = self.last_without_markers(path)
        if data is None:
            return
        row = self.rows.get(path)
        if row is not None and row.digest == sha256(data):
            self.new_stats.append(replace(state, digest=row.digest))
        else:
            self.collect_row(replace(state, digest=sha256(data)), data, None)

    def last_without_markers(self, path: str) -> bytes | None:
        """Return the content of a file in its last commit in which it has no conflict markers; None if there is none.
        Another git may have committed versions with conflict markers."""
        if path not in self.tree:
            return None
        # A record of `git log --raw`: `:old-mode new-mode old-id new-id status`. Between them are the files' paths.
        raw = self.vault.git.log("--format=", "--raw", "--no-abbrev", "--no-renames", "--diff-filter=AM", "--", path)
        earlier_oids = (record.split()[3].decode() for record in raw if record[:1] == b":")
        for oid in chain([self.tree[path]], earlier_oids):
            if parse(data := self.vault.blob(oid), path).kind is not NoteKind.CONFLICTED:
                return data
        return None

    def collect_row(self, state: FileState, data: bytes, note: Note | None) -> None:
        """Collect a file for the index. `note`: the parsed file; None: the index parses `data`."""
        self.upserts[state.path] = (data, state)
        self.notes[state.path] = note
        self.collected_bytes += len(data)
        self.result.indexed += 1

    def collect_edit(self, file: File, decision: Decision) -> None:
        """Collect a file to commit, as added, moved or edited."""
        path, moved = file.path, list[str]()
        if decision.node_id is not None and path not in self.tree:
            moved = self.identity.moved_from(decision.node_id, path)
            self.moved.update(moved)
        verb = "Move" if moved else "Edit" if path in self.tree else "Add"
        edit = FileEdit(path, decision.data, decision.node_id, file.note.digest, label(file.note), tuple(moved))
        self.edits[verb].append(edit)
        self.collected_bytes += len(decision.data)

    # Files that need a new decision although they did not change

    def decide_again(self) -> None:
        """Decide again on files that did not change themselves. These are the files whose id another file has got, and,
        after a note lost its id or was deleted, the note's copies: a copy may now get the id."""
        self.known = self.rows = self.index.known_files()
        paths = self.rows.keys() - self.tree.keys() if self.lost_ids else set[str]()
        paths = paths.union(self.displaced, *map(self.identity.paths_at_head, self.lost_ids))
        self.bring_in(self.stats(paths.difference(self.decided, self.moved)), forced=True)
        self.update_index()
        self.commit_all()

    # Deleted files

    def bring_in_deletions(self, rested: Collection[str]) -> None:
        """Remove the files that no longer exist from the index, and commit their deletion in the person's name.
        `rested`: paths that are known to be at rest."""
        # Deleted files are known to the index or to HEAD. Files that exist and cannot be read are indexed as in HEAD.
        is_rested = below(rested)
        notes = [path for path in self.tree.keys() - self.rows.keys() - self.found.present if is_note(path)]
        unknown = [path for path in notes if not self.owner.excluded.is_excluded_by_name(path)]
        absent = set(self.found.absent([*self.rows, *unknown]))
        for path in set(unknown) - absent:  # those that cannot be read are found as HEAD has them
            self.index_head(path, FileState(path, 0, 0, 0, ""))

        for path in shortest_first(absent):
            if path in self.moved or (path not in self.rows and self.identity.id_at_head(path) is None):
                continue
            self.owner.findings.pop(path, None)
            # A note may have been moved to a file that waits; and an editor may write the file again.
            node, wait = self.identity.id_at_head(path), 0.0
            if node is not None and node in self.waiting_ids:
                wait = self.owner.quiet
            elif path in self.tree:
                wait = 0.0 if is_rested(path) else self.owner.rest.seconds_until_rest(path, None)
                wait = wait or (BUSY_S if self.why_busy else 0.0)
            if wait > 0:
                self.result.wait(path, wait)
                continue
            if path not in self.tree:
                self.removals.append(path)
                self.result.removed += 1
            else:
                note = parse(self.vault.blob(self.tree[path]), path)
                self.edits["Delete"].append(FileEdit(path, None, claim(note.kind, note.id), None, label(note)))
            if node is not None:
                self.lost_ids.add(node)

    # Output: to the index and to the history

    def update_index(self) -> None:
        """Give the collected files to the index.

        One call passes both changed and deleted paths, so that a moved note is never twice in the index, or missing
        from it.
        """
        upserts, removals, notes = self.upserts, self.removals, self.notes

        def update(paths: Sequence[str]) -> None:
            """Pass these changed paths, and all deleted ones, to the index and to the observer."""
            part = {path: upserts[path] for path in paths}
            self.index.apply(part, removals, head=None, notes=notes, seen=self.rows)
            ids = [note.id for note in map(notes.get, part) if note is not None and note.id is not None]
            self.owner.observed(len(part) + len(removals), ids)

        if upserts or removals:
            self.call_isolating_faults(list(upserts), update)
        self.upserts, self.notes, self.removals, self.collected_bytes = {}, {}, [], 0
        if self.new_stats:
            self.index.update_states(self.new_stats)
            self.new_stats = []

    def call_isolating_faults(self, paths: Sequence[str], act: Callable[[Sequence[str]], None]) -> None:
        """Call `act` with all paths. If that fails because of a single file, call `act` with each path alone, and skip
        the files that fail. A path may thus be passed twice."""
        try:
            act(paths)
        except (*FAULTS, OSError) as exc:
            if not paths or (isinstance(exc, OSError) and exc.errno not in OF_ONE_FILE):
                raise
            for path in paths:
                with self.skipping_faults(path):
                    act([path])

    def commit_all(self) -> None:
        """Commit the collected edits, with at most `BATCH` files in a commit."""
        for verb, edits in self.edits.items():
            self.edits[verb] = []
            for at in range(0, len(edits), BATCH):
                self.commit(verb, edits[at : at + BATCH])

    def commit(self, verb: str, edits: Sequence[FileEdit]) -> None:
        """Commit these edits, and count them. Files that could not be committed yet wait for the next scan."""
        named = {edit.path: edit for edit in edits}

        def act(paths: Sequence[str]) -> None:
            """Commit the edits of these paths."""
            done, waiting = commit(self.vault, verb, [named[path] for path in paths], quiet=self.owner.quiet)
            if verb == "Delete":
                self.result.removed += done
            else:
                self.result.edited += done
            for path, seconds in waiting.items():
                self.result.wait(path, seconds)

        self.call_isolating_faults(list(named), act)

    def record_head(self) -> bool:
        """Record HEAD in the index, if the index now has everything of HEAD. Return False only if HEAD has moved during
        the scan; another scan is then scheduled."""
        with self.vault.between_writes():
            head, position, reached = self.vault.head(), self.index.position, self.owner.reached
        if head not in {reached, position}:
            self.result.wait("", 0.0)
            return False
        if head != position and not self.result.waiting:
            self.index.apply({}, (), head=head)
            self.owner.observed(0, [])
        return True

    # The vault's own data: the card and the `.jsonl` files in `.ormah/`

    def commit_own_data(self) -> None:
        """Commit the files of the vault's own data (the card and the `.jsonl` files in `.ormah/`) that differ from
        HEAD. A person may have edited them, or moved the branch without them (`git reset --mixed`)."""
        root, owner = self.vault.root, self.owner
        if self.why_busy is not None:
            self.result.wait("", BUSY_S)
        if self.why_busy is not None or CARD not in self.tree:
            return
        # The files of HEAD and of the folder.
        paths = {path for path in self.tree if path == CARD or (path.startswith(f"{OWN_DATA}/") and is_lines(path))}
        for folder, inner, names in os.walk(root / OWN_DATA):
            inner[:] = [name for name in inner if name not in LOCAL]
            paths |= {os.path.relpath(os.path.join(folder, name), root) for name in names if name.endswith(".jsonl")}

        # A missing card is left alone; other missing files are committed as empty ones.
        edits = []
        for path in sorted(paths):
            seen = None
            if os.path.lexists(root / path):
                if not self.identity.is_present(path):
                    continue
                seen = FileStat.of(path, os.lstat(root / path))
            with self.skipping_faults(path):
                data = None if seen is None else read_stable(root, seen)
                owner.findings.pop(path, None)
                if (seen is None and path == CARD) or (data is not None and self.vault.is_committed(path, data)):
                    continue
                wait = owner.quiet if seen is not None and data is None else owner.rest.seconds_until_rest(path, seen)
                if wait > 0:
                    self.result.wait(path, wait)
                elif (why := _refusal_reason(self.vault, path, data)) is not None:
                    mend = f"mend it, or have what is in the history: git -C {root} restore {path}"
                    owner.findings[path] = (finding(path, "warning", f"{why}: it is not committed", mend),)
                else:
                    expect = None if data is None else sha256(data)
                    edits.append(FileEdit(path, data or b"", None, expect, path.removeprefix(f"{OWN_DATA}/")))
        if edits:
            self.commit("Edit", edits)

    # For `rebuild` and `verify`

    def files(self) -> Iterator[tuple[str, bytes, FileState]]:
        """See `Reconciler.files`."""
        self.walk(since=None)
        found, owner = self.found, self.owner
        for path in [path for path in owner.findings if is_note(path) and path not in found.present]:
            del owner.findings[path]
        for path in priority.giving(shortest_first(found.changed)):
            ought: list[tuple[str, bytes, FileState]] = []
            with self.skipping_faults(path):
                file = self.read(found.changed[path])
                ought = [] if file is None else self.rows_of(file)
            yield from ought
        skipped = below(found.skipped)
        for path in sorted(path for path in self.tree if skipped(path) and is_note(path)):
            if path not in found.present and not owner.excluded.is_excluded_by_name(path):
                data = self.vault.blob(self.tree[path])
                yield path, data, FileState(path, 0, 0, 0, sha256(data))

    def rows_of(self, file: File) -> list[tuple[str, bytes, FileState]]:
        """Return the rows (path, bytes, state) that the index should have for the file: one, or none."""
        decision, path = self.decide(file), file.path
        if decision.act is FileAction.INDEX:
            return [(path, decision.data, file.seen.state(file.note.digest))]
        data = self.last_without_markers(path)
        # The next scan must find an edit that is not committed yet: leave its stat unknown.
        state = file.seen.state("") if decision.act is FileAction.HOLD else FileState(path, 0, 0, 0, "")
        return [] if data is None else [(path, data, replace(state, digest=sha256(data)))]


def shortest_first(paths: Iterable[str]) -> list[str]:
    """Return the paths sorted by their length, and those of one length by name."""
    return sorted(paths, key=lambda path: (len(path), path))


def is_note(path: str) -> bool:
    """Whether a path can be that of a note, by its file name."""
    return is_note_name(path.rpartition("/")[2])


def _refusal_reason(vault: Vault, path: str, data: bytes | None) -> str | None:
    """Return why a file of the vault's own data cannot be committed as it is; None if it can. `data`: its bytes; None:
    it is deleted."""
    if data is None:
        return None
    try:
        if path == CARD:
            read_card(data, vault.root)
        elif b"\0" in data or conflict_line(data.decode()):
            return "it has marks of a conflict, or is no text"
    except UnicodeDecodeError:
        return "it is no text"
    except OrmahError as exc:
        return exc.message
    return None
