"""Create a vault and its first files, and read and write its card, `.ormah/vault.toml`.

Files of JSON lines are created empty, in a commit of their own. `git revert` of a commit that creates a file must
remove the file, which is a modify/delete conflict once the file has grown.
"""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from uuid import UUID

from msgspec import Struct

from ormahd.errors import Incompatible, Unavailable
from ormahd.git.process import GitFailed, call
from ormahd.git.repository import Git, Signature
from ormahd.model import spaces, strength
from ormahd.model.change import Entropy
from ormahd.model.node import ABOUT_SELF, NodeType, Tier, is_node_id
from ormahd.note.values import path_for
from ormahd.note.write import compose
from ormahd.process.disk import sync_directory, write_durably
from ormahd.vault.worktree import Worktree

FORMAT = 1
"""The version of the format of notes and of `.ormah`; a vault with a greater number was written by a newer ormahd."""
CARD = ".ormah/vault.toml"
UNDER_WAY = ".ormah/creating"
IGNORED = "/lock\n/tmp/\n/conflicts/\n/creating\n"
"""The parts of `.ormah` that belong to the running daemon; content of `.ormah/.gitignore`."""
ATTRIBUTES = "* -text\n*.md merge=ormah\n*.jsonl merge=ormah\n"
"""Lines of .gitattributes: git converts no file, and merges notes with our merge driver (where it is configured)."""
LINES = (strength.STRENGTH_FILE, strength.ACTIVE_DAYS_FILE, spaces.FILE)
"""The JSON-lines files that every vault has, empty at first (see `Vault._create_line_files`)."""
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
    """Return the content of `.ormah/vault.toml` for a card."""
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
    """Return the card of the vault at `root`; None: there is no vault."""
    data = Worktree(root).read(CARD)
    return None if data is None else read_card(data, root)


def check_folder(root: Path) -> None:
    """Raise Unavailable if no vault can be made in the folder `root`. It must be absent or empty, or have files only
    because Ormah began to make a vault there."""
    if root in (Path(root.anchor), Path(os.path.realpath(os.path.expanduser("~")))):
        raise Unavailable(
            f"{root} is no folder of notes", hint="set vault.path to a folder of its own, such as ~/notes"
        )
    inside = set(os.listdir(root)) - {".ormah", ".DS_Store"} if root.is_dir() else set()
    if inside and not (root / UNDER_WAY).exists():
        if {"HEAD", "objects", "refs"} <= inside:
            raise _refusal(root, "it is a bare git repository")
        if ".git" in inside and (root / ".ormah/.gitignore").exists():
            raise Unavailable(
                f"{root / CARD} is missing: without it the vault does not know itself",
                hint=f"git -C {root} restore --staged --worktree {CARD}",
            )
        if ".git" in inside:
            kind = "a git repository" if (root / ".git").is_dir() else "a worktree or submodule of a git repository"
            raise _refusal(root, f"it is {kind} that Ormah did not make")
        raise _refusal(root, "it has files that Ormah did not make")


def check_repository(root: Path) -> None:
    """Raise Unavailable if the vault at `root` has no repository, or one of a kind that Ormah does not use. Raises
    GitFailed if git cannot read it."""
    place = root / ".git"
    if not os.path.lexists(place):
        raise Unavailable(
            f"{root} is a vault, but its git repository is gone",
            hint=f"bring .git back from a backup, or begin a new history with `git init {root}`",
        )
    if not place.is_dir():
        raise _refusal(root, "it is a worktree or a submodule of another repository")
    out = call(["--git-dir", str(place), "config", "-z", "--list"], cwd=root)
    # Git prints each setting as its key, a line end and its value.
    entries = dict(entry.partition("\n")[::2] for entry in os.fsdecode(out).split("\0") if entry)
    for key, plain, what in _REQUIRED_SETTINGS:
        if entries.get(key, plain).lower() != plain:
            raise _refusal(root, f"its repository is {what}")
    if (place / "shallow").exists():
        raise _refusal(root, "its repository is shallow: `git fetch --unshallow` completes it")


_REQUIRED_SETTINGS = (
    ("core.bare", "false", "bare"),
    ("core.sparsecheckout", "false", "checked out in part: `git sparse-checkout disable` completes it"),
    ("extensions.partialclone", "", "a partial clone"),
    ("extensions.objectformat", "sha1", "of another object format than sha1"),
    ("extensions.refstorage", "files", "of another ref format than files"),
)
"""(setting of git, its value in a repository that Ormah uses, what a repository with another value is)."""


