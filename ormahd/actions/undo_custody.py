"""The person's files in an undo: left to the person without Ormah's lines, or adopted again.

A file that git did not track before the op is untracked again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ormahd.model.change import sha256
from ormahd.note.note import parse
from ormahd.vault import released
from ormahd.vault.custody import LEFT_OUT, TAKEN_IN
from ormahd.vault.released import Released
from ormahd.vault.three_way import Version, node_of, write
from ormahd.watch.decide import label, subject

if TYPE_CHECKING:
    from ormahd.actions.taking_back import UndoPiece, UndoPlan
    from ormahd.vault.transaction import Transaction
    from ormahd.vault.vault import Vault

LIST = f"path:{released.PATH}"
"""Key of the list of released files."""


def custody_words(found: UndoPlan) -> tuple[list[tuple[str, str]], str | None]:
    """Return the trailers of an undo that releases or adopts files, and the subject of its first commit (None: no
    such commit)."""
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
    """Add each file's change to the transaction. Files left to the person are added to the list of released files."""
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
            data = vault.read(released.PATH)
            now = wanted = None if data is None else Version(released.PATH, data)
        else:
            now, wanted = listed
        lines = released.with_files(b"" if wanted is None else wanted.data, left)
        plain[LIST] = (now, Version(released.PATH, lines))
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
