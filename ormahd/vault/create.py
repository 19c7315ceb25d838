"""Create a vault and its first files, and read and write its card, `.ormah/vault.toml`.

Files of JSON lines are created empty, in a commit of their own. `git revert` of a commit that creates a file must
remove the file, which is a modify/delete conflict once the file has grown.
"""

from __future__ import annotations

import os
import tempfile
import threading
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from ormahd.errors import Incompatible, Unavailable
from ormahd.git.process import call
from ormahd.git.repository import RepositoryFolders, Signature, ignored_around, locate
from ormahd.model import spaces, strength
from ormahd.model.change import Entropy, Kind, sha256
from ormahd.model.node import ABOUT_SELF, NodeType, Tier, is_node_id
from ormahd.note.merge import is_lines
from ormahd.note.values import path_for
from ormahd.note.write import compose
from ormahd.process.disk import sync_directory, write_durably
from ormahd.vault.intents import Intents
from ormahd.vault.worktree import Worktree

if TYPE_CHECKING:
    from ormahd.vault.transaction import Transaction
    from ormahd.vault.vault import Vault


FORMAT = 1
"""The version of the format of notes and of `.ormah`; a vault with a greater number was written by a newer ormahd."""
CARD = ".ormah/vault.toml"
UNDER_WAY = ".ormah/creating"
IGNORED = "/lock\n/intent/\n/tmp/\n/conflicts/\n/creating\n"
"""The parts of `.ormah` that belong to the running daemon; content of `.ormah/.gitignore`."""
ATTRIBUTES = "*.md -text merge=ormah\n*.jsonl -text merge=ormah\n"
"""Lines of .gitattributes: no conversion of line ends, whatever `core.autocrlf` says, and our merge driver for notes
(where it is configured)."""
LINES = (strength.STRENGTH_FILE, strength.ACTIVE_DAYS_FILE, spaces.FILE)
"""The JSON-lines files that every vault has, empty at first (see `NewLineFiles`)."""
ROOT_IGNORED = ".DS_Store\n.trash/\n.obsidian/workspace*.json\n"
"""The .gitignore of a vault with a repository of its own: files that editors keep for themselves."""

UNNAMED = "You"
"""The self node's title when git has no user name configured."""
SELF_TEXT = ": the person whose memories these are."
"""The self node's first text, after the name."""


class Card(Struct, frozen=True):
    """A vault's card, as stored in `.ormah/vault.toml`. `self_id`: the id of the self node."""

    id: str
    self_id: str


def write_card(card: Card) -> bytes:
    lines = ["# Written by ormahd. Without this file the folder is no vault.", f"format = {FORMAT}"]
    return "\n".join([*lines, f'id = "{card.id}"', f'self = "{card.self_id}"', ""]).encode()


def read_card(data: bytes, root: Path) -> Card:
    """Parse a card. Raises Unavailable when it is damaged, Incompatible when its format is newer."""
    mend = f"`git -C {root} log -p -- {CARD}` shows its versions, `git restore --source=COMMIT {CARD}` brings one back"
    try:
        found = tomllib.loads(data.decode())
    except ValueError as exc:
        raise Unavailable(f"{root / CARD} cannot be read: {exc}", hint=mend) from exc
    version = found.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise Incompatible(
            f"the vault {root} has format {version}; this ormahd knows {FORMAT}", hint="install a newer ormahd"
        )
    vault_id, self_id = (text if isinstance(text := found.get(key), str) else "?" for key in ("id", "self"))
    if version != FORMAT or not (is_node_id(vault_id) and is_node_id(self_id)):
        raise Unavailable(f"{root / CARD} lacks format, id or self, or has a wrong one", hint=mend)
    return Card(vault_id, self_id)


def find_card(root: Path) -> Card | None:
    """Return the card of the vault at `root`; None: there is no vault. If a crash interrupted the vault's creation,
    the card is read from the intent of the first commit."""
    data = Worktree(root).read(CARD)
    if data is None:
        for intent in Intents(root).load()[0]:
            data = next((step.data for step in intent.steps if step.path == CARD), data)
    return None if data is None else read_card(data, root)


class VaultKind(Struct, frozen=True):
    """How a folder becomes a vault: with which repository."""

    own: bool
    """Whether Ormah makes the repository, in the folder itself."""


def choose(root: Path) -> VaultKind:
    """Return how a folder becomes a vault: inside a repository that one is used, else Ormah makes one. A folder that the
    surrounding repository ignores gets its own.

    Raises Unavailable for a bare repository, for `/` and for the home directory.
    """
    if root in (Path(root.anchor), Path(os.path.realpath(os.path.expanduser("~")))):
        raise Unavailable(
            f"{root} is no folder of notes", hint="set vault.path to a folder of its own, such as ~/notes"
        )
    marker = root / UNDER_WAY
    if marker.exists():
        words = marker.read_text("ascii").split()
        return VaultKind("own" in words)
    around = root
    while not around.is_dir():
        around = around.parent
    place = locate(around)
    if place is not None and place.bare:
        raise Unavailable(
            f"{root} is a bare repository: it has no folder of files", hint="clone it, and set vault.path to the clone"
        )
    return VaultKind(own=place is None or (place.top != root and ignored_around(place, root)))


