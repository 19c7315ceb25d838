"""One scan of the reconciler. Its steps share their findings as attributes of a `Round`."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ormahd.errors import BegunAnew
from ormahd.git.index import under_way
from ormahd.model.change import FileState, Kind, sha256
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind, claim
from ormahd.process import priority
from ormahd.watch import again
from ormahd.watch.decide import BUSY_S, CommitItem, Decision, File, FileAction, Guard, commit, decide, label, plain
from ormahd.watch.reading import follow, follow_released, read_stable
from ormahd.watch.scan import FileStat, ScanAborted, ScanResult, WalkResult, below, differs, hidden, unseen, walk

if TYPE_CHECKING:
    from ormahd.watch.reconciler import Reconciler

BATCH = 500
"""The largest number of files in one update of the index, and in one commit."""
BATCH_BYTES = 32_000_000
"""Once the notes collected in memory have so many bytes, they are given to the index and committed."""
COLD_NS = 10_000_000_000
"""The first scan of a process reads files again whose mtime is at most so many nanoseconds before the newest one."""
MASS = 20
"""The log warns if so many notes or more are deleted at once, and they are more than half of all. They are committed
nevertheless, because that may be intended, and `git revert` restores them."""

Upserts = Mapping[str, tuple[bytes, FileState]]

log = logging.getLogger(__name__)


class Round:
    """One scan of the vault or, with `paths`, of some files and folders: finds changes and brings them into index and
    history."""

    def __init__(
        self, owner: Reconciler, paths: Collection[str] | None, progress: Callable[[int, int], None] | None,
        stopping: Callable[[], bool], *, again: Collection[str] = (),
    ) -> None:  # fmt: skip
        self.owner = owner
        self.vault = owner.vault
        self.paths = paths
        self.again = again
        """Files on which to decide again even if they are unchanged."""
        self.progress = progress
        self.stopping = stopping
        self.out = ScanResult()
        self.rows: Mapping[str, FileState] = owner.known()
        with owner.book:
            self.anew = owner.anew
            owner.during = {}
            self.known: Mapping[str, FileState] = {**self.rows, **owner.overlay} if owner.overlay else self.rows
        self.upserts: dict[str, tuple[bytes, FileState]] = {}
        self.notes: dict[str, Note | None] = {}
        self.renamed: dict[str, str] = {}
        """{new path: id} of the notes that are only indexed and were moved."""
        self.removals: list[str] = []
        self.restated: list[FileState] = []
        self.bytes = 0
        self.items: dict[str, list[CommitItem]] = {"Adopt": [], "Edit": [], "Move": []}
        self.reverted: list[str] = []
        """Files whose adoption a person reverted by hand, which are to be released."""
        self.waiting_ids: set[str | None] = set()
        self.moved: set[str] = set()
        self.vanished: set[str] = set()
        self.outdone: set[str] = set()
        self.decided: set[str] = set()
        self.fed: set[str] = set()
        self.why_busy: str | None = None
        self.half_done = False
        self.behind = False
        self.led: set[str] = set()
        """Unchanged files whose content in HEAD has changed."""
        self.on_its_way = False
        """Whether the scan left out files because a commit of our own, not reported yet, gives them to the index."""

    def run(self) -> ScanResult:
        owner = self.owner
        owner.own.since = owner.own.since or owner.position()
        found, rested = self.walk()
        self.guard = Guard(found.skipped)
        self.led = again.led_elsewhere(self, found)
        owner.begin(found)
        self.tree = owner.look.tree(owner.head)
        self.why_busy = self.vault.busy()
        # During a rebase the index keeps its earlier content: notes may be missing from the folder for a while. An empty
        # index takes what is there.
        self.half_done = bool(self.rows) and under_way(self.vault.git) is not None
        self.out.skipped = found.skipped
        if self.paths is None:
            found.skipped += owner.still_refused(found)
            owner.skipped = found.skipped
            if owner.cold or self.behind:
                missed = unseen(found, self.tree, self.known, owner.excluded)
                found.gone += [path for path in missed if owner.identity.at_head(path) is not None]
        self.renamed = follow(self, found)
        follow_released(self, found)
        self.take(found.changed)
        again.decided_anew(self)
        self.gone(found, rested)
        self.kept(found)
        self.feed()
        self.commit_all()
        if self.outdone:
            again.copies_of_the_taken(self)
        if self.vanished:
            again.copies_of_the_vanished(self)
        if self.finish() and self.paths is None:
            again.bring_in_own_data(self)
        if self.paths is None:
            owner.cold = False
        else:
            owner.passed_by(found, self.paths)
        owner.undecided &= self.out.waiting
        self.out.problems = [p for problems in owner.said.values() for p in problems]
        return self.out

    def walk(self) -> tuple[WalkResult, set[str] | None]:
        """Walk the folder. Return (the result, rested). `rested`: the paths at or below `paths` that do not exist and
        are known to be at rest; None if no such paths are known."""
        owner = self.owner
        if owner.cold:
            now = time.time_ns()
            latest = max((row.mtime_ns for row in self.known.values() if row.mtime_ns <= now), default=0)
            with owner.book:
                owner.racy |= {
                    path
                    for path, row in self.known.items()
                    if row.mtime_ns > latest - COLD_NS or owner.chosen_anew(row)
                }
        with owner.book:
            doubted = set(owner.racy)
            # Before the walk: a commit during it may have been read only in part.
            owner.walked = self.vault.head()
        self.behind = owner.stays(self.not_told)
        with owner.book:
            owner.head = owner.walked
        options: dict[str, Any] = {"doubted": doubted}
        begun = time.time_ns()
        found = walk(self.vault.root, self.known, owner.excluded, paths=self.paths, **options)
        rested: set[str] | None = None
        if self.paths is not None and (found.gone or self.behind):
            # An absent note may have moved: only a walk of the whole folder tells a move from a deletion. And a commit
            # made by hand may have changed more than the paths at rest.
            rested = set(found.gone)
            self.paths = None
            found = walk(self.vault.root, self.known, owner.excluded, **options)
        with owner.book:
            if self.paths is None:
                owner.met.whole(begun, found.changed)
            else:
                owner.met.some(found.changed)
        return found, rested

    def not_told(self) -> bool:
        """Whether HEAD, before the walk, was another commit than the one up to which the index is complete."""
        with self.owner.book:
            return self.owner.told != self.owner.walked

    def moved_on(self) -> bool:
        """Whether HEAD is neither where it was before the walk nor at a later commit of our own."""
        head = self.vault.head()
        with self.owner.book:
            return head != self.owner.walked

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
        owner = self.owner
        path = met.path
        data = read_stable(self.vault.root, met)
        if data is None:
            if owner.identity.present(path):
                self.out.wait(path, owner.settings.quiet_seconds)
            return
        row = self.known.get(path)
        digest = sha256(data)
        same = row is not None and row.digest == digest and not owner.chosen_anew(row)
        led = (path in self.led or path in owner.wrote) and self.tree.get(path) != self.vault.conversion.known_id(
            path, data
        )
        if not led:
            owner.wrote.discard(path)
        if row is not None and same and not led and not forced:
            self.touched(met, row)
            return
        if not forced and self.ours(path, data, digest):
            return
        file = owner.understand(met, data, self.tree)
        file.lent = self.renamed.get(path) or (row.lent if row is not None else None)
        if self.half_done:
            if file.note.kind is NoteKind.CONFLICTED:
                owner.note(file, decide(file, owner.context))
            self.waiting_ids.add(file.note.id)
            self.out.wait(path, BUSY_S)
            return
        if not file.at_head:
            if path not in self.renamed and (seconds := owner.rest.missing(met)) > 0:
                self.waiting_ids.add(file.note.id)
                self.out.wait(path, seconds)
                return
            if self.why_busy is not None and owner.context.writes(file):
                self.waiting_ids.add(file.note.id)
                self.out.wait(path, BUSY_S)
                return
        self.decided.add(path)
        owner.wrote.discard(path)
        decision = decide(file, owner.context)
        owner.note(file, decision)
        before = owner.identity.at_head(path)
        if before is not None and before[0] != decision.node_id:
            self.vanished.add(before[0])
        if decision.node_id is not None:
            owner.identity.took(path, decision.node_id)
            self.outdone.update(owner.identity.paths(decision.node_id))
        self.act(file, decision)

    def ours(self, path: str, data: bytes, digest: str) -> bool:
        """Whether a commit of our own has written these bytes to `path` since the scan began, or is about to.

        Such a commit updates the index itself. If it fails, a later scan finds the file changed.
        """
        with self.owner.book:
            if self.owner.during.get(path) == digest:
                return True
        promised = self.vault.writes(path, data)
        self.on_its_way |= promised
        return promised

    def act(self, file: File, decision: Decision) -> None:
        if decision.act is FileAction.HOLD:
            self.hold(file)
        elif decision.act in {FileAction.INDEX, FileAction.PLAIN, FileAction.FIND}:
            self.upsert(file, plain(file, decision), decision=decision)
        elif decision.act is FileAction.ADOPT and file.at_head and file.path in self.owner.reverts.files():
            self.reverted.append(file.path)
        else:
            self.enlist(file, decision)

    def touched(self, met: FileStat, row: FileState) -> None:
        """Record the new stat of a file whose bytes did not change, so that it is not read by every scan."""
        if differs(row, met):
            state = replace(row, size=met.size, mtime_ns=met.mtime_ns, inode=met.inode)
            with self.owner.book:
                self.owner.overlay[met.path] = state
            if row is self.rows.get(met.path):  # else the index has other bytes
                self.restated.append(state)
        self.doubt(met)

    def doubt(self, met: FileStat) -> None:
        with self.owner.book:
            if abs(time.time_ns() - met.mtime_ns) < again.RACY_NS:  # a file written now has a time near the present
                self.owner.racy.add(met.path)
            else:
                self.owner.racy.discard(met.path)

    def hold(self, file: File) -> None:
        """Keep the last committed version of a file with conflict markers in the index, and record the file's state,
        so that it is not read by every scan."""
        path, row = file.path, self.rows.get(file.path)
        if row is not None and row.lent is not None:  # its earlier content stays searchable
            with self.owner.book:
                self.owner.overlay[path] = replace(self.owner.state(file), lent=row.lent)
            return
        if path in self.tree and not file.at_head:
            data = self.vault.readable(self.tree[path], path)
            # Also if it is known: an earlier scan may have found it empty, in the middle of being written.
            other = data is not None and (row is None or row.digest != sha256(data))
            if data is not None and other and parse(data, path).kind is not NoteKind.CONFLICTED:
                self.upsert(file, data, sha256(data))
                return
        with self.owner.book:
            self.owner.overlay[path] = self.owner.state(file)
        self.doubt(file.seen)

    def upsert(self, file: File, data: bytes, digest: str | None = None, *, decision: Decision | None = None) -> None:
        self.upserts[file.path] = (data, self.owner.state(file, decision, digest))
        self.notes[file.path] = file.note if data is file.data else None
        self.bytes += len(data)
        self.out.indexed += 1
        self.doubt(file.seen)

    def enlist(self, file: File, decision: Decision) -> None:
        name = label(file.note)
        moved: tuple[str, ...] = ()
        if decision.node_id is not None and file.path not in self.tree:
            moved = tuple(self.owner.identity.moved_from(decision.node_id, file.path))
            self.moved.update(moved)
        # A memory whose frontmatter was lost, and is written again, is edited.
        adopted = decision.act is FileAction.ADOPT and self.owner.identity.at_head(file.path) is None
        first = file.data if adopted else None
        item = CommitItem(file.path, decision.data, decision.node_id, file.digest, name, moved, first)
        verb = "Adopt" if adopted else "Move" if moved else "Edit"
        self.items[verb].append(item)
        self.bytes += len(decision.data)
        if len(self.items[verb]) >= BATCH:
            self.commit_all()

    # Gone files

    def gone(self, found: WalkResult, rested: set[str] | None) -> None:
        """Remove from the index the files that no longer exist, and commit their deletion in the person's name.
        `rested`: as from `walk`."""
        owner = self.owner
        instead = below(found.instead)
        paths = [path for path in found.gone if path not in self.moved and not (path in self.tree and instead(path))]
        lost = [path for path in paths if path not in self.tree and not self.half_done]
        self.reverted += [path for path in lost if path in owner.reverts.files()] if lost else []
        deleted = []
        for path in paths:
            if self.half_done:
                self.out.wait(path, BUSY_S)
                continue
            owner.said.pop(path, None)
            node = owner.identity.at_head(path)
            taken_in = False
            row = self.known.get(path)
            lent = row is not None and row.lent is not None
            if lent and (rested is None or path not in rested) and (seconds := owner.rest.missing_gone(path)) > 0:
                self.out.wait(path, seconds)  # it may reappear under another name
            elif path not in self.tree or lent or not owner.context.ours(path, None):
                self.removals.append(path)
                self.out.removed += 1
                taken_in = True
            elif node is not None and node[0] in self.waiting_ids:
                self.out.wait(path, owner.settings.quiet_seconds)
            elif (rested is None or path not in rested) and (seconds := owner.rest.missing_gone(path)) > 0:
                self.out.wait(path, seconds)
            elif self.why_busy is not None:
                self.out.wait(path, BUSY_S)
            else:
                deleted.append(path)
                taken_in = True
            if taken_in and node is not None:
                self.vanished.add(node[0])
        if deleted:
            left_out = owner.look.sparse(deleted)
            self.out.skipped += [(path, "left out by the sparse checkout") for path in sorted(left_out)]
            self.delete([path for path in deleted if path not in left_out])
        owner.rest.forget_gone(self.out.waiting)

    def kept(self, found: WalkResult) -> None:
        """Give the index HEAD's version of notes that it lacks and that cannot be read, or at whose path is something
        else (such as a symlink). Such notes do not count as deleted."""
        for path in [*hidden(found, self.tree), *sorted(self.guard.refused & self.tree.keys())]:
            if path not in self.rows:
                with self.guard.file(path):
                    self.upserts[path], self.notes[path] = self.owner.as_committed(path, self.tree[path]), None

    def delete(self, paths: list[str]) -> None:
        if len(paths) >= MASS and len(paths) * 2 > len(self.known):
            log.warning("%d of %d notes were deleted outside; taken in. `git revert` in the vault brings them back",
                        len(paths), len(self.known))  # fmt: skip
        for at in range(0, len(paths), BATCH):
            items = []
            for path in paths[at : at + BATCH]:
                note = parse(self.vault.readable(self.tree[path], path) or b"", path)
                items.append(CommitItem(path, None, claim(note.kind, note.id), None, label(note)))
            self.out.removed += self.commit("Delete", Kind.EDIT, items)

    # Output: to the index and to the history

    def feed(self) -> None:
        """Give the collected files to the index, in batches.

        One call contains both changed and deleted paths, so that a moved note is never twice in the index, or missing
        from it.
        """
        if self.anew != self.owner.anew:
            raise BegunAnew("the index was begun anew during the scan", hint="it is scanned again by itself")
        paths = list(self.upserts)
        for at in range(0, max(len(paths), len(self.removals)), BATCH):
            part = {path: self.upserts[path] for path in paths[at : at + BATCH]}
            part_gone = self.removals[at : at + BATCH]
            self.fed.update(part, part_gone)
            self.guard.all(list(part), str, self._telling(part, part_gone, self.notes))
        self.upserts, self.notes, self.removals, self.bytes = {}, {}, [], 0
        if self.restated:
            self.owner.keep(self.restated)
            self.restated = []

    def _telling(self, part: Upserts, gone: list[str], notes: dict[str, Note | None]) -> Callable[[list[str]], None]:
        return lambda paths: self.owner.tell({path: part[path] for path in paths}, gone, head=None, notes=notes)

    def commit_all(self) -> None:
        reverted, self.reverted = self.reverted, []
        for path in set(reverted) - (self.owner.reverts.follow(reverted) if reverted else set()):
            self.out.wait(path, BUSY_S)
        for verb, kind in (("Adopt", Kind.ADOPT), ("Move", Kind.EDIT), ("Edit", Kind.EDIT)):
            items, self.items[verb] = self.items[verb], []
            done = self.commit(verb, kind, items)
            if verb == "Adopt":
                self.out.adopted += done
            else:
                self.out.edited += done

    def commit(self, verb: str, kind: Kind, items: list[CommitItem]) -> int:
        quiet = self.owner.settings.quiet_seconds
        done = 0
        runs: dict[str | None, list[CommitItem]] = {}
        for item in items:
            # An edit of a file that the history has is the person's, and no part of the request.
            new = kind is Kind.ADOPT or not (item.moved or item.path in self.tree)
            runs.setdefault(self.owner.asked.get(item.path) if new else None, []).append(item)

        def some(part: list[CommitItem], run: str | None) -> None:
            nonlocal done
            done += commit(self.vault, verb, part, kind=kind, quiet=quiet, wait=self.out.wait, run=run)

        for run, of_run in runs.items():
            self.guard.all(of_run, lambda item: item.path, functools.partial(some, run=run))
        return done

    def finish(self) -> bool:
        """If the index now has everything of HEAD, record HEAD in the index. Return False only if HEAD has moved
        during the scan; another scan is then scheduled."""
        owner = self.owner
        if owner.stays(self.moved_on):
            self.out.wait("", 0.0)
            return False
        with owner.book:
            walked = owner.walked
        if owner.told == walked or self.paths is not None or self.out.waiting or self.half_done:
            return True
        if self.on_its_way:  # HEAD may have that commit already, and the index not
            self.out.wait("", owner.settings.quiet_seconds)
        else:
            owner.tell({}, (), head=walked)
        return True
