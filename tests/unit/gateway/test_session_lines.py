"""What the gateway makes of the lines of an agent: messages, errors with the id of the request or null, and silence."""

from __future__ import annotations

import json

import mcp_types as types
import pytest

from ormahctl.gateway.session import Refusal, read_message
from tests.tables import rows

DEEP = "[" * 100_000 + "]" * 100_000
NESTED = (DEEP, f'{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{DEEP}}}}}')


@pytest.mark.parametrize(
    ("line", "code", "said", "key"),
    [*rows(__file__, "what_is_no_message_is_answered"), *((line, -32700, "deeply", None) for line in NESTED)],
)
def test_what_is_no_message_is_answered(line: str, code: int, said: str, key: int | str | None) -> None:
    found = read_message(line.encode("latin-1"))
    assert isinstance(found, Refusal)
    sent = json.loads(found.error.model_dump_json(by_alias=True, exclude_unset=True))
    assert (sent["error"]["code"], sent["id"]) == (code, key)
    assert said in sent["error"]["message"]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', types.JSONRPCRequest),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}', types.JSONRPCRequest),
        (b'{"jsonrpc":"2.0","id":"\\u00e9","method":"ping","params":{"id":7.5}}', types.JSONRPCRequest),
        (b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"id":7.5}}', types.JSONRPCNotification),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\\ud83d\\ude00 \\\\ud83d"}}', types.JSONRPCRequest),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', types.JSONRPCResponse),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}', types.JSONRPCError),
    ],
)
def test_messages_are_passed_on(line: bytes, kind: type) -> None:
    assert isinstance(read_message(line), kind)


@pytest.mark.parametrize(
    "line", [b'{"jsonrpc":"2.0","method":"x","params":[1]}', b'{"jsonrpc":"2.0","id":7.5,"result":{}}', b'{"error":1}']
)
def test_a_wrong_notification_or_answer_gets_none(line: bytes) -> None:
    assert read_message(line) is None
