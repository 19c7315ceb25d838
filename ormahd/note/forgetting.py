"""Find texts that name a purged memory, and remove the mentions from them. No I/O.

A memory is named by its id, by its short id (in file names, wikilinks, keys of edges), by its titles and aliases in
wikilinks, and by quotes in commit messages. Another memory that states the same facts in other words is left alone.
Texts that contain identical lines are found by `holds`. Names of notes are made of titles, so that an exact text is
found in names of notes and spaces as a slug, too.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from ormahd.errors import InvalidNote
from ormahd.model.node import EdgeType, NodeType, Tier, short_id
from ormahd.note import markdown
from ormahd.note.edit import edit
from ormahd.note.fields import KNOWN
from ormahd.note.markdown import link_target
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind, slug, stem_short_id

PURGED = "(purged)"
"""Replacement for purged text. Safe in YAML, JSON, links and file names."""
NAME = "purged"
"""Replacement for purged text in the name of a note, as a slug."""
MIN_SECRET = 6
"""Minimum number of characters of a text that may be purged. A shorter one occurs in too many unrelated words."""
QUOTED = 30
"""Number of characters at the beginning of a title or first line that are compared to detect a quote in a commit
message."""
MIN_QUOTE = 12
"""Minimum number of characters of a title or line for which an equal text counts as a quote."""
MIN_CUT = 16
"""Minimum number of characters of the beginning of a text that is found at the end of a name: long names are cut."""

_STRUCTURE = "\n".join([*(f"{key}: " for key in (*KNOWN, "weight", "reason")), *NodeType, *Tier, PURGED, "person"])
"""Keys and values that notes have because of their format, one per line."""
_LINK = re.compile(r"!?\[\[([^\[\]\n]{1,500})\]\]")
_NAME = re.compile(r"[^\s\[\](){}<>\"'`|#^/\\,:;=*]")
"""A character that may be part of a note's file name in a link."""


