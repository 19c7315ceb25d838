"""Undo one op by a three-way merge: the op's result is the base, the state before it theirs, and today's files ours.

Notes are matched by id only. A note unchanged since the op gets its old bytes back; later edits are kept. If they
conflict, nothing is changed. The undo is one commit, or none. Its message says what became of each note, and its
trailers name what was undone.

When an adoption is undone, the person's files are kept, without Ormah's lines; a file that git did not track before the
op is untracked again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ormahd.model.change import sha256
from ormahd.note.read import parse
from ormahd.vault import releasing
from ormahd.vault.releasing import Released
from ormahd.vault.three_way import LEFT_OUT, TAKEN_IN, Version, node_of, write
from ormahd.watch.decide import label, subject

if TYPE_CHECKING:
    from ormahd.vault.transaction import Transaction
    from ormahd.vault.vault import Vault
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from ormahd.actions.amend import PERSON, amending
from ormahd.actions.tombstones import of_notes, with_lines
from ormahd.actions.tombstones import path as path_of_tombstones
from ormahd.actions.views import headline
from ormahd.api import UndoChange, UndoConflict, UndoneOp
from ormahd.errors import Conflict
from ormahd.model.change import Kind
from ormahd.note.values import NoteKind
from ormahd.vault.choices import Choices, agreed
from ormahd.vault.create import CARD, Adopt, Folder, read_card
from ormahd.vault.three_way import Joined, Pair, join, join_left, join_taken, key_of
from ormahd.vault.transaction import EXECUTABLE

if TYPE_CHECKING:
    from ormahd.actions.amend import Caller
    from ormahd.git.oplog import Part
    from ormahd.index.rows import NodeRow
    from ormahd.note.merge import MergeConflict
    from ormahd.ormah import Ormah
    from ormahd.vault.history import Op
    from ormahd.vault.three_way import OpEffects
from typing import TYPE_CHECKING

from ormahd.actions.views import iso
from ormahd.git.oplog import UNDOES, UNDOES_PART
from ormahd.model.node import short_id

if TYPE_CHECKING:
    from ormahd.api import UndoChange
    from ormahd.vault.history import Op


LIST = f"path:{releasing.PATH}"
"""Key, as in `UndoPlan.pieces`, of the file that lists the released files."""


def custody_words(found: UndoPlan) -> tuple[list[tuple[str, str]], str | None]:
    """Return the trailers of the commits of an undo that releases or adopts files again, and the subject of its first
    commit. If it does neither, return ([], None)."""
    left = [piece for piece in found.pieces.values() if piece.custody == "leave"]
    taken = [piece for piece in found.pieces.values() if piece.custody == "take"]
    if left:
        return [LEFT_OUT], subject("Take Ormah's lines out", _names(left))
    if taken:
        return [TAKEN_IN], subject("Take in", _names(taken))
    return [], None


def _names(pieces: list[UndoPiece]) -> list[str]:
    return [label(parse(piece.wanted.data, piece.wanted.path)) for piece in pieces if piece.wanted is not None]


def put(vault: Vault, tx: Transaction, pieces: Mapping[str, UndoPiece]) -> None:
    """Add the change to each file in `pieces` to the transaction `tx`, and add those that are released to the vault's
    list of released files."""
    left: list[Released] = []
    plain = {key: (piece.now, piece.wanted) for key, piece in pieces.items() if piece.custody is None}
    for key, piece in pieces.items():
        now, wanted = piece.now, piece.wanted
        if piece.custody is None or now is None or wanted is None:
            continue
        expect = sha256(now.data)
        if piece.custody == "take":
            tx.put(wanted.path, wanted.data, node_id=node_of(key), expect=expect, first=now.data)
        else:
            tx.leave(wanted.path, wanted.data, node_id=node_of(key), expect=expect, held=piece.held, first=wanted.data)
            left.append(Released(wanted.path, sha256(wanted.data), node_of(key)))
    if left:
        listed = plain.pop(LIST, None)
        if listed is None:
            data = vault.read(releasing.PATH)
            now = wanted = None if data is None else Version(releasing.PATH, data)
        else:
            now, wanted = listed
        lines = releasing.with_files(b"" if wanted is None else wanted.data, left)
        plain[LIST] = (now, Version(releasing.PATH, lines))
    write(tx, plain)


def committed_by_hand(vault: Vault, since: str) -> set[str]:
    """Return the paths that the person's own commits changed since a commit; commits of `git revert` do not count."""
    found: set[str] = set()
    own = False
    arguments = ["--format=%x01%(trailers:key=Ormah-Op,valueonly)%x02%b", "--name-only", "--no-renames"]
    for record in vault.git.log(*arguments, f"{since}..HEAD"):
        text = os.fsdecode(record)
        if text.lstrip("\n").startswith("\x01"):
            op, _, rest = text.lstrip("\n")[1:].partition("\x02")
            own = not op.strip() and "This reverts commit " not in rest
        elif own and (path := text.lstrip("\n")):
            found.add(path.removeprefix(vault.prefix))
    return found


