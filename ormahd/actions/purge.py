"""Purge: remove a memory, or an exact text, from the vault's files, its history, and all derived data.

Derived data are the files below `.ormah`, the index, the state and the log.
"""

from __future__ import annotations

import base64
import logging
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ormahd.api import PurgeLeft

if TYPE_CHECKING:
    from ormahd.note.forgetting import Forgotten
    from ormahd.ormah import Ormah
import time
from typing import TYPE_CHECKING

from ormahd.actions.amend import PERSON
from ormahd.actions.tombstones import bury, of_notes
from ormahd.actions.tombstones import path as tombstones_path
from ormahd.actions.views import saying
from ormahd.api import PurgeParams, PurgeResult
from ormahd.errors import BadRequest, Conflict, InvalidNote, NotFound, VaultBusy
from ormahd.git import oplog
from ormahd.model.change import Kind
from ormahd.model.node import is_node_id
from ormahd.note.forgetting import MIN_SECRET, Forgotten, is_structure
from ormahd.note.read import digest, parse
from ormahd.purge.purge import Stale, check, discard, finish, look, pending, prepare, remotes, replace, size
from ormahd.vault import purge_records

if TYPE_CHECKING:
    from ormahd.actions.amend import Caller
    from ormahd.note.values import Note
    from ormahd.ormah import Ormah
    from ormahd.purge.plan import PurgeSurvey
    from ormahd.purge.purge import Prepared
    from ormahd.vault.transaction import Transaction


BESIDE = (".ormah/conflicts/", ".ormah/tmp/", ".ormah/intent/")
"""Folders of the vault that git does not track: versions that were set aside, temporary files, intents."""
LARGEST = 50_000_000
"""Size in bytes above which a file is not searched."""
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{16,}={0,2}")

log = logging.getLogger("ormah")


def everywhere(ormah: Ormah, forgotten: Forgotten) -> list[PurgeLeft]:
    """Return all files below the vault's root that name the memory or contain a line of it, and those that cannot be
    read. Git's objects are left out, because they are checked separately."""
    found = []
    for path, file in _files(ormah.vault.root):
        try:
            if file.stat().st_size > LARGEST:
                continue
            data = file.read_bytes()
        except OSError as exc:
            found.append(PurgeLeft(path, f"cannot be read: {exc.strerror}"))
            continue
        if forgotten.mentions(data) or forgotten.mentions(os.fsencode(path)):
            found.append(PurgeLeft(path, "names it; it is not in the history, and is left alone"))
        elif forgotten.echoes(data):
            found.append(PurgeLeft(path, "has a line of it; it is another memory or file", echo=True))
    return found


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    for folder, names, files in os.walk(root):
        here = Path(folder)
        inside = here.relative_to(root).as_posix()
        if inside == ".git":
            names[:] = [name for name in names if name not in {"objects", "ormah-purge", "modules", "lfs"}]
        for name in files:
            file = here / name
            if file.is_file() and not file.is_symlink():
                yield file.relative_to(root).as_posix(), file


def clean_beside(ormah: Ormah, forgotten: Forgotten) -> None:
    """Clean the folders `BESIDE`, which git does not track: delete files that are versions of the note, and overwrite
    mentions of the memory in other files."""
    root = ormah.vault.root
    for place in BESIDE:
        for file in sorted((root / place).rglob("*")):
            if not file.is_file() or file.is_symlink():
                continue
            path, data = file.relative_to(root).as_posix(), file.read_bytes()
            if forgotten.mentions(os.fsencode(path)) or forgotten.is_note(data, path) or _promises(forgotten, data):
                file.unlink()
                log.info("a version that was set aside was purged with its memory")
            elif forgotten.mentions(data):
                file.write_bytes(forgotten.without(path, data))


