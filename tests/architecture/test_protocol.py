"""PROTOCOL.md says what the code does."""

from __future__ import annotations

from typing import get_type_hints

from ormahd import api
from ormahd.actions.amend import Caller, Progress
from ormahd.rpc.document import FILE, current
from ormahd.rpc.handlers import HANDLERS, Parts
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


def test_every_handler_answers_its_method():
    """It takes the method's parameters, unless there are none, returns its result, and names what it gets by its type."""
    parts = get_type_hints(Parts) | {"caller": Caller, "progress": Progress}
    assert api.METHODS.keys() - HANDLERS.keys() == {"events.subscribe"}
    for method, handler in HANDLERS.items():
        params, result = api.METHODS[method]
        wanted = {"params": params, "return": result} if params is not api.NoParams else {"return": result}
        assert {name: kind for name, kind in get_type_hints(handler).items() if name not in parts} == wanted, method
        assert all(kind == parts[name] for name, kind in get_type_hints(handler).items() if name in parts), method