LONGEST = 20_000
"""Maximum number of characters of one version in a conflict, so that replies stay within the size of a protocol
message."""
UNCOMMITTED = "uncommitted"
"""`UndoConflict.field` for a note with uncommitted changes."""
PLACE = "path"
"""`UndoConflict.field` for a note whose old path is taken."""


class NotUndone(Struct, frozen=True):
    """The answer for an op that was not undone: because of the conflicts `clashes`, or (if there are none) because
    nothing of it is left to undo."""

    clashes: tuple[UndoConflict, ...] = ()


class UndoTask(Struct, frozen=True):
    """One op to undo, or a part of one. `did`: the changes to undo; `parts`: the names of the part, empty for the
    whole op; `force`: also remove a note that the op created and that was edited since."""

    op: Op
    did: OpEffects
    parts: Sequence[Part] = ()
    force: bool = False
    run: str | None = None

    @property
    def pairs(self) -> Mapping[str, Pair]:
        return self.did.pairs


class UndoPiece(Struct, frozen=True):
    """One file as it is today (`now`) and after the undo (`wanted`); None: no file. `edited`: whether it was changed
    since the op.

    `custody`: "leave": the file is released to the person; "take": it is adopted again; None: neither.
    """

    now: Version | None
    wanted: Version | None
    edited: bool
    custody: Literal["leave", "take"] | None = None
    held: bytes | None = None
    """For a file that is released: the content that the new commit has for it; None if it has no such file."""

    @property
    def moves(self) -> bool:
        """Whether the undo removes or moves the file."""
        return self.now is not None and (self.wanted is None or self.wanted.path != self.now.path)


class UndoPlan(Struct, frozen=True):
    """What undoing an op would do. `pieces`: key of a note or path -> file; `changes`: the changes as the answer
    lists them; `reasons`: sentences on where a merge rule decided."""

    pieces: dict[str, UndoPiece]
    changes: list[UndoChange]
    reasons: list[str]


Ahead = dict[str, "Version | None"]
"""Files as they will be after undos that are planned: key -> version, None for no file."""


def take_back(ormah: Ormah, task: UndoTask, caller: Caller) -> UndoneOp | NotUndone:
    """Undo one op, or the part of it that `task` names.

    Raises:
        VaultBusy: another git operation is under way; nothing is queued. Conflict: a file changed twice meanwhile.
    """
    ormah.vault.wait_for_git()
    if ormah.reconciler.told != ormah.vault.head():
        ormah.reconciler.scan()  # a person moved HEAD by hand: the index must follow first
    return amending(ormah, lambda: _attempt(ormah, task, caller))


def foresee(ormah: Ormah, task: UndoTask, ahead: Ahead) -> UndoPlan | NotUndone:
    """Return what `take_back` would do once the undos in `ahead` are done, and add the files of this undo to `ahead`.
    No file is changed.

    Uncommitted changes are treated as committed.
    """
    found = _plan(ormah, task, _today(ormah, task, ahead))
    if isinstance(found, UndoPlan):
        ahead.update((key, piece.wanted) for key, piece in found.pieces.items())
    return found


def _here(ormah: Ormah, mode: Adopt, before: Mapping[str, Folder]) -> Choices:
    """Return this machine's adoption choices, updated by the choices that an undo changed on the vault's card.
    `mode`, `before`: the mode and the folders on the card before that undo."""
    vault, known = ormah.vault, agreed(ormah.vault)
    folders = {path: folder for path, folder in known.folders.items() if before.get(path) == vault.folders.get(path)}
    folders |= {path: folder for path, folder in vault.folders.items() if before.get(path) != folder}
    return Choices(known.home, known.mode if mode == vault.adopt else vault.adopt, folders)


def _executable(ormah: Ormah, task: UndoTask, found: UndoPlan) -> list[str]:
    """Return the files that the undo restores and that were executable before the op."""
    vault = ormah.vault
    coming = {piece.wanted.path for piece in found.pieces.values() if piece.now is None and piece.wanted is not None}
    if not coming or vault.git.resolve(f"{task.op.commit}^1") is None:
        return []
    where = ["--", vault.prefix.rstrip("/")] if vault.prefix else []
    out = vault.git.run("ls-tree", "-r", "-z", "--full-tree", f"{task.op.commit}^1", *where)
    rows = (os.fsdecode(row).split("\t", 1) for row in out.split(b"\0") if row.startswith(EXECUTABLE.encode()))
    return sorted(coming & {path.removeprefix(vault.prefix) for _, path in rows})