class Forgotten(Struct, frozen=True, dict=True):
    """Describes what a purge removes: a memory (`node_id`, full id) and exact texts (`secrets`). Finds mentions of
    both in files and messages, and removes them.

    `names`: folded titles, aliases and file names that lead only to this memory. `quotes`: beginnings of its titles
    and first lines. `lines`: long lines that probably occur only in it. `turns`: keys of the turns of sessions that it
    was extracted from.
    """

    node_id: str | None = None
    secrets: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    quotes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()

    def knowing(self, versions: Iterable[Note]) -> Forgotten:
        """Return a copy with the names, quotes, long lines and turns of all versions of the memory's note."""
        names, quotes, lines, turns = (dict[str, None]() for _ in range(4))
        for note in versions:
            own = [note.stem] if stem_short_id(note.stem) is None else []
            names.update((fold(name), None) for name in (note.title, *note.aliases, *own) if name)
            folded = [" ".join(line.split()) for line in (note.title or "", *note.content.splitlines())]
            heads = [folded[0], next((line for line in folded[1:] if line), "")]
            quotes.update((head[:QUOTED], None) for head in heads if len(head) >= MIN_QUOTE)
            long = sorted((line.strip() for line in note.content.splitlines()), key=len, reverse=True)
            lines.update((line, None) for line in long[:3] if len(line) >= 2 * MIN_QUOTE)
            turns[(note.said_in or "").rpartition("#")[2]] = None
        return replace(
            self,
            names=tuple(filter(None, names)),
            quotes=tuple(quotes),
            lines=tuple(lines),
            turns=tuple(filter(None, turns)),
        )

    # Finding mentions

    @cached_property
    def short(self) -> str:
        """The short id of the memory; empty without a memory."""
        return short_id(self.node_id) if self.node_id else ""

    @cached_property
    def _ids(self) -> str:
        """Pattern that matches the memory's id anywhere, or its short id as a word."""
        return rf"(?i:{self.node_id}|(?<![0-9A-Za-z]){self.short}(?![0-9A-Za-z]|-[0-9a-f]{{4}}-))"

    @cached_property
    def _word(self) -> re.Pattern[str]:
        """Pattern that matches the memory's id or short id, with a following `.md`."""
        return re.compile(rf"{self._ids}(?:\.md\b)?", re.IGNORECASE)

    @cached_property
    def _slug(self) -> re.Pattern[str]:
        """Pattern that matches the secrets where they are part of the name of a note (`fact_the-red-door_1a2b3c4d`) or
        of the folder of a space (`the-red-house/fact/2026-11`)."""
        end, parts = r"_[0-9a-f]{8}(?![0-9A-Za-z])", []
        for name in filter(None, (slug(secret, otherwise="") for secret in self.secrets)):
            parts.append(rf"{re.escape(name)}(?=(?:-[^\s/_]{{0,100}})?(?:{end}|/[a-z]+/[0-9]{{4}}-[0-9]{{2}}))")
            parts += [f"{re.escape(name[:cut])}(?={end})" for cut in range(len(name) - 1, MIN_CUT - 1, -1)]
        return re.compile(f"(?<![0-9A-Za-z])(?:{'|'.join(parts) or '(?!)'})")

    @cached_property
    def _mention(self) -> re.Pattern[bytes]:
        """Pattern that matches an id of the memory, or a secret in any of its spellings."""
        parts = [self._ids] if self.node_id else []
        parts += [*map(re.escape, self._spellings), self._slug.pattern] if self.secrets else []
        return re.compile("|".join(parts).encode("utf-8", "surrogateescape") or rb"(?!)")

    @cached_property
    def _spellings(self) -> list[str]:
        """All forms in which the secrets may be written, longest first."""
        return spellings(self.secrets)

    @cached_property
    def _lines(self) -> list[bytes]:
        """The memory's long lines, in all forms in which they may be written, as bytes."""
        return [line.encode("utf-8", "surrogateescape") for line in spellings(self.lines)]

    def mentions(self, data: bytes) -> int:
        """Return how many times `data` names the memory or contains a secret. `data`: a file, a commit message or a git
        tree."""
        found = sum(1 for _ in self._mention.finditer(data))
        if self.names and (b"[[" in data or b"](" in data):
            named = (target for target in link_targets(data) if not self._word.search(target))
            found += sum(1 for target in named if self.leads(target))
        return found

    def leads(self, target: str) -> bool:
        """Return whether a wikilink with this target leads to the memory."""
        if not self.node_id:
            return False
        if stem_short_id(target.casefold()) == self.short:
            return True
        return fold(target) in self.names or fold(target.rsplit("/", 1)[-1].removesuffix(".md")) in self.names

    def quoted(self, text: str) -> bool:
        """Return whether a commit message quotes a title or a first line of the memory."""
        plain = " ".join(text.split()).casefold()
        return any(quote.casefold() in plain for quote in self.quotes)

    def holds(self, data: bytes) -> bool:
        """Return whether a text names the memory, quotes it, or contains a secret or a long line of the memory."""
        return (
            self.mentions(data) > 0
            or any(line in data for line in self._lines)
            or self.quoted(data.decode("utf-8", "replace"))
        )

    def is_note(self, data: bytes, path: str) -> bool:
        """Return whether a file is a version of the memory's note."""
        return self.node_id is not None and parse(data, path).id == self.node_id

    # Removing mentions

    def without(self, path: str, data: bytes) -> bytes:
        """Return the bytes of a file other than the memory's note, without mentions of the memory and without the
        secrets.

        In a `.jsonl` file below `.ormah`, lines that mention the memory are removed; in a note's frontmatter, edges to
        the memory. All other mentions, and the secrets, are replaced by `(purged)`. All other bytes are kept.
        """
        if not self.mentions(data):
            return data
        if self.node_id and path.endswith(".jsonl") and path.startswith(".ormah/"):
            lines = data.splitlines(keepends=True)
            data = b"".join(line for line in lines if not self._word.search(line.decode("utf-8", "replace")))
        elif self.node_id and path[-3:].lower() == ".md":
            data = self._without_edges(path, data)
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def _without_edges(self, path: str, data: bytes) -> bytes:
        """Return the bytes of a note without its edges to the memory. A file that is no note, or cannot be edited, is
        returned unchanged."""
        note = parse(data, path)
        if note.kind is not NoteKind.NOTE:
            return data
        edges = [(link.edge, link.target) for link in note.edges.values() if self.leads(link.target)]
        edges += [(edge, self.short) for edge in EdgeType]
        try:
            return edit(data, path, unlink=edges)
        except InvalidNote:
            return data  # it cannot be edited by line: mentions are replaced in the text instead

    def text(self, text: str) -> str:
        """Return the text with the secrets, and all links to the memory and its ids, replaced by `(purged)`."""
        while (cleaned := self._replace_once(text)) != text:  # a replacement may expose an adjacent mention
            text = cleaned
        return text

    def _replace_once(self, text: str) -> str:
        """Return the text after one pass of replacements, which may expose further mentions."""
        if self.node_id:
            text = _LINK.sub(lambda found: PURGED if self.leads(link_target(found[1])) else found[0], text)
            text = markdown.LINK.sub(
                lambda found: PURGED if self.leads(markdown.linked_note(found)) else found[0], text
            )
            text = self._without_ids(text)
        text = self._slug.sub(NAME, text)
        for spelling in self._spellings:
            text = text.replace(spelling, PURGED)
        return text

    def _without_ids(self, text: str) -> str:
        """Replace each id of the memory by `(purged)`, together with the part of a file name before it
        (`fact_red-door_1a2b3c4d`). Takes linear time."""
        out: list[str] = []
        done = 0
        for found in self._word.finditer(text):
            start = found.start()
            if start > done and text[start - 1] == "_":
                while start > done and _NAME.match(text[start - 1]):
                    start -= 1
            out += [text[done:start], PURGED]
            done = found.end()
        return "".join([*out, text[done:]])


def spellings(texts: Iterable[str]) -> list[str]:
    """Return all forms in which the texts may be written: plain, as in JSON, as in YAML's single quotes. Longest
    first."""
    forms: set[str] = set()
    for text in texts:
        as_json = (json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))
        forms.update((text, *as_json, text.replace("'", "''")))
    return sorted(forms, key=len, reverse=True)


def is_structure(text: str) -> bool:
    """Return whether `text` is a part of the keys and values that every note may have because of its format."""
    return text.strip() in _STRUCTURE


def link_targets(data: bytes) -> tuple[str, ...]:
    """Return the targets of all wikilinks and markdown links in a file's bytes."""
    text = data.decode("utf-8", "surrogateescape")
    paths = (markdown.linked_note(found) for found in markdown.LINK.finditer(text)) if "](" in text else ()
    return (*(link_target(found) for found in _LINK.findall(text)), *filter(None, paths))


def fold(name: str) -> str:
    """Return a name in the form in which names of links are compared: one line, composed (NFC) and case-folded."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", " ".join(name.split())).casefold())
