"""Edits and adoptions, byte by byte."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ormahd.errors import InvalidNote
from ormahd.model.node import EdgeType, NodeType, Tier
from ormahd.note.edit import edit
from ormahd.note.read import parse
from ormahd.note.values import NoteKind, NoteLink, derived_id
from ormahd.note.write import compose, give_id
from tests.tables import rows

ID = "97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1"
WHEN = datetime(2026, 11, 21, 20, tzinfo=UTC)
S, R, P = EdgeType.SUPPORTS, EdgeType.RELATED_TO, EdgeType.PART_OF
GLOBAL = "global/fact/2026-11/a note.md"
OURS = "ormah/fact/2026-11/x.md"


def changes(told: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `edit` that a table tells: an edge is [type, target, {how}]."""
    links = [NoteLink(EdgeType(edge), target, **dict(*how)) for edge, target, *how in told.get("link", ())]
    return told | {"link": links, "unlink": [(EdgeType(edge), target) for edge, target in told.get("unlink", ())]}


def fm(text: str, body: str = "") -> bytes:
    return f"---\nid: {ID}\n{text}---\n{body}".encode()


def test_compose_is_the_sample_of_the_design() -> None:
    data = compose(
        id=ID, type=NodeType.PREFERENCE, tier=Tier.WORKING, space="ormah", title="Prefers TypeScript over JavaScript",
        tags=["about_self", "#languages"], source="agent:claude-code", confidence=1, created=WHEN, updated=WHEN,
        content="\r\n\nThe user.\r\nYes.\n\n",
        links=[NoteLink(R, "fact_a_9f8e7d6c"), NoteLink(S, "decision_b_1a2b3c4d", 0.8, WHEN, "the build needs it"), NoteLink(R, "Vite#x|y", 0.9),
               NoteLink(R, "of the text", body=True)],
    )  # fmt: skip
    assert (
        data.decode()
        == f"""---
id: {ID}
type: preference
tier: working
space: ormah
title: Prefers TypeScript over JavaScript
tags: [about_self, languages]
source: agent:claude-code
confidence: 1.0
created: 2026-11-21T20:00:00Z
updated: 2026-11-21T20:00:00Z
supports: ["[[decision_b_1a2b3c4d]]"]
related_to:
  - "[[fact_a_9f8e7d6c]]"
  - "[[Vite]]"
edges:
  "supports:1a2b3c4d": {{weight: 0.8, created: 2026-11-21T20:00:00Z, reason: the build needs it}}
  "related_to:Vite": {{weight: 0.9}}
---
The user.
Yes.
"""
    )


def test_compose_leaves_out_what_is_not_said() -> None:
    data = compose(id=ID, type=NodeType.FACT, tier=Tier.CORE, space=None, title=None, tags=[], source="person", confidence=0.5,
                   created=WHEN.replace(microsecond=5), updated=WHEN, content="", valid_until=WHEN, outdated_reason="gone: away")  # fmt: skip
    assert data.decode() == (
        f"---\nid: {ID}\ntype: fact\ntier: core\nsource: person\nconfidence: 0.5\ncreated: 2026-11-21T20:00:00.000005Z\n"
        "updated: 2026-11-21T20:00:00Z\nvalid_until: 2026-11-21T20:00:00Z\noutdated_reason: 'gone: away'\n---\n"
    )


