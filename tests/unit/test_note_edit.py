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

ID = "97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1"
WHEN = datetime(2026, 11, 21, 20, tzinfo=UTC)
S, R, P = EdgeType.SUPPORTS, EdgeType.RELATED_TO, EdgeType.PART_OF
GLOBAL = "global/fact/2026-11/a note.md"
OURS = "ormah/fact/2026-11/x.md"


def fm(text: str, body: str = "") -> bytes:
    return f"---\nid: {ID}\n{text}---\n{body}".encode()


def test_compose_is_the_sample_of_the_design() -> None:
    data = compose(
        id=ID, type=NodeType.PREFERENCE, tier=Tier.WORKING, space="ormah", title="Prefers TypeScript over JavaScript",
        tags=["about_self", "#languages"], source="agent:claude-code", confidence=1, created=WHEN, updated=WHEN,
        content="\r\n\nThe user.\r\nYes.\n\n",
        links=[NoteLink(R, "fact_a_9f8e7d6c"), NoteLink(S, "decision_b_1a2b3c4d", 0.8, WHEN, "the build needs it"), NoteLink(R, "Vite#x|y"),
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
        # a value on its line: its comment, and everyone else's lines, stay
        ("title: 'old'   # mine\nfoo:  [ 1,2 ]\n", {"set": {"title": "new: x"}}, "title: 'new: x'   # mine\nfoo:  [ 1,2 ]\n"),
        ("title: same\n", {"set": {"title": "same"}}, "title: same\n"), ('title: "same"\n', {"set": {"title": " same "}}, 'title: "same"\n'),
        ("confidence: 1\n", {"set": {"confidence": 1.0}}, "confidence: 1\n"), ("created: 2026-11-21\n", {"set": {"created": datetime(2026, 11, 21)}}, "created: 2026-11-21\n"),
        ("title:\n", {"set": {"title": "x"}}, "title: x\n"), ("title: # todo\n", {"set": {"title": "x"}}, "title: x # todo\n"),
        ("title: |\n  a\n  b\n\n# c\nfoo: 1\n", {"set": {"title": "x"}}, "title: x\n\n# c\nfoo: 1\n"),
        ("title: >-\n  a\nfoo: 1\n", {"clear": ["title"]}, "foo: 1\n"), ("title: a\n  b\n", {"set": {"title": "x"}}, "title: x\n"),
        ("# c\ntitle: a # d\n# e\n", {"clear": ["title"]}, "# c\n# e\n"),
        # a new key finds its place
        ("type: fact\n# c\nfoo: 1\nsource: x\n", {"set": {"title": "a", "updated": WHEN}},
         "type: fact\ntitle: a\n# c\nfoo: 1\nsource: x\nupdated: 2026-11-21T20:00:00Z\n"),
        ("", {"set": {"tier": "core", "tags": ["a", "b c"]}}, "tier: core\ntags: [a, b c]\n"),
        ("foo: 1\n", {"set": {"tier": Tier.WORKING, "type": "fact", "source": None, "space": None}}, "foo: 1\n"),
        ("tier: working\n", {"clear": ["tier", "title"]}, ""),
        # lists
        ("tags: [a, 'b']\n", {"set": {"tags": ["a", "b", "c"]}}, "tags: [a, 'b', c]\n"), ("tags: a, b\n", {"set": {"tags": ["a"]}}, "tags: [a]\n"),
        ("tags:\n- a\n- b # x\n\n# c\nfoo: 1\n", {"set": {"tags": ["b", "d"]}}, "tags:\n- b # x\n- d\n\n# c\nfoo: 1\n"),
        ("tags:\n    - 'a'\n    # c\n    - \"b\"\n", {"set": {"tags": ["a"]}}, "tags:\n    - 'a'\n    # c\n"),
        ("tags: # t\n  - a\n", {"set": {"tags": ["b"]}}, "tags: # t\n  - b\n"), ("tags: [a]\n", {"set": {"tags": []}}, ""),
        ("aliases:\n  - x\n", {"set": {"aliases": ["x", "no: z"]}}, "aliases:\n  - x\n  - 'no: z'\n"),
        ("tags: ['#a', b]\n", {"set": {"tags": ("a", "b")}}, "tags: ['#a', b]\n"),
        # edges
        ("", {"link": [NoteLink(S, "a_11111111")]}, 'supports: ["[[a_11111111]]"]\n'),
        ("", {"link": [NoteLink(S, "a"), NoteLink(S, "b"), NoteLink(P, "c", 0.9)]},
         'supports:\n  - "[[a]]"\n  - "[[b]]"\npart_of: ["[[c]]"]\nedges:\n  "part_of:c": {weight: 0.9}\n'),
        ("supports: ['[[a]]'] # s\n", {"link": [NoteLink(S, "b")]}, "supports: # s\n  - '[[a]]'\n  - \"[[b]]\"\n"),
        ("supports: ['[[a]]', '[[b]]'] # s\n", {"link": [NoteLink(S, "c")]}, "supports: ['[[a]]', '[[b]]', \"[[c]]\"] # s\n"),
        ("supports:\n    - '[[a|A]]'  # x\n    - b\nfoo: 1\n", {"link": [NoteLink(S, "c")]}, "supports:\n    - '[[a|A]]'  # x\n    - b\n    - \"[[c]]\"\nfoo: 1\n"),
        ("supports: [[a|A]]\n", {"link": [NoteLink(S, "c")]}, 'supports:\n  - "[[a|A]]"\n  - "[[c]]"\n'),
        ("supports:\n", {"link": [NoteLink(S, "c")]}, 'supports: ["[[c]]"]\n'), ("supports: []\n", {"link": [NoteLink(S, "c")]}, 'supports: ["[[c]]"]\n'),
        ("related_to: \"[[a]], [[b|B]]\"\n", {"unlink": [(R, "a")]}, 'related_to: ["[[b|B]]"]\n'),
        ("supports: ['[[x_11111111]]']\n", {"link": [NoteLink(S, "renamed_11111111")]}, "supports: ['[[x_11111111]]']\n"),
        ("supports: ['[[x_11111111]]']\n", {"unlink": [(S, "11111111")]}, ""), ("supports: ['[[x_11111111]]']\n", {"unlink": [(R, "11111111")]}, "supports: ['[[x_11111111]]']\n"),
        ("supports: ['[[a]]']\nedges:\n  'supports:a': {weight: 0.9, mine: 1}\n", {"link": [NoteLink(S, "a", 0.9, reason="so")]},
         "supports: ['[[a]]']\nedges:\n  'supports:a': {weight: 0.9, mine: 1, reason: so}\n"),
        ("supports: ['[[a]]']\nedges:\n  'supports:a': {weight: 0.9, mine: 1}\n", {"link": [NoteLink(S, "a")]},
         "supports: ['[[a]]']\nedges:\n  'supports:a': {mine: 1}\n"),
        ("supports: ['[[a]]']\nedges:\n  # c\n  'supports:a': 0.9\n", {"link": [NoteLink(S, "a")]}, "supports: ['[[a]]']\n"),
        ("supports: ['[[a]]', '[[b]]']\nedges:\n   'supports:a': 0.9\n   'supports:b': 0.8\n", {"unlink": [(S, "a")], "link": [NoteLink(P, "c", 0.1)]},
         "supports: ['[[b]]']\npart_of: [\"[[c]]\"]\nedges:\n   'supports:b': 0.8\n   \"part_of:c\": {weight: 0.1}\n"),
        ("supports: ['[[a]]']\nedges:\n  supports:a:\n    weight: 0.9 # w\n    mine: |\n      x\n", {"link": [NoteLink(S, "a", 0.8, WHEN)]},
         "supports: ['[[a]]']\nedges:\n  supports:a:\n    weight: 0.8 # w\n    mine: |\n      x\n    created: 2026-11-21T20:00:00Z\n"),
        ("edges: {}\n", {"link": [NoteLink(S, "a", 0.8)]}, 'supports: ["[[a]]"]\nedges:\n  "supports:a": {weight: 0.8}\n'),
    ],
)  # fmt: skip
def test_edits_of_the_frontmatter(before: str, change: dict[str, Any], after: str) -> None:
    body = "text  \n\nmore"
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
    [
        ("tier: core\n", {"everywhere": True}, "tier: core\nglobal: true\n", True),
        ("space: a\n", {"space": None, "everywhere": True}, "global: true\n", True),
        ("global: true\n", {"space": "a"}, "space: a\n", False), ("global: Yes\n", {"everywhere": True}, "global: Yes\n", True),
        ("global: true # everywhere\ntags: [a]\n", {"everywhere": False}, "tags: [a]\n", False),
        ("global: warming\n", {"space": "a"}, "space: a\nglobal: warming\n", False),
        ("global: [1, 2]\n", {"everywhere": False}, "global: [1, 2]\n", False),
        ("global: no\n", {"everywhere": True}, "global: true\n", True),
        ("global: true\n", {"title": "x"}, "global: true\ntitle: x\n", True),
    ],
)  # fmt: skip
def test_global_on_purpose(before: str, change: dict[str, Any], after: str, everywhere: bool) -> None:
    changed = edit(fm(before), GLOBAL, set=change)
    said = parse(changed, GLOBAL)
    assert (sorted(changed.splitlines()), said.everywhere) == (sorted(fm(after).splitlines()), everywhere)
    assert (said.kind, said.problems) == (NoteKind.NOTE, ())
    assert edit(changed, GLOBAL, set=change) == changed


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        ("\n\nold\n\n\n", "new\nmore", "\n\nnew\nmore\n\n\n"), ("old", "new", "new"), ("", "new", "new\n"), ("\n\n", "new", "\n\nnew\n"), ("old\n", "", ""),
        ("a\r\nb\nc\r\nd", "a\nB\nc\nd", "a\r\nB\nc\r\nd"), ("a\r\nb\r\n", "a\nb\nc", "a\r\nb\nc\r\n"), ("  old  \n", "  old  ", "  old  \n"),
        ("a\r\nb", "a\r\nb\n\n", "a\r\nb"),
    ],
)  # fmt: skip
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
    "change",
    [{"set": {"confidence": 7}}, {"set": {"title": "x" * 301}}, {"set": {"title": "a\0b"}}, {"content": "a\0"}, {"content": "\ud800"},
     {"content": "<<<<<<< a\n=======\n>>>>>>> b"}, {"link": [NoteLink(S, "a]b")]}, {"link": [NoteLink(S, "a", 2.0)]}, {"set": {"space": ".."}}],
)  # fmt: skip
def test_an_edit_that_would_break_the_note_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidNote):
        edit(fm(""), GLOBAL, **change)


