"""The edges of two notes that become one: each drawn anew between what is left, once, and none to itself.

Of two edges that come to be the same the larger weight, the earlier creation and the first reason stay. `related_to` and
`contradicts` say the same in both directions, so that a merge draws no second one beside one that leads the other way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ormahd.actions.amend import see
from ormahd.actions.views import headline, stem
from ormahd.jobs.job import Edit
from ormahd.model.node import EdgeType
from ormahd.note import note as codec
from ormahd.note.edit import lead, unlink
from ormahd.note.markdown import body_links
from ormahd.note.note import DEFAULT_WEIGHT, NoteLink

if TYPE_CHECKING:
    from ormahd.actions.amend import SeenNote
    from ormahd.ormah import Ormah

BOTH_WAYS = {EdgeType.RELATED_TO, EdgeType.CONTRADICTS}

Key = tuple[EdgeType, str]
"""An edge by what it is and where it leads: an id, or the text of a link that leads nowhere yet."""


class Links:
    """What becomes of all links when `gone` becomes part of `keep`. To be made and used under the writers' lock.

    `drawn` and `erased` are for the keeper's note; `neighbours` gives the others'.
    """

    def __init__(self, ormah: Ormah, keep: SeenNote, gone: SeenNote) -> None:
        self._ormah = ormah
        self._keep, self._gone = keep, gone
        self._stem = stem(keep.path)
        self._led: dict[str, str | None] = {}
        own = self._properties(keep)
        self.erased = [(key[0], link.target) for key, links in own.items() for link in links if key[1] == gone.id]
        self._own: dict[Key, NoteLink] = {
            key: links[0] for key, links in own.items() if key[1] not in {keep.id, gone.id}
        }
        self._before = dict(self._own)
        self._body = {self._to(target) for target in body_links(keep.note.content)}
        sources = {edge.source for edge in ormah.index.edges_of([keep.id, gone.id])} - {keep.id, gone.id}
        self._others = {node_id: see(ormah, node_id) for node_id in sorted(sources - ormah.index.lent())}
        self._theirs = {node_id: self._into_keeper(seen) for node_id, seen in self._others.items()}
        for link in gone.note.links:
            self._take(link)
        self._changed = {node_id: new for node_id, seen in self._others.items() if (new := self._neighbour(seen)) is not None}  # fmt: skip

    @property
    def drawn(self) -> list[NoteLink]:
        return [link for key, link in self._own.items() if self._before.get(key) != link]

    def own_text(self, text: str) -> str:
        """The keeper's text: a link in it to the note that is going would lead to itself."""
        word = headline(self._gone.note.title, self._gone.note.content)
        return unlink(text, self._names(text, self._gone.id), word)

    def neighbours(self) -> Iterator[Edit]:
        for node_id, data in self._changed.items():
            seen = self._others[node_id]
            yield Edit(node_id, seen.path, data, seen.digest)

    # ------------------------------------------------------------ what leaves the two

    def _take(self, link: NoteLink) -> None:
        """An edge of the removed note, its text's links too: from here on the keeper's."""
        to = self._to(link.target)
        if to in {self._keep.id, self._gone.id}:
            return
        key = (link.edge, to or link.target)
        known = self._own.get(key)
        if known is not None:
            self._own[key] = _united(known, link)
            return
        if link.edge is EdgeType.RELATED_TO and to in self._body and _plain(link):
            return  # the keeper's own text says so
        if (
            to is not None
            and link.edge in BOTH_WAYS
            and (theirs := self._theirs.get(to, {}).get(link.edge)) is not None
        ):
            self._theirs[to][link.edge] = _united(theirs, link)
            return
        name = stem(self._ormah.index.note(to).path) if to is not None and link.body else link.target
        self._own[key] = replace(link, target=name, body=False)

    # ------------------------------------------------------------ what leads to the two

    def _into_keeper(self, seen: SeenNote) -> dict[EdgeType, NoteLink]:
        """The edges by which another note leads to the keeper already."""
        return {edge: links[0] for (edge, to), links in self._properties(seen).items() if to == self._keep.id}

    def _neighbour(self, seen: SeenNote) -> bytes | None:
        """Another note with its links to the removed one leading to the keeper; None: nothing changes."""
        before, after = self._into_keeper(seen), self._theirs[seen.id]
        erased: list[tuple[EdgeType, str]] = []
        for (edge, to), links in self._properties(seen).items():
            if to != self._gone.id:
                continue
            erased += [(edge, link.target) for link in links]
            mine = self._own.get((edge, seen.id)) if edge in BOTH_WAYS else None
            for link in links:
                if mine is not None and edge not in after:
                    mine = self._own[(edge, seen.id)] = _united(mine, link)
                else:
                    known = after.get(edge)
                    after[edge] = replace(link, target=self._stem) if known is None else _united(known, link)
        drawn = [link for edge, link in after.items() if before.get(edge) != link]
        text = seen.note.content
        led = lead(text, self._names(text, self._gone.id), self._stem)
        if not erased and not drawn and led == text:
            return None
        return codec.edit(seen.data, seen.path, unlink=erased, link=drawn, content=None if led == text else led)

    # ------------------------------------------------------------ names

    def _properties(self, seen: SeenNote) -> dict[Key, list[NoteLink]]:
        """The edges in a note's properties, by where they lead. Two spellings of one name are one edge."""
        found: dict[Key, list[NoteLink]] = {}
        for link in seen.note.links:
            if not link.body:
                found.setdefault((link.edge, self._to(link.target) or link.target), []).append(link)
        return found

    def _names(self, text: str, node_id: str) -> set[str]:
        return {target for target in body_links(text) if self._to(target) == node_id}

    def _to(self, target: str) -> str | None:
        if target not in self._led:
            self._led[target] = self._ormah.index.resolve_link(target)
        return self._led[target]


def _plain(link: NoteLink) -> bool:
    return link.weight <= DEFAULT_WEIGHT and link.reason is None


def _united(known: NoteLink, other: NoteLink) -> NoteLink:
    times = [time for time in (known.created, other.created) if time is not None]
    weight = max(known.weight, other.weight)
    return replace(
        known, weight=weight, created=min(times, default=None), reason=known.reason or other.reason
    )  # fmt: skip