def _choose_anew(ormah: Ormah, before: Mapping[str, Folder]) -> None:
    """Read again the notes of those folders whose settings on the vault's card differ from `before`, the settings
    before the undo, so that the notes get the right space."""
    now = ormah.vault.folders
    other = tuple(f"{path}/" for path in before.keys() | now.keys() if before.get(path) != now.get(path))
    paths = {path for path in ormah.index.known() if path.startswith(other)} if other else set()
    if not paths:
        return
    # The reconciler waits until a just written file is quiet. Its space is indexed without that wait.
    waiting = ormah.reconciler.take_again(paths, wanted=False)
    known = ormah.index.known()
    files = {path: ormah.vault.read(path) for path in waiting & known.keys()}
    upserts = {
        path: (data, known[path])
        for path, data in files.items()
        if data is not None and sha256(data) == known[path].digest
    }
    ormah.reconciler.complete(upserts)
    ormah.index.apply(upserts, (), head=None)


def _attempt(ormah: Ormah, task: UndoTask, caller: Caller) -> UndoneOp | NotUndone:
    now = _today(ormah, task)
    loose = _uncommitted(ormah, task, now)
    if loose:
        # An edit that is complete is taken in here. A missing file may have been moved: only a scan of the whole
        # folder tells a move from a deletion, and only waiting tells a deletion from a save.
        gone = any(now[key] is None for key in loose)
        ormah.reconciler.scan(paths=None if gone else set(loose.values()))
        now = _today(ormah, task)
        loose = _uncommitted(ormah, task, now)
    if loose:
        versions = {key: now[key] or next(one for one in task.pairs[key][::-1] if one) for key in loose}
        what = "has changes that are not committed yet"
        return NotUndone(tuple(_clash(task, versions[key], loose[key], UNCOMMITTED, what) for key in loose))
    found = _plan(ormah, task, now)
    if isinstance(found, NotUndone):
        return found
    said, first = custody_words(found)
    tx = ormah.vault.transaction(
        undo_subject(task.op), kind=Kind.UNDO, source=caller.source, body=undo_body(task, found.changes, found.reasons),
        run=task.run, person=caller.source == PERSON, trailers=[*undo_trailers(task), *said], queue=False, first=first,
    )  # fmt: skip
    with tx:
        put(ormah.vault, tx, _buried(ormah, found.pieces))
        for path in _executable(ormah, task, found):
            tx.make_executable(path)
    if tx.committed is None:
        return NotUndone()
    card = any(piece.wanted is not None and piece.wanted.path == CARD for piece in found.pieces.values())
    if card:
        before, mode = dict(ormah.vault.folders), ormah.vault.adopt
        ormah.vault.become(read_card(ormah.vault.read(CARD) or b"", ormah.vault.root))
        ormah.reconciler.renew()
        ormah.reconciler.renew_choices(_here(ormah, mode, before))
        _choose_anew(ormah, before)
    if card or (TAKEN_IN in said and any(piece.now == piece.wanted for piece in found.pieces.values())):
        ormah.reconciler.scan()  # these files did not change, so no watcher reports that they are adopted again
    return undone(task, found, tx.op, tx.committed.commit)


def _buried(ormah: Ormah, pieces: Mapping[str, UndoPiece]) -> Mapping[str, UndoPiece]:
    """Return `pieces` with a change to the file of tombstones: a new one for each extracted memory that is removed."""
    gone = [
        parse(piece.now.data, piece.now.path)
        for key, piece in pieces.items()
        if piece.now is not None and piece.wanted is None and node_of(key)
    ]
    lines = of_notes(ormah, gone)
    if not lines:
        return pieces
    path = path_of_tombstones(ormah)
    key = key_of(Version(path, b""))
    piece = pieces.get(key)
    if piece is None:
        data = ormah.vault.read(path)
        now = None if data is None else Version(path, data)
        piece = UndoPiece(now, now, edited=False)
    data = b"" if piece.wanted is None else piece.wanted.data
    return {**pieces, key: replace(piece, wanted=Version(path, with_lines(data, lines)))}


def undone(task: UndoTask, found: UndoPlan, op: str, commit: str) -> UndoneOp:
    """Return the answer for an undo that was done, or is planned (then `op` and `commit` are empty)."""
    nodes = [change.node_id for change in found.changes if change.node_id]
    merged = [change.node_id for change in found.changes if change.node_id and change.did == "merged"]
    return UndoneOp(task.op.name, op, commit, task.op.subject, nodes, merged, found.changes)