@pytest.mark.parametrize("content", ["a\0b", "\ud800", "<<<<<<< a\n=======\n>>>>>>> b"])
def test_compose_refuses_what_no_note_can_hold(content: str) -> None:
    with pytest.raises(InvalidNote) as caught:
        compose(id=ID, type=NodeType.FACT, tier=Tier.CORE, space=None, title=None, tags=[], source="person", confidence=0.5,
                created=WHEN, updated=WHEN, content=content)  # fmt: skip
    assert caught.value.hint


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        *rows(__file__, "edits_of_the_frontmatter"),
        ("foo: 1\n", {"set": {"tier": Tier.WORKING, "type": "fact", "source": None, "space": None}}, "foo: 1\n"),
    ],
)
def test_edits_of_the_frontmatter(before: str, change: dict[str, Any], after: str) -> None:
    body, change = "text  \n\nmore", changes(change)
    assert edit(fm(before, body), GLOBAL, **change).decode() == fm(after, body).decode()
    crlf = fm(before, body).replace(b"\n", b"\r\n")
    assert edit(b"\xef\xbb\xbf" + crlf, GLOBAL, **change) == b"\xef\xbb\xbf" + fm(after, body).replace(b"\n", b"\r\n")
    assert edit(fm(after, body), GLOBAL, **change) == fm(after, body)


@pytest.mark.parametrize(
    ("before", "space", "path", "after"),
    [
        ("space: a\n", None, GLOBAL, ""), ("space: a\n", None, OURS, "space: null\n"), ("", None, OURS, "space: null\n"), ("space:\n", None, OURS, "space:\n"),
        ("", "ormah", OURS, ""), ("space:\n", "b", OURS, "space: b\n"), ("", "b", GLOBAL, "space: b\n"), ("space: global\n", None, OURS, "space: global\n"),
    ],
)  # fmt: skip
def test_a_space_that_the_folder_would_give(before: str, space: str | None, path: str, after: str) -> None:
    assert edit(fm(before), path, set={"space": space}) == fm(after)
    assert parse(edit(fm(before), path, set={"space": space}), path).space == space
    if space is None:
        cleared = edit(fm(before), path, clear=["space"])
        assert parse(cleared, path).space is None
        assert edit(cleared, path, clear=["space"]) == cleared


@pytest.mark.parametrize(
    ("before", "change", "after", "everywhere"),
    [*rows(__file__, "global_on_purpose"), ("space: a\n", {"space": None, "everywhere": True}, "global: true\n", True)],
)
def test_global_on_purpose(before: str, change: dict[str, Any], after: str, everywhere: bool) -> None:
    changed = edit(fm(before), GLOBAL, set=change)
    said = parse(changed, GLOBAL)
    assert (sorted(changed.splitlines()), said.everywhere) == (sorted(fm(after).splitlines()), everywhere)
    assert (said.kind, said.problems) == (NoteKind.NOTE, ())
    assert edit(changed, GLOBAL, set=change) == changed


@pytest.mark.parametrize(("before", "content", "after"), rows(__file__, "edits_of_the_text"))
def test_edits_of_the_text(before: str, content: str, after: str) -> None:
    assert edit(fm("x: 1\n", before), GLOBAL, content=content).decode() == fm("x: 1\n", after).decode()


def test_a_file_that_ends_with_its_frontmatter() -> None:
    assert edit(fm("").rstrip(b"\n"), GLOBAL, content="x") == fm("", "x\n")


@pytest.mark.parametrize("data", [b"", b"text", b"---\ntype: book\n---\n", b"---\n", b"\xff", b"+++\na = 1\n+++\n",
                                  b"<<<<<<< a\n=======\n>>>>>>> b\n"])  # fmt: skip
def test_only_notes_are_edited(data: bytes) -> None:
    with pytest.raises(InvalidNote) as caught:
        edit(data, "a.md", set={"title": "x"})
    assert "a.md" in caught.value.message
    assert caught.value.data["path"] == "a.md"


@pytest.mark.parametrize(
    "change", [*rows(__file__, "an_edit_that_would_break_the_note_is_refused"), {"content": "\ud800"}]
)
def test_an_edit_that_would_break_the_note_is_refused(change: dict[str, Any]) -> None:
    why = "conflict markers, which a note cannot" if "<<<" in change.get("content", "") else None
    with pytest.raises(InvalidNote, match=why) as caught:
        edit(fm(""), GLOBAL, **changes(change))
    assert not why or "fenced" in str(caught.value.hint)


