"""Purge: remove a memory, or an exact text, from the vault's files, its history, and all derived data.

Derived data are the files below `.ormah`, the index, the state, the archive of sessions and the log. The daemon writes
nothing meanwhile.
"""

from __future__ import annotations

import base64
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ormahd.actions.amend import PERSON, Caller, refuse_source
from ormahd.actions.tombstones import bury, of_notes
from ormahd.actions.views import saying
from ormahd.api import PurgeLeft, PurgeParams, PurgeResult
from ormahd.errors import BadRequest, Conflict, InvalidNote, NotFound
from ormahd.git import oplog
from ormahd.git.history import Store, drop_unused
from ormahd.model.change import Kind
from ormahd.model.node import is_node_id
from ormahd.note.forgetting import MIN_SECRET, Forgotten, is_structure
from ormahd.note.read import digest, parse
from ormahd.purge.purge import exchange, finish, look, pending, remotes, rewrite
from ormahd.purge.survey import Progress, PurgeSurvey
from ormahd.vault import purge_records

if TYPE_CHECKING:
    from ormahd.ormah import Ormah
    from ormahd.vault.transaction import Transaction

BESIDE = (".ormah/conflicts/", ".ormah/tmp/", ".ormah/intent/")
"""Folders of the vault that git does not track: versions that were set aside, temporary files, intents."""
LARGEST = 50_000_000
"""Size in bytes above which a file is not searched."""
BINARY_HEAD = 8000
"""Number of bytes, from the beginning of a file, in which git looks for a NUL to detect a binary file."""
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{16,}={0,2}")

log = logging.getLogger("ormah")


def purge(ormah: Ormah, params: PurgeParams, caller: Caller, progress: Progress) -> PurgeResult:
    """Remove a memory (`node_id`: full id or unique prefix, also of a forgotten one) and exact texts from vault,
    history, index and state. With `dry_run` nothing is changed.

    Raises:
        NotFound, Ambiguous, BadRequest: the id, a text, the self node. Conflict: the history cannot be replaced, or
        a file needs a person's decision. VaultBusy: another git operation is under way, or today's files hold it again.
    """
    begun = time.monotonic()
    wanted = _wanted(ormah, params)
    with ormah.syncing.busy:
        resume(ormah)
        if not params.dry_run:
            ormah.reconciler.scan()  # include recent edits of the person

        def taken(name: str) -> bool:
            """Whether `name` is also the file name, title or alias of another memory."""
            return bool(ormah.index.called(name) - {wanted.node_id})

        found = look(ormah.vault, wanted, taken, progress)
        wanted = found.forgotten
        turns = ormah.sessions.holding(_holding(wanted))
        if not found.found and not turns:
            raise NotFound(
                "nothing in the history names it, and no archived session",
                hint="`ormahctl history` shows what there is",
            )
        left = _named_in_files(ormah, wanted)
        _check_files(ormah, found, {one.path for one in left})
        tracked = ormah.vault.tree()
        out = PurgeResult(
            node_id=wanted.node_id,
            dry_run=params.dry_run,
            commits=found.changed,
            commits_total=found.commits,
            versions=len(found.drop),
            paths=sorted(found.own_paths),
            others=sorted(found.paths),
            size_before=Store(ormah.vault.git.git_dir).bytes(),
            remotes=remotes(ormah.vault, found),
            left=[one for one in left if one.path not in tracked and not one.path.startswith(BESIDE)],
            turns=turns,
        )
        if not params.dry_run:
            _carry_out(ormah, found, {one.path for one in left}, taken, caller, progress, out)
    out.seconds = round(time.monotonic() - begun, 3)
    return out


def _wanted(ormah: Ormah, params: PurgeParams) -> Forgotten:
    """Return what the caller names, with the full id."""
    node_id, texts = params.node_id, params.texts
    if node_id is None and not texts:
        raise BadRequest("nothing is named that is to be purged", hint="give an id, or a text")
    if any(len(text.strip()) < MIN_SECRET for text in texts):
        raise BadRequest(
            f"a text to purge needs {MIN_SECRET} characters", hint="a shorter one stands in too many innocent words"
        )
    if any(is_structure(text) or oplog.is_structure(text) for text in texts):
        raise BadRequest(
            "that text stands in every note or commit", hint="give the whole of the secret, with more words"
        )
    if node_id is not None:
        try:
            node_id = ormah.anyone(node_id)
            refuse_source(*ormah.index.notes([node_id], connections=False).values())
        except NotFound:
            # Purged on another machine, it is gone from this history, but old git objects may still hold it.
            node_id = node_id.strip().lower()
            if not is_node_id(node_id):
                raise
    if node_id is not None and node_id == ormah.vault.self_id:
        raise BadRequest("the self node stands for you and cannot be purged", hint="change it: ormahctl update ID")
    return Forgotten(node_id, tuple(dict.fromkeys(texts)))