def _promises(forgotten: Forgotten, data: bytes) -> bool:
    """Whether `data`, the bytes of a file, is an intent (damaged or not) that mentions the memory. An intent holds
    the bytes of notes in base64."""
    if b'"steps"' not in data:
        return False
    pieces = (piece[: len(piece) // 4 * 4] for piece in _BASE64.findall(data))
    return any(forgotten.mentions(base64.b64decode(piece, validate=False)) for piece in pieces)


def holding(forgotten: Forgotten) -> Callable[[bytes], bool]:
    """Return a function that tests whether a text names the memory, has a line of it, or quotes it."""

    def holds(data: bytes) -> bool:
        return (
            forgotten.mentions(data) > 0
            or forgotten.echoes(data)
            or (len(data) < LARGEST and forgotten.quoted(data.decode("utf-8", "replace")))
        )

    return holds


def clean_derived(ormah: Ormah, forgotten: Forgotten) -> None:
    """Clean the index, the state, the archive of sessions and the log, including pages that SQLite has freed."""
    clean_kept(ormah, forgotten)
    ormah.index.scour()


def clean_kept(ormah: Ormah, forgotten: Forgotten) -> None:
    """Clean what is kept beside vault and index: the state, the archive of sessions and the log."""
    holds = holding(forgotten)
    ormah.pasts.drop()
    ormah.state.scour(holds)
    ormah.sessions.purge(holds)
    ormah.warnings = [text for text in ormah.warnings if not holds(text.encode("utf-8", "replace"))]
    for file in ormah.state.path.parent.glob("ormahd.log*"):
        _mask(file, holds)


def _mask(file: Path, holds: Callable[[bytes], bool]) -> None:
    """Overwrite, in place, the lines of a log file for which `holds` is true. The file is not replaced, because the
    log handler has it open and appends to it."""
    with open(file, "r+b") as opened:
        at = 0
        for line in opened.read().splitlines(keepends=True):
            if holds(line):
                words = line.rstrip(b"\r\n")
                opened.seek(at)
                opened.write(b"(purged)".ljust(len(words))[: len(words)])
            at += len(line)


Progress = Callable[[int, int, str], None]

ATTEMPTS = 3
"""Maximum number of attempts to purge: another one is needed if a present file names the memory again just before the
history is replaced."""
_BINARY = 8000
"""Number of bytes, from the beginning of a file, in which git looks for a NUL to detect a binary file."""


def purge(
    ormah: Ormah,
    params: PurgeParams,
    caller: Caller,
    progress: Progress,
) -> PurgeResult:
    """Remove a memory (`node_id`: full id or unique prefix, also of a forgotten one) and exact texts from vault,
    history, index and state.

    With `dry_run` nothing is changed.

    Raises:
        NotFound, Ambiguous, BadRequest: the id, a text, the self node. Conflict: the history cannot be replaced, or
        a file needs a person's decision. VaultBusy: another git operation is under way, or the vault keeps changing.
    """
    begun = time.monotonic()
    node_id, texts = params.node_id, params.texts
    if node_id is None and not texts:
        raise BadRequest("nothing is named that is to be purged", hint="give an id, or a text")
    if any(len(text.strip()) < MIN_SECRET for text in texts):
        raise BadRequest(
            f"a text to purge needs {MIN_SECRET} characters", hint="a shorter one stands in too many innocent words"
        )
    for text in texts:
        if is_structure(text) or oplog.is_structure(text):
            raise BadRequest(
                "that text stands in every note or commit", hint="give the whole of the secret, with more words"
            )
    full = None if node_id is None else _full(ormah, node_id)
    if full == ormah.vault.self_id:
        raise BadRequest("the self node stands for you and cannot be purged", hint="change it: ormahctl update ID")
    with ormah.syncing.busy:
        job = _Job(ormah, Forgotten(full, tuple(dict.fromkeys(texts))), caller, progress)
        out = job.look(dry_run=params.dry_run, rewrite_foreign=params.rewrite_foreign)
        if not params.dry_run:
            with saying(job.came_to, hint=job.way_on, op=lambda: out.op):
                job.act(out)
    out.seconds = round(time.monotonic() - begun, 3)
    return out


def _full(ormah: Ormah, node_id: str) -> str:
    try:
        return ormah.anyone(node_id)
    except NotFound:
        # A memory purged on another machine is gone from this machine's history, but old git objects may still hold it.
        if is_node_id(node_id.strip().lower()):
            return node_id.strip().lower()
        raise


def hide(ormah: Ormah) -> None:
    """Remove what an interrupted purge left in index, state, session archive and log, before the daemon answers any
    request.

    `resume` completes the purge once the index has all of the vault.
    """
    left = pending(ormah.vault)
    if left is not None:
        clean_kept(ormah, left)  # first: what follows may fail
        clean_beside(ormah, left)
        named = ormah.index.holding(lambda text: left.mentions(text) > 0)
        ormah.index.apply({}, named, head=None)  # the first scan indexes again what the vault still has


def resume(ormah: Ormah) -> None:
    """Complete a purge that was interrupted after it had put the rewritten history in place."""
    left = pending(ormah.vault)
    if left is not None:
        clean_beside(ormah, left)
        clean_derived(ormah, left)
        finish(ormah.vault)


class _Job:
    """Carries out one purge: finds what to rewrite, removes the memory from today's files, and replaces the
    history."""

    def __init__(self, ormah: Ormah, wanted: Forgotten, caller: Caller, progress: Progress) -> None:
        self.ormah = ormah
        self.vault = ormah.vault
        self.wanted = wanted
        self.caller = caller
        self.progress = progress
        self.found: PurgeSurvey
        self.naming: set[str] = set()
        """Present files that name the memory or contain a text to purge; some may not be committed as they are."""
        self.forgotten_by: str | None = None
        """The commit that removed the memory from the present files."""
        self.rewritten = False

    def taken(self, name: str) -> bool:
        """Whether `name` is also the file name, title or alias of another memory."""
        return bool(self.ormah.index.called(name) - {self.wanted.node_id})

    def look(self, *, dry_run: bool, rewrite_foreign: bool) -> PurgeResult:
        """Find what must be rewritten, and return it as a `PurgeResult`. Raises if something prevents the purge."""
        resume(self.ormah)
        if not dry_run:
            self.ormah.reconciler.scan()  # include recent edits of the person
        found = look(self.vault, self.wanted, self.taken, self.progress)
        turns = self.ormah.sessions.holding(holding(found.forgotten))
        if found.found:
            check(self.vault, found, rewrite_foreign=rewrite_foreign)
        elif not turns:
            raise NotFound(
                "nothing in the history names it, and no archived session",
                hint="`ormahctl history` shows what there is",
            )
        self.found, self.wanted = found, found.forgotten
        left = everywhere(self.ormah, found.forgotten)
        self.naming = {one.path for one in left if not one.echo}
        self._check_files(found)
        tracked = self.vault.tree()
        return PurgeResult(
            self.wanted.node_id, dry_run, found.changed, found.commits, len(found.drop), sorted(found.own_paths),
            sorted(found.paths), sorted(found.refs), len(found.foreign), size(self.vault), None, None, None, remotes(self.vault, found),
            [one for one in left if one.echo or not (one.path in tracked or one.path.startswith((*BESIDE, ".git/")))], 0.0,
            turns,
        )  # fmt: skip

    def _check_files(self, found: PurgeSurvey) -> None:
        tracked, naming = self.vault.tree(), self.naming
        for path in sorted(naming):
            if path.startswith((*BESIDE, ".git/")):
                continue
            data = self.vault.read(path) or b""
            if path not in tracked and found.forgotten.is_note(data, path):
                raise Conflict(
                    f"{path} is a copy of it that is not in the history",
                    hint="delete it, or give it an id of its own (ormahctl doctor --fix), then repeat",
                )
        for path in sorted(tracked):
            if path in found.names:
                raise Conflict(f"the name of {path} holds it", hint="rename the file, then repeat")
            if path in naming and b"\0" in (self.vault.read(path) or b"")[:_BINARY]:
                raise Conflict(f"{path} is a binary file that holds it", hint="remove it from the vault, then repeat")

    # Carrying it out

    def came_to(self) -> str:
        """Return what the purge had done before an error, as a clause for the error's message; empty if it did
        nothing."""
        if self.rewritten:
            return "its history is rewritten, and what is kept of it elsewhere is cleaned at the next start"
        return "it is out of today's notes, and in the history as before" if self.forgotten_by else ""

    def way_on(self) -> str:
        if self.rewritten:
            return "clean it now: ormahctl restart"
        return (
            f"repeat the command when that is mended; or have it back: git -C {self.vault.root} revert "
            f"{(self.forgotten_by or '')[:8]}"
        )

    def act(self, out: PurgeResult) -> None:
        if not self.found.found:  # only archived sessions have it
            clean_derived(self.ormah, self.wanted)
            out.size_after = out.size_before
            return
        for attempt in range(ATTEMPTS):
            self._forget_today(out, everything=attempt > 0)
            try:
                prepared, head = self._replace()
                break
            except Stale:
                self.progress(0, 0, "the vault went on meanwhile: looking again")
        else:
            raise VaultBusy(
                "the vault keeps changing; it is forgotten, but its history is not rewritten yet",
                hint="repeat the command", data={"stored": False},
            )  # fmt: skip
        out.commit = head if out.op is not None else None
        self.progress(0, 0, "cleaning what was kept of it")
        clean_beside(self.ormah, self.wanted)
        clean_derived(self.ormah, self.wanted)
        self.ormah.events.forget()
        finish(self.vault)
        out.left = everywhere(self.ormah, self.wanted)
        if prepared.echoes and not any(one.echo for one in out.left):
            out.left.append(
                PurgeLeft("(history)", f"{len(prepared.echoes)} versions of other files have a line of it", True)
            )
        out.size_after = size(self.vault)

    def _forget_today(self, out: PurgeResult, *, everything: bool) -> None:
        """Commit an ordinary op that removes the note, and mentions of the memory in other present files.
        `everything`: look into all present files, not only those found to mention it.

        The commit message does not name these files: the new history will not show that they mentioned the memory.
        The first op also records the purge (`purge_records`), and its id is stored in `out.op`.
        """
        vault, ormah = self.vault, self.ormah
        with ormah.writing:
            tree = vault.tree()
            touched = self.found.drop | self.found.rewrite
            paths = [path for path, oid in sorted(tree.items()) if everything or oid in touched or path in self.naming]
            what = "a memory" if self.wanted.node_id else "a text"
            tx = vault.transaction(
                f"Purge: {what} was removed from the history", kind=Kind.PURGE, source=self.caller.source,
                person=self.caller.source == PERSON, queue=False,
            )  # fmt: skip
            with tx:
                bury(ormah, tx, of_notes(ormah, self._present()))
                tombs = tombstones_path(ormah)
                for path in paths:
                    if path not in tx.wishes or path != tombs:
                        self._clean(tx, path, vault.read(path), vault.blob(tree[path], path))
                if out.op is None and self.found.in_history:
                    known = vault.read(purge_records.FILE)
                    data = purge_records.with_record(known, tx.op, ormah.moment())
                    tx.put(purge_records.FILE, data, node_id=None, expect=None if known is None else digest(known))
            if tx.committed is not None:
                out.op = out.op or tx.op
                self.forgotten_by = self.forgotten_by or tx.committed.commit

    def _present(self) -> list[Note]:
        """Return the memory's note as it is in the vault's folder now: a list of one, or empty."""
        if self.wanted.node_id is None:
            return []
        rows = self.ormah.index.notes([self.wanted.node_id], connections=False)
        files = [(row.path, self.vault.read(row.path)) for row in rows.values()]
        return [parse(data, path) for path, data in files if data is not None and self.wanted.is_note(data, path)]

    def _clean(self, tx: Transaction, path: str, now: bytes | None, at_head: bytes) -> None:
        """Remove the memory and the texts to purge from the present file at `path`. `at_head`: its content in HEAD.
        `now`: its content in the folder; None: a person deleted it, and this is not committed yet."""
        if now is None:
            tx.remove(path, node_id=None, expect=None)
        elif self._is_own(path, now):
            tx.remove(path, node_id=None, expect=digest(now))
        elif self.wanted.mentions(now) or self.wanted.mentions(at_head):
            new = self.wanted.without(path, now)
            before, after = (parse(data, path) if path[-3:].lower() == ".md" else None for data in (now, new))
            if before is not None and after is not None and (before.kind, before.id) != (after.kind, after.id):
                raise InvalidNote(f"{path} would not be a readable note any more without it", hint="change it by hand")
            tx.put(path, new, node_id=None, expect=digest(now))

    def _is_own(self, path: str, data: bytes) -> bool:
        """Whether a present file is the note itself: by its id, or by its path if it has no id."""
        if path[-3:].lower() != ".md":
            return False
        if self.wanted.is_note(data, path):
            return True
        return path in self.found.own_paths and parse(data, path).id is None

    def _replace(self) -> tuple[Prepared, str | None]:
        """Rewrite the history and put it in place while other writers wait. Changes that they store meanwhile are
        committed after it.

        Returns the prepared history and the new HEAD commit. Raises Stale, with nothing changed, if present files
        contain again what is to be purged.
        """
        vault = self.vault
        try:
            with self.ormah.reconciler.still(), vault.rewriting() as at:
                prepared = prepare(vault, self.found, self.taken, self.progress)
                self.progress(0, 0, "putting it in place")
                replace(vault, prepared, at)
                head = vault.git.head()
                self.ormah.index.apply({}, (), head=head)
                return prepared, head
        finally:
            discard(vault)
