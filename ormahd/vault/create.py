"""Create a vault and its first files, and read and write its card, `.ormah/vault.toml`.

Files of JSON lines are created empty, in a commit of their own. `git revert` of a commit that creates a file must
remove the file, which is a modify/delete conflict once the file has grown.

`.ormah/renamed.jsonl` records moves of notes that are only indexed, a line for each that left its first path. The id of
such a note is derived from its first path, so that a note that stays needs no line, and machines agree on the id.

Also cleans up a vault that was released with all its data, and prevents a new one from starting there unasked.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast, get_args
from uuid import UUID

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from ormahd.errors import Incompatible, Unavailable
from ormahd.git.process import call
from ormahd.git.repository import RepositoryFolders, Signature, ignored_around, locate
from ormahd.model import spaces, strength
from ormahd.model.change import Entropy, Kind, sha256
from ormahd.model.node import ABOUT_SELF, NodeType, Tier, is_node_id
from ormahd.note.merge import is_lines
from ormahd.note.read import parse
from ormahd.note.values import NoteKind, path_for
from ormahd.note.write import compose
from ormahd.paths import released_marker
from ormahd.process.disk import sync_directory, write_durably
from ormahd.vault.intents import Intents
from ormahd.vault.worktree import Worktree

if TYPE_CHECKING:
    from ormahd.vault.transaction import Transaction
    from ormahd.vault.vault import Vault


RENAMED = ".ormah/renamed.jsonl"


def read(data: bytes | None) -> dict[str, str]:
    """Parse the content of `.ormah/renamed.jsonl`. Return `{path: id of the note}`; unreadable lines are ignored."""
    found: dict[str, str] = {}
    for line in (data or b"").splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and isinstance(row.get("id"), str) and isinstance(row.get("path"), str):
            found.setdefault(row["path"], row["id"])
    return found


def write(renamed: Mapping[str, str]) -> bytes:
    """Return the content of `.ormah/renamed.jsonl` for `{path: id of the note}`, ordered by id."""
    rows = sorted((node_id, path) for path, node_id in renamed.items())
    return b"".join(
        json.dumps({"id": node_id, "path": path}, ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n"
        for node_id, path in rows
    )


LOCAL = ("lock", "intent", "tmp", "creating", ".gitignore", ".gitattributes")


def remove_leftovers(root: Path) -> None:
    """Remove the daemon's own files below `.ormah`, and `.ormah` itself if nothing is left in it. Versions that were
    set aside in `.ormah/conflicts` stay."""
    data = root / ".ormah"
    for name in LOCAL:
        place = data / name
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
    aside = data / "conflicts"
    if aside.is_dir() and not any(path.is_file() for path in aside.rglob("*")):
        shutil.rmtree(aside)
    if data.is_dir() and not any(data.iterdir()):
        data.rmdir()


def refuse_released(root: Path) -> None:
    """Raise Unavailable when a person has removed Ormah's data from the folder, so that no vault is made there unasked."""
    marker = released_marker(root)
    if marker.exists():
        raise Unavailable(
            f"{root} was released: Ormah's data was removed from it",
            hint=f"set vault.path to another folder; to begin again in this one: rm {marker}",
        )


FORMAT = 1
"""The version of the format of notes and of `.ormah`; a vault with a greater number was written by a newer ormahd."""
CARD = ".ormah/vault.toml"
HOME = "ormah"
"""The folder of Ormah's notes inside a folder that had files before."""
UNDER_WAY = ".ormah/creating"
IGNORED = "/lock\n/intent/\n/tmp/\n/conflicts/\n/creating\n"
"""The parts of `.ormah` that belong to the running daemon; content of `.ormah/.gitignore`."""
ATTRIBUTES = "*.md -text merge=ormah\n*.jsonl -text merge=ormah\n"
"""Lines of .gitattributes: no conversion of line ends, whatever `core.autocrlf` says, and our merge driver for notes
(where it is configured)."""
RELEASED = ".ormah/released.jsonl"
LINES = (strength.STRENGTH_FILE, strength.ACTIVE_DAYS_FILE, RENAMED, RELEASED, spaces.FILE)
"""The JSON-lines files that every vault has, empty at first (see `NewLineFiles`)."""
ROOT_IGNORED = ".DS_Store\n.trash/\n.obsidian/workspace*.json\n"
"""The .gitignore of a vault with a repository of its own: files that editors keep for themselves."""

