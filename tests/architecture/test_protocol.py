"""PROTOCOL.md says what the code does."""

from __future__ import annotations

from ormahd import api
from ormahd.errors import BY_CODE
from ormahd.rpc.document import FILE, current
from ormahd.rpc.pools import BULK, MAINTAINING, QUICK, WHISPERING, WRITING


def test_the_document_is_fresh():
    assert FILE.read_text("utf-8") == current(), "run: python -m ormahd.rpc.document"


def test_the_document_names_every_method_and_every_code():
    text = FILE.read_text("utf-8")
    assert [method for method in api.METHODS if f"### `{method}`" not in text] == []
    assert [code for code, kind in BY_CODE.items() if f"| `{code}` | {kind.exit_status} | " not in text] == []


def test_every_field_of_the_schema_can_be_explained():
    text = FILE.read_text("utf-8")
    for params, result in api.METHODS.values():
        assert all(f"| `{name}` |" in text for name in params.__struct_encode_fields__)
        assert f"### {result.__name__}\n" in text


def test_every_method_has_its_lane():
    pools = (QUICK, WHISPERING, WRITING, BULK, MAINTAINING)
    assert set(api.METHODS) <= frozenset().union(*pools), "say in rpc/pools.py who may wait for the new method"
    assert len(frozenset().union(*pools)) == sum(map(len, pools))
    assert {"admin.rebuild", "admin.verify", "admin.import", "admin.export"} <= BULK
    assert {"admin.run_task", "admin.run_all"} == MAINTAINING
    assert {method for method, (params, _) in api.METHODS.items() if "request_id" in params.__struct_fields__} - {
        "agent.maintenance"
    } <= WRITING, "a phase two may take as long as the night's jobs"
