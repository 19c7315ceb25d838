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
from tests.tables import rows
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


ARGUMENTS = {"properties": dict(rows(__file__, "arguments"))}

READ = [
    *rows(__file__, "read"),
    ({"text": "x", "number": None}, {"text": "x"}),
    ({"text": "x", "number_of_results": 3, "x" * 100_000: 1}, {"text": "x"}),
    ({"rows": [{"id": "a", "weight": None}]}, {"rows": [{"id": "a"}]}),
    ({"text": None, "list": None, "yes": None, "inner": None}, {}),
]


@pytest.mark.parametrize(("given", "found"), READ, ids=[str(one[0]) for one in READ])
def test_what_is_meant(given: dict[str, Any], found: dict[str, Any]) -> None:
    assert arguments.read(ARGUMENTS, given) == found


REFUSED = [
    *rows(__file__, "refused"),
    ({"inner": "x" * 100_000}, "'inner' is no object: \"x{78}…"),
    ({"inner": "[" * 100_000}, "'inner' is no object"),
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