@pytest.mark.parametrize(
    "change", [{"set": {"colour": "x"}}, {"clear": ["id"]}, {"link": [NoteLink(S, "#h")]}, {"set": {"tier": "gold"}}]
)
def test_a_caller_that_is_wrong_hears_it(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        edit(fm(""), GLOBAL, **change)


@pytest.mark.parametrize(
    ("before", "change", "why"),
    [
        ("a: &e {supports:x: 0.1}\nsupports: x\nedges: *e\n", {"link": [NoteLink(S, "x", 0.9)]}, "safely"),
        ("a: &e\n  supports:x: 0.1\nsupports: x\nedges: *e\n", {"link": [NoteLink(S, "x", 0.9)]}, "safely"),
        ("supports: x\nedges: {'supports:x': 0.9}\n", {"unlink": [(S, "x")]}, "safely"),
        ("supports: x\nedges:\n  supports:x: {weight: 0.9,\n    mine: 1}\n", {"link": [NoteLink(S, "x")]}, "safely"),
        ("tags: [\n  a, # one\n  b ]\nfoo: 1\n", {"set": {"tags": ["a"]}}, "safely"),
        ("foo: &t x\ntitle: *t\n", {"set": {"title": "y"}}, "safely"), ("title: &t a\nfoo: *t\n", {"clear": ["title"]}, "no longer"),
        ("b: &t [x]\ntags:\n  - a\n  - *t\n", {"set": {"tags": ["a", "y"]}}, "safely"),
    ],
)  # fmt: skip
def test_a_form_that_is_not_edited_is_refused(before: str, change: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidNote, match=why):
        edit(fm(before), GLOBAL, **change)


def test_a_new_id_for_a_copy() -> None:
    new = "00000000-0000-4000-8000-000000000000"
    assert edit(fm("title: a\n"), GLOBAL, set={"id": new}) == fm("title: a\n").replace(ID.encode(), new.encode())


BLOCK = f"---\nid: {ID}\ntype: decision\ncreated: 2026-11-21T20:00:00Z\n---\n".encode()
LINE = f"id: {ID}\n".encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", BLOCK), (b"text", BLOCK + b"text"), (b"\n\ntext\n", BLOCK + b"\n\ntext\n"), (b"a\r\nb\r\n", BLOCK.replace(b"\n", b"\r\n") + b"a\r\nb\r\n"),
        (b"\xef\xbb\xbftext\n", b"\xef\xbb\xbf" + BLOCK + b"text\n"), (b"---\n---\n", b"---\n" + LINE + b"---\n"), (b"---\n---", b"---\n" + LINE + b"---"),
        (b"---\n# c\ntags: [a]\n---\nx", b"---\n" + LINE + b"# c\ntags: [a]\n---\nx"), (b"---\nid:   # here\nx: 1\n---\n", b"---\normah_" + LINE + b"id:   # here\nx: 1\n---\n"),
        (b"---\nx: 1\nid: ''\n---\n", b"---\normah_" + LINE + b"x: 1\nid: ''\n---\n"), (b"---\n  x: 1\n---\n", b"---\n  " + LINE + b"  x: 1\n---\n"),
        (b"\xef\xbb\xbf---\r\nx: 1\r\n---\r\n", b"\xef\xbb\xbf---\r\n" + LINE.replace(b"\n", b"\r\n") + b"x: 1\r\n---\r\n"),
        (b"---\nid: 42\n---\n", b"---\normah_" + LINE + b"id: 42\n---\n"), (b"---\ntype: book\n---\n", b"---\n" + LINE + b"type: book\n---\n"),
        (b"---\nid: [a]\normah_id:\n---\n", b"---\nid: [a]\normah_id: " + ID.encode() + b"\n---\n"),
        (b"--- \nx: 1\n...\ntext", b"--- \n" + LINE + b"x: 1\n...\ntext"), (b"---\n!!map\nx: 1\n---\n", b"---\n!!map\n" + LINE + b"x: 1\n---\n"),
    ],
)  # fmt: skip
def test_an_id_is_given_by_the_smallest_edit(before: bytes, after: bytes) -> None:
    path = "proj/decision/x.md"
    assert give_id(before, path, id=ID, created=WHEN) == after
    assert give_id(after, path, id=ID, created=WHEN) == after
    note = parse(after, path)
    assert (note.kind, note.id, note.type, note.content) == (
        NoteKind.NOTE,
        ID,
        NodeType.DECISION,
        parse(before, path).content,
    )


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
