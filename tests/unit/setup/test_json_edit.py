"""Editing JSON by splices: whatever the layout, what others wrote keeps its bytes, and each edit can be taken back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahctl.setup.edit import HandlerPlace, Json
from ormahctl.setup.file import InvalidSettings, apply, reverse
from tests.tables import rows
from tests.unit.setup.settings_files import files

HANDLER = {"type": "command", "command": "ours", "timeout": 5}


def add(data: bytes, event: str = "Stop", handler: dict[str, Any] = HANDLER) -> bytes:
    return apply(data, Json.parse(data).append(("hooks", event), {"hooks": [handler]}))


@given(files())
def test_a_hook_is_added_and_every_byte_that_was_there_stays(data: bytes) -> None:
    before = Json.parse(data)
    edits = before.append(("hooks", "Stop"), {"hooks": [HANDLER]})
    after = Json.parse(apply(data, edits))
    expected = json.loads(json.dumps(before.value))
    expected.setdefault("hooks", {}).setdefault("Stop", []).append({"hooks": [HANDLER]})
    assert after.value == expected
    assert list(after.value) == list(expected)
    assert all(not edit.removed.strip() for edit in edits), "only white space before a closing bracket may be replaced"
    assert apply(after.data, reverse(edits)) == data


@given(files())
def test_a_hook_that_was_added_is_taken_out_by_its_place(data: bytes) -> None:
    before = Json.parse(data)
    after = Json.parse(add(data))
    place = HandlerPlace("Stop", len(after.value["hooks"]["Stop"]) - 1, 0)
    left = Json.parse(apply(after.data, after.drop(place)))
    events = {event: groups for event, groups in before.value.get("hooks", {}).items() if groups or event != "Stop"}
    rest = {key: one for key, one in before.value.items() if key != "hooks"}
    assert left.value == (rest | {"hooks": events} if events else rest)
    assert _comments(left.data) == _comments(data)


def _comments(data: bytes) -> bytes:
    """What a file has beside its values, commas and white space."""
    document = Json.parse(data)
    ours = zip(document.data, document.bare, strict=True)
    return bytes(byte for byte, bare in ours if byte != bare)


@given(files(), st.sampled_from(["new", "much longer than what was there before", 'with "quotes" // and slashes']))
def test_a_hook_is_exchanged_in_place(data: bytes, command: str) -> None:
    start = Json.parse(add(data, handler={"type": "command", "command": "old", "args": ["a"]}))
    place = HandlerPlace("Stop", len(start.value["hooks"]["Stop"]) - 1, 0)
    wanted = {"type": "command", "command": command, "timeout": 5}
    edits = start.change(place, wanted)
    after = Json.parse(apply(start.data, edits))
    assert after.value["hooks"]["Stop"][place.group]["hooks"] == [wanted]
    assert apply(after.data, reverse(edits)) == start.data
    assert after.change(place, wanted) == []


GROUP = '{\n  "hooks": [\n    {\n      "a": 1\n    }\n  ]\n}'


@pytest.mark.parametrize(
    ("before", "after", "indent"), rows(__file__, "it_is_written_in_the_lines_and_indents_of_the_file")
)
def test_it_is_written_in_the_lines_and_indents_of_the_file(before: str, after: str, indent: int) -> None:
    wanted = after.replace("GROUP", GROUP.replace("\n", "\n" + " " * indent))
    newline = "\r\n" if "\r\n" in before else "\n"
    wanted = wanted.replace("\r\n", "\n").replace("\n", newline)
    assert add(before.encode(), handler={"a": 1}).decode() == wanted


@pytest.mark.parametrize(
    ("data", "place", "says"),
    [*rows(__file__, "what_is_no_json_is_refused_with_its_place"), ('{"a":' * 200_000, "", "nested too deeply")],
)
def test_what_is_no_json_is_refused_with_its_place(data: str, place: str, says: str) -> None:
    with pytest.raises(InvalidSettings) as failed:
        Json.parse(data.encode("latin-1"))
    assert place in failed.value.message
    assert says in failed.value.message


def test_of_two_members_with_one_name_the_last_counts() -> None:
    after = add(b'{"hooks": {"Stop": [1]}, "hooks": {"Stop": [2]}}', handler={"a": 1})
    assert after.startswith(b'{"hooks": {"Stop": [1]}, "hooks": {"Stop": [2,\n')


def test_strings_are_no_comments() -> None:
    data = rb'{"a": "// \" /* ", "b": "*/ , ]", "c": [",", "x",]}'
    assert Json.parse(data).value == {"a": '// " /* ', "b": "*/ , ]", "c": [",", "x"]}


@pytest.mark.parametrize(
    ("before", "number", "after"), rows(__file__, "an_element_goes_with_its_comma_and_nothing_else")
)
def test_an_element_goes_with_its_comma_and_nothing_else(before: str, number: int, after: str) -> None:
    data, expected = (f'{{"hooks": {{"Stop": [{{"hooks": {text}}}, 3]}}}}'.encode() for text in (before, after))
    edits = Json.parse(data).drop(HandlerPlace("Stop", 0, number))
    assert apply(data, edits) == expected
