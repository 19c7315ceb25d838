"""The values of a parsed note (kind, fields, links, problems), and what can be inferred from its path and file name."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Literal
from uuid import NAMESPACE_URL, UUID, uuid5

from msgspec import Struct, field

from ormahd.model.node import MAX_TITLE, EdgeType, NodeType, NoteGuard, NoteStanding, Tier, is_node_id, short_id
from ormahd.text.quoting import beginning

GLOBAL_FOLDER = "global"
SLUG_CHARACTERS = 50
SLUG_BYTES = 100
"""Maximum number of bytes of a slug. It keeps file names with type, short id and `.md` below the 255 bytes of file
systems."""

_TYPES = {str(kind): kind for kind in NodeType}
_MONTH = re.compile(r"\d{4}-\d{2}")
_SHORT = re.compile(r"(?:^|_)([0-9a-f]{8})$")
_ASCII_BREAK = re.compile(r"[^a-z0-9]+")
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin", "conout"]
    + [f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789¹²³"]
)
_RESERVED = _DEVICES | {GLOBAL_FOLDER, "template", "templates"}
"""Device names of Windows, the folder of global notes, and the folders of templates."""


SAID_IN = re.compile(r"\S{1,1000}#[0-9a-f]{24}")
"""The value of `from` in a note that was extracted from a session. Any other value is the person's."""
_SUFFIX = re.compile(r"(?<=\S) \([^()]+\)$")


def slug(text: str, *, otherwise: str = "note") -> str:
    """Return a text's letters and digits (of any script) in lower case, joined by `-`: safe in file systems, URLs and
    wikilinks. `otherwise`: the result if the text has none."""
    if text.isascii():
        joined = _ASCII_BREAK.sub("-", text[: 4 * SLUG_CHARACTERS].lower().replace("'", "")).strip("-")
    else:
        head = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text[: 4 * SLUG_CHARACTERS]).casefold())
        # Keep combining marks: without them Devanagari words would lose their vowels.
        letters = "".join(c if unicodedata.category(c)[0] in "LNM" else "" if c in "'’" else "-" for c in head)
        joined = "-".join(part for part in letters.split("-") if part)
    cut = _cut_slug(joined)
    return cut or otherwise


def _cut_slug(joined: str) -> str:
    """Return a slug cut to its maximum length, after a whole word if that leaves at least half of it."""
    cut = joined[:SLUG_CHARACTERS]
    while len(cut.encode()) > SLUG_BYTES:
        cut = cut[:-1]
    if len(cut) < len(joined) and joined[len(cut)] != "-":
        head, dash, _ = cut.rpartition("-")
        if dash and len(head) >= len(cut) // 2:
            cut = head
    return cut.strip("-")


def short_name(space: str) -> str:
    """Return the space's name without its suffix: `api` of `api (globex)`."""
    return _SUFFIX.sub("", space)


def space_folder(space: str | None) -> str:
    """Return the folder name of a space. Two spaces may share a folder; the frontmatter tells them apart."""
    if space is None:
        return GLOBAL_FOLDER
    name = slug(space, otherwise="space")
    return f"{name}-space" if name in _RESERVED else name


def path_for(*, id: str, type: NodeType, space: str | None, title: str | None, content: str, created: datetime) -> str:  # noqa: A002
    """Return `<space>/<type>/<YYYY-MM>/<type>_<slug>_<short id>.md`, relative to the folder in which Ormah creates notes.

    Without a title, the slug is made from the first line of the content that has a letter or digit.
    """
    words = slug(title, otherwise="") if title else ""
    if not words:
        words = next(filter(None, (slug(line, otherwise="") for line in beginning(content, 2000).splitlines())), "note")
    when = created.astimezone(UTC) if created.tzinfo else created
    return f"{space_folder(space)}/{type}/{when.year:04d}-{when.month:02d}/{type}_{words}_{short_id(id)}.md"


def folder_says(path: str) -> tuple[NodeType | None, str | None]:
    """Return (type, space) that the folders of a path imply; each is None if the folders do not imply it. Such folders
    are `<space>/<type>/<YYYY-MM>/` at any depth, or `<space>/<type>/`."""
    folders = path.split("/")[:-1]
    for at in range(len(folders) - 1, 1, -1):
        if folders[at - 1] in _TYPES and _MONTH.fullmatch(folders[at]):
            return _TYPES[folders[at - 1]], _folder_space(folders[at - 2])
    for at in (1, 2):
        if len(folders) > at and folders[at] in _TYPES:
            return _TYPES[folders[at]], _folder_space(folders[at - 1])
    return None, None


def _folder_space(folder: str) -> str | None:
    """Return the space that a folder's name stands for; None for the folder of global notes."""
    return None if folder.casefold() == GLOBAL_FOLDER else unicodedata.normalize("NFC", folder)


def file_title(path: str) -> str | None:
    """Return the file's name as the title, as Obsidian does; None for a name made by Ormah (it ends in the short
    id)."""
    stem = path.rpartition("/")[2]
    stem = stem[:-3] if stem[-3:].lower() == ".md" else stem
    name = " ".join(unicodedata.normalize("NFC", stem).split())
    return None if not name or stem_short_id(name.casefold()) else name[:MAX_TITLE]


def stem_short_id(target: str) -> str | None:
    """Return the short id in a wikilink's target, or None.

    The target may end in a short id (`fact_layout_9f8e7d6c`), be one, or be a full id. The result may be wrong:
    `[[20261121]]` may be a daily note, so the index also tries the name.
    """
    stem = target.rsplit("/", 1)[-1].strip().removesuffix(".md")
    if is_node_id(stem):
        return short_id(stem)
    found = _SHORT.search(stem)
    return found.group(1) if found else None


