"""Undo one op by a three-way merge: the op's result is the base, the state before it theirs, and today's files ours.

Notes are matched by id only. A note unchanged since the op gets its old bytes back; later edits are kept. If they
conflict, nothing is changed. The undo is one commit, or none. Its message says what became of each note, and its
trailer names what was undone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ormahd.actions.amend import Caller, amending, transaction
from ormahd.actions.tombstones import of_notes, with_lines
from ormahd.actions.tombstones import path as path_of_tombstones
from ormahd.actions.views import headline, iso
from ormahd.api import UndoChange, UndoConflict, UndoneOp, UndoParams
from ormahd.errors import Conflict
from ormahd.git.commit_message import UNDOES
from ormahd.index.history import Op
from ormahd.model.change import Kind
from ormahd.model.node import short_id
from ormahd.note.merge import MergeConflict
from ormahd.note.read import parse
from ormahd.note.values import NoteKind
from ormahd.ormah import Ormah
from ormahd.vault.create import CARD, read_card
from ormahd.vault.three_way import Pair, Version, changed, join, key_of, node_of, write

LONGEST = 20_000
"""Maximum number of characters of one version in a conflict, so that replies stay within the size of a protocol
message."""
UNCOMMITTED = "uncommitted"
"""`UndoConflict.field` for a note with uncommitted changes."""
PLACE = "path"
"""`UndoConflict.field` for a note whose old path is taken."""
MAX_LISTED = 40
"""Maximum number of changes that a commit message lists."""


class NotUndone(Struct, frozen=True):
    """The answer for an op that was not undone: because of the conflicts `clashes`, or (if there are none) because
    nothing of it is left to undo."""

    clashes: tuple[UndoConflict, ...] = ()


class UndoPiece(Struct, frozen=True):
    """One file as it is today (`now`) and after the undo (`wanted`); None: no file. `edited`: whether it was changed
    since the op."""

    now: Version | None
    wanted: Version | None
    edited: bool

    @property
    def moves(self) -> bool:
        """Whether the undo creates, removes or moves the file."""
        return self.now is None or self.wanted is None or self.now.path != self.wanted.path


def take_back(ormah: Ormah, op: Op, caller: Caller, wish: UndoParams, run: str | None) -> UndoneOp | NotUndone:
    """Undo one op. Return what was done, or why not.

    `wish.force`: also remove a note that the op created and that was edited since. `wish.dry_run`: change nothing, and
    return what would be done.

    Raises:
        VaultBusy: another git operation is running; nothing is queued.
        Conflict: a file changed twice meanwhile.
    """
    ormah.vault.wait_for_git()
    if ormah.reconciler.lacks_head():
        ormah.reconciler.scan()  # a person moved HEAD by hand: the index must follow first
    pairs = changed(ormah.vault, ormah.vault.git.resolve(f"{op.commit}^1"), op.commit)
    return amending(ormah, lambda: _try_undo(ormah, op, pairs, caller, wish, run))


def _try_undo(
    ormah: Ormah, op: Op, pairs: Mapping[str, Pair], caller: Caller, wish: UndoParams, run: str | None
) -> UndoneOp | NotUndone:
    """Undo one op by a three-way merge of each file that it changed, in one commit. Return what was done, or why not.
    `pairs`: {key of a file: (version before the op, version after it)}."""
    # Only committed files are undone. A scan commits edits that are complete
    now = _versions_today(ormah, pairs)
    loose = _uncommitted(ormah, pairs, now)
    if loose:
        ormah.reconciler.scan()
        now = _versions_today(ormah, pairs)
        loose = _uncommitted(ormah, pairs, now)
    if loose:
        versions = {key: now[key] or next(version for version in pairs[key][::-1] if version) for key in loose}
        what = "has changes that are not committed yet"
        return NotUndone(tuple(_file_conflict(op, versions[key], loose[key], UNCOMMITTED, what) for key in loose))

    # Merge each file: base is the version after the op, and the version before it is merged with today's
    pieces: dict[str, UndoPiece] = {}
    clashes: list[UndoConflict] = []
    reasons: list[str] = []
    for key, (before, after) in pairs.items():
        ours = now[key]
        joined = join(after, ours, before)
        if joined.conflicts and wish.force and before is None:  # remove an edited note that the op created
            pieces[key] = UndoPiece(ours, None, edited=False)
            continue
        clashes += [_field_conflict(ormah, op, conflict, ours or after or before) for conflict in joined.conflicts]
        reasons += joined.reasons
        pieces[key] = UndoPiece(ours, joined.version, edited=ours not in (after, before))
    clashes += _path_conflicts(ormah, op, pieces)
    if clashes:
        return NotUndone(tuple(clashes))

    # Commit what changes
    changes = [_undo_change(key, piece) for key, piece in pieces.items() if piece.now != piece.wanted]
    if wish.dry_run:
        return _undone_op(op, "", changes) if changes else NotUndone()
    body, undoes = undo_body(op, changes, reasons), [(UNDOES, op.name)]
    with transaction(ormah, undo_subject(op), kind=Kind.UNDO, caller=caller, body=body, run=run, trailers=undoes) as tx:
        write(tx, {key: (piece.now, piece.wanted) for key, piece in _with_tombstones(ormah, pieces).items()})
    if tx.committed is None:
        return NotUndone()

    # With an earlier card the vault has its earlier id again
    if any(piece.wanted is not None and piece.wanted.path == CARD for piece in pieces.values()):
        ormah.vault.adopt_card(read_card(ormah.vault.read(CARD) or b"", ormah.vault.root))
        ormah.reconciler.scan()
    return _undone_op(op, tx.committed.commit, changes)


def undone_by(ormah: Ormah, commit: str) -> UndoneOp:
    """Return what `take_back` returned when it made the commit `commit`, from the history alone."""
    op = ormah.history.find(ormah.history.find(commit).undoes[0])
    pairs = changed(ormah.vault, ormah.vault.git.resolve(f"{op.commit}^1"), op.commit)
    done = changed(ormah.vault, ormah.vault.git.resolve(f"{commit}^1"), commit)
    pieces = {key: UndoPiece(*done[key], edited=done[key][0] not in pair) for key, pair in pairs.items() if key in done}
    return _undone_op(op, commit, [_undo_change(key, piece) for key, piece in pieces.items()])


def _undone_op(op: Op, commit: str, changes: list[UndoChange]) -> UndoneOp:
    """Return the answer for an undone op. `commit`: the new commit; empty for a dry run."""
    nodes = [change.node_id for change in changes if change.node_id]
    merged = [change.node_id for change in changes if change.node_id and change.did == "merged"]
    return UndoneOp(op.commit, commit, op.subject, nodes, merged, changes)


def _with_tombstones(ormah: Ormah, pieces: Mapping[str, UndoPiece]) -> Mapping[str, UndoPiece]:
    """Return `pieces` and a change to the file of tombstones: a new tombstone for each extracted memory that the undo
    removes."""
    removed = [piece.now for key, piece in pieces.items() if piece.now and piece.wanted is None and node_of(key)]
    lines = of_notes(ormah, [parse(version.data, version.path) for version in removed])
    if not lines:
        return pieces
    path = path_of_tombstones(ormah)
    key, data = key_of(Version(path, b"")), ormah.vault.read(path)
    now = None if data is None else Version(path, data)
    piece = pieces.get(key) or UndoPiece(now, now, edited=False)
    data = b"" if piece.wanted is None else piece.wanted.data
    return {**pieces, key: UndoPiece(piece.now, Version(path, with_lines(data, lines)), piece.edited)}


# The present files


def _versions_today(ormah: Ormah, pairs: Mapping[str, Pair]) -> dict[str, Version | None]:
    """Return {key: version on disk now; None if there is no file} for each file that the op changed.

    A note is searched at the path that the index has, otherwise at its paths after and before the op.
    """
    rows = ormah.index.notes([node for key in pairs if (node := node_of(key))])
    found: dict[str, Version | None] = {}
    for key, pair in pairs.items():
        node = node_of(key)
        row, after = rows.get(node or ""), pair[1]
        data = ormah.vault.read(row.path) if row is not None and row.unwritten else None
        broken = row is not None and data is not None and parse(data, row.path).kind is NoteKind.BROKEN
        places = [] if row is None or broken else [row.path]
        bare = after is not None and node_of(key_of(after)) is None  # a person's edit that left no readable id
        found[key] = next(_versions(ormah, key, [*places, *_paths(pair)], bare=bare), None)
    return found


def _paths(pair: Pair) -> list[str]:
    """Return the paths of the file after and before the op. One path if it was not moved."""
    before, after = pair
    return list(dict.fromkeys(version.path for version in (after, before) if version is not None))


def _versions(ormah: Ormah, key: str, paths: Sequence[str], *, bare: bool) -> Iterator[Version]:
    """Yield a `Version` for each file at `paths` that `key` names (by an id or a path). `bare`: a file without an id
    also matches."""
    for path in dict.fromkeys(paths):
        data = ormah.vault.read(path)
        if data is not None:
            version = Version(path, data)
            own_key = key_of(version)
            if node_of(key) is None or own_key == key or (bare and own_key.startswith("path:")):
                yield version


def _uncommitted(ormah: Ormah, pairs: Mapping[str, Pair], now: Mapping[str, Version | None]) -> dict[str, str]:
    """Return {key: path} of those files in `now` that differ from HEAD: edited, moved or removed."""
    found: dict[str, str] = {}
    for key, version in now.items():
        for path in _paths(pairs[key]) if version is None else [version.path]:
            if version is not None:
                loose = not ormah.vault.is_committed(path, version.data)
            else:
                data = ormah.vault.committed(path)
                loose = data is not None and (node_of(key) is None or key_of(Version(path, data)) == key)
            if loose:
                found[key] = path
    return found


def _path_conflicts(ormah: Ormah, op: Op, pieces: Mapping[str, UndoPiece]) -> Iterator[UndoConflict]:
    """Yield a conflict for each note that cannot return to its old path, because another file is there."""
    leaving = {piece.now.path for piece in pieces.values() if piece.now and piece.moves}
    taken: set[str] = set()
    for piece in pieces.values():
        wanted = piece.wanted
        if wanted is None or not piece.moves:
            continue
        try:
            occupied = wanted.path not in leaving and ormah.vault.read(wanted.path) is not None
        except Conflict as exc:
            yield _file_conflict(op, wanted, wanted.path, PLACE, f"has no way back, {exc.message}")
            continue
        if occupied or wanted.path in taken:
            yield _file_conflict(op, wanted, wanted.path, PLACE, "has its old place taken by another file")
        taken.add(wanted.path)


# Conflicts and changes, as the reply has them


def _headline(version: Version) -> str | None:
    """Return the headline of a version's note, or None if the file is no markdown."""
    if not version.path.lower().endswith(".md"):
        return None
    note = parse(version.data, version.path)
    return headline(note.title, note.content)