def _join(task: UndoTask, key: str, before: Version | None, after: Version | None, ours: Version | None) -> Joined:
    if ours is not None and before is not None and after is not None:
        if key in task.did.held:
            return join_left(after, ours, before)
        if key in task.did.left:
            return join_taken(after, ours, before)
    return join(after, ours, before)


def _plan(ormah: Ormah, task: UndoTask, now: Mapping[str, Version | None]) -> UndoPlan | NotUndone:
    pieces: dict[str, UndoPiece] = {}
    clashes: list[UndoConflict] = []
    reasons: list[str] = []
    theirs = committed_by_hand(ormah.vault, task.op.commit) if task.did.held else set()
    for key, (before, after) in task.pairs.items():
        ours = now[key]
        if ours is None and key in task.did.held:
            continue  # the person removed it since
        joined = _join(task, key, before, after, ours)
        if joined.conflicts and task.force and before is None:
            pieces[key] = UndoPiece(ours, None, edited=False)
            continue
        clashes += [_of_merge(ormah, task, one, ours or after or before) for one in joined.conflicts]
        reasons += joined.reasons
        piece = UndoPiece(ours, joined.version, edited=ours not in (after, before))
        if key in task.did.left:
            piece = replace(piece, custody="take")
        elif key in task.did.held and piece.wanted is not None:
            there = ours is not None and after is not None and ours.path == after.path
            held = task.did.held[key] if there else None
            tracked = piece.wanted.path in theirs or (not there and task.did.held[key] is not None)
            piece = replace(piece, custody="leave", held=piece.wanted.data if tracked else held)
        pieces[key] = piece
    clashes += _places(ormah, task, pieces)
    if clashes:
        return NotUndone(tuple(clashes))
    changes = [_change(key, piece) for key, piece in pieces.items() if piece.now != piece.wanted or piece.custody]
    return UndoPlan(pieces, changes, reasons)


# The present files


def _today(
    ormah: Ormah, task: UndoTask, ahead: Mapping[str, Version | None] | None = None
) -> dict[str, Version | None]:
    """Return key -> version for each file that the op changed: its version in `ahead` if there is one, otherwise as
    it is on disk now; None for no file.

    A note is looked up at the path that the index has, otherwise at its paths after and before the op.
    """
    ids = [node for key in task.pairs if (node := node_of(key))]
    rows = ormah.index.notes(ids, connections=False)
    found: dict[str, Version | None] = {}
    for key in task.pairs:
        if ahead is not None and key in ahead:
            found[key] = ahead[key]
            continue
        node = node_of(key)
        places = [rows[node].path] if node in rows and _is_readable(ormah, rows[node]) else []
        after = task.pairs[key][1]
        # The op released the file, or it is a person's edit that left no readable id.
        bare = key in task.did.left or (after is not None and node_of(key_of(after)) is None)
        found[key] = next(_versions(ormah, key, [*places, *_paths(task.pairs[key])], bare=bare), None)
    return found


def _is_readable(ormah: Ormah, row: NodeRow) -> bool:
    """Whether a file that Ormah only finds (`row.lent`) can be read as a note; True for all others."""
    data = ormah.vault.read(row.path) if row.lent else None
    return data is None or parse(data, row.path).kind is not NoteKind.BROKEN


def _paths(pair: Pair) -> list[str]:
    before, after = pair
    return list(dict.fromkeys(one.path for one in (after, before) if one is not None))


def _versions(ormah: Ormah, key: str, paths: Sequence[str], *, bare: bool) -> Iterator[Version]:
    """Yield the files at `paths` that `key` stands for (an id's key or a path's), each as a `Version`. `bare`: a file
    without an id also matches."""
    for path in dict.fromkeys(paths):
        data = ormah.vault.read(path)
        if data is not None:
            version = Version(path, data)
            there = key_of(version)
            if node_of(key) is None or there == key or (bare and there.startswith("path:")):
                yield version


def _uncommitted(ormah: Ormah, task: UndoTask, now: Mapping[str, Version | None]) -> dict[str, str]:
    """Return key -> path of those files in `now` that differ from HEAD: edited, moved or removed.

    Files that were left to the person are skipped, because they need not be committed.
    """
    found: dict[str, str] = {}
    for key, version in now.items():
        if key in task.did.left:
            continue
        for path in _paths(task.pairs[key]) if version is None else [version.path]:
            if version is not None:
                loose = not ormah.vault.is_committed(path, version.data)
            else:
                data = ormah.vault.committed(path)
                loose = data is not None and (node_of(key) is None or key_of(Version(path, data)) == key)
            if loose:
                found[key] = path
    return found