UNNAMED = "You"
"""The self node's title when git has no user name configured."""
SELF_TEXT = ": the person whose memories these are."
"""The self node's first text, after the name."""

Adopt = Literal["all", "index", "ours", "none"]
ADOPTS = frozenset(get_args(Adopt))


class Folder(Struct, frozen=True):
    """A person's choices for the notes in a folder and below it: whether they are adopted, and their space. None: the
    choice of the folder above, or of the vault, applies."""

    adopt: Adopt | None = None
    space: str | None = None


class Card(Struct, frozen=True):
    """A vault's card, as stored in `.ormah/vault.toml`. `self_id`: the id of the self node. `home`: the folder of
    Ormah's own notes ("" is the whole vault). `adopt`: the adoption mode of the vault."""

    id: str
    self_id: str
    home: str
    adopt: Adopt
    folders: Mapping[str, Folder] = {}
    """`{path of a folder, without a slash at the end: choices}`."""
    released: bool = False
    """Whether a person released the whole vault: nothing is adopted then, whatever the setting says."""

    def chosen(self, setting: str) -> tuple[Adopt, Mapping[str, Folder]]:
        """Return the adoption mode of the vault, and the choices by folder. `setting`: the value of the setting
        `vault.adopt`."""
        if self.released:
            return "none", self.folders
        return self.adopt if setting == "auto" else cast("Adopt", setting), self.folders


def write_card(card: Card) -> bytes:
    import tomlkit  # a vault is made once

    document = tomlkit.document()
    document.add(tomlkit.comment("Written by ormahd. Without this file the folder is no vault."))
    document.add("format", FORMAT)
    document.add("id", card.id)
    document.add("self", card.self_id)
    document.add("home", card.home)
    document.add("adopt", card.adopt)
    if card.released:
        document.add("released", True)
    return with_choices(tomlkit.dumps(document).encode(), card.folders)


def with_choices(data: bytes, folders: Mapping[str, Folder], adopt: Adopt | None = None) -> bytes:
    """Return the text of a card with these choices for folders. `adopt`: the new mode of the vault, if given. The
    rest of the card is unchanged."""
    import tomlkit

    document = tomlkit.parse(data.decode())
    if adopt is not None:
        document["adopt"] = adopt
        document.pop("released", None)  # the vault is no longer released
    document.pop("folders", None)
    if folders:
        table = tomlkit.table(is_super_table=True)
        for path, folder in sorted(folders.items()):
            said = tomlkit.table()
            for key, value in (("adopt", folder.adopt), ("space", folder.space)):
                if value is not None:
                    said.add(key, value)
            table.add(path, said)
        document.add("folders", table)
    return tomlkit.dumps(document).encode()


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
    texts = [found.get(key) for key in ("id", "self", "home", "adopt")]
    vault_id, self_id, home, adopt = (text if isinstance(text, str) else "?" for text in texts)
    if version != FORMAT or not (is_node_id(vault_id) and is_node_id(self_id)):
        raise Unavailable(f"{root / CARD} lacks format, id or self, or has a wrong one", hint=mend)
    if home not in {"", HOME} or adopt not in ADOPTS:
        raise Unavailable(f"{root / CARD} has a wrong home or adopt", hint=mend)
    try:
        folders = convert(found.get("folders", {}), dict[str, Folder])
    except ValidationError as exc:
        raise Unavailable(f"{root / CARD} has a wrong folder: {exc}", hint=mend) from exc
    return Card(vault_id, self_id, home, adopt, folders, found.get("released") is True)  # type: ignore[arg-type]


def find_card(root: Path) -> Card | None:
    """Return the card of the vault at `root`; None: there is no vault. If a crash interrupted the vault's creation,
    the card is read from the intent of the first commit."""
    data = Worktree(root).read(CARD)
    if data is None:
        for intent in Intents(root).load()[0]:
            data = next((step.data for step in intent.steps if step.path == CARD), data)
    return None if data is None else read_card(data, root)


