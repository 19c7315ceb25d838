"""What the gateway makes of the lines of an agent: messages, errors with the id of the request or null, and silence."""

from __future__ import annotations

import json

import mcp_types as types
import pytest

from ormahctl.gateway.session import Refusal, understood

DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("line", "code", "key", "said"),
    [
        (b"no json", -32700, None, "no JSON"),
        (b"", -32700, None, "no JSON"),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700, None, "UTF-8"),
        (DEEP, -32700, None, "deeply"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + DEEP + b"}}", -32700, None, "deeply"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"} {}', -32700, None, "no JSON"),
        (b'{"jsonrpc":"2.0","id":7.5,"method":"ping"}', -32600, None, "id"),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None, "id"),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None, "id"),
        (b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', -32600, None, "id"),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None, "batches"),
        (b"5", -32600, None, "object"),
        (b'{"jsonrpc":"2.0"}', -32600, None, "no JSON-RPC 2.0 request"),
        (b'{"jsonrpc":"2.0","method":5}', -32600, None, "no JSON-RPC 2.0 request"),
        (b'{"id":7,"method":"ping"}', -32600, 7, "no JSON-RPC 2.0 request"),
        (b'{"jsonrpc":"2.0","id":"a","method":"ping","params":[1]}', -32600, "a", "no JSON-RPC 2.0 request"),
        ('{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"), -32700, None, "no UTF-8"),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\\ud83d b"}}', -32700, 1, "surrogate pair (\\ud83d)"),
        (b'{"jsonrpc":"2.0","id":"\\udc00","method":"ping"}', -32700, None, "surrogate pair (\\udc00)"),
    ],
)
def test_what_is_no_message_is_answered(line: bytes, code: int, key: int | str | None, said: str) -> None:
    found = understood(line)
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
    assert isinstance(understood(line), kind)


@pytest.mark.parametrize(
    "line", [b'{"jsonrpc":"2.0","method":"x","params":[1]}', b'{"jsonrpc":"2.0","id":7.5,"result":{}}', b'{"error":1}']
)
def test_a_wrong_notification_or_answer_gets_none(line: bytes) -> None:
    assert understood(line) is None