def _named_in_files(ormah: Ormah, forgotten: Forgotten) -> list[PurgeLeft]:
    """Return all files of the vault that name the memory, and those that cannot be read. The git directory is left out,
    because each of its objects is checked."""
    found = []
    root = ormah.vault.root
    for folder, names, files in os.walk(root):
        if folder == str(root):
            names.remove(".git")
        for file in (Path(folder, name) for name in files):
            path = file.relative_to(root).as_posix()
            try:
                if file.is_symlink() or not file.is_file() or file.stat().st_size > LARGEST:
                    continue
                if forgotten.mentions(file.read_bytes()) or forgotten.mentions(os.fsencode(path)):
                    found.append(PurgeLeft(path=path, why="names it; it is not in the history, and is left alone"))
            except OSError as exc:
                found.append(PurgeLeft(path=path, why=f"cannot be read: {exc.strerror}"))
    return found


def _check_files(ormah: Ormah, found: PurgeSurvey, naming: set[str]) -> None:
    """Raise Conflict for a file that a person has to change first. `naming`: files that name the memory."""
    vault, tracked = ormah.vault, ormah.vault.tree()
    for path in sorted(naming):
        if (
            path not in tracked
            and not path.startswith(BESIDE)
            and found.forgotten.is_note(vault.read(path) or b"", path)
        ):
            raise Conflict(
                f"{path} is a copy of it that is not in the history",
                hint="delete it, or give it an id of its own (ormahctl doctor --fix), then repeat",
            )
    for path in sorted(tracked):
        if path in found.names:
            raise Conflict(f"the name of {path} holds it", hint="rename the file, then repeat")
        if path in naming and b"\0" in (vault.read(path) or b"")[:BINARY_HEAD]:
            raise Conflict(f"{path} is a binary file that holds it", hint="remove it from the vault, then repeat")


def _carry_out(
    ormah: Ormah,
    found: PurgeSurvey,
    naming: set[str],
    taken: Callable[[str], bool],
    caller: Caller,
    progress: Progress,
    out: PurgeResult,
) -> None:
    """Remove the memory from today's files, then from the history, then from what is kept beside it; fill in `out`."""
    vault, wanted = ormah.vault, found.forgotten
    rewritten = False

    def done() -> str:
        if rewritten:
            return "its history is rewritten, and what is kept of it elsewhere is cleaned at the next start"
        return "it is out of today's notes, and in the history as before" if out.op else ""

    def hint() -> str:
        if rewritten:
            return "clean it now: ormahctl restart"
        return f"repeat the command when that is mended; or have it back: git -C {vault.root} revert {out.commit}"

    with saying(done, hint=hint, op=lambda: out.op):
        if found.found:
            _remove_from_files(ormah, found, naming, caller, out)
            try:
                with ormah.reconciler.still(), vault.rewriting() as at:
                    rewrite(vault, wanted, taken, progress)
                    exchange(vault, at)
                    rewritten = True
            finally:
                drop_unused(vault.root)
            ormah.index.apply({}, (), head=vault.git.head())
            ormah.watch_anew()
            out.commit = vault.git.head() if out.op else None
        progress(0, 0, "cleaning what was kept of it")
        _clean_beside(ormah, wanted)
        _clean_kept(ormah, wanted)
        ormah.index.scour()
        ormah.events.forget()
        finish(vault)
    out.left = _named_in_files(ormah, wanted)
    out.size_after = Store(vault.git.git_dir).bytes()


