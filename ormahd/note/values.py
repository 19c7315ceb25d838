"""What a note is when it has been read: its kind, its links as written, and what is wrong with it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct, field

from ormahd.model.node import EdgeType, NodeType, Tier
from ormahd.note.naming import stem_short_id

DEFAULT_SOURCE = "person"
"""Of a note without `source`: what agents store always names them, so the others were made by hand."""
DEFAULT_WEIGHT = 0.5


class NoteKind(StrEnum):
    NOTE = "note"
    """Readable, with an id that is a UUID: ours or adopted."""
    BARE = "bare"
    """Readable, without an id: no frontmatter, or none with an id. May be adopted."""
    FOREIGN = "foreign"
    """Another tool's head (TOML, JSON, Logseq's properties), which must stay at the top, or a board that a plug-in keeps: nothing of ours is
    written into it."""
    INDEXED = "indexed"
    """Found and whispered under an id that it does not hold: nothing of ours is written into it. Only the index has such notes."""
    APART = "apart"
    """No text to remember: a template, or a drawing that a plug-in keeps in a markdown file."""
    BROKEN = "broken"
    """Unreadable frontmatter, not UTF-8, too large: plain text, named by `doctor`."""
    CONFLICTED = "conflicted"
    """Holds git's conflict markers: neither committed nor indexed."""


_CLAIMING = {NoteKind.NOTE, NoteKind.BROKEN}
"""Kinds whose id counts: a note that a person broke for a moment keeps its id against a copy."""


def claim(kind: NoteKind, node_id: str | None) -> str | None:
    """The id under which a file counts."""
    return node_id if kind in _CLAIMING else None


class NoteLink(Struct, frozen=True):
    """An edge as the note has it. What `target` means is the index's business."""

    edge: EdgeType
    target: str
    """The text inside `[[...]]`, without alias, heading and block."""
    weight: float = DEFAULT_WEIGHT
    created: datetime | None = None
    reason: str | None = None
    body: bool = False
    """True for a wikilink in the text: a `related_to` edge that the person owns."""

    @property
    def key(self) -> str:
        """What tells this edge from the note's others, and its name under `edges`: `supports:1a2b3c4d`."""
        return edge_key(self.edge, self.target)


def edge_key(edge: EdgeType, target: str) -> str:
    """`edge:short id`; a target without a short id stands for itself."""
    return f"{edge}:{stem_short_id(target) or target}"


class Problem(Struct, frozen=True):
    """Something that a person may want to mend. `line` counts from 1 in the file."""

    level: Literal["error", "warning", "info"]
    what: str
    line: int | None
    mend: str

    def __str__(self) -> str:
        return self.what if self.line is None else f"line {self.line}: {self.what}"


class Note(Struct, frozen=True):
    """A file of the vault as values. Of a FOREIGN one the fields that can be read are filled in."""

    path: str
    kind: NoteKind
    digest: str
    """sha256 of the file's bytes, in hex."""
    id: str | None = None
    """Of a BROKEN or CONFLICTED note: where it can still be made out."""
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
    aliases: tuple[str, ...] = ()
    links: tuple[NoteLink, ...] = ()
    content: str = ""
    """The body with `\\n` line ends and without surrounding blank lines; of a BROKEN note all that can be searched."""
    problems: tuple[Problem, ...] = field(default=())
    everywhere: bool = False
    """Global on purpose (`global: true`): no job gives it a space."""
    taken: tuple[str, ...] = ()
    """Keys of ours that hold something else (`type: meeting`, `id: 42`): ours stands behind `ormah_`."""

    @property
    def stem(self) -> str:
        """The file's name without `.md`: what a wikilink to it says."""
        return PurePosixPath(self.path).name.removesuffix(".md")

    @property
    def problem(self) -> Problem | None:
        """The first problem that keeps the note from being one."""
        return next((problem for problem in self.problems if problem.level == "error"), None)
