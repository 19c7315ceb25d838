"""Propose new memories: what another program remembered about the person, and what a session says that an agent could
act on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from ormahd.actions.amend import clean
from ormahd.actions.views import headline
from ormahd.errors import BadRequest
from ormahd.jobs.job import Ask, Edit, PlannedChange
from ormahd.jobs.proposals import Proposals, StoreOutcome
from ormahd.model.change import Kind
from ormahd.model.node import ABOUT_SELF, MAX_CONTENT, NodeType, NoteStanding, ProposalType, Tier
from ormahd.note.markdown import normalise
from ormahd.note.values import path_for
from ormahd.note.write import compose
from ormahd.ormah import Ormah
from ormahd.state.extraction import PlannedMemory

CONFIDENCE: Final = 0.8
"""Confidence of a memory that another program had stored and a person approved."""
SOURCE: Final = "system:export"


def propose_memory(ormah: Ormah, proposals: Proposals, title: str, text: str, kind: str, origin: str) -> bool:
    """Store a proposal to remember `text`, with secrets removed. Return False if it is already pending, decided or
    remembered.

    `kind`: the type of the memory. `origin`: where the text comes from, in words that fit after "It is among the".
    """
    title = clean(ormah, title, []) or ""
    text = normalise(clean(ormah, text, []) or "")[:MAX_CONTENT]
    if not text or ormah.index.find_equal(None, NodeType(kind), title, text) is not None:
        return False
    payload = {"title": title, "content": text, "type": kind}
    return _propose(ormah, proposals, payload, f"It is among the {origin}.")


def propose_learned(ormah: Ormah, proposals: Proposals, one: PlannedMemory) -> None:
    """Store a proposal to remember `one`, a memory found in a session."""
    fields = ("title", "content", "type", "space", "confidence", "source", "said_in", "because")
    payload = {name: getattr(one, name) for name in fields}
    payload |= {"tags": list(one.tags), "created": one.created.isoformat()}
    reason = (
        "It was said in a session, and has a command, a link or an order to the agent in it. Check that you said it."
    )
    _propose(ormah, proposals, payload, reason)


def _propose(ormah: Ormah, proposals: Proposals, payload: dict[str, Any], reason: str) -> bool:
    """Store the proposal to remember a text. Return False if it was proposed before, or too many proposals wait."""
    title, content = payload["title"], payload["content"]
    ask = Ask(ProposalType.MEMORY, (), f"Remember: {headline(title, content)}", reason, payload, preview=content)
    return proposals.store(ask, ormah.new_run(), dry=False) is StoreOutcome.NEW


def new_memory(ormah: Ormah, payload: Mapping[str, Any]) -> PlannedChange:
    """Return the change that stores an approved memory.

    Raises:
        BadRequest: the payload was made by neither `propose_memory` nor `propose_learned`.
    """
    title, content, because = payload.get("title"), payload.get("content"), payload.get("because")
    if not isinstance(content, str) or payload.get("type") not in set(NodeType):
        raise BadRequest("the proposal has no text or no type of memory")
    kind, title = NodeType(payload["type"]), title if isinstance(title, str) and title else None
    text: dict[str, Any] = {"type": kind, "space": payload.get("space"), "title": title, "content": normalise(content)}

    def edits() -> Sequence[Edit]:
        """Return the edit that creates the note; none if the same memory is stored by now."""
        if ormah.index.find_equal(text["space"], kind, title, text["content"]) is not None:
            return []
        now, tags = ormah.moment(), payload.get("tags", [])
        names = text | {"id": ormah.index.new_id(), "created": now}
        if payload.get("created"):
            names["created"] = datetime.fromisoformat(payload["created"])
        data = compose(
            tier=Tier.WORKING,
            tags=tags,
            source=payload.get("source", SOURCE),
            confidence=payload.get("confidence", CONFIDENCE),
            updated=now,
            everywhere=ABOUT_SELF in tags,
            said_in=payload.get("said_in"),
            standing=NoteStanding.REJECTED if because else None,
            because=because or None,
            **names,
        )
        return [Edit(names["id"], path_for(**names), data, None)]

    return PlannedChange(Kind.REMEMBER, f"Remember: {headline(title, text['content'])}", "", edits, {})