def _places(ormah: Ormah, task: UndoTask, pieces: Mapping[str, UndoPiece]) -> Iterator[UndoConflict]:
    """Yield a conflict for each note that cannot return to its old path, because another file is at that path or has
    the note's id."""
    leaving = {piece.now.path for piece in pieces.values() if piece.now and _goes(piece)}
    twins = _twins(ormah) if any(piece.now is None and piece.wanted for piece in pieces.values()) else {}
    taken: set[str] = set()
    for key, piece in pieces.items():
        wanted = piece.wanted
        if wanted is None or not _goes(piece):
            continue
        try:
            there = wanted.path not in leaving and ormah.vault.read(wanted.path) is not None
        except Conflict as exc:
            yield _clash(task, wanted, wanted.path, PLACE, f"has no way back, {exc.message}")
            continue
        if there or wanted.path in taken:
            yield _clash(task, wanted, wanted.path, PLACE, "has its old place taken by another file")
        elif piece.now is None and (twin := twins.get(node_of(key) or "")):
            yield _clash(task, wanted, twin, PLACE, f"has its id taken by {twin}, which is no readable note")
        taken.add(wanted.path)


def _goes(piece: UndoPiece) -> bool:
    """Whether the undo creates, removes or moves the file."""
    return piece.now is None or piece.wanted is None or piece.now.path != piece.wanted.path


def _twins(ormah: Ormah) -> dict[str, str]:
    """Return id -> path of files with broken frontmatter in which an id can still be read."""
    found = {}
    for path in [path for path, kind in ormah.index.kinds().items() if kind == NoteKind.BROKEN]:
        data = ormah.vault.read(path)
        node = None if data is None else parse(data, path).id
        if node is not None:
            found[node] = path
    return found


# Conflicts and changes, as the reply has them


def _title(version: Version) -> str | None:
    if not version.path.lower().endswith(".md"):
        return None
    note = parse(version.data, version.path)
    return headline(note.title, note.content)


def _clash(task: UndoTask, version: Version, path: str, name: str, what: str) -> UndoConflict:
    return UndoConflict(task.op.name, node_of(key_of(version)), path, _title(version), name, None, None, None, what)


def _of_merge(ormah: Ormah, task: UndoTask, conflict: MergeConflict, version: Version | None) -> UndoConflict:
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
    return UndoConflict(task.op.name, node, conflict.path, _title(version), name, base, ours, theirs, what)


def _change(key: str, piece: UndoPiece) -> UndoChange:
    version = piece.wanted or piece.now
    assert version is not None
    if piece.custody is not None:
        did = "released" if piece.custody == "leave" else "adopted"
    elif piece.wanted is None:
        did = "removed"
    elif piece.now is None:
        did = "brought back"
    elif piece.edited:
        did = "merged"
    else:
        did = "moved back" if piece.now.data == piece.wanted.data else "restored"
    return UndoChange(node_of(key), version.path, _title(version), did)


SAID = 40
"""Maximum number of changes that a commit message lists."""


def undo_subject(op: Op) -> str:
    """Return `Undo: …`, or `Redo: …` for the undo of an undo, and so on alternately."""
    if op.kind == Kind.UNDO:
        for verb, other in (("Undo: ", "Redo: "), ("Redo: ", "Undo: ")):
            if op.subject.startswith(verb):
                return other + op.subject.removeprefix(verb)
    return f"Undo: {op.subject}"


def undo_body(task: UndoTask, changes: Sequence[UndoChange], reasons: Sequence[str]) -> str:
    """Return what was undone, what became of each note, and where a merge rule decided."""
    op = task.op
    which = f"{op.kind}, {op.source}, {iso(op.time)}"
    lines = [f"Takes back {'a part of ' if task.parts else ''}{op.name} ({which})."]
    for change in changes[:SAID]:
        name = f"{change.title} ({short_id(change.node_id)})" if change.node_id else change.path
        did = "merged with later edits" if change.did == "merged" else change.did
        lines.append(f"{did.capitalize()}: {name}")
    if len(changes) > SAID:
        lines.append(f"And {len(changes) - SAID} more.")
    return "\n".join([*lines, *dict.fromkeys(reasons)])


def undo_trailers(task: UndoTask) -> list[tuple[str, str]]:
    """Return the trailers by which `git.oplog` recognises what was undone."""
    if not task.parts:
        return [(UNDOES, task.op.name)]
    return [(UNDOES_PART, " ".join(word for word in part if word)) for part in task.parts]