def _refusal(root: Path, why: str) -> Unavailable:
    """Return the error for a folder that cannot be the vault because of `why`."""
    return Unavailable(
        f"{root} cannot be the vault: {why}",
        hint=f"set vault.path to an empty or absent folder; `ormahctl sources add {root} --space NAME` finds the notes "
        f"of this one where they are, `ormahctl import {root}` copies them",
    )


def make_own_folder(root: Path) -> None:
    """Make the folder `.ormah` with its .gitignore, which must exist before any other file of `.ormah`. Two daemons may
    call this at once, because the vault can only be locked afterwards.

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


def make_repository(root: Path) -> str | None:
    """Make the repository of a new vault, durably. Return a sentence if the vault lies in the work tree of another
    repository, else None."""
    write_durably(root / UNDER_WAY, b"")
    call(
        ["init", "--quiet", "--initial-branch=main", "--template=", "--object-format=sha1"],
        cwd=root,
        env={"GIT_DEFAULT_REF_FORMAT": "files"},
    )
    for folder, _, files in os.walk(root / ".git"):
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                os.fsync(file.fileno())
        sync_directory(Path(folder))
    sync_directory(root)
    return _exclude_nested(root)


def _exclude_nested(root: Path) -> str | None:
    """If the folder `root` lies in the work tree of another repository, add `root` to that repository's `info/exclude`.
    Return a sentence about it, or None."""
    asked = ["rev-parse", "--show-toplevel", "--path-format=absolute", "--git-path", "info/exclude"]
    try:
        top, exclude = (Path(name) for name in os.fsdecode(call(asked, cwd=root.parent)).splitlines())
    except GitFailed:  # there is none around it
        return None
    line = "/" + re.sub(r"([\\*?\[\] ])", r"\\\1", root.relative_to(top.resolve()).as_posix()) + "/"
    before = exclude.read_text("utf-8", "surrogateescape") if exclude.exists() else ""
    if line not in before.splitlines():
        exclude.parent.mkdir(exist_ok=True)
        text = before + ("" if before.endswith("\n") or not before else "\n") + line + "\n"
        write_durably(exclude, text.encode("utf-8", "surrogateescape"))
    return f"the vault {root} is a repository of its own inside that of {top}, whose {exclude} names it"


LOCAL_SETTINGS = {"core.autocrlf": "false", "core.filemode": "false"}
"""Git's settings in the vault's repository: files have the same bytes in the folder and in the history, and a file's
mode means nothing."""


def configure(git: Git) -> None:
    """Set `LOCAL_SETTINGS` in the repository's configuration."""
    for key, value in LOCAL_SETTINGS.items():
        if git.run("config", "--local", "--get", key, ok=(0, 1)).strip() != value.encode():
            git.run("config", "--local", key, value)


def new_card(entropy: Entropy) -> Card:
    """Return a card with a new id for the vault and another for its self node."""
    return Card(*(str(UUID(bytes=entropy(16), version=4)) for _ in range(2)))


def first_files(
    root: Path, vault_id: str, self_id: str, who: Signature | None, *, now: datetime
) -> Mapping[str, bytes]:
    """Return `{path: bytes}` of the files of the first commit, including the self node's note. Files that the folder
    has already are left out, except those in `.ormah`. `who`: whom the self node is about; None: not known."""
    title = who.name if who else UNNAMED
    content = f"{title}{SELF_TEXT}"
    note = compose(
        id=self_id,
        type=NodeType.PERSON,
        tier=Tier.CORE,
        space=None,
        title=title,
        tags=[ABOUT_SELF],
        source="system:self",
        confidence=1.0,
        created=now,
        updated=now,
        content=content,
    )
    path = path_for(id=self_id, type=NodeType.PERSON, space=None, title=title, content=content, created=now)
    files = {CARD: write_card(Card(vault_id, self_id)), ".ormah/.gitignore": IGNORED.encode()}
    files |= dict.fromkeys(LINES, b"")
    files |= {path: note, ".gitattributes": ATTRIBUTES.encode(), ".gitignore": ROOT_IGNORED.encode()}
    return {path: data for path, data in files.items() if not (root / path).exists() or path.startswith(".ormah/")}