class VaultKind(Struct, frozen=True):
    """How a folder becomes a vault: with which repository, and which of its files are adopted."""

    own: bool
    """Whether Ormah makes the repository, in the folder itself."""
    fresh: bool
    """Whether the folder was empty, so that every file in it is to be adopted."""


def choose(root: Path) -> VaultKind:
    """Return how a folder becomes a vault.

    (a) Absent or empty: Ormah makes a repository, and adopts all notes. (b) A folder with files, outside of any
    repository: Ormah makes a repository, which holds only Ormah's notes. (c) Inside a repository: that one is used,
    for Ormah's notes only. A folder that the surrounding repository ignores counts as (a) or (b). Raises Unavailable
    for a bare repository, for `/` and for the home directory.
    """
    if root in (Path(root.anchor), Path(os.path.realpath(os.path.expanduser("~")))):
        raise Unavailable(
            f"{root} is no folder of notes", hint="set vault.path to a folder of its own, such as ~/notes"
        )
    marker = root / UNDER_WAY
    if marker.exists():
        words = marker.read_text("ascii").split()
        return VaultKind("own" in words, "fresh" in words)
    around = root
    while not around.is_dir():
        around = around.parent
    place = locate(around)
    if place is not None and place.bare:
        raise Unavailable(
            f"{root} is a bare repository: it has no folder of files", hint="clone it, and set vault.path to the clone"
        )
    empty = not root.is_dir() or not set(os.listdir(root)) - {".ormah"}
    if place is not None and not (place.top != root and ignored_around(place, root)):
        return VaultKind(own=False, fresh=False)
    return VaultKind(own=True, fresh=empty)


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
    words = [word for word, true in (("own", beginning.own), ("fresh", beginning.fresh)) if true]
    write_durably(root / UNDER_WAY, " ".join(words).encode())
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
    root: Path, beginning: VaultKind, who: Signature | None, *, setting: str, now: datetime, entropy: Entropy
) -> tuple[Card, Mapping[str, bytes]]:
    """Return the card and the files of the first commit, including the self node's note (seeds/data-model, "Self
    node"). `setting`: the value of `vault.adopt`."""
    vault_id, self_id = (str(UUID(bytes=entropy(16), version=4)) for _ in range(2))
    home = "" if beginning.fresh else HOME
    theirs = bool(home) and setting in {"auto", "index"} and _has_notes_of_a_person(root / home)
    folders = {home: Folder("index")} if theirs else {}
    card = Card(vault_id, self_id, home, "all" if beginning.fresh else "index", folders)
    title = who.name if who else UNNAMED
    content = f"{title}{SELF_TEXT}"
    note = compose(
        id=self_id, type=NodeType.PERSON, tier=Tier.CORE, space=None, title=title, tags=[ABOUT_SELF],
        source="system:self", confidence=1.0, created=now, updated=now, content=content,
    )  # fmt: skip
    path = path_for(id=self_id, type=NodeType.PERSON, space=None, title=title, content=content, created=now)
    files = {CARD: write_card(card), ".ormah/.gitignore": IGNORED.encode()}
    files |= dict.fromkeys(LINES, b"")
    files[f"{home}/{path}" if home else path] = note
    if beginning.fresh:
        files[".gitattributes"] = ATTRIBUTES.encode()
        files[".gitignore"] = ROOT_IGNORED.encode()
    else:
        files[f"{home}/.gitattributes"] = ATTRIBUTES.encode()
        files[".ormah/.gitattributes"] = ATTRIBUTES.encode()
    return card, {
        path: data for path, data in files.items() if not (root / path).exists() or path.startswith(".ormah/")
    }


def _has_notes_of_a_person(folder: Path) -> bool:
    """Whether a folder contains notes that Ormah did not write. A note that cannot be read counts as the person's."""
    for where, _, names in os.walk(folder):
        for name in names:
            path = Path(where, name)
            if path.suffix.lower() == ".md" and path.is_file() and not path.is_symlink():
                try:
                    data = path.read_bytes()
                except OSError:
                    return True
                if parse(data, name).kind is not NoteKind.NOTE:
                    return True
    return False


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
            whole = (
                tx.kind is not Kind.RELEASE and self._vault.read(CARD) is not None
            )  # not on a checked-out branch that holds no vault
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
