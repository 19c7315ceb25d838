"""The values of a parsed note: its kind, fields, links and problems."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct, field

from ormahd.model.node import EdgeType, NodeType, Tier
from ormahd.note.naming import stem_short_id

DEFAULT_SOURCE = "person"
"""The source of a note that names none; agents always name themselves."""
DEFAULT_WEIGHT = 0.5


class NoteKind(StrEnum):
    NOTE = "note"
    """Readable, with an id of Ormah."""
    BARE = "bare"
    """Readable, without an id; may be adopted."""
    FOREIGN = "foreign"
    """Begins with another tool's head (TOML, JSON, Logseq), or is a plug-in's board; never written to."""
    INDEXED = "indexed"
    """Indexed under an id that the file does not contain; never written to. Only the index has this kind."""
    APART = "apart"
    """Not a memory: a template, or a drawing in a markdown file."""
    BROKEN = "broken"
    """Unreadable frontmatter, not UTF-8, or too large; indexed as plain text and reported by `doctor`."""
    CONFLICTED = "conflicted"
    """Contains git's conflict markers; neither committed nor indexed."""


_CLAIMING = {NoteKind.NOTE, NoteKind.BROKEN}
"""Kinds whose id counts. A note with temporarily broken frontmatter keeps its id even if a copy has the same."""


def claim(kind: NoteKind, node_id: str | None) -> str | None:
    """Return the id that a file of this kind owns, or None."""
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
    """A problem that a person may want to fix. `line` counts from 1."""

    level: Literal["error", "warning", "info"]
    what: str
    line: int | None
    mend: str

    def __str__(self) -> str:
        return self.what if self.line is None else f"line {self.line}: {self.what}"


class Note(Struct, frozen=True):
    """A file of the vault as values. For a FOREIGN note the fields that could be read are set."""

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
    aliases: tuple[str, ...] = ()
    links: tuple[NoteLink, ...] = ()
    content: str = ""
    r"""The body with `\n` line ends, without surrounding blank lines; for a BROKEN note all searchable text."""
    problems: tuple[Problem, ...] = field(default=())
    everywhere: bool = False
    """`global: true`: no job assigns a space to the note."""
    taken: tuple[str, ...] = ()
    """Keys of Ormah that hold an unrelated value (`type: meeting`); Ormah's value is under the key prefixed `ormah_`."""

    @property
    def stem(self) -> str:
        """The file's name without `.md`, as used in wikilinks."""
        return PurePosixPath(self.path).name.removesuffix(".md")

    @property
    def problem(self) -> Problem | None:
        """The first error, which prevents the file from being a note; None if there is none."""
        return next((problem for problem in self.problems if problem.level == "error"), None)