def derived_id(vault_id: str, path: str, text: bytes, *, attempt: int = 0) -> str:
    """Return the id of a note that a person put into the vault: the same on every machine for the same text and path.
    `attempt`: increased by the caller while the short id is taken."""
    try:
        namespace = UUID(vault_id)
    except ValueError:
        namespace = uuid5(NAMESPACE_URL, vault_id)
    again = f"\n{attempt}" if attempt else ""
    name = unicodedata.normalize("NFC", path)
    return str(uuid5(namespace, f"{name}\n{hashlib.sha256(text).hexdigest()}{again}"))


DEFAULT_SOURCE = "person"
"""The source of a note that names none; agents always name themselves."""
DEFAULT_WEIGHT = 0.5


class NoteKind(StrEnum):
    """What a file is to Ormah."""

    NOTE = "note"
    """Readable, with an id of Ormah."""
    BARE = "bare"
    """Readable, without an id."""
    FOREIGN = "foreign"
    """A board of the Kanban plug-in; never written to."""
    SOURCE = "source"
    """A section of a file in a folder of the person; never written to. Only the index has this kind, and its path is
    absolute."""
    APART = "apart"
    """Not a memory: a template, or a drawing in a markdown file."""
    BROKEN = "broken"
    """Unreadable frontmatter, not UTF-8, or too large; indexed as plain text and reported by `doctor`."""
    CONFLICTED = "conflicted"
    """Contains git's conflict markers; neither committed nor indexed."""


_CLAIMING = {NoteKind.NOTE, NoteKind.BROKEN}
"""Kinds of files that own the id written in them. A note whose frontmatter is broken for a while keeps its id even if a
copy has the same."""


def claim(kind: NoteKind, node_id: str | None) -> str | None:
    """Return `node_id` if a file of this kind owns the id that is written in it (`_CLAIMING`), else None."""
    return node_id if kind in _CLAIMING else None


class NoteLink(Struct, frozen=True):
    """An edge as written in a note; the index resolves `target` to a node."""

    edge: EdgeType
    target: str
    """The text inside `[[...]]`, without alias, heading and block."""
    weight: float = DEFAULT_WEIGHT
    created: datetime | None = None
    reason: str | None = None
    body: bool = False
    """True for a wikilink in the text, which counts as a `related_to` edge made by the person."""

    @property
    def key(self) -> str:
        """The edge's key under `edges`: `supports:1a2b3c4d`."""
        return edge_key(self.edge, self.target)


def edge_key(edge: EdgeType, target: str) -> str:
    """Return `edge:short id`, or `edge:target` if the target has no short id."""
    return f"{edge}:{stem_short_id(target) or target}"


class Problem(Struct, frozen=True):
    """A problem of a note that a person may want to fix. `what`: the problem; `line`: counts from 1; `mend`: how to
    repair it."""

    level: Literal["error", "warning", "info"]
    what: str
    line: int | None
    mend: str

    def __str__(self) -> str:
        """Return the problem, with its line if it has one."""
        return self.what if self.line is None else f"line {self.line}: {self.what}"


class Note(Struct, frozen=True):
    """A parsed file of the vault."""

    path: str
    kind: NoteKind
    digest: str
    """sha256 of the file's bytes, in hex."""
    id: str | None = None
    """For a BROKEN or CONFLICTED note: the id, if one was found."""
    type: NodeType = NodeType.FACT
    tier: Tier = Tier.WORKING
    space: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()
    source: str = DEFAULT_SOURCE
    confidence: float = 1.0
    created: datetime | None = None
    updated: datetime | None = None
    valid_until: datetime | None = None
    outdated_reason: str | None = None
    standing: NoteStanding | None = None
    because: str | None = None
    """Why the thing that the note is about was rejected."""
    paths: tuple[str, ...] = ()
    """Globs of files, `commands`: of commands, that the note is about."""
    commands: tuple[str, ...] = ()
    guard: NoteGuard | None = None
    evidence: tuple[str, ...] = ()
    """Files that the note rests on, each as `path@blob` (`model.node.EVIDENCE`)."""
    aliases: tuple[str, ...] = ()
    links: tuple[NoteLink, ...] = ()
    content: str = ""
    r"""The body with `\n` line ends, without surrounding blank lines; for a BROKEN note all searchable text."""
    problems: tuple[Problem, ...] = field(default=())
    everywhere: bool = False
    """`global: true`: no job assigns a space to the note."""
    said_in: str | None = None
    """`from: <session>#<turn>`: the turn of an archived session from which the note was extracted; None if it was
    not."""
    taken: tuple[str, ...] = ()
    """Keys of Ormah that hold an unrelated value (`type: meeting`); Ormah's value is under the key prefixed `ormah_`."""

    @property
    def stem(self) -> str:
        """The file's name without `.md`, as used in wikilinks."""
        return PurePosixPath(self.path).name.removesuffix(".md")

    @property
    def edges(self) -> dict[str, NoteLink]:
        """{edge key: edge} for the edges in the properties; links in the text are left out."""
        return {link.key: link for link in self.links if not link.body}

    @property
    def problem(self) -> Problem | None:
        """The first error, which prevents the file from being a note; None if there is none."""
        return next((problem for problem in self.problems if problem.level == "error"), None)
