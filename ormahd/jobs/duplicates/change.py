"""Make the change that merges two memories: the kept memory gets the tags and edges of the removed one.

Edges to the removed note are redirected. The kept memory keeps its id, file, history and creation date. Its text is
made by rules, or comes from a judge and is checked. All notes are changed in one commit, which one undo reverts. If
two edges become the same, the result has the larger weight, the earlier date and the kept memory's reason.
`related_to` and `contradicts` edges are symmetric, so a merge adds none if one in the opposite direction exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ormahd.actions.amend import SeenNote, see
from ormahd.actions.views import headline, stem
from ormahd.errors import BadRequest, Conflict
from ormahd.index.rows import NodeRow
from ormahd.jobs.job import Edit, PlannedChange
from ormahd.model.change import Kind
from ormahd.model.node import MAX_CONTENT, MAX_TITLE, EdgeType, NodeType, Tier
from ormahd.note.edit import edit
from ormahd.note.markdown import body_links, conflict_line, normalise, relink, unlink
from ormahd.note.values import DEFAULT_WEIGHT, NoteLink
from ormahd.ormah import Ormah
from ormahd.text.diff import clip
from ormahd.text.facts import lost_facts
from ormahd.text.sameness import TextContrast, contrast, same
from ormahd.text.secrets import redact
from ormahd.text.words import query_terms, stems

_RANK = {Tier.CORE: 2, Tier.WORKING: 1, Tier.ARCHIVAL: 0}
APART = {
    EdgeType.CONTRADICTS: "they contradict each other",
    EdgeType.EVOLVED_FROM: "one is what the other was before it changed",
    EdgeType.DERIVED_FROM: "one was made of the other",
}
"""Edge types that rule out a merge, with the reason for an error message."""


def persons(ormah: Ormah, rows: Iterable[NodeRow]) -> frozenset[str]:
    """Return the ids of the memories whose file was created by a person. Jobs never remove such a file."""
    ids = {row.id for row in rows}
    kinds = ormah.history.first_kinds(ids)
    return frozenset(node_id for node_id in ids if kinds.get(node_id) in {None, Kind.EDIT})


def keeper(one: NodeRow, other: NodeRow, theirs: Collection[str] = ()) -> tuple[NodeRow, NodeRow]:
    """Return two memories as (kept, removed), by default rules.

    The kept memory is the one in `theirs` (ids of memories whose file a person created); if that does not decide,
    the one of the higher tier, then the one with the longer text, then the one updated later.
    """

    def worth(row: NodeRow) -> tuple[Any, ...]:
        """Return the sort key of a memory; the one with the higher key is kept."""
        return row.id in theirs, _RANK[row.tier], len(row.content), row.updated, row.created, row.id

    return (one, other) if worth(one) >= worth(other) else (other, one)


def why_apart(ormah: Ormah, one: NodeRow, other: NodeRow, *, across: bool = False) -> str | None:
    """Return the reason why two memories cannot be merged, as the end of a sentence; None if they can.

    `across`: memories of different spaces may be merged, because a person decided so.
    """
    if one.id == other.id:
        return "it is one memory"
    if ormah.vault.self_id in {one.id, other.id}:
        return "the self node stands for you; nothing becomes part of it, and it becomes part of nothing"
    for row in (one, other):
        if row.valid_until is not None or row.outdated_reason is not None:
            return f"“{headline(row.title, row.content, 50)}” is outdated"
    if one.guard or other.guard:
        return "a person guards something with one of them"
    if (one.rejected is None) != (other.rejected is None):
        return "one of them says that it was tried and rejected"
    if one.space != other.space and not across:
        return f"they belong to two spaces ({one.space or 'global'}, {other.space or 'global'})"
    for edge in ormah.index.edges_of([one.id]):
        if other.id in {edge.source, edge.target} and edge.edge in APART:
            return APART[edge.edge]
    return None


def merge(
    ormah: Ormah, keep: NodeRow, removed: NodeRow, *, title: str | None, content: str | None, body: str, across: bool
) -> PlannedChange:
    """Return the change that merges the memory `removed` into `keep`.

    `title`, `content`: the merged text; None: the kept memory's own (or the removed memory's title if it has none).
    `across`: a person decided, so the spaces may differ and a file that a person created may be removed.

    Raises:
        BadRequest: the two cannot be merged (`why_apart`), the text is empty, or a person created the file to be removed.
    """
    if content is not None and not normalise(content):
        raise BadRequest("a merged memory without text", hint="leave the content out to keep the keeper's")
    if not across and persons(ormah, [removed]):
        hint = f"keep {removed.short_id}, and remove {keep.short_id}; or leave it to the person"
        why = f"{removed.short_id} cannot be merged away: {removed.path} is a file that the person made"
        raise BadRequest(why, hint=hint)
    if apart := why_apart(ormah, keep, removed, across=across):
        why = f"{keep.short_id} and {removed.short_id} cannot be merged: {apart}"
        raise BadRequest(why, hint="reject it, or connect them")

    def edits() -> Sequence[Edit]:
        """Return the edits for the notes as they are at the commit."""
        if why := why_apart(ormah, ormah.index.note(keep.id), ormah.index.note(removed.id), across=across):
            raise Conflict(f"not merged: {why}")
        return _merge_edits(ormah, see(ormah, keep.id), see(ormah, removed.id), title, content)

    name = headline(title or keep.title or removed.title, content or keep.content, 60)
    other = headline(removed.title, removed.content, 60)
    subject = f"Merge: two memories of “{name}” became one" if name == other else f"Merge: “{other}” into “{name}”"
    text = f"{body}\nKept {keep.path}, removed {removed.path}".lstrip()
    return PlannedChange(Kind.MERGE, subject, text, edits, {keep.id: keep.digest, removed.id: removed.digest})


def from_payload(ormah: Ormah, payload: Mapping[str, Any]) -> PlannedChange:
    """Return the change of a proposal that a person approved. The spaces of the two memories may differ.

    Raises:
        NotFound, BadRequest: as `merge`.
    """
    keep, removed = (ormah.index.note(str(payload.get(name) or "")) for name in ("keep_id", "remove_id"))
    title, content = payload.get("title"), payload.get("content")
    body = "\n".join(str(payload[name]) for name in ("reason", "body") if payload.get(name))
    return merge(ormah, keep, removed, title=title, content=content, body=body, across=True)


def _merge_edits(ormah: Ormah, keep: SeenNote, removed: SeenNote, title: str | None, content: str | None) -> list[Edit]:
    """Return the edits of a merge: the kept note, the deletion of the removed one, and the notes with links to it."""
    links = Links(ormah, keep, removed)
    known = {tag.casefold() for tag in keep.note.tags}
    fields: dict[str, Any] = {
        "title": title or keep.note.title or removed.note.title,
        "tier": max(keep.note.tier, removed.note.tier, key=_RANK.__getitem__),
        "tags": [*keep.note.tags, *(tag for tag in removed.note.tags if tag.casefold() not in known)],
        "confidence": max(keep.note.confidence, removed.note.confidence),
        "updated": ormah.moment(),
    }
    text = links.own_text(keep.note.content if content is None else normalise(content))
    data = edit(keep.data, keep.path, set=fields, unlink=links.to_remove, link=links.to_add, content=text)
    deletion = Edit(removed.id, removed.path, None, removed.digest)
    return [Edit(keep.id, keep.path, data, keep.digest), deletion, *links.neighbours()]


def is_event(row: NodeRow, other: NodeRow) -> bool:
    """Return whether the two memories are of different days and one of them is an event. Then they are no duplicates,
    even with equal words."""
    return NodeType.EVENT in {row.type, other.type} and row.created.date() != other.created.date()


BOTH_WAYS = {EdgeType.RELATED_TO, EdgeType.CONTRADICTS}

Key = tuple[EdgeType, str]
"""(type of an edge, its target). The target is an id, or the text of the link if no such memory exists."""


class Links:
    """Computes how links, in frontmatter and text, change in all notes when `removed` is merged into `keep`. Create and
    use it under the writers' lock.

    `to_add`: the edges to add to the kept note's frontmatter. `to_remove`: those to remove from it, as (type, link
    target). `neighbours` yields the edits of the other notes.
    """

    def __init__(self, ormah: Ormah, keep: SeenNote, removed: SeenNote) -> None:
        self._ormah = ormah
        self._keep, self._removed = keep, removed
        self._stem = stem(keep.path)
        self._resolved: dict[str, str | None] = {}
        own = self._properties(keep)
        self.to_remove = [(key[0], link.target) for key, links in own.items() for link in links if key[1] == removed.id]
        outside = {key: links[0] for key, links in own.items() if key[1] not in {keep.id, removed.id}}
        self._own: dict[Key, NoteLink] = outside
        self._before = dict(self._own)
        self._body = {self._target_id(target) for target in body_links(keep.note.content)}
        sources = {edge.source for edge in ormah.index.edges_of([keep.id, removed.id])} - {keep.id, removed.id}
        self._others = {node_id: see(ormah, node_id) for node_id in sorted(sources - ormah.index.unwritten())}
        self._theirs = {node_id: self._into_keeper(seen) for node_id, seen in self._others.items()}
        for link in removed.note.links:
            self._add_link(link)
        neighbours = {node_id: self._redirected(seen) for node_id, seen in self._others.items()}
        self._changed = {node_id: new for node_id, new in neighbours.items() if new is not None}

    @property
    def to_add(self) -> list[NoteLink]:
        """The edges to add to the kept note's frontmatter, or to write there with other values."""
        return [link for key, link in self._own.items() if self._before.get(key) != link]

    def own_text(self, text: str) -> str:
        """Return `text` with each link to the removed note replaced by that note's title.

        In the kept note these links would point to the note itself.
        """
        word = headline(self._removed.note.title, self._removed.note.content)
        return unlink(text, self._spellings(text, self._removed.id), word)

    def neighbours(self) -> Iterator[Edit]:
        """Yield the edits of the other notes whose links change."""
        for node_id, data in self._changed.items():
            seen = self._others[node_id]
            yield Edit(node_id, seen.path, data, seen.digest)

    # ------------------------------------------------------------ links from the two notes

    def _add_link(self, link: NoteLink) -> None:
        """Add `link`, an edge of the removed note or a link in its text, to the edges of the kept note. Nothing is
        added for a link between the two notes."""
        to = self._target_id(link.target)
        if to in {self._keep.id, self._removed.id}:
            return
        key = (link.edge, to or link.target)
        known = self._own.get(key)
        if known is not None:
            self._own[key] = _merged_link(known, link)
            return
        says_nothing = link.edge is EdgeType.RELATED_TO and link.weight <= DEFAULT_WEIGHT and link.reason is None
        if says_nothing and to in self._body:
            return  # the kept note's text has this link already
        theirs = self._theirs.get(to, {}) if to is not None and link.edge in BOTH_WAYS else {}
        if link.edge in theirs:
            theirs[link.edge] = _merged_link(theirs[link.edge], link)
            return
        name = stem(self._ormah.index.note(to).path) if to is not None and link.body else link.target
        self._own[key] = replace(link, target=name, body=False)

    # ------------------------------------------------------------ links to the two notes

    def _into_keeper(self, seen: SeenNote) -> dict[EdgeType, NoteLink]:
        """Return `{type: link}` of the edges that the note `seen` has to the kept note."""
        return {edge: links[0] for (edge, to), links in self._properties(seen).items() if to == self._keep.id}

    def _redirected(self, seen: SeenNote) -> bytes | None:
        """Return the bytes of the note `seen` with its links to the removed note redirected to the kept one; None if
        nothing changes."""
        before, after = self._into_keeper(seen), self._theirs[seen.id]
        to_remove: list[tuple[EdgeType, str]] = []
        for (edge, to), links in self._properties(seen).items():
            if to != self._removed.id:
                continue
            to_remove += [(edge, link.target) for link in links]
            mine = self._own.get((edge, seen.id)) if edge in BOTH_WAYS else None
            for link in links:
                if mine is not None and edge not in after:
                    mine = self._own[(edge, seen.id)] = _merged_link(mine, link)
                else:
                    known = after.get(edge)
                    after[edge] = replace(link, target=self._stem) if known is None else _merged_link(known, link)
        to_add = [link for edge, link in after.items() if before.get(edge) != link]
        text = seen.note.content
        redirected = relink(text, self._spellings(text, self._removed.id), self._stem)
        if not to_remove and not to_add and redirected == text:
            return None
        content = None if redirected == text else redirected
        return edit(seen.data, seen.path, unlink=to_remove, link=to_add, content=content)

    # ------------------------------------------------------------ names

    def _properties(self, seen: SeenNote) -> dict[Key, list[NoteLink]]:
        """Return the edges in a note's frontmatter as {(type, target): links}. Two spellings of one target are
        one edge."""
        found: dict[Key, list[NoteLink]] = {}
        for link in seen.note.links:
            if not link.body:
                found.setdefault((link.edge, self._target_id(link.target) or link.target), []).append(link)
        return found

    def _spellings(self, text: str, node_id: str) -> set[str]:
        """Return the targets of the links in `text` that lead to the memory `node_id`, each as it is spelled."""
        return {target for target in body_links(text) if self._target_id(target) == node_id}

    def _target_id(self, target: str) -> str | None:
        """Return the id of the memory that a link's target names; None if there is none."""
        if target not in self._resolved:
            self._resolved[target] = self._ormah.index.resolve_link(target)
        return self._resolved[target]


