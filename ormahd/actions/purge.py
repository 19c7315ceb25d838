"""Purge: remove a memory, or an exact text, from the vault's files, its history, and all derived data.

`_clean_stores` names what Ormah keeps beside the history and the index. The daemon writes nothing while the history is replaced.
"""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path

from ormahd import paths
from ormahd.actions.amend import PERSON, Caller, refuse_source
from ormahd.actions.tombstones import bury, of_notes
from ormahd.actions.views import saying
from ormahd.api import PurgeLeft, PurgeParams, PurgeResult
from ormahd.errors import BadRequest, Conflict, InvalidNote, NotFound
from ormahd.git import commit_message
from ormahd.git.history import Store, drop_unused
from ormahd.index.reader import OF_VAULT
from ormahd.model.change import Kind
from ormahd.model.node import is_node_id
from ormahd.note.forgetting import MIN_SECRET, PURGED, Forgotten, is_structure
from ormahd.note.read import digest, parse
from ormahd.ormah import Ormah
from ormahd.process import own_files
from ormahd.purge.purge import end_purge, remotes, replace_history, survey_vault, unfinished_purge
from ormahd.purge.survey import Progress, PurgeSurvey

LARGEST = 50_000_000
"""Size in bytes above which a file is not searched."""
_WORDS = re.compile(rb"[^\r\n]+")
BINARY_HEAD = 8000
"""Number of bytes, from the beginning of a file, in which git looks for a NUL to detect a binary file."""


def purge(ormah: Ormah, params: PurgeParams, caller: Caller, progress: Progress) -> PurgeResult:
    """Remove a memory, and exact texts, from vault, history, index and everything that Ormah stores besides. With
    `dry_run` nothing is changed.

    `node_id`: a full id or a unique prefix, also of a forgotten memory.

    Raises:
        NotFound, Ambiguous, BadRequest: the id is unknown, not unique or that of the self node; a text is invalid.
        Conflict: the history cannot be replaced, or a file needs a person's decision.
        VaultBusy: another git operation is running, or the present files contain the memory again.
    """
    wanted = _what_to_forget(ormah, params)
    with ormah.syncing.busy:
        resume(ormah)
        if not params.dry_run:
            ormah.reconciler.scan()  # include recent edits of the person
        found = survey_vault(ormah.vault, wanted, partial(_is_name_of_another, ormah, wanted), progress)
        wanted = found.forgotten
        out = PurgeResult(
            node_id=wanted.node_id,
            dry_run=params.dry_run,
            versions=len(found.drop),
            paths=sorted(found.own_paths),
            others=sorted(found.paths),
            size_before=Store(ormah.vault.git.git_dir).bytes(),
            remotes=remotes(ormah.vault, found),
        )
        if params.dry_run:
            out.kept = _clean_stores(ormah, wanted, progress, change=False)
        else:
            _carry_out(ormah, found, caller, progress, out)
    if not (found.found or out.kept):
        raise NotFound("nothing that Ormah keeps names it", hint="`ormahctl history` shows what there is")
    out.left = _remaining_files(ormah, wanted, params.dry_run)
    return out


def _what_to_forget(ormah: Ormah, params: PurgeParams) -> Forgotten:
    """Return what to remove: the full id and the texts that the caller named.

    Raises:
        BadRequest: nothing is named, a text is too short or part of every note or commit, or it is the self node.
        NotFound, Ambiguous: the id is unknown, or not unique.
        Conflict: another memory has the same short id.
    """
    node_id, texts = params.node_id, params.texts
    if node_id is None and not texts:
        raise BadRequest("nothing is named that is to be purged", hint="give an id, or a text")
    if any(len(text.strip()) < MIN_SECRET or is_structure(text) or commit_message.is_structure(text) for text in texts):
        why = f"a text to purge needs {MIN_SECRET} characters, and may not be one that stands in every note or commit"
        raise BadRequest(why, hint="give the whole of the secret, with more words")
    if node_id is not None:
        try:
            node_id = ormah.full_id(node_id)
            refuse_source(*ormah.index.notes([node_id]).values())
        except NotFound:
            # Purged on another machine, it is gone from this history, but old git objects may still hold it.
            node_id = node_id.strip().lower()
            if not is_node_id(node_id):
                raise
        if node_id == ormah.vault.self_id:
            raise BadRequest("the self node stands for you and cannot be purged", hint="change it: ormahctl update ID")
        if ormah.index.find_short(node_id[:8]) not in {None, node_id}:
            raise Conflict("a memory with the same first 8 characters of its id stands", hint="change that id first")
    return Forgotten(node_id, tuple(dict.fromkeys(texts)))