def _remove_from_files(ormah: Ormah, found: PurgeSurvey, naming: set[str], caller: Caller, out: PurgeResult) -> None:
    """Commit an ordinary op that removes the note, and mentions of the memory in other present files. It also records
    the purge (`purge_records`).

    The commit message does not name these files: the new history will not show that they mentioned the memory.
    """
    vault, wanted = ormah.vault, found.forgotten
    with ormah.writing:
        tree = vault.tree()
        touched = found.drop | found.rewrite
        what = "a memory" if wanted.node_id else "a text"
        tx = vault.transaction(
            f"Purge: {what} was removed from the history",
            kind=Kind.PURGE,
            source=caller.source,
            person=caller.source == PERSON,
        )
        with tx:
            rows = ormah.index.notes([wanted.node_id] if wanted.node_id else [], connections=False).values()
            present = [(vault.read(row.path), row.path) for row in rows]
            notes = [parse(data, path) for data, path in present if data is not None and wanted.is_note(data, path)]
            bury(ormah, tx, of_notes(ormah, notes))
            for path, oid in sorted(tree.items()):
                if (oid in touched or path in naming) and path not in tx.wishes:
                    _clean(tx, found, path, vault.read(path), vault.blob(oid))
            if found.in_history:
                known = vault.read(purge_records.FILE)
                data = purge_records.with_record(known, tx.op, ormah.moment())
                tx.put(purge_records.FILE, data, node_id=None, expect=None if known is None else digest(known))
        if tx.committed is not None:
            out.op, out.commit = tx.op, tx.committed.commit[:8]


def _clean(tx: Transaction, found: PurgeSurvey, path: str, now: bytes | None, at_head: bytes) -> None:
    """Remove the memory from the present file at `path`. `at_head`: its content in HEAD. `now`: its content in the
    folder; None: a person deleted it, and this is not committed yet."""
    wanted = found.forgotten
    if now is None:
        tx.remove(path, node_id=None, expect=None)
        return
    is_note = path[-3:].lower() == ".md"
    note = parse(now, path) if is_note else None
    if note is not None and (wanted.is_note(now, path) or (path in found.own_paths and note.id is None)):
        tx.remove(path, node_id=None, expect=digest(now))
    elif wanted.mentions(now) or wanted.mentions(at_head):
        new = wanted.without(path, now)
        after = parse(new, path) if is_note else None
        if note is not None and after is not None and (note.kind, note.id) != (after.kind, after.id):
            raise InvalidNote(f"{path} would not be a readable note any more without it", hint="change it by hand")
        tx.put(path, new, node_id=None, expect=digest(now))


# ------------------------------------------------------------ what is kept beside the history


def hide(ormah: Ormah) -> None:
    """Remove what an interrupted purge left in index, state, session archive and log, before the daemon answers any
    request.

    `resume` completes the purge once the index has all of the vault.
    """
    left = pending(ormah.vault)
    if left is not None:
        _clean_kept(ormah, left)  # first: what follows may fail
        _clean_beside(ormah, left)
        named = ormah.index.holding(lambda text: left.mentions(text) > 0)
        ormah.index.apply({}, named, head=None)  # the first scan indexes again what the vault still has


def resume(ormah: Ormah) -> None:
    """Complete a purge that was interrupted after it had put the rewritten history in place."""
    left = pending(ormah.vault)
    if left is not None:
        _clean_beside(ormah, left)
        _clean_kept(ormah, left)
        ormah.index.scour()
        finish(ormah.vault)


def _clean_beside(ormah: Ormah, forgotten: Forgotten) -> None:
    """Clean the folders `BESIDE`, which git does not track: delete files that are versions of the note, and overwrite
    mentions of the memory in other files."""
    root = ormah.vault.root
    for file in (file for place in BESIDE for file in _regular(root / place)):
        path, data = file.relative_to(root).as_posix(), file.read_bytes()
        if forgotten.mentions(os.fsencode(path)) or forgotten.is_note(data, path) or _promises(forgotten, data):
            file.unlink()
            log.info("a version that was set aside was purged with its memory")
        elif forgotten.mentions(data):
            file.write_bytes(forgotten.without(path, data))


def _regular(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.rglob("*")) if file.is_file() and not file.is_symlink())


def _promises(forgotten: Forgotten, data: bytes) -> bool:
    """Whether `data`, the bytes of a file, is an intent (damaged or not) that mentions the memory. An intent holds
    the bytes of notes in base64."""
    if b'"steps"' not in data:
        return False
    pieces = (piece[: len(piece) // 4 * 4] for piece in _BASE64.findall(data))
    return any(forgotten.mentions(base64.b64decode(piece, validate=False)) for piece in pieces)


def _holding(forgotten: Forgotten) -> Callable[[bytes], bool]:
    """Return a function that tests whether a text names the memory, has a line of it, or quotes it."""

    def holds(data: bytes) -> bool:
        return (
            forgotten.mentions(data) > 0
            or forgotten.echoes(data)
            or (len(data) < LARGEST and forgotten.quoted(data.decode("utf-8", "replace")))
        )

    return holds


def _clean_kept(ormah: Ormah, forgotten: Forgotten) -> None:
    """Clean the state, the archive of sessions and the log, including pages that SQLite has freed."""
    holds = _holding(forgotten)
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
