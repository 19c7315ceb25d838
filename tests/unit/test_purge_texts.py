"""Texts without a memory: its edges, links, ids and secrets go, and nothing else."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ormahd.git import commit_message
from ormahd.model.node import EdgeType
from ormahd.note.edit import edit
from ormahd.note.forgetting import PURGED, Forgotten
from ormahd.note.read import parse
from ormahd.note.values import NoteKind, NoteLink
from ormahd.note.write import compose
from tests.tables import rows

GOING, STAYING = "1a2b3c4d-0000-4000-8000-000000000001", "9f8e7d6c-0000-4000-8000-000000000002"
NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)
PATH = "work/fact/2026-11/fact_other_9f8e7d6c.md"
FORGOTTEN = Forgotten(GOING, names=("the red door",))


def note(content: str, node_id: str = STAYING, **fields: object) -> bytes:
    given = {"type": "fact", "tier": "working", "space": "work", "title": "Other", "tags": [], "source": "agent:x",
             "confidence": 1.0, "created": NOW, "updated": NOW} | fields  # fmt: skip
    return compose(id=node_id, content=content, **given)  # type: ignore[arg-type]


def linked(data: bytes, target: str, edge: EdgeType = EdgeType.SUPPORTS) -> bytes:
    return edit(data, PATH, link=[NoteLink(edge, target, 0.8, NOW, "why it is so")])


def test_an_edge_goes_with_all_that_is_said_of_it() -> None:
    before = linked(note("Text."), "fact_b_22222222")
    data = linked(linked(before, "fact_red-door_1a2b3c4d"), "fact_red-door_1a2b3c4d", EdgeType.RELATED_TO)
    assert FORGOTTEN.mentions(data) == 4
    assert parse(FORGOTTEN.without(PATH, data), PATH).links == parse(before, PATH).links
    assert FORGOTTEN.without(PATH, linked(note("Text."), "fact_red-door_1a2b3c4d")) == note("Text.")


@pytest.mark.parametrize(("text", "left"), rows(__file__, "words_that_name_it"))
def test_words_that_name_it(text: str, left: str) -> None:
    assert FORGOTTEN.mentions(text.encode())
    assert FORGOTTEN.without("x.md", text.encode()) == left.encode()
    assert parse(FORGOTTEN.without(PATH, note(text)), PATH).content == left
    assert not FORGOTTEN.mentions(left.encode())


@pytest.mark.parametrize("text", rows(__file__, "words_that_only_look_alike"))
def test_words_that_only_look_alike(text: str) -> None:
    assert not FORGOTTEN.mentions(text.encode())
    assert FORGOTTEN.without("x.md", text.encode()) == text.encode()


def test_bytes_that_it_is_not_about_stay() -> None:
    odd = (
        b"\xef\xbb\xbf---\r\nid: "
        + STAYING.encode()
        + b"\r\nx: 'y'   # why\r\n---\r\nbad \xff [[fact_a_1a2b3c4d]]\r\n\r\n"
    )
    assert FORGOTTEN.without(PATH, odd) == odd.replace(b"[[fact_a_1a2b3c4d]]", PURGED.encode())


def test_a_note_that_cannot_be_edited_by_line_loses_the_words() -> None:
    broken = b"---\nid: x\nsupports: [[[fact_a_1a2b3c4d\n---\nText."
    assert FORGOTTEN.without(PATH, broken) == b"---\nid: x\nsupports: [[[(purged)\n---\nText."


def test_lines_of_ours_that_name_it_go_whole() -> None:
    lines = [f'{{"id": "a", "node": "{GOING}", "prompt": "p"}}\n', f'{{"id": "b", "node": "{STAYING}"}}\n']
    data = "".join(lines).encode()
    assert FORGOTTEN.without(".ormah/feedback/2026-11.jsonl", data) == lines[1].encode()
    assert FORGOTTEN.without("notes/mine.jsonl", data) == data.replace(GOING.encode(), PURGED.encode())


def test_a_secret_in_all_its_spellings() -> None:
    forgotten = Forgotten(None, secrets=("p\"w'x-ö",))
    data = note("it is p\"w'x-ö!", title="p\"w'x-ö")
    line = b'{"id": "a", "prompt": "p\\"w\'x-\\u00f6"}\n'
    left = forgotten.without(PATH, data)
    assert forgotten.mentions(left) == 0
    assert parse(left, PATH).content == f"it is {PURGED}!"
    assert parse(left, PATH).title == PURGED
    assert forgotten.without(".ormah/feedback/2026-11.jsonl", line) == b'{"id": "a", "prompt": "(purged)"}\n'
    assert forgotten.mentions(b"P\"W'X-") == 0


def test_what_its_versions_are_called_and_say() -> None:
    first = parse(
        note("Short.\nThe key lies under the third stone from the left.", GOING, title="The red door"), "a/My door.md"
    )
    later = parse(note("Another text of enough length to be known by.", GOING, title=None), "fact_x_1a2b3c4d.md")
    known = Forgotten(GOING).knowing([first, later])
    assert known.names == ("the red door", "my door")
    assert known.quotes == ("The red door", "Another text of enough length ")
    assert known.quoted("Connect: A supports Another text of enough length to b…")
    assert not known.quoted("Connect: A supports B")
    assert known.holds(b"elsewhere: The key lies under the third stone from the left.")
    assert not known.holds(b"elsewhere: Short.")


def op(subject: str, body: str = "", nodes: list[str] | None = None, **more: str) -> str:
    trailers = [(f"Ormah-{key.title()}", value) for key, value in more.items()]
    return commit_message.compose(
        subject, body, op="01hk", kind="link", source="agent:x", nodes=nodes or [], trailers=trailers
    )  # type: ignore[arg-type]


def test_a_message_about_it_keeps_its_trailers() -> None:
    text = op("Connect: A supports The red door", "because it is red", [GOING, STAYING], part=f"01hk {GOING}")
    assert commit_message.purged(text, FORGOTTEN) == op(PURGED, "", [STAYING])
    assert commit_message.purged(op("Remember: The red door", nodes=[GOING]), FORGOTTEN) == op(PURGED)
    quoting = replace(FORGOTTEN, quotes=("The red door",))
    assert commit_message.purged(op("Links: 2", "A supports The red door", [STAYING]), quoting) == op(
        "Links: 2", "", [STAYING]
    )


def test_a_message_that_names_it_only() -> None:
    text = op("Merge: two became one", "kept 1a2b3c4d and [[fact_red_1a2b3c4d]]", [STAYING])
    assert commit_message.purged(text, FORGOTTEN) == op(
        "Merge: two became one", f"kept {PURGED} and {PURGED}", [STAYING]
    )


def test_what_a_commit_reverts_stays_said() -> None:
    reverts = f"This reverts commit {'a' * 40}.\n"
    assert (
        commit_message.purged(f'Revert "The red door"\n\n{reverts}', FORGOTTEN, whole=True) == f"{PURGED}\n\n{reverts}"
    )


PIECES = st.sampled_from(
    [GOING, GOING.upper(), "1a2b3c4d", "[[fact_red-door_1a2b3c4d|x]]", "[[The Red Door]]", "fact_a_1a2b3c4d.md", "[t](x_1a2b3c4d.md)",
     "s3cr3t", STAYING, "word", "[[", "]]", "[", "](", ")", "|", "_", "-", "a", "0", " ", "\n", "\r\n", "---\n", "é", "supports: ",
     '"', "'", "\\", "{", "}", ":", ",", "#", "\x00", "\u2028"]
)  # fmt: skip


@given(
    st.lists(PIECES, max_size=40).map("".join), st.sampled_from([PATH, "a.md", "b.canvas", ".ormah/feedback/x.jsonl"])
)
def test_whatever_is_written_is_without_it_afterwards(text: str, path: str) -> None:
    forgotten = Forgotten(GOING, ("s3cr3t",), ("the red door",))
    data = text.encode()
    left = forgotten.without(path, data)
    assert forgotten.mentions(left) == 0
    assert forgotten.without(path, left) == left
    assert GOING.encode() not in left.lower()
    assert b"s3cr3t" not in left
    if not forgotten.mentions(data):
        assert left == data
    if not path.endswith(".jsonl") and parse(data, path).kind is not NoteKind.NOTE:
        named = [line for line in text.split("\n") if not forgotten.mentions(line.encode())]
        assert [line for line in named if line not in left.decode().split("\n")] == []