def _is_name_of_another(ormah: Ormah, wanted: Forgotten, name: str) -> bool:
    """Return whether another memory also has `name` as its file name, title or alias."""
    return bool(ormah.index.ids_named(name) - {wanted.node_id})


def _carry_out(ormah: Ormah, found: PurgeSurvey, caller: Caller, progress: Progress, out: PurgeResult) -> None:
    """Remove the memory from the present files, then from the history, then from everything else. Fill in `out`."""
    vault, wanted = ormah.vault, found.forgotten

    def done() -> str:
        """Return a clause about what remains done if a later step fails: the note is removed, or also the history is
        rewritten."""
        if unfinished_purge(vault) is not None:
            return "its history is rewritten; what is kept of it elsewhere is cleaned by ormahctl restart"
        back = f"it is out of today's notes, and in the history as before: git -C {vault.root} revert {out.commit}"
        return f"{back} takes that back" if out.op else ""

    with saying(done, op=lambda: out.op):
        # The history, unless it does not contain the memory. Git's unreferenced objects go with it
        if found.found:
            _remove_from_files(ormah, found, caller, out)
            try:
                with ormah.reconciler.scanning, vault.rewriting() as at:
                    after = replace_history(vault, wanted, partial(_is_name_of_another, ormah, wanted), progress, at)
                    out.commits, out.commits_total = after.changed, after.commits
            finally:
                drop_unused(vault.root)
            ormah.index.apply({}, (), head=vault.git.head())
            ormah.watch_again()
            out.commit = vault.git.head() if out.op else None

        # Everything else. If the daemon is killed before `end_purge`, the next start repeats this (`resume`)
        out.kept = _clean_stores(ormah, wanted, progress, change=True)
        end_purge(vault)
    out.size_after = Store(vault.git.git_dir).bytes()


def _remove_from_files(ormah: Ormah, found: PurgeSurvey, caller: Caller, out: PurgeResult) -> None:
    """Commit an ordinary op that removes the note, and mentions of the memory in other present files and their names.

    The commit message does not name these files: the new history will not show that they mentioned the memory.
    """
    vault, wanted = ormah.vault, found.forgotten
    what = f"{'a memory' if wanted.node_id else 'a text'} was removed"
    with ormah.writing:
        person = caller.source == PERSON
        with vault.transaction(f"Purge: {what}", kind=Kind.PURGE, source=caller.source, person=person) as tx:
            notes = []
            for path, oid in sorted(vault.tree().items()):
                if not (path in found.names or oid in found.drop or oid in found.rewrite):
                    continue

                # The memory's own note is removed
                now = vault.read(path)
                if now is None:  # a person deleted it, and this is not committed yet
                    tx.remove(path, node_id=None, expect=None)
                    continue
                note = parse(now, path) if path[-3:].lower() == ".md" else None
                if note and (note.id == wanted.node_id if note.id else path in found.own_paths):
                    notes.append(note)
                    tx.remove(path, node_id=None, expect=digest(now))
                    continue

                # Others lose their mentions, and their name if it has one
                if wanted.mentions(now) and b"\0" in now[:BINARY_HEAD]:
                    raise Conflict(f"{path} is binary, and holds it", hint="remove it from the vault, then repeat")
                new, target = wanted.without(path, now), found.names.get(path, path)
                after = parse(new, path) if note else None
                if note and after and (note.kind, note.id) != (after.kind, after.id):
                    raise InvalidNote(f"{path} would not be readable any more without it", hint="change it by hand")
                if target != path:
                    tx.remove(path, node_id=None, expect=digest(now))
                tx.put(target, new, node_id=None, expect=digest(now) if target == path else None)
            bury(ormah, tx, of_notes(ormah, notes))
        if tx.committed is not None:
            out.op, out.commit = tx.op, tx.committed.commit[:8]


# ------------------------------------------------------------ what is kept beside the history


