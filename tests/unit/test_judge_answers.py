"""What a judge printed becomes items, whatever stands around its JSON; what does not fit is named."""

from __future__ import annotations

import json
import time
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.judge import answers
from ormahd.judge.port import Contrast, Duplicate, Linked, Summary
from tests.tables import rows

GOOD = {"q": 1, "kind": "none", "reason": "about {other} things"}
TWO = [GOOD, {"q": 2, "kind": "tension", "reason": 'he said "}" and left'}]
LIST = json.dumps({"answers": TWO})


def read(text: str) -> tuple[list[int], tuple[str, ...], bool]:
    found = answers.read(text, Contrast)
    return [item.q for item in found.items], found.faults, found.found


@pytest.mark.parametrize("text", rows(__file__, "the_answer_is_found_amid_anything"))
def test_the_answer_is_found_amid_anything(text: str) -> None:
    assert read(text) == ([1, 2], (), True)


@pytest.mark.parametrize(("text", "fault"), rows(__file__, "what_is_no_answer_is_said_to_be_none"))
def test_what_is_no_answer_is_said_to_be_none(text: str, fault: str) -> None:
    items, faults, found = read(text)
    assert (items, found) == ([], False)
    assert fault in faults[0]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"q": "1"}, "int"),
        ({"q": 1.5}, "int"),
        ({"kind": "maybe"}, "maybe"),
        ({"reason": None}, "str"),
        ({"confidence": 0.9}, "confidence"),
        ({"kind": ...}, "kind"),
    ],
)
def test_an_item_that_does_not_fit_is_named_and_the_others_count(change: dict[str, Any], fault: str) -> None:
    bad = {name: value for name, value in (GOOD | change).items() if value is not ...}
    items, faults, _ = read(json.dumps({"answers": [bad, TWO[1]]}))
    assert items == [2]
    assert len(faults) == 1
    assert fault in faults[0]


def test_of_half_an_answer_what_is_complete_counts() -> None:
    assert read(LIST[:-1]) == ([1, 2], (), True)
    items, faults, _ = read(LIST[:-20])
    assert items == [1]
    assert "complete" in faults[0]
    assert read("\n".join(map(json.dumps, TWO)))[0] == [1, 2]


def test_nothing_is_an_answer() -> None:
    assert read('{"answers": []}') == ([], (), True)
    assert read("[]") == ([], (), True)


def test_the_object_is_closed_too() -> None:
    items, faults, _ = read(json.dumps({"answers": TWO, "note": "x"}))
    assert items == [1, 2]
    assert faults == ("the object has 'note' beside 'answers'",)


def test_half_characters_are_replaced() -> None:
    (item,) = answers.read(r'{"answers": [{"q": 1, "kind": "none", "reason": "\ud83d and \udc00"}]}', Contrast).items
    assert item.reason == "\ufffd and \ufffd"


@pytest.mark.parametrize(
    "text",
    ["{" * 1_000_000, "[" * 1_000_000, '{"a":' * 200_000, '{"answers": [' + "{}," * 300_000, '"' * 1_000_000, "\\" * 1_000_000,
     '{"answers": [{"q": 1, "reason": "' + "x" * 1_000_000],
)  # fmt: skip
def test_hostile_text_is_read_in_bounded_time(text: str) -> None:
    begun = time.process_time()
    assert read(text)[0] == []
    assert time.process_time() - begun < 20  # it takes well under one; without bounds it would take hours


@given(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=60), st.text(alphabet='{}[]"\\:,answers q1', max_size=60)
)
def test_any_text_is_read_and_prose_before_an_answer_does_not_hide_it(text: str, noise: str) -> None:
    answers.read(text + noise, Contrast)
    said = json.dumps({"answers": [GOOD | {"reason": text}]})
    (item,) = answers.read(f"Well. {said}", Contrast).items
    assert item.reason == text


@pytest.mark.parametrize("item", [Duplicate, Linked, Contrast, Summary])
def test_the_schema_is_closed_and_says_what_is_read(item: Any) -> None:
    form = answers.schema(item)
    assert "$ref" not in json.dumps(form)
    inner = form["properties"]["answers"]["items"]
    assert form["additionalProperties"] is inner["additionalProperties"] is False
    assert set(inner["required"]) == set(inner["properties"]) == set(item.__struct_fields__)
    jsonschema.Draft202012Validator.check_schema(form)
    good = {
        "q": 1,
        "reason": "r",
        "same": True,
        "title": None,
        "content": "c",
        "kind": "none",
        "edge": "none",
        "type": "fact",
    }
    said = {"answers": [{name: good[name] for name in item.__struct_fields__}]}
    jsonschema.validate(said, form)
    assert len(answers.read(json.dumps(said), item).items) == 1