def _merged_link(known: NoteLink, other: NoteLink) -> NoteLink:
    """Return one link with the earlier time and the higher weight of two links to the same memory. `known` wins
    otherwise."""
    created = min((time for time in (known.created, other.created) if time is not None), default=None)
    weight = max(known.weight, other.weight)
    return replace(known, weight=weight, created=created, reason=known.reason or other.reason)


Cosine = Callable[[str, str], float | None]
"""A function that returns the cosine of two sentences; None without an embedding model."""

NEAR: Final = 0.75
"""Minimum cosine at which sentences with the same numbers and names count as saying the same."""
ONE_WORD: Final = 0.93
"""Minimum cosine at which sentences that differ in one word count as saying the same. It is higher than NEAR:
"requires" and "needs" reach it, "spaces" and "tabs" do not."""
OVERLAP: Final = 0.75
"""Without an embedding model: minimum share of a sentence's words that another sentence must contain to say the
same."""
MAX_SENTENCES: Final = 40
"""Maximum number of sentences that are compared; longer texts are not checked for repetitions."""
_SENTENCE = re.compile(r"(?<=[.!?\u2026])\s+(?=[^\W\d_a-z])|(?<=[\u3002\uff01\uff1f])|\n+")


def meaning(ormah: Ormah) -> Cosine:
    """Return a `Cosine` that uses the embedding model. It embeds each sentence once."""
    vectors: dict[str, NDArray[np.float32] | None] = {}

    def vector(text: str) -> NDArray[np.float32] | None:
        """Return the vector of a sentence, from the cache if it is there."""
        if text not in vectors:
            found = ormah.index.embed_query(text)
            vectors[text] = None if found is None else found.vector
        return vectors[text]

    def cosine(one: str, other: str) -> float | None:
        """Return the cosine of two sentences; None without an embedding model."""
        mine, theirs = vector(one), vector(other)
        return None if mine is None or theirs is None else float(mine @ theirs)

    return cosine


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, without empty ones."""
    return [one.strip() for one in _SENTENCE.split(text) if one and one.strip()]


def restates(known: str, one: str, cosine: Cosine | None = None) -> bool:
    """Return whether the sentence `known` says all that the sentence `one` says.

    `known` must have all numbers and names of `one`, and both or neither must be negated. They must be similar in
    meaning or in words.
    """
    if same(None, one, None, known) is not None:
        return True
    if lost_facts([(None, one)], known):
        return False
    apart = contrast(known, one)
    if apart in (TextContrast.NEGATION, TextContrast.MARKS):
        return False
    near = None if cosine is None else cosine(known, one)
    if near is not None:
        return near >= (ONE_WORD if apart is TextContrast.ONE_PLACE else NEAR)
    mine, theirs = stems(query_terms(known)), stems(query_terms(one))
    return apart is None and bool(theirs) and len(mine & theirs) >= OVERLAP * len(theirs)


def said_twice(text: str, cosine: Cosine | None = None) -> str | None:
    """Return the first sentence that repeats an earlier one, wholly or in part (`restates`); None if there is none."""
    found = sentences(text)
    if len(found) > MAX_SENTENCES or "```" in text or "~~~" in text:
        return None
    for at, one in enumerate(found):
        if any(restates(known, one, cosine) or restates(one, known, cosine) for known in found[:at]):
            return one
    return None


def unsaid(known: Sequence[str], new: Sequence[str], cosine: Cosine | None = None) -> tuple[list[str], dict[str, str]]:
    """Return (sentences of `new` that say something which no sentence of `known` says, replacements).

    Replacements are `{sentence of known: sentence of new}`, where the new one says the same and more.
    """
    new_sentences: list[str] = []
    better: dict[str, str] = {}
    for one in new:
        if any(restates(sentence, one, cosine) for sentence in known):
            continue
        poorer = (sentence for sentence in known if sentence not in better and restates(one, sentence, cosine))
        fuller = next(poorer, None)
        if fuller is not None:
            better[fuller] = one
        elif not any(restates(sentence, one, cosine) for sentence in new_sentences):
            new_sentences.append(one)
    return new_sentences, better


LONGEST = 2.0
"""Maximum length of a judge's text, as a multiple of the longer source text. A longer text probably says things
that neither source says."""
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")


def united(keep: NodeRow, removed: NodeRow, cosine: Cosine | None = None) -> str:
    """Return the merged text: that of `keep`, followed by the sentences of `removed` that say something else.

    If a sentence of each says the same, only the one that says more is in the text. If a text has fenced code,
    `removed` is appended as a whole.
    """
    fenced = any(mark in row.content for row in (keep, removed) for mark in ("```", "~~~"))
    known, other = sentences(keep.content), sentences(removed.content)
    if fenced or len(known) + len(other) > MAX_SENTENCES:
        cosine = None
    new, better = unsaid(known, other, cosine)
    text = keep.content
    for old, fuller in better.items():
        text = text.replace(old, fuller, 1)
    if not new:
        return text
    if fenced:
        return f"{keep.content}\n\n{removed.content}"  # code cannot be split into sentences
    return f"{text}\n\n{' '.join(new)}"


def repeated(content: str, keep: NodeRow, removed: NodeRow, cosine: Cosine | None = None) -> str | None:
    """Return a sentence of the merged text `content` that repeats an earlier one; None if there is none.

    Also None if one of the two sources repeats a sentence itself.
    """
    twice = said_twice(content, cosine)
    if twice is None or any(said_twice(row.content, cosine) is not None for row in (keep, removed)):
        return None
    return twice


def why_unfit(
    title: str | None, content: str | None, keep: NodeRow, removed: NodeRow, cosine: Cosine | None = None
) -> str | None:
    """Return the reason why a judge's merged text is refused, as the end of a sentence; None if it is accepted."""
    if content is not None and not normalise(content):
        return "it is empty"
    text = f"{title or keep.title or ''}\n{keep.content if content is None else content}"
    longest = max(len(keep.content), len(removed.content))
    if content is not None and len(content) > min(MAX_CONTENT, max(LONGEST * longest, 200)):
        return f"it has {len(content):,} characters, where the longer of the two has {longest:,}"
    if title is not None and (len(title) > MAX_TITLE or "\n" in title):
        return "its title is none"
    if redact(text).found and not redact(f"{keep.title}\n{keep.content}\n{removed.title}\n{removed.content}").found:
        return "it holds what looks like a secret"
    if content is not None and conflict_line(normalise(content)):
        return "it holds conflict markers"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it is no valid Unicode"
    if "\x00" in text:
        return "it holds a NUL character"
    if content is not None and (twice := repeated(content, keep, removed, cosine)) is not None:
        return f"it says the same twice: “{clip(twice)}”"
    both = "\n".join(f"{row.title or ''}\n{row.content}" for row in (keep, removed))
    numbers = set(_NUMBER.findall(text))
    missing = dict.fromkeys(one for one in _NUMBER.findall(both) if one not in numbers)
    return f"it leaves out {', '.join(missing)}" if missing else None
