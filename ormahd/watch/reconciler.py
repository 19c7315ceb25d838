"""The reconciler: brings in what happened outside (DESIGN section 5, "Adopt what happens outside").

A scan walks (`scan`), reads what changed, decides file by file (`decide`, with `identity`), commits in the person's name
what is not in the history, and tells the index. What rests is taken in; what is being typed waits.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Protocol

from msgspec.structs import replace

from ormahd.errors import Conflict
from ormahd.git.attributes import Rule
from ormahd.model.change import Committed, Kind, sha256
from ormahd.model.files import FileState, finding
from ormahd.note.note import Note, NoteKind, parse
from ormahd.process import priority, set_aside
from ormahd.settings import VaultSettings
from ormahd.vault.choices import Choices, agree, agreed
from ormahd.vault.conversion import FilterFailed
from ormahd.vault.excluded import Excluded
from ormahd.vault.identity import Identity, claim
from ormahd.vault.released import ReleasedFiles
from ormahd.vault.tree_cache import Look
from ormahd.vault.vault import Vault
from ormahd.watch.again import OwnData, Reverts
from ormahd.watch.decide import Act, Context, Decision, File, Guard, decide, of_skipped, plain
from ormahd.watch.reading import Rest, read_stable
from ormahd.watch.round import Round
from ormahd.watch.scan import ScanResult, Seen, Walk, below, hidden, homes, walk

OURS_S = 1.0
"""Seconds at most that a scan waits for a commit of ours to be told of: between the branch and the telling lie some milliseconds,
tenths of a second where many write, and whoever does not wait looks at the whole folder for nothing."""
FEW = 10
"""Paths up to which git is asked what it ignores without a look at which are folders of what HEAD has: those are not ignored, and for
each git goes through its whole index (1.2 ms at 100,000 notes, of which a vault with years of them has 20,000 folders)."""


class Apply(Protocol):
    """The index's door: new bytes by path, paths that are gone, the commit that the vault has reached, and of the new bytes those
    that were read as notes already."""

    def __call__(
        self, upserts: Mapping[str, tuple[bytes, FileState]], removals: Collection[str], head: str | None,
        notes: Mapping[str, Note | None] | None,
    ) -> None: ...  # fmt: skip


class Reconciler:
    """Keeps history and index in step with the folder. One scan at a time; safe to call from any thread."""

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
        """`known` gives every file as the index has it; `apply` tells the index what is in the history without a commit of
        ours, or plain text; `touched` of files with the bytes it knows under another stat; `position` is the commit of which it has everything. Commits of ours (also those in the
        person's name) reach it through `vault.listen` alone."""
        self.vault = vault
        self.known = known
        self.settings = settings
        self._apply = apply
        self._touched = touched
        self.position = position
        self.look = Look(vault)
        self.identity = Identity(self.look, vault.home)
        self.released = ReleasedFiles(vault)
        self.reverts = Reverts(vault)
        self.staged: set[str] = set()
        """Files that are no memories yet because the person has staged them."""
        self._staged_now: set[str] | None = None
        self.left_to_git: set[str] = set()
        """Files that are only found because git cannot make blobs of them."""
        self.context = Context(
            vault.id, vault.adopt, vault.home, self.identity, clock, check_secrets,
            released=self.released.holds, staged=self._is_staged, folders=vault.folders, agreed=agreed(vault),
            unwritable=vault.attributes.unwritable,
        )  # fmt: skip
        self.excluded = Excluded(vault.root, self._ignored, self.look.ignore_files)
        self.rest = Rest(settings.quiet_seconds)
        self._scanning = threading.Lock()
        self.book = threading.Lock()
        self.overlay: dict[str, FileState] = {}
        self.racy: set[str] = set()
        self.wrote: set[str] = set()
        """Files of commits of ours that no scan has met since: what they hold may be what they held before, and not what was committed."""
        self.during: dict[str, str | None] = {}
        """What commits of ours wrote since the scan began, by path: the digest of a file that the index is told of with the commit."""
        self.said: dict[str, tuple[dict[str, Any], ...]] = {}
        self.skipped: list[tuple[str, str]] = []
        self.own = OwnData()
        self.cold = True
        self.anew = 0
        """How often the index was begun anew: a scan that was under way then does not go on."""
        self.head: str | None = None
        """The commit that was last seen: before the last walk, or by our own commits since."""
        self.told: str | None = None
        """The commit of which the index has everything: a movement in `.git` that leaves HEAD there needs no scan."""
        self.walked: str | None = None
        """HEAD before the last walk, and our own commits on top of it: what that walk and we have seen."""
        vault.listen(self._committed)

    def renew(self) -> None:
        """The vault has another card from now on (it joined another vault)."""
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
        """The index is empty: the next scan takes every file for a new one."""
        with self.book:
            self.anew += 1
            self.overlay.clear()
            self.told = None

    def renew_choices(self, here: Choices) -> None:
        """The vault's card says something else of folders, or of all notes, from now on, and `here` was chosen on this machine."""
        vault = self.vault
        with self._scanning:
            agree(vault, here)
            self.context = replace(self.context, mode=vault.adopt, folders=vault.folders, agreed=agreed(vault))

    def take_again(self, paths: Collection[str], *, wanted: bool, run: str | None = None) -> set[str]:
        """Decide on files again that nobody touched, `wanted`: adopting them, as part of `run`. Those that could not be taken in yet."""
        with self._scanning:
            self.context = replace(self.context, wanted=set(paths) if wanted else set())
            try:
                out = Round(self, None, None, lambda: False, again=paths, run=run).run()
            finally:
                self.context = replace(self.context, wanted=set())
        return out.waiting & set(paths)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """No scan runs during the block, and what HEAD has is known."""
        with self._scanning:
            with self.book:
                self.head = self.vault.head()
            self.begin(Walk())
            yield

    @contextmanager
    def still(self) -> Iterator[None]:
        """No scan runs during the block. After it the history is looked at as if for the first time; where HEAD has the same
        files as before, under another commit, nothing needs to be scanned for that."""
        with self._scanning:
            yield
            self.look.reopen()
            with self.book:
                self.head = self.told = self.walked = self.vault.head()

    # What others ask

    def scan(
        self,
        *,
        paths: Collection[str] | None = None,
        progress: Callable[[int, int], None] | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> ScanResult:
        """Compare the folder with what is known and bring in the difference. With `paths` (files or folders that rested)
        only those. Raises Unavailable when the vault is not there, and Leaving once `stopping` says so: where 100,000 files are new it
        takes a minute. What was taken in until then stays, the next scan takes the rest."""
        with self._scanning:
            first = Round(self, paths, progress, stopping)
            out = first.run()
            with self.book:
                missed = self.during.keys() & first.fed
            # Own commits came while older bytes of the same files were on their way to the index: look once more.
            return out if not missed else out + Round(self, missed, None, stopping).run()

    def behind(self) -> bool:
        """Whether HEAD has something that the index was not told of, nor is just being told of."""
        return self.stays(lambda: self.vault.head() != self.told)

    def stays(self, moving: Callable[[], bool]) -> bool:
        """Whether `moving`, which says that HEAD is somewhere else, stays so while a commit of ours may be about to explain it."""
        end = time.monotonic() + OURS_S
        while moving() and self.vault.writing and time.monotonic() < end:
            time.sleep(0.005)
        return moving()

    def folders(self) -> set[str]:
        """Folders that hold files which HEAD has, somewhere below them."""
        return homes(self.look.tree(self.head or self.vault.head()))

    def problems(self, *, fresh: bool = False) -> list[dict[str, Any]]:
        """What `doctor` ought to name: {level, what, path, line, mend}. Of files that did not change since the process
        began only `fresh=True` knows, which reads all of them."""
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
            finding(None, "warning", *one) for one in set_aside.findings(self.vault.root, self.vault.git.git_dir)
        ]

    def files(self) -> Iterator[tuple[str, bytes, FileState]]:
        """Every file with the bytes that the index ought to have of it: for `rebuild` and `verify`. What is not at rest,
        conflicted or not committed yet stands there as HEAD has it."""
        with self._scanning:
            self.head = self.vault.head()
            found = walk(self.vault.root, {}, self.excluded, max_bytes=self.settings.max_note_bytes)
            self.skipped = found.skipped
            self.begin(found)
            self.said = {path: said for path, said in self.said.items() if path in found.present}
            tree = self.look.tree(self.head)
            guard = Guard(self.skipped)
            for path, seen in priority.giving(sorted(found.changed.items(), key=lambda item: (len(item[0]), item[0]))):
                ought: list[tuple[str, bytes, FileState]] = []
                with guard.file(path):
                    file = self.read(seen, tree)
                    ought = [] if file is None else list(self._indexed(file, tree))
                yield from ought
            for path in [*hidden(found, tree), *sorted(guard.refused & tree.keys())]:
                yield path, *self.as_committed(path, tree[path])

    def passed_by(self, found: Walk, paths: Collection[str]) -> None:
        """Take note of what a walk of some paths could not take in; what it looked at and could is named no more."""
        looked, still = below(list(paths)), self.still_refused(found)
        kept = [one for one in self.skipped if not looked(one[0]) or one in still]
        self.skipped = [one for one in kept if one not in found.skipped] + found.skipped

    def still_refused(self, found: Walk) -> list[tuple[str, str]]:
        """Notes that could not be read before and cannot be now, though nothing else about them has changed: no scan reads them."""
        named = {path for path, _ in found.skipped} | found.changed.keys()
        return [
            (path, why)
            for path, why in self.skipped
            if path in found.present and path not in named and not os.access(self.vault.root / path, os.R_OK)
        ]

    def as_committed(self, path: str, blob: str) -> tuple[bytes, FileState]:
        """A note as HEAD has it, where something else stands in its place, or it may not be read: with no stat, so that the next file
        there is another one."""
        data = self.vault.readable(blob, path) or b""
        return data, FileState(path, 0, 0, 0, sha256(data), None, self.context.space_at(path))

    def _indexed(self, file: File, tree: Mapping[str, str]) -> Iterator[tuple[str, bytes, FileState]]:
        """A file as the index ought to have it; nothing when it ought to have nothing."""
        decision = decide(file, self.context)
        self.note(file, decision)
        if decision.node_id is not None:
            self.identity.took(file.path, decision.node_id)
        seen = file.seen
        row = self.known().get(file.path)
        if decision.act in {Act.INDEX, Act.PLAIN, Act.FIND}:
            yield file.path, plain(file, decision), self.state(file, decision)
        elif file.path not in tree and row is not None and row.digest == file.digest:
            # It may be committed by now, and was not before: until it is, it stays findable as it was.
            was = Decision(Act.PLAIN if row.lent is None else Act.FIND, row.lent, file.data)
            yield file.path, plain(file, was), replace(self.state(file, was), size=0, mtime_ns=0, inode=0)
        elif file.path in tree and not file.at_head:
            data = self.vault.readable(tree[file.path], file.path)
            if data is None or parse(data, file.path).kind is NoteKind.CONFLICTED:
                return
            held = decision.act is Act.HOLD
            # An edit that is still to be committed must be met again by the next scan: its stat is left unknown.
            stat = (seen.size, seen.mtime_ns, seen.inode) if held else (0, 0, 0)
            yield file.path, data, FileState(file.path, *stat, sha256(data))

    def chosen_anew(self, row: FileState) -> bool:
        """Whether a note that was only found may be another one since the last life, by the settings."""
        return self.cold and row.lent is not None and self.context.mode_at(row.path) != "index"

    def state(self, file: File, decision: Decision | None = None, digest: str | None = None) -> FileState:
        """What the index keeps of a file; of one that is only found also under which id and in which space."""
        seen = file.seen
        lent = decision.node_id if decision is not None and decision.act is Act.FIND else None
        space = self.context.space_at(file.path)
        return FileState(file.path, seen.size, seen.mtime_ns, seen.inode, digest or file.digest, lent, space)

    def lent(self, path: str, data: bytes, renamed: Mapping[str, str] | None = None) -> str | None:
        """Under which id a file is found that holds none of ours; None: it is none of those. `renamed`: as it was in another state."""
        context, note = self.context, parse(data, path)
        mode = context.mode_of(path, data)
        if note.kind in {NoteKind.APART, NoteKind.CONFLICTED} or mode == "none" or not data.strip():
            return None
        if note.kind is not NoteKind.FOREIGN and (mode != "index" or context.is_ours(path, data, note)):
            return None
        own = claim(note.kind, note.id)
        return own or self.identity.lent(context.vault_id, path, renamed)

    def complete(self, upserts: dict[str, tuple[bytes, FileState]]) -> None:
        """Say of files that a commit of ours wrote what only the reconciler knows: the space of their folder, and, of what an undo gives
        back to the person, under which id it is found as it was before it was adopted."""
        context = self.context
        for path, (data, state) in upserts.items():
            theirs = context.mode_of(path, data) == "index" and not path.startswith(f"{context.home}/")
            lent = self.lent(path, data) if theirs else None
            if lent is not None or context.folders:
                upserts[path] = data, replace(state, lent=lent, space=context.space_at(path))

    def first_path(self, node_id: str, paths: Collection[str]) -> str | None:
        """Which of several files with one id had it first (the index asks)."""
        return self.identity.first_path(node_id, paths)

    # What happened inside

    def _committed(self, some: Sequence[Committed]) -> None:
        for done in some:
            self._follow(done)

    def _follow(self, done: Committed) -> None:
        """Any commit of ours: remember that these files are ours, and too young to trust their mtime."""
        with self.book:
            self.head = done.commit
            if done.parent is not None and done.kind is not Kind.SYNC:
                # Only where the commit before it is known: what came in from elsewhere reaches the index by the next scan.
                self.told = done.commit if self.told == done.parent else self.told
                self.walked = done.commit if self.walked == done.parent else self.walked
                self.own.since = done.commit if self.own.since == done.parent else self.own.since
            for change in done.changes:
                data = None if done.kind is Kind.SYNC else change.data
                self.during[change.path] = None if data is None else sha256(data)
                self.racy.add(change.path)
                self.wrote.add(change.path)
                self.overlay.pop(change.path, None)
        self.look.written([change.path for change in done.changes])
        self.look.follow(done)

    def begin(self, found: Walk) -> None:
        """Look at what HEAD has: the one from before the walk, with what we were told of since. What a commit of ours that is on
        its way adds to that is told of soon, and asking git for all of it instead takes longer the more is written."""
        head = self.head
        tree = self.look.tree(head)
        self._staged_now = None
        self.vault.attributes.ask_of(found.changed)

        def read(path: str) -> str | None:
            try:
                file = self.read(found.changed[path], tree)
            except OSError:  # its own turn names it; until it can be read it holds what HEAD says
                before = self.identity.at_head(path)
                return None if before is None else before[0]
            return None if file is None else claim(file.note.kind, file.note.id)

        self.identity.begin(head, found.changed, read)

    def read(self, seen: Seen, tree: Mapping[str, str]) -> File | None:
        """Read a changed file; None when it moved away or changed meanwhile. Raises OSError."""
        data = read_stable(self.vault.root, seen)
        return None if data is None else self.understand(seen, data, tree)

    def understand(self, seen: Seen, data: bytes, tree: Mapping[str, str]) -> File:
        oid = tree.get(seen.path)
        note = parse(data, seen.path)
        at_head, unconverted = self._stands(seen.path, data, note, oid)
        self.identity.saw(seen.path, note, oid if at_head else None)
        return File(seen, data, note, at_head, unconverted=unconverted)

    def _stands(self, path: str, data: bytes, note: Note, oid: str | None) -> tuple[bool, str | None]:
        """Whether a file is the blob that HEAD has, and why git cannot make one of it. Of what is not ours to commit no filter is run."""
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
        """Files that git could make no blobs of and can now. A filter is tried on one file."""
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
        """Whether the file is part of a commit that the person prepares; git is asked once a scan."""
        if self._staged_now is None:
            self._staged_now = self.look.staged()
        if path in self._staged_now:
            self.staged.add(path)
        return path in self._staged_now

    def _ignored(self, paths: Iterable[str]) -> set[str]:
        """What git leaves out; what HEAD has is not asked about (10,000 questions cost a second)."""
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
        """Feed the index; `head` once it has everything of that commit, so that it never claims more than it holds."""
        self._apply(upserts, removals, head=head, notes=notes)
        self.told = head or self.told
        with self.book:
            for path in (*upserts, *removals):
                self.overlay.pop(path, None)

    def keep(self, touched: Sequence[FileState]) -> None:
        """Have the index keep the new stat of files that hold the same bytes as before."""
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
