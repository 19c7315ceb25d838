"""What agents do: calls that change memories."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tests.blackbox.walk import model
from tests.blackbox.walk.ground import WORDS, Ground
from tests.blackbox.walk.model import Edge, Value

DRAWN = ["supports", "part_of", "depends_on"]
SPACES = ["random", "kitchen", None]
TIERS = list(model.HEIGHT)
TYPES = ["fact", "decision", "event", "observation"]
LATER = datetime.max.replace(tzinfo=UTC)
"""Stands for the moment at which the daemon will say that a memory ended."""


class Agents(Ground):
    def remember(self) -> None:
        before, slots, title, head = self.state, self.slots(), self.word(), self.head()
        wish = {
            "title": title,
            "tier": self.chance.choice(TIERS),
            "space": self.chance.choice(SPACES),
            "type": self.chance.choice(TYPES),
        }
        made = self.house.call("agent.remember", content=model.content(slots), **wish)
        found = self.look()[made.node_id]
        expected = Value(
            found.path, found.digest, updated=found.updated, tags=frozenset(), slots=slots, edges={}, **wish
        )
        self.expect({**before, made.node_id: expected}, "remember")
        self.learn(head)

    def update(self) -> None:
        node = self.any()
        old = self.state[node]
        what = self.chance.choice(["slots", "slots", "title", "tier", "space", "add", "remove"])
        wish: dict[str, object]
        if what == "slots":
            expected = replace(old, slots=self.another(old.slots))
            wish = {"content": model.content(expected.slots)}
        elif what in {"title", "tier", "space"}:
            given = {"title": self.word(), "tier": self.chance.choice(TIERS), "space": self.chance.choice(SPACES)}[what]
            wish, expected = {what: given}, replace(old, **{what: given})
        else:
            tag = self.chance.choice(WORDS)
            wish, expected = (
                {f"{what}_tags": [tag]},
                replace(old, tags=old.tags | {tag} if what == "add" else old.tags - {tag}),
            )
        self.written({node: expected}, "agent.update", node_id=node, **wish)

    def connect(self) -> None:
        node, other = self.any(), self.any()
        if node == other:
            return
        kind = self.chance.choice(DRAWN)
        key = f"{kind}:{model.name_in_edges(Path(self.state[other].path).stem)}"
        edges = dict(self.state[node].edges)
        wish: dict[str, object] = {"source_id": node, "target_id": other, "edge": kind}
        if key in edges and self.chance.random() < 0.5:
            del edges[key]
            wish |= {"remove": True}
        else:
            weight = self.chance.choice([0.3, 0.6, 0.9])
            edges[key] = replace(edges[key], weight=weight) if key in edges else Edge(weight, None)
            wish |= {"weight": weight}
        self.written({node: replace(self.state[node], edges=edges)}, "agent.connect", **wish)

    def outdated(self) -> None:
        node = self.any()
        old = self.state[node]
        if old.valid_until is not None:
            after = {node: replace(old, valid_until=None, outdated_reason=None)}
            self.written(after, "agent.outdated", node_id=node, revoke=True)
        else:
            reason = self.chance.choice([None, self.word()])
            after = {node: replace(old, valid_until=LATER, outdated_reason=reason)}
            self.written(after, "agent.outdated", node_id=node, reason=reason)

    def written(self, after: dict[str, Value], method: str, **params: object) -> None:
        """A change by the daemon: dates are its own, all else is as expected."""
        before, head = self.state, self.head()
        done = self.house.call(method, **params)
        if not done.changed:
            self.expect(before, "nothing to change")
            return
        found = self.look()
        for node, value in after.items():
            dates = {"updated": found[node].updated, "digest": ""}
            if value.valid_until is LATER:
                dates["valid_until"] = found[node].valid_until
                assert dates["valid_until"] is not None
            edges = {
                key: edge if edge.created or key not in found[node].edges else replace(edge, created=found[node].edges[key].created)
                for key, edge in value.edges.items()
            }  # fmt: skip
            after[node] = replace(value, edges=edges, **dates)
        self.expect({**before, **after}, f"{method} {params}")
        self.learn(head)

    def forget(self) -> None:
        node, before, head = self.any(), self.state, self.head()
        self.house.call("agent.forget", node_id=node)
        self.expect({n: v for n, v in before.items() if n != node}, "forget")
        self.learn(head)
