"""A value that is not allowed is named with its key and with what is allowed, in words that no library wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ormahd import config, errors
from ormahd.actions.transfer import read_line
from ormahd.errors import BadRequest
from ormahd.model.node import CreateNodeRequest, SearchQuery
from ormahd.rpc.codec import JSON, read_call
from tests.tables import rows

LIBRARY = re.compile(
    r"Input should|\bextra\b|Field required|pydantic|msgspec|\bstr\b|\bint\b|\bNoneType\b|\bdict\b|instance|got `",
    re.IGNORECASE,
)


@pytest.mark.parametrize(
    ("model", "values", "said"),
    [
        *rows(__file__, "a_request_is_refused_in_our_words"),
        ("memory", {"content": None}, "content: null is not allowed; it must be text$"),
        (
            "memory",
            {"content": "x", "title": "t" * 9_999},
            r"title: 't+… is not allowed; it may have at most [\d,]+ characters$",
        ),
    ],
)
def test_a_request_is_refused_in_our_words(model: str, values: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest) as caught:
        (CreateNodeRequest if model == "memory" else SearchQuery).of(values)
    assert re.match(said, caught.value.message)
    assert not LIBRARY.search(f"{caught.value.message} {caught.value.hint or ''}")


@pytest.mark.parametrize(("values", "meant"), rows(__file__, "what_was_meant"))
def test_what_was_meant(values: dict[str, Any], meant: str | None) -> None:
    with pytest.raises(BadRequest) as caught:
        CreateNodeRequest.of(values)
    assert caught.value.hint == meant


@pytest.mark.parametrize(("text", "said"), rows(__file__, "a_line_of_an_import"))
def test_a_line_of_an_import(text: str, said: str | None) -> None:
    with pytest.raises(BadRequest) as caught:
        read_line(text)
    assert said is None or caught.value.message == said
    assert not LIBRARY.search(caught.value.message)


@pytest.mark.parametrize(("text", "environ", "message", "hint"), rows(__file__, "a_setting"))
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