def _overwrite_lines(file: Path, wanted: Forgotten, *, change: bool) -> int:
    """Overwrite the lines of a file that contain the memory, without replacing the file: the log's handler has it open.
    Return their number. With `change` False only count."""
    with open(file, "r+b") as opened:
        lines = opened.read().splitlines(keepends=True)
        held = {
            line: _WORDS.sub(lambda found: PURGED.encode().ljust(len(found[0]))[: len(found[0])], line)
            for line in lines
            if wanted.holds(line)
        }
        if change and held:
            opened.seek(0)
            opened.writelines(held.get(line, line) for line in lines)
    return len(held)


def _clean_file(root: Path, file: Path, wanted: Forgotten, *, change: bool) -> int:
    """Delete a version of the memory's note, or a damaged file, which may contain anything. Remove mentions of the
    memory from another file and its name. Return the number of mentions. With `change` False only count."""
    path, data = file.relative_to(root).as_posix(), own_files.read(file)
    named, damaged = wanted.mentions(os.fsencode(path)) > 0, file.parent.name == "damaged"
    if not (named or damaged or wanted.mentions(data)):
        return 0
    if change and (damaged or wanted.is_note(data, path) or (named and wanted.node_id)):
        file.unlink()
    elif change:
        file.write_bytes(wanted.without(path, data))
        target = root / wanted.text(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.rename(target)
    return 1


def _clean_stores(ormah: Ormah, wanted: Forgotten, progress: Progress, *, change: bool) -> dict[str, int]:
    """Remove the memory from everything that Ormah stores beside the history, and from the index. With `change` False
    only count.

    Return `{name of a store: number of turns, rows, lines or files that had it}`.
    """
    root, state = ormah.vault.root, ormah.state.path.parent
    logs, copies = (
        [file for file in sorted(place.glob(pattern)) if file.is_file() and not file.is_symlink()]
        for place, pattern in ((state, "ormahd.log*"), (root, ".ormah/conflicts/**/*"))
    )
    counts: dict[str, int] = {}
    progress(0, 0, "looking through sessions")
    counts["sessions"] = ormah.sessions.purge(wanted, change=change)
    progress(0, 0, "looking through state")
    counts["state"] = ormah.state.scour(wanted, change=change)
    progress(0, 0, "looking through log")
    counts["log"] = sum(_overwrite_lines(file, wanted, change=change) for file in logs)
    progress(0, 0, "looking through set aside")
    counts["set aside"] = sum(_clean_file(root, file, wanted, change=change) for file in copies)
    if change:
        ormah.warnings = [text for text in ormah.warnings if not wanted.holds(text.encode("utf-8", "replace"))]
        ormah.history.follow()  # the old commits leave its tables
        ormah.index.scour()
        ormah.events.forget()
    return {name: count for name, count in counts.items() if count}


def resume(ormah: Ormah) -> None:
    """Complete a purge that was interrupted after it had put the rewritten history in place. Called before the daemon
    answers any request."""
    wanted = unfinished_purge(ormah.vault)
    if wanted is not None:
        named = [path for path, text in ormah.index.texts() if wanted.mentions(text)]
        ormah.index.apply({}, named, head=None)  # the first scan indexes again what the vault still has
        _clean_stores(ormah, wanted, lambda *_: None, change=True)
        end_purge(ormah.vault)


def _remaining_files(ormah: Ormah, wanted: Forgotten, dry_run: bool) -> list[PurgeLeft]:
    """Return the files that still name the memory or are unreadable: in sources, the vault, the state and the
    configuration. With `dry_run`: those that a purge would leave.

    The git directory is not examined here: the purge has checked each of its objects.
    """
    root, state = ormah.vault.root, ormah.state.path.parent
    ours = ormah.vault.tree() if dry_run else {}
    sources = [path for path, text in ormah.index.texts(f"NOT {OF_VAULT}") if wanted.mentions(text)]
    found = [PurgeLeft(path=path, why="is a file of a source, which Ormah never writes") for path in sources]
    for file in [paths.config_file(), *sorted(root.rglob("*")), *([] if dry_run else sorted(state.rglob("*")))]:
        path = file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)
        passed = path in ours or path.startswith((".git/", ".ormah/" if dry_run else ".ormah/tmp/"))
        if passed or not file.is_file() or file.is_symlink() or file.stat().st_size > LARGEST:
            continue
        try:
            if wanted.mentions(os.fsencode(path) + b"\n" + own_files.read(file)):
                found.append(PurgeLeft(path=path, why="names it; it is not in the history, and is left alone"))
        except OSError as exc:
            found.append(PurgeLeft(path=path, why=f"cannot be read: {exc.strerror}"))
    return found
