"""The edges of a note as its frontmatter has them: one property per edge type, and `edges` with what more is known."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from ormahd.model.node import EdgeType
from ormahd.note.fields import FieldReader, Written, Wrong
from ormahd.note.frontmatter import MappingNode, Node, ScalarNode, is_null
from ormahd.note.markdown import link_target, wikilinks
from ormahd.note.values import DEFAULT_WEIGHT, NoteLink, edge_key

EDGES: dict[str, EdgeType] = {str(edge): edge for edge in EdgeType}


class Detail(NamedTuple):
    """What `edges` says of an edge."""

    weight: float
    created: datetime | None
    reason: str | None


NO_DETAIL = Detail(DEFAULT_WEIGHT, None, None)


class NoteReader(FieldReader):
    """All of a block: the fields and the edges."""

    def targets(self, edge: str) -> list[Written]:
        """The targets in an edge's property: wikilinks, or plain names."""
        out: list[Written] = []
        for value, node, alone, _ in self.items(edge):
            said = wikilinks(value) if "[[" in value else [(link_target(value), value)]
            out.extend(Written(name, node, alone and len(said) == 1, text) for name, text in said if name)
        return out

    def links(self) -> list[NoteLink]:
        """The edges in the properties, each once, with what `edges` says about them."""
        pairs = self.block.pairs
        present = [key for key in pairs if key in EDGES]
        found: dict[str, tuple[EdgeType, str]] = {}
        for key in present:
            try:
                for target, *_ in self.targets(key):
                    found.setdefault(edge_key(EDGES[key], target), (EDGES[key], target))
            except Wrong as wrong:
                wrong.mend = 'write a wikilink in quotes: ["[[name of the note]]"]'
                self.report(wrong)
        details = self.details
        return [NoteLink(edge, target, *details.get(key, NO_DETAIL)) for key, (edge, target) in found.items()]

    @cached_property
    def details(self) -> dict[str, Detail]:
        """What `edges` says, by edge key."""
        out: dict[str, Detail] = {}
        node = self.block.get("edges")
        if node is not None and not is_null(node) and not isinstance(node, MappingNode):
            self.report(Wrong(f'edges must be lines of "edge:short id", it says {self.shown(node)}', node,
                              'write lines such as  "supports:1a2b3c4d": {weight: 0.8}'))  # fmt: skip
        for key, name, value in self.detail_nodes():
            try:
                if not key:
                    self.warn(f"{self.shown(name)} under edges is no edge", name,
                              'write "edge:short id", for example "supports:1a2b3c4d"')  # fmt: skip
                    continue
                if key in out:
                    raise Wrong(f"{key} stands twice under edges", name, "keep one of the two")
                out[key] = self.detail(key, value)
            except Wrong as wrong:
                self.report(wrong)
        return out

    def warn_of_unused(self, keys: Collection[str]) -> None:
        for key, name, _ in self.detail_nodes() if keys else ():
            if key and key in keys:
                self.warn(f"{key} stands under edges, but the note has no such link", name,
                          f"add the link to {key.partition(':')[0]}, or remove the line")  # fmt: skip

    def detail_nodes(self) -> Iterator[tuple[str, Node, Node]]:
        """`(edge key, key node, value node)` of every line under `edges`; the edge key is "" for what is none."""
        node = self.block.get("edges")
        for name, value in node.value if isinstance(node, MappingNode) else ():
            edge, _, target = (name.value if isinstance(name, ScalarNode) else "").partition(":")
            yield edge_key(EDGES[edge], target) if edge in EDGES and target else "", name, value

    def detail(self, key: str, node: Node) -> Detail:
        if is_null(node):
            return NO_DETAIL
        if isinstance(node, ScalarNode):
            return Detail(self.share(f"the weight of {key}", DEFAULT_WEIGHT, node), None, None)
        if not isinstance(node, MappingNode):
            raise Wrong(f"{key} under edges must be a line such as {{weight: 0.8}}, it says {self.shown(node)}", node,
                        "write weight, created or reason, or remove the line")  # fmt: skip
        parts: dict[str, Node] = {}
        for name, value in node.value:
            part = name.value if isinstance(name, ScalarNode) else ""
            if part in parts and part in {"weight", "created", "reason"}:
                raise Wrong(f"{part} stands twice under {key}", name, "keep one of the two")
            parts[part] = value
        return Detail(
            self.share(f"the weight of {key}", DEFAULT_WEIGHT, parts.get("weight")),
            self.time(f"created of {key}", parts.get("created")),
            self.text(f"reason of {key}", parts.get("reason")),
        )
