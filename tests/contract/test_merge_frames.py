"""Frames of git's merge driver: three versions in, one back, on the wire of a real server."""

from __future__ import annotations

import socket
from datetime import UTC, datetime

import pytest

from ormahd.note.edit import edit
from ormahd.note.write import compose
from ormahd.rpc.codec import MERGE, Frames, pack
from tests.contract.serving import serving

PATH = "fact/2026-11/fact_uv-is-fast_97acbe8e.md"
ID, OTHER = "97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1", "11111111-6d0a-4c1e-9a55-0a52b0f4f9d1"
NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)


def ask(server, body: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(20)
        channel.connect(str(server.path))
        channel.sendall(pack(MERGE, body))
        frames = Frames()
        while (frame := frames.next()) is None:
            piece = channel.recv(1 << 16)
            assert piece, "closed without a reply"
            frames.feed(piece)
        assert frame[0] == MERGE
        return frame[1]


def request(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def cut(reply: bytes) -> tuple[bytes, str, bytes]:
    end = 5 + int.from_bytes(reply[1:5], "big")
    return reply[:1], reply[5:end].decode(), reply[end:]


def note(node_id: str = ID) -> bytes:
    return compose(
        id=node_id, type="fact", tier="working", space="ormah", title="uv is fast", tags=["a"], source="agent:x",
        confidence=1.0, created=NOW, updated=NOW, content="one",
    )  # fmt: skip


BASE = note()


def changed(**fields: object) -> bytes:
    return edit(BASE, PATH, set=fields)


def test_edits_of_different_fields_come_back_as_one_note():
    with serving() as server:
        mark, words, data = cut(ask(server, request(PATH.encode(), BASE, changed(title="uv"), changed(tags=["b"]))))
    assert (mark, words) == (b"=", "")
    assert data == edit(changed(title="uv"), PATH, set={"tags": ["b"]})


def test_a_conflict_names_its_fields_and_gives_both_sides_with_the_rest_merged():
    ours, theirs = changed(title="quick", source="agent:y"), changed(title="swift", source="agent:z", tags=["b"])
    with serving() as server:
        mark, words, data = cut(ask(server, request(PATH.encode(), BASE, ours, theirs)))
    assert mark == b"!"
    assert words == f"ormah: {PATH}: both sides changed source and title; both versions stand in the file\n"
    assert data == request(changed(title="quick", source="agent:y", tags=["b"]), theirs)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_another_notes_version_is_refused(which: int):
    versions = [BASE, changed(title="uv"), changed(tags=["b"])]
    versions[which] = edit(note(OTHER), PATH, set={"title": "uv is fast indeed"})
    with serving() as server:
        mark, words, data = cut(ask(server, request(PATH.encode(), *versions)))
    assert (mark, data) == (b"x", b"")
    assert "97acbe8e" in words
    assert "11111111" in words


def test_what_is_no_note_merges_as_text_and_lines_of_ours_as_a_set():
    with serving() as server:
        text = cut(ask(server, request(b"README.md", b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\nC\n")))
        lines = cut(ask(server, request(b".ormah/strength.jsonl", b"", b'{"id":"b"}\n', b'{"id":"a"}\n')))
    assert text == (b"=", "", b"A\nb\nC\n")
    assert lines == (b"=", "", b'{"id":"a"}\n{"id":"b"}\n')


def test_a_path_that_would_write_over_the_terminal_is_shown_harmless():
    with serving() as server:
        _, words, _ = cut(ask(server, request(b"a\x1b[2J\xff.md", b"a\n", b"b\n", b"c\n")))
    assert words.startswith("ormah: a?[2J?.md: both sides changed text")


@pytest.mark.parametrize(
    "body", [b"", b"x", request(b"a.md", b"b", b"c"), request(b"a", b"b", b"c", b"d") + b"e", b"\xff" * 16]
)
def test_a_body_that_is_none_gets_an_empty_reply_and_the_connection_lives(body: bytes):
    with serving() as server:
        assert ask(server, body) == b""
        assert server.counts["faults"] == 1
        assert ask(server, request(b"a.md", b"a", b"b", b"b"))[:1] == b"="
