"""PROTOCOL.md says what the code does."""

from __future__ import annotations

from ormahd import api
from ormahd.rpc.document import FILE, current
from ormahd.rpc.pools import BULK, MAINTAINING, WHISPERING, WRITING


def test_the_document_is_fresh():
    assert FILE.read_text("utf-8") == current(), "run: python -m ormahd.rpc.document"


def test_every_method_has_its_lane():
    named = (WHISPERING, WRITING, BULK, MAINTAINING)
    assert frozenset().union(*named) - {"hook"} <= set(api.METHODS)
    assert len(frozenset().union(*named)) == sum(map(len, named))
    assert {method for method, (params, _) in api.METHODS.items() if "request_id" in params.__struct_fields__} - {
        "agent.maintenance"
    } <= WRITING, "a phase two may take as long as the night's jobs"
