"""What a whisper leaves behind, without a process: nothing before the model is there; each memory logged once, as it was shown."""

from __future__ import annotations

from ormahd.actions.amend import Caller
from ormahd.actions.remember import store_memory
from ormahd.model.node import CreateNodeRequest, NodeType
from ormahd.ormah import Ormah
from ormahd.state import whispers
from ormahd.whisper.pipeline import Whisper
from ormahd.whisper.types import Asked, Silence

PERSON = Caller("person", None)


def store(ormah: Ormah, content: str, kind: NodeType = NodeType.FACT) -> str:
    return store_memory(ormah, CreateNodeRequest(content=content, type=kind, source="person"), PERSON).node_id


def test_until_the_model_is_there_nothing_is_said(ormah: Ormah) -> None:
    """Seeds: nothing where "there is no engine instance"; words alone are no measure for a gate."""
    store(ormah, "The ferry to the island leaves at noon.")
    asked = Asked("when does the ferry to the island leave?", None, "s")
    found = Whisper(ormah).whisper(asked)
    assert (found.text, found.silence, found.event) == ("", Silence.NOT_READY, None)
    ormah.warm()
    assert Whisper(ormah).whisper(asked).silence is None


def test_a_preference_that_is_found_both_ways_is_logged_as_it_was_shown(ormah: Ormah) -> None:
    ormah.warm()
    rule = store(ormah, "Ferry tickets are always booked with the island line.", NodeType.PREFERENCE)
    for number in range(3):
        store(ormah, f"The ferry to the island number {number} leaves at noon with cars.")
    found = Whisper(ormah).whisper(Asked("book ferry tickets with the island line", None, "s"))
    assert rule in [one.id for one in found.nodes]
    assert len({one.id for one in found.nodes}) == len(found.nodes)
    assert found.event is not None
    logged = [(one.node_id, one.shown) for one in whispers.shown_memories(ormah.state, [found.event])[found.event]]
    assert {one for one in logged if one[1] != "exploring"} == {(one.id, one.shown) for one in found.nodes}
    assert len(dict(logged)) == len(logged)
