"""Undo ops: by name, all of a run, or all that a job did since a time. Newest first, each in its own commit.

Also restores this machine's text in notes where a sync on another machine replaced it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from msgspec.structs import asdict

from ormahd.actions.amend import Caller, Outcome, Progress, amending, outcome, see, transaction
from ormahd.actions.taking_back import UNCOMMITTED, NotUndone, take_back, undone_by
from ormahd.actions.views import headline, saying
from ormahd.api import (
    ConflictItem,
    ResolveConflictParams,
    SkippedOp,
    TakeBackResult,
    UndoConflict,
    UndoMergeParams,
    UndoMergeResult,
    UndoneOp,
    UndoParams,
    UndoResult,
)
from ormahd.errors import Ambiguous, BadRequest, Conflict, NotFound
from ormahd.index.history import MIN_PREFIX, Op
from ormahd.model.change import Kind
from ormahd.model.node import short_id
from ormahd.note.edit import edit
from ormahd.ormah import Ormah
from ormahd.sync.replaced import with_own_values
from ormahd.vault import conflicts
from ormahd.vault.conflicts import SetAside

MAX_CONFLICTS = 100
"""Maximum number of conflicts in an answer."""
NAMED = 3
"""Maximum number of notes that a sentence names."""
NOTHING_LEFT = "nothing of it is left to undo"
DONE = "it is undone already"


def undo(ormah: Ormah, params: UndoParams, caller: Caller, progress: Progress) -> UndoResult:
    """Undo the ops that `params` names. A single op named by its id is undone, or an error is raised. Of several ops,
    those that conflict are left as they are, and the result lists them.

    Raises:
        NotFound, Ambiguous, BadRequest: the ops, the run or the job are unknown, not unique, or invalid.
        Conflict: an op was not made by Ormah, is undone already or can never be undone; or the single op conflicts with
        later changes (`data["conflicts"]`).
        VaultBusy: another git operation is running; `data["undone"]` lists the ops already undone.
    """
    # Which ops
    if sum([bool(params.ops), params.run is not None, params.job is not None]) != 1:
        hint = "ormahctl history lists them"
        raise BadRequest("say what to undo: changes by their ids, or a run, or a job", hint=hint)
    if (params.job is None) != (params.since is None):
        raise BadRequest("a job and since go together", hint="for example: --job auto_linker --since yesterday")
    past = {
        done.op: done for done in (undone_by(ormah, one) for one in caller.done)
    }  # by an earlier try of this request
    if params.run is not None:
        ops = _ops_of_run(ormah, params.run.strip())
    elif params.job is not None:
        ops = _ops_of_job(ormah, params.job.removeprefix("job:"), params.since)
    else:
        ops = _ops_named(ormah, params.ops, past)

    # One op: done or an error
    if len(ops) == 1 and params.ops:
        return UndoResult([past.get(ops[0].commit) or _undo_one(ormah, ops[0], caller, params)], [], [])

    # Several: each is undone, skipped with a reason, or listed with its conflicts
    out = UndoResult([], [], [], ormah.history.find(caller.done[0]).run if past else ormah.new_run())
    with saying(
        lambda: f"{len(out.undone)} of {len(ops)} changes were undone before that" if out.undone else "",
        undone=lambda: [one.commit for one in out.undone],
    ):
        for number, op in enumerate(ops):
            progress(number, len(ops), "undoing")
            if op.commit in past:
                out.undone.append(past[op.commit])
                continue
            why = DONE if ormah.history.find(op.commit).undone_by else _why_never(ormah, op)
            if why is None:
                try:
                    done = take_back(ormah, op, caller, params, out.run)
                except Conflict as exc:
                    path = str(exc.data.get("path", ""))
                    clash = UndoConflict(op.commit, None, path, None, "path", None, None, None, exc.message)
                    done = NotUndone((clash,))
                if isinstance(done, UndoneOp):
                    out.undone.append(done)
                    continue
                out.conflicts.extend(done.clashes[: MAX_CONFLICTS - len(out.conflicts)])
                if done.clashes:
                    continue
                why = NOTHING_LEFT
            out.skipped.append(SkippedOp(op.commit, op.subject, why))
    return out


def undo_merge(ormah: Ormah, params: UndoMergeParams, caller: Caller) -> UndoMergeResult:
    """Undo the merge of two memories whose op or commit begins with `merge_id`.

    Raises:
        NotFound: the op is of another kind.
        Other errors: as `undo`.
    """
    op = ormah.history.find(params.merge_id, kind=Kind.MERGE)
    if not caller.done:
        _check(ormah, op)
    done = undone_by(ormah, caller.done[0]) if caller.done else _undo_one(ormah, op, caller, UndoParams())
    lines = [f"Undone: {op.subject}"]
    lines += [f"{change.did}: {change.title or change.path}" for change in done.changes]
    return UndoMergeResult("\n".join([*lines, f"commit: {done.commit[:8]}"]), op.commit, done.commit, done.nodes)


def _undo_one(ormah: Ormah, op: Op, caller: Caller, wish: UndoParams) -> UndoneOp:
    """Undo one op, and return what was done.

    Raises:
        Conflict: later changes conflict with the undo, or nothing of the op is left.
    """
    done = take_back(ormah, op, caller, wish, None)
    if isinstance(done, UndoneOp):
        return done
    if done.clashes:
        raise _conflict_error(ormah, op, done.clashes)
    raise Conflict(f"{_quoted(op)}: {NOTHING_LEFT}; nothing was changed", hint=f"what it was: git show {op.commit[:8]}")


# Selecting ops


def _ops_named(ormah: Ormah, names: Sequence[str], past: Collection[str]) -> list[Op]:
    """Return the ops whose ids (or commits' ids) begin with `names`, newest first, without duplicates.

    `past`: commits that an earlier try of this request undid.

    Raises:
        Conflict: an op cannot be undone. An op that another of these ops undid is allowed: that one is newer, so it is
        undone first.
    """
    found = {op.commit: op for op in map(ormah.history.find, names)}
    for op in found.values():
        if op.commit not in past and op.undone_by not in found:
            _check(ormah, op)
    return sorted(found.values(), key=lambda op: op.place, reverse=True)


def _ops_of_run(ormah: Ormah, prefix: str) -> list[Op]:
    """Return the ops of a run, newest first. `prefix`: the run's id, or the beginning of it.

    Raises:
        NotFound: no run has that id. Ambiguous: several ids begin so.
    """
    ops = ormah.history.ops(limit=None)
    runs = sorted({op.run for op in ops if op.run and len(prefix) >= MIN_PREFIX and op.run.startswith(prefix)})
    if prefix not in runs and len(runs) > 1:
        raise Ambiguous(
            f"'{prefix}' begins {len(runs)} runs", hint="give more of it", data={"ids": runs[:MAX_CONFLICTS]}
        )
    if not runs:
        raise NotFound(f"there is no run '{prefix}'", hint="`ormahctl --json history` names each change's run")
    run = prefix if prefix in runs else runs[0]
    return [op for op in ops if op.run == run]


def _ops_of_job(ormah: Ormah, name: str, since: str | None) -> list[Op]:
    """Return the ops that the job `name` made since a time, newest first. Undos are left out: they are no changes that
    the job planned.

    Raises:
        NotFound: the job never changed anything.
    """
    if not ormah.history.ops(source=f"job:{name}", limit=1):
        raise NotFound(f"no job '{name}' ever changed anything", hint="see: ormahctl history --source job")
    return [op for op in ormah.history.ops(source=f"job:{name}", since=since, limit=None) if op.kind != Kind.UNDO]


def _check(ormah: Ormah, op: Op) -> None:
    """Raise Conflict if an op cannot be undone: it can never be, or is undone already."""
    by = op.undone_by
    if by is not None:
        raise Conflict(
            f"{_quoted(op)} is undone already, by {by[:8]}",
            hint=f"to bring it back: ormahctl undo {by[:8]}",
            data={"op": op.commit, "undone_by": by},
        )
    why = _why_never(ormah, op)
    if why is not None:
        hint = "undo its ops one by one: ormahctl history" if op.kind == Kind.SYNC else None
        if op.op is None:
            merge = "-m 1 " if ormah.vault.git.resolve(f"{op.commit}^2") else ""
            hint = f"git does: git -C {ormah.vault.root} revert {merge}{op.commit[:8]}; the index follows by itself"
        raise Conflict(f"{_quoted(op)} cannot be undone: {why}", hint=hint, data={"op": op.commit})


def _why_never(ormah: Ormah, op: Op) -> str | None:
    """Return the reason why the op can never be undone, or None."""
    if op.op is None:
        return "it is a commit that was made by hand, not one of ours"
    if op.kind == Kind.INIT or ormah.vault.git.resolve(f"{op.commit}^1") is None:
        return "it is the vault's beginning"
    if op.kind == Kind.PURGE:
        return "what a purge removed is gone from the history too"
    if op.kind == Kind.SYNC and ormah.vault.git.resolve(f"{op.commit}^2") is None:
        return "it brought nothing together: what came with it are ops of their own"
    return None


# Messages


def _quoted(op: Op) -> str:
    """Return the op's subject in quotes with the start of its commit id, for messages."""
    return f"“{headline(op.subject, '')}” ({op.commit[:8]})"


def _conflict_error(ormah: Ormah, op: Op, clashes: Sequence[UndoConflict]) -> Conflict:
    """Return the error for a single op that was not undone because of `clashes`, with the data that a person needs to
    decide."""
    # Clauses of a note with the same beginning become one: `was changed since: title, text`
    notes: dict[str, dict[str, dict[str, None]]] = {}
    for clash in clashes:
        name = f"“{clash.title}” ({short_id(clash.node_id)})" if clash.node_id else clash.path
        head, _, tail = clash.what.partition(": ")
        notes.setdefault(name, {}).setdefault(head, {})[tail] = None
    lines = []
    for name, clauses in notes.items():
        tails = {head: ", ".join(filter(None, tails)) for head, tails in clauses.items()}
        lines.append(f"{name} " + " and ".join(f"{head}: {tail}" if tail else head for head, tail in tails.items()))
    more = f"; and {len(lines) - NAMED} more" if len(lines) > NAMED else ""
    data: dict[str, Any] = {"op": op.commit, "conflicts": [asdict(clash) for clash in clashes[:MAX_CONFLICTS]]}
    what = f"{_quoted(op)} was not undone: {'; '.join(lines[:NAMED])}{more}; nothing was changed"
    return Conflict(what, hint=_conflict_hint(ormah, op, clashes), data=data)


def _conflict_hint(ormah: Ormah, op: Op, clashes: Sequence[UndoConflict]) -> str:
    """Return what a person can do about the conflicts that prevented an undo."""
    if all(clash.field == UNCOMMITTED for clash in clashes):
        return "an edit is taken in once its file has been quiet for a moment; wait, or commit it, and repeat"
    if all(clash.field == "note" and clash.theirs is None for clash in clashes):
        return "to remove it with its edits (git keeps them): the same with --force"
    nodes = [clash.node_id for clash in clashes if clash.node_id]
    rows = ormah.index.notes(nodes)
    removed = next((short_id(node) for node in nodes if node not in rows), None)
    if removed is not None:
        return f"undo the later change first; it is named by: ormahctl history {removed}"
    note = f" {short_id(nodes[0])}" if nodes else " ID"
    return f"edit it by hand (ormahctl edit{note}), or undo the later change first; the change itself: git show {op.commit[:8]}"


def take_in_conflict(ormah: Ormah, params: ResolveConflictParams, caller: Caller) -> TakeBackResult:
    """Restore this machine's text where a sync on another machine replaced it, in one commit per note.

    `name`: selects the notes, as in `conflicts.find`.

    Raises:
        NotFound, Ambiguous: no note, or several, have that name.
        BadRequest: no text of this machine was replaced in that note.
        Conflict: the note was changed since, and is left as it is. Notes restored before it stay restored, and the
        error names them.
    """
    root = ormah.vault.root
    settled: list[ConflictItem] = []
    commits: list[str] = []
    for one in conflicts.find(root, params.name):
        with saying(lambda: f"taken back before that: {', '.join(one.path for one in settled)}" if settled else ""):
            done = amending(ormah, lambda one=one: _put_back(ormah, one, caller))  # type: ignore[misc]
        if done.commit is not None:
            commits.append(done.commit)
        conflicts.settle(root, [one])
        settled.append(conflicts.item(one))
    return TakeBackResult(settled, commits, len(conflicts.waiting(root)))


def _put_back(ormah: Ormah, one: SetAside, caller: Caller) -> Outcome:
    """Write the values that a sync had replaced back into their note, and commit. Return the outcome.

    Raises:
        BadRequest: the file is no memory.
    """
    if one.node is None:
        raise BadRequest(f"{one.path} is no memory", hint="compare its versions and put it right by hand")
    seen = see(ormah, one.node)
    data = with_own_values(ormah.vault, one, seen.data)
    if data != seen.data:
        data = edit(data, seen.path, set={"updated": ormah.moment()})
    body = f"A sync on {one.by or 'another machine'} (change {one.op}) had replaced it: {', '.join(one.fields)}."
    with transaction(ormah, f"Taken back: {one.path}", kind=Kind.UPDATE, caller=caller, body=body) as tx:
        tx.put(seen.path, data, node_id=seen.id, expect=seen.digest)
    return outcome(tx)
