"""Undo ops: by name, all of a run, or all that a job did since a time. Newest first, each in its own commit.

An undo may be limited to one note of an op, or to that note's edges to another memory. Also restores this machine's
text in notes where a sync on another machine replaced it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ormahd.errors import Ambiguous, BadRequest, Conflict, NotFound
from ormahd.git.oplog import Part
from ormahd.index.reader import clean_prefix
from ormahd.model.node import EdgeType, short_id
from ormahd.note.edit import edit
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind, NoteLink, stem_short_id
from ormahd.vault.three_way import Pair, Version, node_of

if TYPE_CHECKING:
    from ormahd.ormah import Ormah
    from ormahd.vault.history import Op
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from ormahd.actions.amend import ask_before
from ormahd.actions.taking_back import UNCOMMITTED, Ahead, NotUndone, UndoPlan, UndoTask, foresee, take_back, undone
from ormahd.actions.views import headline, saying
from ormahd.api import SkippedOp, UndoConflict, UndoMergeResult, UndoneOp, UndoParams, UndoResult
from ormahd.model.change import Kind
from ormahd.vault import three_way
from ormahd.vault.history import MIN_PREFIX, find_op, moment, read_ops
from ormahd.vault.three_way import OpEffects

if TYPE_CHECKING:
    from ormahd.actions.amend import Caller
    from ormahd.git.oplog import LogEntry
    from ormahd.ormah import Ormah
    from ormahd.vault.history import Op
from typing import TYPE_CHECKING

from ormahd.actions.amend import amending, commit, see
from ormahd.api import ConflictItem, TakeBackResult
from ormahd.sync.replaced import taken_back
from ormahd.vault import conflicts

if TYPE_CHECKING:
    from ormahd.actions.amend import Caller, Outcome
    from ormahd.ormah import Ormah
    from ormahd.vault.conflicts import SetAside


NODES_NAMED = 10


def narrowed(
    ormah: Ormah, op: Op, pairs: Mapping[str, Pair], node: str, edge: str | None
) -> tuple[dict[str, Pair], list[Part]]:
    """Return the part of an op's changes that concerns one note: as id -> (before, after), and as `Part`s.

    `node`: a prefix of the note's id. `edge`: `ID` or `TYPE:ID`, with a prefix of another memory's id: only the note's
    edges to that memory. Then "before" is the op's result with only these edges as they were before.

    Raises:
        NotFound: the op did not change the note, or no such edge. BadRequest, Ambiguous: the ids.
        Conflict: that part is undone already.
    """
    node_id = _node_of_op(op, pairs, node)
    if edge is None:
        parts = [Part(op.name, node_id)]
        pair = pairs[node_id]
    else:
        pair, keys = _edges(ormah, op, node_id, pairs[node_id], edge)
        parts = [Part(op.name, node_id, key) for key in keys]
    undone = ormah.vault.oplog.view().parts
    done = [undone.get(part) or undone.get(Part(op.name, node_id)) for part in parts]
    if all(done):
        raise Conflict(
            f"this part of {op.name} is undone already, by {done[0]}",
            hint=f"to bring it back: ormahctl undo {done[0]}",
            data={"undone_by": done[0]},
        )
    return {node_id: pair}, parts


def _node_of_op(op: Op, pairs: Mapping[str, Pair], node: str) -> str:
    wanted = clean_prefix(node)
    touched = [node_id for key in pairs if (node_id := node_of(key))]
    found = [node_id for node_id in touched if node_id.startswith(wanted)]
    if not found:
        named = ", ".join(map(short_id, touched[:NODES_NAMED])) + (" and others" if len(touched) > NODES_NAMED else "")
        raise NotFound(f"{op.name} did not touch a memory {wanted}", hint=f"it touched: {named}" if touched else None)
    if len(found) > 1:
        raise Ambiguous(f"'{wanted}' begins several ids", hint="give more of it", data={"ids": found[:NODES_NAMED]})
    return found[0]


def _edges(ormah: Ormah, op: Op, node_id: str, pair: Pair, edge: str) -> tuple[Pair, list[str]]:
    before, after = pair
    kind, colon, prefix = edge.rpartition(":")
    if colon and kind not in set(EdgeType):
        raise BadRequest(f"'{kind}' is no type of edge", hint=f"there are: {', '.join(EdgeType)}")
    target = ormah.anyone(prefix)
    if after is None:
        raise BadRequest(f"{op.name} removed the note itself", hint="leave --edge out")
    was, is_ = _links(before), _links(after)
    keys = [
        key for key in {**was, **is_}
        if was.get(key) != is_.get(key)
        and (not colon or key.startswith(f"{kind}:"))
        and _leads(ormah, was.get(key) or is_[key], target)
    ]  # fmt: skip
    if not keys:
        raise NotFound(
            f"{op.name} changed no {kind + ' ' if colon else ''}edge of {short_id(node_id)} to {short_id(target)}",
            hint=f"what it changed: git show {op.commit[:8]}",
        )
    data = edit(
        after.data, after.path,
        unlink=[(is_[key].edge, is_[key].target) for key in keys if key not in was],
        link=[was[key] for key in keys if key in was],
    )  # fmt: skip
    if before is not None and before.path == after.path and _same(before, Version(after.path, data)):
        return (before, after), keys  # the op changed nothing else in the note
    return (Version(after.path, data), after), keys


def _links(version: Version | None) -> dict[str, NoteLink]:
    note = None if version is None else parse(version.data, version.path)
    return {link.key: link for link in (note.links if note and note.kind is NoteKind.NOTE else ()) if not link.body}


def _leads(ormah: Ormah, link: NoteLink, target: str) -> bool:
    return stem_short_id(link.target) == short_id(target) or ormah.index.resolve_link(link.target) == target


def _same(one: Version, other: Version) -> bool:
    """Whether two versions of a note have the same content, ignoring `updated`."""
    return _said(parse(one.data, one.path)) == _said(parse(other.data, other.path))


def _said(note: Note) -> Note:
    return replace(note, digest="", updated=None, problems=())


SHOWN = 100
"""Maximum number of conflicts in an answer."""
NAMED = 3
"""Maximum number of notes that a sentence names."""
GONE = "nothing of it is left to undo"
DONE = "it is undone already"


def undo(ormah: Ormah, wish: UndoParams, caller: Caller, progress: Callable[[int, int, str], None]) -> UndoResult:
    """Undo the ops that `wish` names. One op that is named is undone, or an error is raised. Of several ops, those
    that conflict are left alone.

    Raises:
        NotFound, Ambiguous, BadRequest: the ops, the run, the job. Unconfirmed: files of the person would be removed or
        moved. Conflict: an op that was not made by Ormah, is undone already or cannot be undone; a single named op that
        conflicts (`data["conflicts"]`). VaultBusy: another git operation is under way; of several ops, `data["undone"]`
        lists those already undone.
    """
    by_name = bool(wish.ops)
    if sum([by_name, wish.run is not None, wish.job is not None]) != 1:
        raise BadRequest(
            "say what to undo: changes by their ids, or a run, or a job", hint="ormahctl history lists them"
        )
    if (wish.job is None) != (wish.since is None):
        raise BadRequest("a job and since go together", hint="for example: --job auto_linker --since yesterday")
    if (wish.node_id is not None or wish.edge is not None) and len(wish.ops) != 1:
        raise BadRequest("a part of an op needs the one op that it is of", hint="give exactly one op")
    if wish.edge is not None and wish.node_id is None:
        raise BadRequest("an edge needs the note that it leaves", hint="give node_id too (--node ID)")
    ops = _named(ormah, wish.ops, whole=wish.node_id is None) if by_name else _of_run_or_job(ormah, wish)
    if wish.dry_run or not wish.yes:
        would, going = _foreseen(ormah, ops, wish)
        if wish.dry_run:
            return would
        ask_before(
            ormah.vault, "the undo", going, yes=False, hint="look first: --dry-run; to do it: the same with --yes"
        )
    if len(ops) == 1 and by_name:
        return UndoResult([_one(ormah, ops[0], wish, caller)], [], [])
    return _several(ormah, ops, wish, caller, progress)


def _foreseen(ormah: Ormah, ops: Sequence[Op], wish: UndoParams) -> tuple[UndoResult, list[tuple[str, str | None]]]:
    """Return what undoing `ops`, one after the other, would do; and (path, memory id) of files it would remove or
    move."""
    out = UndoResult([], [], [], dry_run=True)
    ahead: Ahead = {}
    going: dict[str, str | None] = {}
    together = {op.name for op in ops}
    for op in ops:
        by = _undone_by(ormah, op)
        why = DONE if by is not None and by not in together else _beyond(ormah, op)
        if why is None:
            task = _task(ormah, op, wish, None)
            found = foresee(ormah, task, ahead)
            if isinstance(found, UndoPlan) and found.changes:
                out.undone.append(undone(task, found, "", ""))
                going |= {
                    piece.now.path: node_of(key) for key, piece in found.pieces.items() if piece.now and piece.moves
                }
                continue
            if isinstance(found, NotUndone):
                out.conflicts.extend(found.clashes[: SHOWN - len(out.conflicts)])
                if found.clashes:
                    continue
            why = GONE
        out.skipped.append(SkippedOp(op.name, op.commit, op.subject, why))
    return out, list(going.items())


def undo_merge(ormah: Ormah, merge_id: str, caller: Caller) -> UndoMergeResult:
    """Undo the merge of two memories whose op or commit begins with `merge_id`.

    Raises as `undo`; NotFound also for an op of another kind.
    """
    op = find_op(ormah.vault, merge_id, kind=Kind.MERGE)
    _check(ormah, op)
    done = _one(ormah, op, UndoParams(yes=True), caller)
    lines = [f"Undone: {op.subject}"]
    lines += [f"{change.did}: {change.title or change.path}" for change in done.changes]
    return UndoMergeResult("\n".join([*lines, f"op: {done.undo_op}"]), op.name, done.undo_op, done.commit, done.nodes)


def _one(ormah: Ormah, op: Op, wish: UndoParams, caller: Caller) -> UndoneOp:
    done = take_back(ormah, _task(ormah, op, wish, None), caller)
    if isinstance(done, NotUndone):
        raise (
            _excluded(ormah, op, done)
            if done.clashes
            else Conflict(f"{_quoted(op)}: {GONE}; nothing was changed", hint=f"what it was: git show {op.commit[:8]}")
        )
    return done


def _several(
    ormah: Ormah, ops: Sequence[Op], wish: UndoParams, caller: Caller, progress: Callable[[int, int, str], None]
) -> UndoResult:
    out = UndoResult([], [], [], ormah.new_run())
    with saying(
        lambda: f"{len(out.undone)} of {len(ops)} ops were undone before that" if out.undone else "",
        undone=lambda: [one.undo_op for one in out.undone],
    ):
        _each(ormah, ops, wish, caller, progress, out)
    return out


def _each(
    ormah: Ormah,
    ops: Sequence[Op],
    wish: UndoParams,
    caller: Caller,
    progress: Callable[[int, int, str], None],
    out: UndoResult,
) -> None:
    for number, op in enumerate(ops):
        progress(number, len(ops), "undoing")
        why = DONE if _undone_by(ormah, op) else _beyond(ormah, op)
        if why is None:
            try:
                done = take_back(ormah, _task(ormah, op, wish, out.run), caller)
            except Conflict as exc:
                done = NotUndone((_in_the_way(op, exc),))
            if isinstance(done, UndoneOp):
                out.undone.append(done)
                continue
            out.conflicts.extend(done.clashes[: SHOWN - len(out.conflicts)])
            if done.clashes:
                continue
            why = GONE
        out.skipped.append(SkippedOp(op.name, op.commit, op.subject, why))


def _task(ormah: Ormah, op: Op, wish: UndoParams, run: str | None) -> UndoTask:
    did = three_way.read(ormah.vault, op)
    if wish.node_id is None:
        return UndoTask(op, did, force=wish.force, run=run)
    part, names = narrowed(ormah, op, did.pairs, wish.node_id, wish.edge)
    held = {key: one for key, one in did.held.items() if key in part and wish.edge is None}
    left = did.left.intersection(part) if wish.edge is None else set[str]()
    return UndoTask(op, OpEffects(part, held, left), names, force=wish.force, run=run)


# Selecting ops


def _named(ormah: Ormah, names: Sequence[str], *, whole: bool) -> list[Op]:
    """Return the ops whose ids (or commits' ids) begin with `names`, newest first, without duplicates.

    Raises Conflict for an op that cannot be undone. An op that another of these ops undid is allowed: that one is
    newer, so it is undone first. `whole`: also return the ops that `_choices` returns for these.
    """
    found = {op.commit: op for op in [find_op(ormah.vault, name) for name in names]}
    if whole:
        found |= {op.commit: op for op in _choices(ormah, list(found.values()))}
    together = {op.name for op in found.values()}
    for op in found.values():
        if _undone_by(ormah, op) not in together:
            _check(ormah, op)
    return [found[entry.commit] for entry in ormah.vault.oplog.view().entries if entry.commit in found]


def _choices(ormah: Ormah, ops: Sequence[Op]) -> list[Op]:
    """Return the ops that recorded an adoption mode, for folders or the whole vault, in the adoptions in which `ops`
    adopted notes.

    Such an op is left out while other notes of the same adoption stay adopted.
    """
    view = ormah.vault.oplog.view()
    names = {op.name for op in ops}
    runs = {op.run for op in ops if op.kind == Kind.ADOPT and op.run and op.nodes}
    left = [
        entry
        for entry in view.entries
        if entry.run in runs and entry.kind == Kind.ADOPT and not entry.first and entry.name not in names
        and entry.name not in view.taken_back and entry.commit not in view.taken_back
    ]  # fmt: skip
    more = {entry.run for entry in left if entry.nodes}
    return read_ops(ormah.vault, view, [entry for entry in left if not entry.nodes and entry.run not in more])


def _of_run_or_job(ormah: Ormah, wish: UndoParams) -> list[Op]:
    view = ormah.vault.oplog.view()
    entries = list(_of_run(view.entries, wish.run) if wish.run is not None else _of_job(view.entries, wish))
    return read_ops(ormah.vault, view, entries)


def _of_run(entries: Sequence[LogEntry], run: str) -> Iterator[LogEntry]:
    wanted = run.strip()
    runs = {entry.run for entry in entries if entry.run and len(wanted) >= MIN_PREFIX and entry.run.startswith(wanted)}
    if any(entry.run == wanted for entry in entries):
        runs = {wanted}
    if not runs:
        raise NotFound(f"there is no run '{wanted}'", hint="`ormahctl --json history` names each op's run")
    if len(runs) > 1:
        raise Ambiguous(
            f"'{wanted}' begins {len(runs)} runs", hint="give more of it", data={"ids": sorted(runs)[:SHOWN]}
        )
    return (entry for entry in entries if entry.run in runs)


def _of_job(entries: Sequence[LogEntry], wish: UndoParams) -> Iterator[LogEntry]:
    name = f"job:{(wish.job or '').removeprefix('job:')}"
    if not any(entry.source == name for entry in entries):
        raise NotFound(
            f"no job '{name.removeprefix('job:')}' ever changed anything", hint="see: ormahctl history --job NAME"
        )
    since = moment(wish.since or "").timestamp()
    return (entry for entry in entries if entry.source == name and entry.time >= since and entry.kind != Kind.UNDO)


def _check(ormah: Ormah, op: Op) -> None:
    """Raise Conflict for an op that cannot be undone."""
    by = _undone_by(ormah, op)
    if by is not None:
        raise Conflict(
            f"{_quoted(op)} is undone already, by {by}",
            hint=f"to bring it back: ormahctl undo {by}",
            data={"op": op.name, "undone_by": by},
        )
    why = _beyond(ormah, op)
    if why is not None:
        raise Conflict(f"{_quoted(op)} cannot be undone: {why}", hint=_instead(ormah, op), data={"op": op.name})


def _undone_by(ormah: Ormah, op: Op) -> str | None:
    taken_back = ormah.vault.oplog.view().taken_back
    return (taken_back.get(op.op) if op.op else None) or taken_back.get(op.commit)


def _beyond(ormah: Ormah, op: Op) -> str | None:
    """Return why the op can never be undone, or None."""
    if op.op is None:
        return "it is a commit that was made by hand, not one of ours"
    if op.kind == Kind.INIT or ormah.vault.git.resolve(f"{op.commit}^1") is None:
        return "it is the vault's beginning"
    if op.kind == Kind.PURGE:
        return "what a purge removed is gone from the history too"
    if op.kind == Kind.SYNC and ormah.vault.git.resolve(f"{op.commit}^2") is None:
        return "it brought nothing together: what came with it are ops of their own"
    return None


def _instead(ormah: Ormah, op: Op) -> str | None:
    if op.op is None:
        merge = "-m 1 " if ormah.vault.git.resolve(f"{op.commit}^2") else ""
        return f"git does: git -C {ormah.vault.root} revert {merge}{op.commit[:8]}; the index follows by itself"
    return "undo its ops one by one: ormahctl history" if op.kind == Kind.SYNC else None


# Messages


def _quoted(op: Op) -> str:
    return f"“{headline(op.subject, '')}” ({op.name})"


def _in_the_way(op: Op, exc: Conflict) -> UndoConflict:
    return UndoConflict(op.name, None, str(exc.data.get("path", "")), None, "path", None, None, None, exc.message)


def _excluded(ormah: Ormah, op: Op, left: NotUndone) -> Conflict:
    """Return the error for a single op that was not undone because of the conflicts in `left`, with the data that a
    person needs to decide."""
    notes: dict[str, list[str]] = {}
    for clash in left.clashes:
        name = f"“{clash.title}” ({short_id(clash.node_id)})" if clash.node_id else clash.path
        notes.setdefault(name, []).append(clash.what)
    said = [f"{name} {_together(whats)}" for name, whats in notes.items()]
    more = f"; and {len(said) - NAMED} more" if len(said) > NAMED else ""
    data: dict[str, Any] = {
        "op": op.name,
        "conflicts": [asdict(clash) for clash in left.clashes[:SHOWN]],
    }
    return Conflict(
        f"{_quoted(op)} was not undone: {'; '.join(said[:NAMED])}{more}; nothing was changed",
        hint=_way_on(ormah, op, left), data=data,
    )  # fmt: skip


def _together(whats: Sequence[str]) -> str:
    """Join clauses, those with the same beginning into one: `was changed since: title, text`."""
    parted = [what.partition(": ") for what in dict.fromkeys(whats)]
    heads = dict.fromkeys(head for head, _, _ in parted)
    named = {head: ", ".join(tail for one, _, tail in parted if one == head and tail) for head in heads}
    return " and ".join(f"{head}: {tails}" if tails else head for head, tails in named.items())


def _way_on(ormah: Ormah, op: Op, left: NotUndone) -> str:
    if all(clash.field == UNCOMMITTED for clash in left.clashes):
        return "an edit is taken in once its file has been quiet for a moment; wait, or commit it, and repeat"
    if all(clash.field == "note" and clash.theirs is None for clash in left.clashes):
        return "to remove it with its edits (git keeps them): the same with --force"
    nodes = [clash.node_id for clash in left.clashes if clash.node_id]
    there = ormah.index.notes(nodes, connections=False)
    gone = next((short_id(node) for node in nodes if node not in there), None)
    if gone is not None:
        return f"undo the later change first; it is named by: ormahctl history {gone}"
    note = f" {short_id(nodes[0])}" if nodes else " ID"
    return f"edit it by hand (ormahctl edit{note}), or undo the later change first; the op itself: git show {op.commit[:8]}"


def take_in_conflict(ormah: Ormah, name: str, caller: Caller) -> TakeBackResult:
    """Restore this machine's text where a sync on another machine replaced it, in one commit per note.

    `name`: selects the notes, as in `conflicts.find`.

    Raises:
        NotFound, Ambiguous: the name. BadRequest: no text of this machine was replaced in that note. Conflict: the
        note was changed since. It is then unchanged; notes restored before it stay restored, and the error names
        them.
    """
    root = ormah.vault.root
    settled: list[ConflictItem] = []
    commits: list[str] = []
    for one in conflicts.find(root, name):
        with saying(lambda: f"taken back before that: {', '.join(one.path for one in settled)}" if settled else ""):
            done = amending(ormah, lambda one=one: _put_back(ormah, one, caller))  # type: ignore[misc]
        if done.commit is not None:
            commits.append(done.commit)
        conflicts.settle(root, [one])
        settled.append(conflicts.item(one))
    return TakeBackResult(settled, commits, len(conflicts.waiting(root)))


def _put_back(ormah: Ormah, one: SetAside, caller: Caller) -> Outcome:
    if one.node is None:
        raise BadRequest(f"{one.path} is no memory", hint="compare its versions and put it right by hand")
    seen = see(ormah, one.node)
    data = taken_back(ormah.vault, one, seen.data)
    if data != seen.data:
        data = edit(data, seen.path, set={"updated": ormah.moment()})
    body = f"A sync on {one.by or 'another machine'} (op {one.op}) had replaced it: {', '.join(one.fields)}."
    return commit(
        ormah, f"Taken back: {one.path}", kind=Kind.UPDATE, caller=caller, body=body,
        fill=lambda tx: tx.put(seen.path, data, node_id=seen.id, expect=seen.digest),
    )  # fmt: skip
