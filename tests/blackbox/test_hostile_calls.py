"""Every method, asked badly: a clear error of the right code, the daemon lives, nothing changes (DESIGN 4, 7, 12)."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from ormahd import api, errors
from tests.house import House, open_house
from tests.tables import rows

NODE_METHODS = ("agent.get", "agent.update", "agent.forget", "agent.outdated")
IDS = ["", "*", "%", "____", "../../etc/passwd", "ab", "zzzz", "ffffffff", "f" * 5000, "0\n0000", "𝟙𝟚𝟛𝟜"]
WRITES: dict[str, dict[str, Any]] = dict(rows(__file__, "writes"))


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[House, dict[str, str]]]:
    with open_house() as house:
        house.start()
        note = house.call("agent.remember", content="the only note", title="Only")
        me = next(item["id"] for item in house.call("admin.export").items if item["type"] == "person")
        yield house, {"NOTE": note.node_id, "SELF": me}


@pytest.fixture(autouse=True)
def nothing_changes(place: tuple[House, dict[str, str]]) -> Iterator[None]:
    house, _ = place
    before = house.git("rev-parse", "HEAD"), house.notes()
    yield
    assert house.call("admin.health").phase == "ready"
    assert (house.git("rev-parse", "HEAD"), house.notes()) == before
    assert house.git("status", "--porcelain") == ""


def raw(house: House, method: Any, params: Any, **more: Any) -> dict[str, Any]:
    """One call in JSON, written by hand: the reply's `error`."""
    body = json.dumps({"id": 1, "method": method, "params": params, **more}).encode()
    return framed(house, b"j" + len(body).to_bytes(4, "big") + body)["error"]


def framed(house: House, frame: bytes) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(str(house.socket))
        sock.sendall(frame)
        head = b""
        while len(head) < 5:
            piece = sock.recv(5 - len(head))
            assert piece, "closed without a reply"
            head += piece
        body = b""
        while len(body) < int.from_bytes(head[1:], "big"):
            body += sock.recv(65536)
    return json.loads(body)


def named(values: dict[str, Any], known: dict[str, str]) -> dict[str, Any]:
    return {key: known.get(value, value) if isinstance(value, str) else value for key, value in values.items()}


@pytest.mark.parametrize("method", NODE_METHODS)
@pytest.mark.parametrize("node_id", IDS)
def test_ids_that_are_none(place: tuple[House, dict[str, str]], method: str, node_id: str) -> None:
    with pytest.raises((errors.BadRequest, errors.NotFound)) as caught:
        place[0].call(method, node_id=node_id)
    assert caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("node_id", IDS)
def test_ends_of_edges_that_are_none(place: tuple[House, dict[str, str]], node_id: str) -> None:
    house, known = place
    for source, target in ((node_id, known["NOTE"]), (known["NOTE"], node_id)):
        with pytest.raises((errors.BadRequest, errors.NotFound)):
            house.call("agent.connect", source_id=source, target_id=target)
    with pytest.raises((errors.BadRequest, errors.NotFound)):
        house.call("agent.remember", content="linked to nothing", links=[node_id])


def test_the_self_node_stays(place: tuple[House, dict[str, str]]) -> None:
    house, known = place
    for name in (known["SELF"], known["SELF"][:8], known["SELF"][:4]):
        with pytest.raises(errors.BadRequest, match="self"):
            house.call("agent.forget", node_id=name)
    with pytest.raises(errors.BadRequest, match="self"):
        house.call("agent.outdated", node_id=known["SELF"])
    for words in (("forget",), ("forget", "--purge", "--yes")):
        done = house.ctl(*words, known["SELF"][:8])
        assert done.returncode == 2
        assert "self" in done.stderr


@pytest.mark.parametrize("method", sorted(api.METHODS))
def test_fields_missing_wrong_and_unknown(place: tuple[House, dict[str, str]], method: str) -> None:
    house, _ = place
    params_type, _ = api.METHODS[method]
    required = [
        name for name, default in zip(params_type.__struct_fields__, _defaults(params_type), strict=True) if default
    ]
    if required:
        assert raw(house, method, {})["code"] == "bad_request"
    for wrong in (None, 7, "text", [], [{"nested": {}}]):
        if required or wrong is not None:  # null is no parameters
            answer = raw(house, method, wrong)
            assert answer["code"] == "bad_request", (wrong, answer)
    answer = raw(house, method, {"no_such_field": 1})
    assert answer["code"] == "bad_request"
    for name in params_type.__struct_fields__:
        answer = raw(house, method, {**dict.fromkeys(required, "x"), name: {"a": [1]}})
        assert answer["code"] == "bad_request", (name, answer)


def _defaults(kind: Any) -> list[bool]:
    import msgspec

    return [field.required for field in msgspec.structs.fields(kind)]


@pytest.mark.parametrize("method", sorted(WRITES))
@pytest.mark.parametrize("junk", ["with\x00nul", "\ud800lone", "x" * 1_500_000], ids=["NUL", "surrogate", "huge"])
def test_texts_that_cannot_be(place: tuple[House, dict[str, str]], method: str, junk: str) -> None:
    house, known = place
    for field, value in WRITES[method].items():
        if isinstance(value, str):
            answer = raw(house, method, named(WRITES[method], known) | {field: junk})
            assert answer["code"] in {"bad_request", "too_large", "not_found"}, (field, answer)
            assert len(answer["message"]) < 2000


@pytest.mark.parametrize(
    ("method", "params"),
    rows(__file__, "values_that_make_no_sense"),
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else value,
)
def test_values_that_make_no_sense(place: tuple[House, dict[str, str]], method: str, params: dict[str, Any]) -> None:
    house, known = place
    text = json.dumps(params).replace('"NULL"', "null")
    params = json.loads(text.replace('"NOTE"', f'"{known["NOTE"]}"').replace('"SELF"', f'"{known["SELF"]}"'))
    answer = raw(house, method, params)
    assert answer["code"] in {"bad_request", "not_found", "invalid_note"}, answer
    assert answer["message"]


def test_an_import_of_junk_names_every_line(place: tuple[House, dict[str, str]]) -> None:
    lines = ["", "not json", "[]", "7", "{}", '{"content": ""}', '{"content": 5}', '{"content": "x", "type": "wish"}',
             '{"content": "x", "surprise": 1}', '{"content": "a\\u0000b"}', "{" * 100_000, '{"content": "x", "id": "../../x"}']  # fmt: skip
    done = place[0].call("admin.import", lines=lines)
    assert (done.added, done.skipped) == (0, 0)
    assert [failure.line for failure in done.failed] == list(range(2, len(lines) + 1))
    assert all(failure.error for failure in done.failed)


def test_an_ambiguous_prefix_names_the_candidates() -> None:
    with open_house() as house:
        house.start()
        lines = [
            json.dumps({"content": f"note {n}", "id": f"abcd{n:04d}-1111-4222-8333-444444444444"}) for n in range(3)
        ]
        assert house.call("admin.import", lines=lines).added == 3
        with pytest.raises(errors.Ambiguous) as caught:
            house.call("agent.forget", node_id="abcd")
        assert len(caught.value.data["ids"]) == 3
        done = house.ctl("show", "abcd")
        assert done.returncode == 2
        assert "abcd0001" in done.stderr
