"""Numbers up to the greatest and down to the least that PROTOCOL.md allows are taken, and none beyond."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from ormahd.api import METHODS
from ormahd.errors import BadRequest
from tests.house import House

GIVEN: dict[str, dict[str, Any]] = {"admin.import": {"lines": []}, "agent.work": {"kind": "how", "query": "build"}}
"""What a method needs beside its number."""


def numbers() -> Iterator[tuple[str, str, int, int]]:
    """Every (method, parameter, least, greatest) of whole numbers that have both."""
    for method, (params, _) in METHODS.items():
        found = msgspec.inspect.type_info(params)
        assert isinstance(found, msgspec.inspect.StructType)
        for one in found.fields:
            if isinstance(one.type, msgspec.inspect.IntType) and one.type.ge is not None and one.type.le is not None:
                yield method, one.encode_name, one.type.ge, one.type.le


NUMBERS = list(numbers())


@pytest.mark.parametrize(("method", "name", "least", "greatest"), NUMBERS, ids=str)
def test_what_is_declared_holds(shared: House, method: str, name: str, least: int, greatest: int) -> None:
    given = dict(GIVEN.get(method, {}))
    made = shared.call("agent.remember", content="Tapirs swim.", request_id="one")
    given |= {"history.show": {"op": made.op}, "history.life": {"node_id": made.node_id}}.get(method, {})
    for number in (least, greatest):
        shared.call(method, **given, **{name: number})
    for number in (least - 1, greatest + 1):
        with pytest.raises(BadRequest, match=name):
            shared.call(method, **given, **{name: number})