@pytest.mark.parametrize(
    "change", [{"set": {"colour": "x"}}, {"clear": ["id"]}, {"link": [NoteLink(S, "#h")]}, {"set": {"tier": "gold"}}]
)
def test_a_caller_that_is_wrong_hears_it(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        edit(fm(""), GLOBAL, **change)


@pytest.mark.parametrize(("before", "change", "why"), rows(__file__, "a_form_that_is_not_edited_is_refused"))
def test_a_form_that_is_not_edited_is_refused(before: str, change: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidNote, match=why):
        edit(fm(before), GLOBAL, **changes(change))


def test_a_new_id_for_a_copy() -> None:
    new = "00000000-0000-4000-8000-000000000000"
    assert edit(fm("title: a\n"), GLOBAL, set={"id": new}) == fm("title: a\n").replace(ID.encode(), new.encode())


@pytest.mark.parametrize(("before", "after"), rows(__file__, "an_id_is_given_by_the_smallest_edit"))
def test_an_id_is_given_by_the_smallest_edit(before: str, after: str) -> None:
    path, bare, wanted = "proj/decision/x.md", before.encode("latin-1"), after.encode("latin-1")
    assert give_id(bare, path, id=ID, created=WHEN) == give_id(wanted, path, id=ID, created=WHEN) == wanted
    note, text = parse(wanted, path), parse(bare, path).content
    assert (note.kind, note.id, note.type, note.content) == (NoteKind.NOTE, ID, NodeType.DECISION, text)


@pytest.mark.parametrize("data", [b"---\n", b"\xff", fm("").replace(b"97", b"98")])
def test_only_bare_notes_are_given_an_id(data: bytes) -> None:
    with pytest.raises(InvalidNote):
        give_id(data, "x.md", id=ID, created=WHEN)


def test_two_machines_give_the_same_id() -> None:
    vault = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
    first = derived_id(vault, "caf\u00e9.md", b"text")
    assert first == derived_id(vault, "cafe\u0301.md", b"text")
    others = {derived_id(vault, "café.md", b"text2"), derived_id(vault, "b.md", b"text"), derived_id("x", "café.md", b"text"),
              derived_id(vault, "café.md", b"text", attempt=1)}  # fmt: skip
    assert len(others | {first}) == 5
    assert parse(give_id(b"", "x.md", id=first, created=WHEN), "x.md").id == first


def test_what_a_person_keeps_under_a_key_of_ours_stays_and_ours_stands_behind_it() -> None:
    theirs = f"id: 42  # mine\normah_id: {ID}\ntype: meeting\ntier: A\ntags: {{a: 1}}\nspace: [x, y]\n"
    data = f"---\n{theirs}---\ntext".encode()
    changed = edit(
        data,
        "a.md",
        set={"type": NodeType.DECISION, "tier": Tier.CORE, "tags": ["b"], "space": "kestrel"},
        link=[NoteLink(S, "x")],
    )
    note = parse(changed, "a.md")
    assert (note.type, note.tier, note.tags, note.space, note.id) == (
        NodeType.DECISION,
        Tier.CORE,
        ("b",),
        "kestrel",
        ID,
    )
    assert [line for line in theirs.splitlines() if line not in changed.decode().splitlines()] == []
    assert b"type: meeting\normah_type: decision\n" in changed
    again = edit(changed, "a.md", set={"type": NodeType.FACT, "tags": ["b", "c"]})
    assert parse(again, "a.md").tags == ("b", "c")
    assert edit(again, "a.md", clear=["type", "tier", "tags", "space"], unlink=[(S, "x")]) == data


def test_a_title_that_is_cleared_is_the_file_name_from_then_on() -> None:
    data = fm("title: Old\n")
    assert edit(data, GLOBAL, clear=["title"]) == edit(data, GLOBAL, set={"title": None}) == fm("")
    assert parse(edit(data, GLOBAL, set={"title": "a note"}), GLOBAL).title == "a note"
