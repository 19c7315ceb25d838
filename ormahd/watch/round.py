"""One scan of the reconciler: its parts share what it has found so far."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ormahd.errors import BegunAnew
from ormahd.git.locks import under_way
from ormahd.model.change import Kind, sha256
from ormahd.model.files import FileState
from ormahd.note.note import Note, NoteKind, parse
from ormahd.process import priority
from ormahd.vault.identity import claim
from ormahd.watch import again
from ormahd.watch.decide import Act, Decision, File, Guard, decide, label, plain
from ormahd.watch.person import BUSY_S, Item, commit
from ormahd.watch.reading import follow, follow_released, read_stable
from ormahd.watch.scan import Leaving, ScanResult, Seen, Walk, below, differs, hidden, unseen, walk

if TYPE_CHECKING:
    from ormahd.watch.reconciler import Reconciler

BATCH = 500
"""Files in one call of `apply`, and in one commit."""
BATCH_BYTES = 32_000_000
"""Bytes of notes held in memory at once, roughly."""
COLD_NS = 10_000_000_000
"""On the first scan of a process, what was written in the last moments of the one before is read again."""
MASS = 20
"""From this many deletions at once, if they are more than half of all notes, the log warns. They are taken in all the
same: a person may mean it, and one `git revert` brings everything back."""

Upserts = Mapping[str, tuple[bytes, FileState]]

log = logging.getLogger(__name__)


class Round:
    """A scan under way."""

    def __init__(
        self, owner: Reconciler, paths: Collection[str] | None, progress: Callable[[int, int], None] | None,
        stopping: Callable[[], bool], *, again: Collection[str] = (), run: str | None = None,
    ) -> None:  # fmt: skip
        self.owner = owner
        self.vault = owner.vault
        self.paths = paths
        self.again = again
        """Files that are decided on again although nobody touched them."""
        self.part_of = run
        """The run that its adoptions are part of."""
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
        """Notes that are only found, by the path that they have now."""
        self.removals: list[str] = []
        self.restated: list[FileState] = []
        self.bytes = 0
        self.items: dict[str, list[Item]] = {"Adopt": [], "Edit": [], "Move": []}
        self.reverted: list[str] = []
        """Files whose adoption was reverted by hand."""
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
        """Files that count as changed although they were not touched: HEAD has something else there than before."""
        self.on_its_way = False
        """Files were left to a commit of ours that nobody was told of yet."""

    def run(self) -> ScanResult:
        owner = self.owner
        owner.own.since = owner.own.since or owner.position()
        found, rested = self.walk()
        self.guard = Guard(found.skipped)
        self.led = again.led_elsewhere(self, found)
        owner.begin(found)
        self.tree = owner.look.tree(owner.head)
        self.why_busy = self.vault.busy()
        # The index keeps what was before: what a rebase has not put back yet is not forgotten. One without anything
        # takes what there is.
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
        self.out.problems = [p for problems in owner.said.values() for p in problems]
        return self.out

    def walk(self) -> tuple[Walk, set[str] | None]:
        """The walk, and which of the paths that are gone are known to rest (None: none of them)."""
        owner = self.owner
        settings = owner.settings
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
            # Before the walk: of a commit that comes during it nobody knows what was met already.
            owner.walked = self.vault.head()
        self.behind = owner.stays(self.not_told)
        with owner.book:
            owner.head = owner.walked
        options: dict[str, Any] = {"doubted": doubted, "max_bytes": settings.max_note_bytes}
        found = walk(self.vault.root, self.known, owner.excluded, paths=self.paths, **options)
        rested: set[str] | None = None
        if self.paths is not None and (found.gone or self.behind):
            # A note that is gone may stand elsewhere: only the whole folder tells a move from a deletion. And a commit
            # of somebody else may have touched more than what rested.
            rested = set(found.gone)
            self.paths = None
            found = walk(self.vault.root, self.known, owner.excluded, **options)
        return found, rested

    def not_told(self) -> bool:
        """Whether HEAD had something, before the walk, that the index was not told."""
        with self.owner.book:
            return self.owner.told != self.owner.walked

    def moved_on(self) -> bool:
        """Whether HEAD has something that neither the walk has met nor we have written."""
        head = self.vault.head()
        with self.owner.book:
            return head != self.owner.walked

    # Changed files

    def take(self, changed: Mapping[str, Seen], *, forced: bool = False) -> None:
        for count, path in enumerate(priority.giving(sorted(changed, key=lambda path: (len(path), path)))):
            if self.stopping():
                raise Leaving
            with self.guard.file(path):
                self.one(changed[path], forced)
            if self.bytes > BATCH_BYTES or len(self.upserts) + len(self.restated) >= BATCH:
                self.feed()
                self.commit_all()
            if self.progress is not None:
                self.progress(count + 1, len(changed))

    def one(self, met: Seen, forced: bool) -> None:
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
        """Whether the file has what a commit of ours gives it that came since the scan began, or is on its way: the index is told of
        that by whoever commits it, and should the commit not come about, the file is another one again."""
        with self.owner.book:
            if self.owner.during.get(path) == digest:
                return True
        promised = self.vault.writes(path, data)
        self.on_its_way |= promised
        return promised

    def act(self, file: File, decision: Decision) -> None:
        if decision.act is Act.HOLD:
            self.hold(file)
        elif decision.act in {Act.INDEX, Act.PLAIN, Act.FIND}:
            self.upsert(file, plain(file, decision), decision=decision)
        elif decision.act is Act.ADOPT and file.at_head and file.path in self.owner.reverts.files():
            self.reverted.append(file.path)
        else:
            self.enlist(file, decision)

    def touched(self, met: Seen, row: FileState) -> None:
        """Same bytes, other stat: nothing happened. Remembered, so that the file is not read each time (a copied vault: all of them)."""
        if differs(row, met):
            state = replace(row, size=met.size, mtime_ns=met.mtime_ns, inode=met.inode)
            with self.owner.book:
                self.owner.overlay[met.path] = state
            if row is self.rows.get(met.path):  # else the index has other bytes than those that are remembered here
                self.restated.append(state)
        self.doubt(met)

    def doubt(self, met: Seen) -> None:
        with self.owner.book:
            if abs(time.time_ns() - met.mtime_ns) < again.RACY_NS:  # what is written now has no time of another year
                self.owner.racy.add(met.path)
            else:
                self.owner.racy.discard(met.path)

    def hold(self, file: File) -> None:
        """The last committed version stays findable; the file's state is remembered, so that it is reported once."""
        path, row = file.path, self.rows.get(file.path)
        if row is not None and row.lent is not None:  # what it said before stays findable
            with self.owner.book:
                self.owner.overlay[path] = replace(self.owner.state(file), lent=row.lent)
            return
        if path in self.tree and not file.at_head:
            data = self.vault.readable(self.tree[path], path)
            # Not only what is new: it may have been met while it was empty, on its way to what it is now.
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
        adopted = decision.act is Act.ADOPT
        first = file.data if adopted and self.owner.identity.at_head(file.path) is None else None
        item = Item(file.path, decision.data, decision.node_id, file.digest, name, moved, first)
        verb = "Adopt" if adopted else "Move" if moved else "Edit"
        self.items[verb].append(item)
        self.bytes += len(decision.data)
        if len(self.items[verb]) >= BATCH:
            self.commit_all()

    # Gone files

    def gone(self, found: Walk, rested: set[str] | None) -> None:
        """Files that are not there any more: the index forgets them; a person's deletion is committed."""
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
                self.out.wait(path, seconds)  # it may turn up under another name
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

    def kept(self, found: Walk) -> None:
        """Notes in whose place something else stands (a link, where the folder was moved out), or that may not be read, stay as HEAD has
        them: not one of them was deleted. Each place is named with how many there are."""
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
                items.append(Item(path, None, claim(note.kind, note.id), None, label(note)))
            self.out.removed += self.commit("Delete", Kind.EDIT, items)

    # Out: to the index, to the history

    def feed(self) -> None:
        """Tell the index, in batches. Of a note that moved both places at once: else it would be a copy of itself, or
        nowhere, until the next batch."""
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

    def commit(self, verb: str, kind: Kind, items: list[Item]) -> int:
        quiet = self.owner.settings.quiet_seconds
        run = self.part_of if kind is Kind.ADOPT else None
        done = 0

        def some(part: list[Item]) -> None:
            nonlocal done
            done += commit(self.vault, verb, part, kind=kind, quiet=quiet, wait=self.out.wait, run=run)

        if items:
            self.guard.all(items, lambda item: item.path, some)
        return done

    def finish(self) -> bool:
        """Tell the index of the commit that it has everything of; HEAD that moved meanwhile asks for another look, and is False."""
        owner = self.owner
        if owner.stays(self.moved_on):
            self.out.wait("", 0.0)
            return False
        with owner.book:
            walked = owner.walked
        if owner.told == walked or self.paths is not None or self.out.waiting or self.half_done:
            return True
        if self.on_its_way:  # HEAD may have that commit already, which the index has not
            self.out.wait("", owner.settings.quiet_seconds)
        else:
            owner.tell({}, (), head=walked)
        return True
