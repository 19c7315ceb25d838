"""A value that is not allowed is named with its key and with what is allowed, in words that no library wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from ormahd import config, errors
from ormahd.actions.transfer import read_line
from ormahd.errors import BadRequest
from ormahd.model.node import CreateNodeRequest, SearchQuery
from ormahd.rpc.codec import JSON, read_call

LIBRARY = re.compile(
    r"Input should|\bextra\b|Field required|pydantic|msgspec|\bstr\b|\bint\b|\bNoneType\b|\bdict\b|instance|got `",
    re.IGNORECASE,
)


@pytest.mark.parametrize(
    ("model", "values", "said"),
    [
        (CreateNodeRequest, {}, "content: is missing"),
        (CreateNodeRequest, {"content": " "}, "content: an empty memory cannot be stored"),
        (CreateNodeRequest, {"content": 5}, "content: 5 is not allowed; it must be text"),
        (CreateNodeRequest, {"content": None}, "content: null is not allowed; it must be text"),
        (CreateNodeRequest, {"content": "x", "tier": "wrking"}, "tier: 'wrking' is not allowed; it may be core, working or archival"),
        (CreateNodeRequest, {"content": "x", "confidence": 3}, "confidence: 3 is not allowed; it may be at most 1.0"),
        (CreateNodeRequest, {"content": "x", "confidence": "much"}, "confidence: 'much' is not allowed; it must be a number"),
        (CreateNodeRequest, {"content": "x", "tags": "a"}, "tags: 'a' is not allowed; it must be a list"),
        (CreateNodeRequest, {"content": "x", "tags": ["a", ""]}, "tags[1]: '' is not allowed; it must not be empty"),
        (CreateNodeRequest, {"content": "x", "space": {"a": 1}}, "space: a map is not allowed; it must be text"),
        (CreateNodeRequest, {"content": "x", "title": "t" * 9_999}, re.compile(r"title: 't+… is not allowed; it may have at most [\d,]+ characters")),
        (CreateNodeRequest, {"content": "x", "about_self": "perhaps"}, "about_self: 'perhaps' is not allowed; it must be true or false"),
        (CreateNodeRequest, {"content": "x", "created": "soon"}, "created: 'soon' is not allowed; it must be a time, such as 2026-11-21 or 2026-11-21T20:00:00Z"),
        (CreateNodeRequest, {"content": "x", "colour": "red"}, "colour: there is no such field"),
        (CreateNodeRequest, {"content": "x", "connections": [{"target": "1a2b", "edge": "suports"}]}, re.compile(r"connections\[0\]\.edge: 'suports' is not allowed; it may be supports, ")),
        (SearchQuery, {"query": "x", "limit": 0}, "limit: 0 is not allowed; it must be at least 1"),
        (SearchQuery, {"query": "x", "types": ["fat"]}, re.compile(r"types\[0\]: 'fat' is not allowed; it may be fact, ")),
    ],
)  # fmt: skip
def test_a_request_is_refused_in_our_words(
    model: type[BaseModel], values: dict[str, Any], said: str | re.Pattern[str]
) -> None:
    with pytest.raises(BadRequest) as caught:
        model.of(values)
    message = caught.value.message
    assert said.fullmatch(message) or said.match(message) if isinstance(said, re.Pattern) else message == said
    assert not LIBRARY.search(f"{message} {caught.value.hint or ''}")


@pytest.mark.parametrize(
    ("values", "meant"),
    [
        ({"content": "x", "type": "fat"}, "did you mean fact?"),
        ({"content": "x", "tier": "archive"}, "did you mean archival?"),
        ({"content": "x", "connections": [{"target": "1a2b", "edge": "suports"}]}, "did you mean supports?"),
        ({"content": "x", "type": "zzz"}, None),
    ],
)
def test_what_was_meant(values: dict[str, Any], meant: str | None) -> None:
    with pytest.raises(BadRequest) as caught:
        CreateNodeRequest.of(values)
    assert caught.value.hint == meant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", 'a line must be a JSON object, such as {"content": "…"}; this one is a list of 1'),
        ("7", 'a line must be a JSON object, such as {"content": "…"}; this one is 7'),
        ('{"contnt": "x"}', "contnt: there is no such field"),
        ('{"content": "x", "teir": "core"}', "teir: there is no such field"),
        ('{"content": "x", "type": "fat"}', None),
        ("nope", "not valid JSON: Expecting value, at character 1"),
        ('{"content": "x", "tags": ["a", 1]}', "tags[1]: 1 is not allowed; it must be text"),
        (
            '{"content": "x", "connections": [{"id": "1a2b3c4d"}]}',
            "connections[0].id: there is no such field",
        ),
        (
            '{"content": "x", "connections": [{"edge": "supports"}]}',
            "connections[0].target: is missing",
        ),
        (
            '{"content": "x", "connections": ["1a2b3c4d"]}',
            "connections[0]: '1a2b3c4d' is not allowed; it must be a map of fields",
        ),
        (
            '{"content": "x", "connections": {"out": []}}',
            "connections: a map is not allowed; it must be a list",
        ),
        (
            '{"content": "x", "connections": [{"target": "1a2b"}, {"target": "1a2b", "weight": 3}]}',
            "connections[1].weight: 3 is not allowed; it may be at most 1.0",
        ),
    ],
)
def test_a_line_of_an_import(text: str, said: str | None) -> None:
    with pytest.raises(BadRequest) as caught:
        read_line(text)
    assert said is None or caught.value.message == said
    assert not LIBRARY.search(caught.value.message)


@pytest.mark.parametrize(
    ("text", "environ", "message", "hint"),
    [
        ("[linking]\nsimilarity = 700", {}, "linking.similarity (in FILE): 700 is not allowed; it may be at most", "by default"),
        ("[linking]\nsimilarity = nan", {}, "linking.similarity (in FILE): nan is not allowed; it must be a finite number", "by default"),
        ("[whisper]\nmax_nodess = 1", {}, "there is no setting 'whisper.max_nodess'", "did you mean whisper.max_nodes?"),
        ("[wisper]\nmax_nodes = 1", {}, "there is no setting 'wisper.max_nodes'", "did you mean whisper.max_nodes?"),
        ("wisper = 1", {}, "there is no setting 'wisper'", "did you mean whisper"),
        ("[vault]\nmax_nodes = 1", {}, "there is no setting 'vault.max_nodes'", "did you mean whisper.max_nodes?"),
        ("", {"ORMAH_WHISPER_MAX_NODES": "many"}, "whisper.max_nodes (in ORMAH_WHISPER_MAX_NODES): 'many' is not allowed; it must be a", "by default"),
        ("", {"ORMAH_WISPER_MAX_NODES": "1"}, "ORMAH_WISPER_MAX_NODES in the environment is no setting", "did you mean ORMAH_WHISPER_MAX_NODES?"),
        ("", {"ORMAH_SPCE": "x"}, "ORMAH_SPCE in the environment is no setting", "did you mean ORMAH_SPACE?"),
    ],
)  # fmt: skip
def test_a_setting(tmp_path: Path, text: str, environ: dict[str, str], message: str, hint: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(BadRequest) as caught:
        config.load(file, environ)
    assert message.replace("FILE", str(file)) in caught.value.message
    assert hint in (caught.value.hint or "")
    assert not LIBRARY.search(f"{caught.value.message} {caught.value.hint}".replace(str(tmp_path), ""))


def test_a_call_of_the_wrong_shape() -> None:
    body = json.dumps({"method": "agent.recall", "id": 1, "params": {"query": 5}}).encode()
    with pytest.raises(BadRequest) as caught:
        read_call(JSON, body)
    assert caught.value.message == "agent.recall: query: expected text, got a whole number"


def test_every_setting_is_refused_in_our_words() -> None:
    """Of any setting: a value that no setting takes is answered without a word of pydantic's."""
    for group, name in list(config.keys()):
        with pytest.raises(ValidationError) as caught:
            config.Settings.model_validate({group: {name: [{"no": object}]}})
        found = errors.fault(caught.value)
        assert found.key.startswith(f"{group}.{name}")
        assert "another kind" not in found.what, (group, name, caught.value)
        assert not LIBRARY.search(found.what), found.what