def lay_ground(root: Path) -> None:
    """Make the folder `.ormah` with its .gitignore, which must be there before any other file of `.ormah`. Two
    daemons may call this at once, because the vault can only be locked afterwards.

    Raises Unavailable when the folder is not writable.
    """
    try:
        if not root.is_dir():
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_directory(root.parent)
        (root / ".ormah").mkdir(mode=0o700, exist_ok=True)
        if (root / ".ormah").is_symlink():
            raise Unavailable(f"{root}/.ormah is a link", hint="put a real folder there")
        if not (root / ".ormah/.gitignore").exists():
            with suppress(FileNotFoundError):  # another daemon has put the same there
                write_durably(root / ".ormah/.gitignore", IGNORED.encode())
        with tempfile.TemporaryFile(dir=root / ".ormah"):
            pass
    except OSError as exc:
        where = root / ".ormah" if os.access(root, os.W_OK) and (root / ".ormah").is_dir() else root
        raise Unavailable(
            f"nothing can be written in {where}: {exc.strerror or exc}",
            hint="make the folder writable for this user, or set vault.path to another",
        ) from exc


def begin(root: Path, beginning: VaultKind) -> RepositoryFolders:
    """Return the repository of a new vault. `git init` makes it if `beginning.own`."""
    write_durably(root / UNDER_WAY, b"own" if beginning.own else b"")
    if beginning.own:
        call(["init", "--quiet", "--initial-branch=main", "--template="], cwd=root)
        for folder, _, files in os.walk(root / ".git"):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    os.fsync(file.fileno())
            sync_directory(Path(folder))
        sync_directory(root)
    place = locate(root)
    if place is None:
        raise Unavailable(f"git made no repository in {root}", hint="try `git init` there")
    return place


def first_files(
    root: Path, who: Signature | None, *, now: datetime, entropy: Entropy
) -> tuple[Card, Mapping[str, bytes]]:
    """Return the card and the files of the first commit, including the self node's note (seeds/data-model, "Self
    node")."""
    vault_id, self_id = (str(UUID(bytes=entropy(16), version=4)) for _ in range(2))
    card = Card(vault_id, self_id)
    title = who.name if who else UNNAMED
    content = f"{title}{SELF_TEXT}"
    note = compose(
        id=self_id, type=NodeType.PERSON, tier=Tier.CORE, space=None, title=title, tags=[ABOUT_SELF],
        source="system:self", confidence=1.0, created=now, updated=now, content=content,
    )  # fmt: skip
    path = path_for(id=self_id, type=NodeType.PERSON, space=None, title=title, content=content, created=now)
    files = {CARD: write_card(card), ".ormah/.gitignore": IGNORED.encode()}
    files |= dict.fromkeys(LINES, b"")
    files |= {path: note, ".gitattributes": ATTRIBUTES.encode(), ".gitignore": ROOT_IGNORED.encode()}
    return card, {
        path: data for path, data in files.items() if not (root / path).exists() or path.startswith(".ormah/")
    }


BODY: Final = "So that each later change of these files can be taken back by git revert."
RESTORING: Final = frozenset({Kind.INIT, Kind.SYNC, Kind.UNDO, Kind.PURGE})
"""Kinds of ops that copy files from another state of the vault as they are; no empty file is committed before them."""


class NewLineFiles:
    """Creates the vault's JSON-lines files as empty files, in a commit before the one that adds their first lines.
    Safe for many threads."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._lock = threading.Lock()
        self._complete = False
        """Whether the files of `LINES` are known to exist."""

    def before(self, tx: Transaction) -> None:
        """Commit the JSON-lines files that `tx` would create, as empty files. Until all files of `LINES` exist, also
        commit those that an older vault lacks. Does nothing while another program holds git's locks; `tx` then
        creates its files itself."""
        if tx.kind in RESTORING:
            return
        filled = {path for path, wish in tx.wishes.items() if is_lines(path) and wish.data and wish.expect is None}
        if not filled and self._complete:
            return
        with self._lock:
            whole = self._vault.read(CARD) is not None  # not on a checked-out branch that holds no vault
            common = LINES if whole and not self._complete else ()
            missing = sorted(path for path in filled.union(common) if self._vault.read(path) is None)
            if missing and self._vault.busy():
                return
            if missing:
                with self._vault.transaction(
                    "init: empty files for lines", kind=Kind.INIT, source="system:self", body=BODY
                ) as begun:
                    for path in missing:
                        begun.put(path, b"", node_id=None, expect=None)
            self._complete = self._complete or bool(common)
            for path in filled.intersection(missing):
                tx.wishes[path] = replace(tx.wishes[path], expect=sha256(b""))
