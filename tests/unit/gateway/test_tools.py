"""What clients see of the tools: schemas that all of them take, texts that none of them cuts; and what arguments mean."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ormahctl.gateway import arguments, readable
from ormahctl.gateway.tools import ACTS, WORDS, schema
from ormahd.api import MaintenanceParams, RecallResult
from ormahd.model.node import EdgeType, NodeType, Tier
from ormahd.rpc.wire import BadRequest
from tests.unit.ctl_desk import hit

LONGEST = 2_000
"""Bytes at which Claude Code cuts a description."""
KEYS = {"type", "description", "properties", "required", "items", "enum", "minimum", "maximum"}


TOOLS = WORDS["tools"]


@pytest.mark.parametrize("name", ACTS)
def test_every_client_takes_the_schema(name: str) -> None:
    def check(found: dict[str, Any]) -> None:
        assert found.keys() <= KEYS, "no references, unions, or nullable types"
        assert isinstance(found["type"], str)
        if found["type"] == "object":
            assert found["properties"], "some clients refuse an object without properties"
            assert set(found.get("required", [])) <= found["properties"].keys()
            assert found.get("required") != [], "some clients refuse an empty list"
            for one in found["properties"].values():
                assert one["description"]
                check(one)
        if found["type"] == "array":
            check(found["items"])
        assert all(isinstance(one, str) for one in found.get("enum", []))

    whole = schema(name)
    assert whole["type"] == "object"
    check(whole)
    assert name.replace("_", "").isalpha()
    assert name.islower()


def test_texts_are_not_cut_and_begin_with_the_occasion() -> None:
    for tool in TOOLS.values():
        assert len(tool["description"].encode()) < LONGEST
        first = tool["description"].splitlines()[0]
        assert first.startswith("Use ")
        assert len(first) < 130
    assert len(WORDS["instructions"].encode()) < LONGEST


def test_the_words_are_those_of_the_vault() -> None:
    assert TOOLS.keys() == ACTS.keys()
    given = TOOLS["remember"]["properties"]
    assert set(given["type"]["enum"]) == {one.value for one in NodeType}
    assert set(given["tier"]["enum"]) == {one.value for one in Tier}


def test_every_kind_of_verdict_can_be_sent() -> None:
    lists = {field.name for field in msgspec.structs.fields(MaintenanceParams)} - {"results", "request_id"}
    results = TOOLS["run_maintenance"]["properties"]["results"]["properties"]
    assert results.keys() == lists
    edges = results["edges"]["items"]["properties"]["edge_type"]["enum"]
    assert set(edges) <= {one.value for one in EdgeType} | {"none"}


def _list(**items: Any) -> dict[str, Any]:
    return {"type": "array", "description": "A list.", "items": items}


ARGUMENTS: dict[str, Any] = {
    "properties": {
        "text": {"type": "string", "description": "A text."},
        "word": {"type": "string", "description": "A word.", "enum": ["one", "two"]},
        "number": {"type": "integer", "description": "A number.", "minimum": 1, "maximum": 9},
        "share": {"type": "number", "description": "A share.", "minimum": 0, "maximum": 1},
        "yes": {"type": "boolean", "description": "Whether."},
        "list": _list(type="string", enum=["one", "two"]),
        "numbers": _list(type="integer"),
        "rows": _list(
            type="object",
            properties={"id": {"type": "string"}, "weight": {"type": "number"}, "turns": _list(type="integer")},
        ),
        "inner": {
            "type": "object", "description": "More.", "required": ["id"],
            "properties": {"id": {"type": "string", "description": "Its id."}},
        },
    }
}  # fmt: skip

READ: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"text": "x", "number": None}, {"text": "x"}),
    ({"number": "3"}, {"number": 3}),
    ({"number": 3.0}, {"number": 3}),
    ({"share": "0.5"}, {"share": 0.5}),
    ({"share": 1}, {"share": 1}),
    ({"yes": "True"}, {"yes": True}),
    ({"list": "one"}, {"list": ["one"]}),
    ({"list": '["one", "two"]'}, {"list": ["one", "two"]}),
    ({"list": ""}, {"list": []}),
    ({"rows": [{"id": "a", "more": 1}]}, {"rows": [{"id": "a", "more": 1}]}),
    ({"rows": [{"weight": "0.5", "turns": ["2", 3]}]}, {"rows": [{"weight": 0.5, "turns": [2, 3]}]}),
    ({"rows": [{"weight": "much", "turns": ["a"]}]}, {"rows": [{"weight": "much", "turns": ["a"]}]}),
    ({"numbers": "[1, 2]"}, {"numbers": [1, 2]}),
    ({"numbers": ["1"]}, {"numbers": [1]}),
    ({"numbers": "1"}, {"numbers": [1]}),
    ({"inner": '{"id": "a"}'}, {"inner": {"id": "a"}}),
    ({"text": "3"}, {"text": "3"}),
    ({"text": "x", "toolCallId": "call_1", "wait_for_previous": False}, {"text": "x"}),
    ({"text": "x", "sessionId": "3f", "action": "sendMessage", "chatInput": "y"}, {"text": "x"}),
    ({"text": "x", "_meta": {"a": 1}, "id": "1", "t": 1, "context": "c", "reasoning": "r"}, {"text": "x"}),
    ({"text": "x", "number_of_results": 3, "x" * 100_000: 1}, {"text": "x"}),
    ({"rows": [{"id": "a", "weight": None}]}, {"rows": [{"id": "a"}]}),
    ({"text": None, "list": None, "yes": None, "inner": None}, {}),
]


@pytest.mark.parametrize(("given", "found"), READ, ids=[str(one[0]) for one in READ])
def test_what_is_meant(given: dict[str, Any], found: dict[str, Any]) -> None:
    assert arguments.read(ARGUMENTS, given) == found


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"text": 3}, "'text' is no string: 3"),
    ({"number": 3.5}, "'number' is no integer: 3.5"),
    ({"number": True}, "'number' is no integer: true"),
    ({"number": 10}, "'number' is 10"),
    ({"share": "much"}, "'share' is no number"),
    ({"yes": "maybe"}, "'yes' is no boolean"),
    ({"word": "three"}, "'word' is \"three\""),
    ({"list": ["three"]}, "'list\\[0\\]' is \"three\""),
    ({"list": [["one"]]}, "'list\\[0\\]' is no string"),
    ({"list": {"one": 1}}, "'list' is no array"),
    ({"rows": ["a"]}, "'rows\\[0\\]' is no object"),
    ({"inner": {}}, "'id' is missing"),
    ({"inner": "x" * 100_000}, "'inner' is no object: \"x{78}…"),
    ({"inner": "[" * 100_000}, "'inner' is no object"),
    *(
        ({name: "x"}, f"no argument '{name}'")
        for name in ("texts", "Text", "txet", "tex", "nunber", "numbr", "wrod", "YES", "liszt")
    ),
    ({"inner": {"id": "a", "ids": 1}}, "no argument 'ids'"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED, ids=[one[1][:30] for one in REFUSED])
def test_what_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        arguments.read(ARGUMENTS, given)


def test_a_memory_without_a_title_is_named_by_whole_words() -> None:
    assert readable.named("Tabs,\nnot spaces.") == "Tabs, not spaces."
    long = "We chose PostgreSQL 16 for the ledger service because of logical replication"
    assert readable.named(long) == "We chose PostgreSQL 16 for the ledger service because of logical …"


@pytest.mark.parametrize(
    ("title", "content", "head"),
    [
        (None, "The shop is translated into German and Dutch by the agency Lingua.", "1. The shop"),
        ("The van is parked in the…", "The van is parked in the yard.", "1. The van is parked in the yard."),
        ("Orion", "Orion takes the backup of every night.", "1. Orion\n"),
    ],
)
def test_recall_says_a_memory_once(title: str | None, content: str, head: str) -> None:
    text = readable.recall(RecallResult("", [hit(title=title, content=content, excerpt=content)]), "q")
    assert text.startswith(head)
    assert text.count(content) == 1
