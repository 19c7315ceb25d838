"""Links that lead to one note made to lead to another."""

from datetime import UTC, datetime

from ormahd.model.node import EdgeType, NodeType, Tier
from ormahd.note.edit import retarget
from ormahd.note.markdown import unlink
from ormahd.note.read import parse
from ormahd.note.values import NoteLink
from ormahd.note.write import compose

OLD, NEW = "person_ada_1a2b3c4d", "person_grace_99999999"
NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)
TEXT = (
    f"See [[{OLD}]], [[{OLD}|me]], [[{OLD}#Work|my work]], [[folder/{OLD}]] and [[fact_tea_5e5e5e5e]].\n\n"
    f"`[[{OLD}]]` in code, and \\[[{OLD}]] escaped."
)


def note(content: str = TEXT) -> bytes:
    return compose(
        id="97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1", type=NodeType.FACT, tier=Tier.WORKING, space=None, title=None, tags=[],
        source="person", confidence=1.0, created=NOW, updated=NOW, content=content,
        links=[NoteLink(EdgeType.SUPPORTS, OLD, 0.8, NOW, "why"), NoteLink(EdgeType.PART_OF, "fact_tea_5e5e5e5e", 0.5, NOW)],
    )  # fmt: skip


def test_properties_and_text_lead_to_the_other_note() -> None:
    result = parse(retarget(note(), "x.md", "1a2b3c4d", NEW), "x.md")
    properties = {(link.edge, link.target, link.weight, link.reason) for link in result.links if not link.body}
    assert properties == {(EdgeType.SUPPORTS, NEW, 0.8, "why"), (EdgeType.PART_OF, "fact_tea_5e5e5e5e", 0.5, None)}
    head = result.content.splitlines()[0]
    assert head == f"See [[{NEW}]], [[{NEW}|me]], [[{NEW}#Work|my work]], [[{NEW}]] and [[fact_tea_5e5e5e5e]]."
    assert f"\\[[{OLD}]] escaped" in result.content


def test_what_has_no_such_link_or_is_no_note_stays_byte_for_byte() -> None:
    for data in (note("nothing"), b"plain [[person_ada_1a2b3c4d]]", b"---\nid: [\n---\n1a2b3c4d", b"\xff 1a2b3c4d"):
        assert retarget(data, "x.md", "77777777" if b"nothing" in data else "1a2b3c4d", NEW) == data


def test_markdown_links_follow_and_keep_their_text() -> None:
    text = f"See [her](folder/{OLD}.md#Work), ![{OLD}](<{OLD}.md>) and [tea](fact_tea_5e5e5e5e.md)."
    content = parse(retarget(note(text), "x.md", "1a2b3c4d", NEW), "x.md").content
    assert content == f"See [her]({NEW}.md), ![{OLD}]({NEW}.md) and [tea](fact_tea_5e5e5e5e.md)."
    assert unlink("Ask [her](My%20Note.md).", {"My Note.md"}, "a note") == "Ask her."
