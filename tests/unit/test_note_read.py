"""What a person may write, and what is said when it cannot be read."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ormahd.model.node import ChangeNodeRequest, EdgeType, NodeType, Tier
from ormahd.note.read import MAX_NOTE, parse
from ormahd.note.values import Note, NoteKind, NoteLink
from tests.tables import rows

ID = "97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1"


def note(front: str, body: str = "", path: str = "x.md") -> Note:
    return parse(f"---\nid: {ID}\n{front}\n---\n{body}".encode(), path)


def test_the_sample_of_the_design() -> None:
    data = f"""---
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
supports: ["[[decision_chose-vite_1a2b3c4d]]"]
related_to: ["[[fact_monorepo-layout_9f8e7d6c]]"]
edges:
  "supports:1a2b3c4d": {{weight: 0.8, created: 2026-11-21T20:00:00Z, reason: the build needs it}}
---
The user prefers TypeScript over JavaScript for anything that outlives a day.
""".encode()
    path = "ormah/preference/2026-11/preference_prefers_97acbe8e.md"
    found = parse(data, path)
    when = datetime(2026, 11, 21, 20, tzinfo=UTC)
    assert found == Note(
        path, NoteKind.NOTE, found.digest, ID, NodeType.PREFERENCE, Tier.WORKING, "ormah",
        "Prefers TypeScript over JavaScript", ("about_self", "languages"), "agent:claude-code", 1.0, when, when,
        links=(NoteLink(EdgeType.SUPPORTS, "decision_chose-vite_1a2b3c4d", 0.8, when, "the build needs it"),
               NoteLink(EdgeType.RELATED_TO, "fact_monorepo-layout_9f8e7d6c")),
        content="The user prefers TypeScript over JavaScript for anything that outlives a day.",
    )  # fmt: skip
    assert found.stem == "preference_prefers_97acbe8e"


def test_an_id_is_enough() -> None:
    found = note("# nothing else")
    assert (found.kind, found.type, found.tier, found.space, found.source) == (
        NoteKind.NOTE, NodeType.FACT, Tier.WORKING, None, "person")  # fmt: skip
    assert (found.created, found.title, found.tags, found.confidence) == (None, "x", (), 1.0)


@pytest.mark.parametrize(("data", "content"), rows(__file__, "bare_notes"))
def test_bare_notes(data: str, content: str) -> None:
    found = parse(data.encode(), "x.md")
    if "{}" in data:
        assert found.kind is NoteKind.BROKEN
        return
    assert (found.kind, found.content, found.id) == (NoteKind.BARE, content, None)


NESTED = [("a: " + "[" * 5000, 2), ("\n".join(" " * at + "a:" for at in range(400)), 102)]


@pytest.mark.parametrize(
    ("front", "line", "what"), [*rows(__file__, "broken_notes"), *((*one, "nested too deeply") for one in NESTED)]
)
def test_broken_notes(front: str, line: int, what: str) -> None:
    found = parse(f"---\n{front}\n---\nfindable\n".encode(), "x.md")
    assert found.kind is NoteKind.BROKEN
    assert found.problem is not None
    assert (found.problem.line, what in found.problem.what) == (line, True), found.problem
    assert found.problem.mend
    assert str(found.problem).startswith(f"line {line}: ")
    assert "findable" in found.content
    assert found.links == ()
    if ID in front:
        assert found.id == ID


def test_all_wrong_values_are_named_in_order() -> None:
    found = note("tier: gold\ntitle: fine\nconfidence: 7\ncreated: soon")
    assert [problem.line for problem in found.problems] == [3, 5, 6]
    assert found.title == "fine"


@pytest.mark.parametrize(
    ("data", "line", "what"),
    [
        (b"---\nid: x\n", 1, "not closed"), (b"---", 1, "not closed"), (b"---\n", 1, "not closed"),
        (b"a\nb\xff\n", 2, "not UTF-8"), (b"\xff\xfea\x00", 1, "not UTF-8"), (b"a\n\nb\0", 3, "NUL"),
        (b"---\n" + b"x: y\n" * 300_000 + b"---\n", 1, "no end"),
    ],
)  # fmt: skip
def test_broken_files(data: bytes, line: int, what: str) -> None:
    found = parse(data, "x.md")
    assert found.kind is NoteKind.BROKEN
    assert found.problem is not None
    assert (found.problem.line, what in found.problem.what) == (line, True), found.problem
    found.content.encode()


def test_ten_megabytes_are_read_and_more_are_not() -> None:
    data = f"---\nid: {ID}\n---\n".encode()
    data += b"[[a]] `x` words\n" * ((MAX_NOTE - len(data)) // 16)
    found = parse(data, "x.md")
    assert (found.kind, len(found.links)) == (NoteKind.NOTE, 1)
    tracemalloc.start()
    found = parse(b"first words\n" + b"x" * MAX_NOTE, "x.md")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.kind is NoteKind.BROKEN
    assert found.content.startswith("first words")
    assert len(found.content) <= 1_000_000
    assert peak < 60_000_000
    assert found.problem is not None
    assert found.problem.line is None


@pytest.mark.parametrize(
    ("front", "line", "what"), rows(__file__, "a_value_that_a_key_cannot_have_is_named_and_hides_nothing")
)
def test_a_value_that_a_key_cannot_have_is_named_and_hides_nothing(front: str, line: int, what: str) -> None:
    found = parse(f"---\n{front}\n---\nthe body".encode(), "x.md")
    assert found.kind is (NoteKind.NOTE if ID in front else NoteKind.BARE)
    assert found.content == "the body"
    assert [(problem.level, problem.line) for problem in found.problems] == [("warning", line)]
    assert what in found.problems[0].what
    assert found.problems[0].mend


@pytest.mark.parametrize(("front", "node_id", "taken"), rows(__file__, "an_id_or_type_of_the_person_is_no_fault"))
def test_an_id_or_type_of_the_person_is_no_fault(front: str, node_id: str, taken: list[str]) -> None:
    found = parse(f"---\ntitle: Dune\n{front}\n---\nsand [[x]]".encode(), "a/x.md")
    assert (found.kind, found.id or "") == (NoteKind.NOTE if node_id else NoteKind.BARE, node_id)
    assert (found.type, found.title, found.content, [*found.taken]) == (NodeType.FACT, "Dune", "sand [[x]]", taken)
    assert [problem.what for problem in found.problems if "twice" not in problem.what] == []
    assert [link.target for link in found.links] == ["x"]


def test_ours_stands_beside_what_is_not_ours() -> None:
    front = "type: meeting\normah_type: decision\ntier: A\normah_tier: core\ntitle: {a: b}\normah_title: Dune\ncreated: soon\normah_created: 2026-01-02"
    found = note(front)
    assert (found.type, found.tier, found.title, found.created) == (
        NodeType.DECISION, Tier.CORE, "Dune", datetime(2026, 1, 2, tzinfo=UTC))  # fmt: skip
    assert (found.taken, found.problems) == (("type", "tier", "title", "created"), ())


@pytest.mark.parametrize(("written", "share"), rows(__file__, "shares_as_people_write_them"))
def test_shares_as_people_write_them(written: str, share: float) -> None:
    assert note(f"confidence: {written}").confidence == share


@pytest.mark.parametrize(("front", "path", "created"), rows(__file__, "when_a_note_of_a_persons_was_written"))
def test_when_a_note_of_a_persons_was_written(front: str, path: str, created: str | None) -> None:
    expected = None if created is None else datetime.fromisoformat(created).replace(tzinfo=UTC)
    for head in (f"id: {ID}\n{front}", front):
        found = parse(f"---\n{head}\n---\nx".encode(), path)
        assert (found.created, found.problems) == (expected, ())
    if front == "x: 1":
        assert parse(b"no head", path).created == expected


@pytest.mark.parametrize(("path", "title"), rows(__file__, "a_file_name_is_a_title_but_for_the_names_that_we_give"))
def test_a_file_name_is_a_title_but_for_the_names_that_we_give(path: str, title: str | None) -> None:
    for data in (
        b"# A heading\ntext",
        f"---\nid: {ID}\n---\n# A heading".encode(),
        f"---\nid: {ID}\ntitle:\n---\nx".encode(),
    ):
        assert parse(data, path).title == title


@pytest.mark.parametrize(
    "text", ['+++\ntitle = "Kayaks"\n+++\n\nNarrow.', "title:: Rafts\n\n- Flat", "#+TITLE: Canoes\n\n* Open", "A title\n---\ntext"]
)  # fmt: skip
def test_only_yaml_between_dashes_is_frontmatter(text: str) -> None:
    found = parse(text.encode(), "x.md")
    assert (found.kind, found.title, found.content) == (NoteKind.BARE, "x", text)


@pytest.mark.parametrize(("text", "line"), rows(__file__, "conflict_markers"))
def test_conflict_markers(text: str, line: int | None) -> None:
    found = parse(text.encode(), "x.md")
    assert (found.kind is NoteKind.CONFLICTED) == (line is not None)
    if line is not None:
        assert found.problem is not None
        assert found.problem.line == line
        assert found.id == (ID if ID in text else None)


@pytest.mark.parametrize(("written", "value"), rows(__file__, "times_as_people_and_editors_write_them"))
def test_times_as_people_and_editors_write_them(written: str, value: datetime | None) -> None:
    assert note(f"created: {written}").created == value


@pytest.mark.parametrize(
    "written",
    ["9999-12-31T23:59:59-10:00", "0000-01-01", "20:00", "2026-11-21T25:00", "42", "May 2024", "someday", "11/12/2024"],
)
def test_no_times(written: str) -> None:
    found = note(f"created: {written}")
    assert (found.kind, found.created, found.taken) == (NoteKind.NOTE, None, ("created",))


@pytest.mark.parametrize(("written", "tags"), rows(__file__, "tags"))
def test_tags(written: str, tags: list[str]) -> None:
    found = note(written)
    assert (found.kind, list(found.tags)) == (NoteKind.NOTE, tags)


@pytest.mark.parametrize(
    ("written", "title"),
    [("42", "42"), ("yes", "yes"), ("1:20", "1:20"), ("0123", "0123"), ("null", "x"), ("'null'", "null"), ("|\n  a\n  b", "a b"),
     ("[[x]]", "[[x]]"), ("!!str 7", "7"), ("' '", "x"), ("[one]", "one"), ("2026-11-21", "2026-11-21"), ("on # c", "on")],
)  # fmt: skip
def test_texts_are_what_was_typed(written: str, title: str | None) -> None:
    found = note(f"title: {written}")
    assert (found.kind, found.title) == (NoteKind.NOTE, title)


def test_type_and_tier_in_any_case_and_aliases() -> None:
    found = note("type: Decision\ntier: ' core '\naliases: A, B")
    assert (found.type, found.tier, found.aliases) == (NodeType.DECISION, Tier.CORE, ("A", "B"))
    assert note("aliases:\n  - A, B\n  - 3").aliases == ("A, B", "3")
    odd = note("aliases: {a: b}")
    assert (odd.kind, odd.aliases, odd.problems[0].level) == (NoteKind.NOTE, (), "warning")


def test_a_long_title_is_cut_with_a_warning() -> None:
    found = note(f"title: {'x' * 400}\ntags: [{'y' * 200}]")
    assert found.kind is NoteKind.NOTE
    assert found.title == "x" * 300
    assert found.tags == ("y" * 100,)
    assert [(problem.level, problem.line) for problem in found.problems] == [("warning", 3), ("warning", 4)]


@pytest.mark.parametrize(("written", "targets"), rows(__file__, "edges"))
def test_edges(written: str, targets: list[str]) -> None:
    found = note(written)
    assert found.kind is NoteKind.NOTE, found.problems
    assert [link.target for link in found.links] == targets
    assert all(link.edge is EdgeType.RELATED_TO and not link.body for link in found.links)


def test_details_of_edges() -> None:
    found = note(
        "supports: ['[[a_11111111]]', '[[b_22222222]]', '[[Vite]]']\nedges:\n"
        "  supports:a_11111111: 0.25\n  supports:22222222: {reason: why, mine: 3}\n  'supports:Vite':\n    created: 2026-01-01\n"
        "  part_of:gone: {weight: 1}\n  nonsense: 3\n",
        "see [[Other]]",
    )
    assert found.links == (
        NoteLink(EdgeType.SUPPORTS, "a_11111111", 0.25), NoteLink(EdgeType.SUPPORTS, "b_22222222", reason="why"),
        NoteLink(EdgeType.SUPPORTS, "Vite", created=datetime(2026, 1, 1, tzinfo=UTC)), NoteLink(EdgeType.RELATED_TO, "Other", body=True),
    )  # fmt: skip
    assert sorted((problem.level, problem.line) for problem in found.problems) == [("warning", 9), ("warning", 10)]
    assert found.kind is NoteKind.NOTE


@pytest.mark.parametrize(("body", "targets"), rows(__file__, "body_links"))
def test_body_links(body: str, targets: list[str]) -> None:
    found = note("supports: ['[[fact_12345678]]', '[[known one]]']", body)
    assert [link.target for link in found.links if link.body] == targets
    assert all(link.edge is EdgeType.RELATED_TO for link in found.links if link.body)


@pytest.mark.parametrize(("path", "front", "kind", "space"), rows(__file__, "folders_stand_in_for_type_and_space"))
def test_folders_stand_in_for_type_and_space(path: str, front: str, kind: NodeType, space: str | None) -> None:
    found = note(front or "#", path=path)
    assert (found.type, found.space) == (kind, space)
    if not front:
        bare = parse(b"text", path)
        assert (bare.kind, bare.type, bare.space) == (NoteKind.BARE, kind, space)


def test_a_note_is_always_a_memory() -> None:
    """What parse lets through, a request to change a memory takes."""
    found = note(f"title: {'x ' * 400}\ntags: ['{'y ' * 99}', '#']\nspace: a  b\nsource: ''\noutdated_reason: '  '")
    fields = {name: getattr(found, name) for name in ("content", "title", "space", "confidence")}
    assert ChangeNodeRequest.of(fields | {"tags": list(found.tags)}).space == "a b"
    assert (found.source, found.outdated_reason) == ("person", None)


def test_aliases_and_anchors_do_not_explode() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + at)}: &{chr(98 + at)} [{','.join([f'*{chr(97 + at)}'] * 9)}]\n" for at in range(20)
    )
    assert note(bomb).kind is NoteKind.NOTE
    assert note("tags: &a [*a]").taken == ("tags",)
    assert note("edges: &a {supports:b: *a}\nsupports: b").kind is NoteKind.NOTE


def test_the_format_names_every_key() -> None:
    text = (Path(__file__).parents[2] / "ormahd" / "FORMAT.md").read_text(encoding="utf-8")
    for name in ["id", "type", "tier", "space", "global", "title", "tags", "source", "confidence", "created", "updated", "valid_until",
                 "outdated_reason", "edges", "aliases", *NodeType, *Tier, *EdgeType, *NoteKind]:  # fmt: skip
        assert f"`{name}`" in text, name