def _file_conflict(op: Op, version: Version, path: str, name: str, what: str) -> UndoConflict:
    """Return the conflict that one file cannot be undone for the reason `what`, without the versions of a field."""
    return UndoConflict(op.commit, node_of(key_of(version)), path, _headline(version), name, None, None, None, what)


def _field_conflict(ormah: Ormah, op: Op, conflict: MergeConflict, version: Version | None) -> UndoConflict:
    """Return the conflict of a merge as the answer of an undo has it. `version`: any version of the file, for its
    title."""
    assert version is not None
    name = conflict.field
    if name == "note" and conflict.ours is None:
        broken = ormah.index.kinds().get(version.path) == NoteKind.BROKEN
        what = f"is no readable note since ({version.path})" if broken else "was removed since"
    elif name == "note":
        what = "was edited since, and undoing would remove it"
    elif name == "id":
        what = "has another id now"
    else:
        what = f"was changed since: {'text' if name in {'content', 'text'} else name}"
    base, ours, theirs = (
        None if text is None else text[:LONGEST] for text in (conflict.base, conflict.ours, conflict.theirs)
    )
    node = conflict.node or node_of(key_of(version))
    return UndoConflict(op.commit, node, conflict.path, _headline(version), name, base, ours, theirs, what)


def _undo_change(key: str, piece: UndoPiece) -> UndoChange:
    """Return what an undo does to one file."""
    version = piece.wanted or piece.now
    assert version is not None
    if piece.wanted is None:
        did = "removed"
    elif piece.now is None:
        did = "brought back"
    elif piece.edited:
        did = "merged"
    else:
        did = "moved back" if piece.now.data == piece.wanted.data else "restored"
    return UndoChange(node_of(key), version.path, _headline(version), did)


def undo_subject(op: Op) -> str:
    """Return the commit's subject: `Undo: …`, for the undo of an undo `Redo: …`, and so on alternately."""
    if op.kind == Kind.UNDO:
        for verb, other in (("Undo: ", "Redo: "), ("Redo: ", "Undo: ")):
            if op.subject.startswith(verb):
                return other + op.subject.removeprefix(verb)
    return f"Undo: {op.subject}"


def undo_body(op: Op, changes: Sequence[UndoChange], reasons: Sequence[str]) -> str:
    """Return the commit's body: what was undone, what became of each note, and which conflicts a merge rule decided."""
    lines = [f"Takes back {op.commit[:8]} ({op.kind}, {op.source}, {iso(op.time)})."]
    for change in changes[:MAX_LISTED]:
        name = f"{change.title} ({short_id(change.node_id)})" if change.node_id else change.path
        did = "merged with later edits" if change.did == "merged" else change.did
        lines.append(f"{did.capitalize()}: {name}")
    if len(changes) > MAX_LISTED:
        lines.append(f"And {len(changes) - MAX_LISTED} more.")
    return "\n".join([*lines, *dict.fromkeys(reasons)])
