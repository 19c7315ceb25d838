"""What a person may write, and what is said when it cannot be read."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ormahd.model.node import ChangeNodeRequest, EdgeType, NodeType, Tier
from ormahd.note.read import MAX_NOTE, parse
from ormahd.note.values import Note, NoteKind, NoteLink

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


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (b"", ""), (b"\n \n", ""), (b"plain\n", "plain"), (b"\xef\xbb\xbfplain\r\ntext\r\n", "plain\ntext"), (b"---\n---\n", ""),
        (b"---\n# only a comment\n---\nx", "x"), (b"---\ntitle: A\n---\n\n\nx\n\n", "x"), (b"---\r\ntitle: A\r\n---\r\nx", "x"),
        (b"---\ntitle: A\n...\nx", "x"), (b"--- \ntitle: A\n---\t\nx\n---\ny", "x\n---\ny"), (b"---\nid:\n---\nx", "x"),
        (b"----\nx", "----\nx"), (b"text\n---\nid: 1\n---\n", "text\n---\nid: 1\n---"), (b"---\n{}\n---", ""),
    ],
)  # fmt: skip
def test_bare_notes(data: bytes, content: str) -> None:
    found = parse(data, "x.md")
    if b"{}" in data:
        assert found.kind is NoteKind.BROKEN
        return
    assert (found.kind, found.content, found.id) == (NoteKind.BARE, content, None)


@pytest.mark.parametrize(
    ("front", "line", "what"),
    [
        (f"id: {ID}\ntitle: a: b", 3, "mapping values are not allowed"),
        (f"id: {ID}\ntitle: [a", 3, "not YAML"),
        (f"id: {ID}\ntags: [a\ntitle: b", 3, "not YAML"),
        (f"id: {ID}\ntitle: 'a\ntier: core", 3, "not YAML"),
        (f'id: {ID}\ntitle: "a', 3, "not YAML"),
        (f"id: {ID}\ntitle: @a", 3, "cannot start any token"),
        (f"id: {ID}\n\ttitle: a", 3, "not YAML"),
        (f'id: {ID}\ntitle: "\\ud800"', 3, ""),
        (f"id: {ID}\ntitle: a\x07b", 3, "U+0007"),
        (f"id: {ID}\nsupports: [[a]], [[b]]", 3, "not YAML"),
        ("- a\n- b", 2, "not a list of properties"),
        ("just words", 2, "not a list of properties"),
        ('{"id": 1}', 2, "in braces"),
        ("a: *nowhere", 2, "alias"),
        ("a: " + "[" * 5000, 2, "nested too deeply"),
        ("\n".join(" " * at + "a:" for at in range(400)), 102, "nested too deeply"),
        ("a: " + "- " * 50, 2, "not YAML"),
    ],
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
    ("front", "line", "what"),
    [
        (f"id: {ID}\nconfidence: 7", 3, "confidence must be between 0 and 1, it says 7"),
        (f"id: {ID}\n\n# c\nconfidence: .nan", 5, "confidence must be between 0 and 1, it says .nan"),
        ("confidence: high", 2, "it says high"),
        (f"id: {ID}\ncreated: yesterday", 3, "created must be a date or a time, it says yesterday"),
        (f"id: {ID}\nvalid_until: 2026-13-01", 3, "valid_until must be a date"),
        (f"id: {ID}\nupdated: [2026-01-01, 2026-01-02]", 3, "updated must be one time"),
        (f"id: {ID}\ntitle: a\ncreated: 03/04/2024", 4, "created must be a date"),
        (f"id: {ID}\nspace: [a, b]", 3, "space must be one project"),
        (f"id: {ID}\normah_id: 42", 3, "ormah_id must be a UUID"),
        (f"id: {ID}\ntier: gold", 3, "tier must be one of core, working, archival, it says gold"),
        (f"id: {ID}\ntitle: {{{{title}}}}", 3, "title must be one text"),
        (f"id: {ID}\ntitle: a\ntitle: b", 4, "title stands twice in the frontmatter, the last one counts"),
        (f"id: {ID}\ntags: [{{a: b}}]", 3, "tags must be one text"),
        (f'id: {ID}\ntitle: "a\\0b"', 3, "title holds a NUL"),
        (f"id: {ID}\nspace: ..", 3, "space cannot be '..'"),
        (f"id: {ID}\nspace: {'x' * 101}", 3, "space has 101 characters"),
        (f"id: {ID}\nsupports: {{a: b}}", 3, "supports must be one text"),
        (
            f"id: {ID}\nsupports: '[[a_12345678]]'\nedges:\n  \"supports:12345678\": {{weight: x}}",
            5,
            "the weight of supports:12345678 must be between 0 and 1, it says x",
        ),
        (f"id: {ID}\nedges: [a]", 3, "edges must be lines"),
        (f"id: {ID}\nguard: maybe", 3, "guard must be one of ask, deny, it says maybe"),
        (f"id: {ID}\npaths: ['**']", 3, "'**' under paths names nothing"),
        (f"id: {ID}\ncommands: {{a: b}}", 3, "commands must be one text"),
        (f"id: {ID}\nsupports: a\nedges:\n  supports:a: {{created: soon}}", 5, "created of supports:a must be a date"),
        (f"id: {ID}\nsupports: a\nedges:\n  supports:a: 0.1\n  'supports:a': 0.2", 6, "supports:a stands twice"),
    ],
)
def test_a_value_that_a_key_cannot_have_is_named_and_hides_nothing(front: str, line: int, what: str) -> None:
    found = parse(f"---\n{front}\n---\nthe body".encode(), "x.md")
    assert found.kind is (NoteKind.NOTE if ID in front else NoteKind.BARE)
    assert found.content == "the body"
    assert [(problem.level, problem.line) for problem in found.problems] == [("warning", line)]
    assert what in found.problems[0].what
    assert found.problems[0].mend


@pytest.mark.parametrize(
    ("front", "node_id", "taken"),
    [
        ("type: book", None, ("type",)), (f"id: {ID}\ntype: meeting", ID, ("type",)), ("id: 42", None, ("id",)),
        ("id: 202301011200", None, ("id",)), ("id: 2026-01-01", None, ("id",)), ("id: [a, b]", None, ("id",)),
        ("type: [a, b]", None, ("type",)), ("id: 97acbe8e\ntype: {a: b}", None, ("id", "type")), ("id: 7\nid: 8", None, ("id",)),
        (f"id: 42\normah_id: {ID}", ID, ("id",)), (f"ormah_id: {ID}\nid: 12345678-1234-4234-8234-123456789abc", ID, ()),
        (f"id:\normah_id: {ID.upper()}", ID, ()), ("id:\ntype:", None, ()), ("ID: 12\nType: Idea", None, ()),
    ],
)  # fmt: skip
def test_an_id_or_type_of_the_person_is_no_fault(front: str, node_id: str | None, taken: tuple[str, ...]) -> None:
    found = parse(f"---\ntitle: Dune\n{front}\n---\nsand [[x]]".encode(), "a/x.md")
    assert (found.kind, found.id) == (NoteKind.NOTE if node_id else NoteKind.BARE, node_id)
    assert (found.type, found.title, found.content, found.taken) == (NodeType.FACT, "Dune", "sand [[x]]", taken)
    assert [problem.what for problem in found.problems if "twice" not in problem.what] == []
    assert [link.target for link in found.links] == ["x"]


def test_ours_stands_beside_what_is_not_ours() -> None:
    front = "type: meeting\normah_type: decision\ntier: A\normah_tier: core\ntitle: {a: b}\normah_title: Dune\ncreated: soon\normah_created: 2026-01-02"
    found = note(front)
    assert (found.type, found.tier, found.title, found.created) == (
        NodeType.DECISION, Tier.CORE, "Dune", datetime(2026, 1, 2, tzinfo=UTC))  # fmt: skip
    assert (found.taken, found.problems) == (("type", "tier", "title", "created"), ())


@pytest.mark.parametrize(
    ("written", "share"),
    [
        ("90%", 0.9),
        ("90 %", 0.9),
        ("4/5", 0.8),
        ("'0,7'", 0.7),
        ("[0.5]", 0.5),
        ("100%", 1.0),
        ("1/0", 1.0),
        ("high", 1.0),
        ("900%", 1.0),
    ],
)
def test_shares_as_people_write_them(written: str, share: float) -> None:
    assert note(f"confidence: {written}").confidence == share


@pytest.mark.parametrize(
    ("front", "path", "created"),
    [
        ("date: 2024-05-01", "a.md", "2024-05-01"), ("created: 2024-05-01\ndate: 2020-01-01", "a.md", "2024-05-01"),
        ("created_at: 2024-05-01 10:00:00", "a.md", "2024-05-01T10:00"), ("date: 1. Mai 2024", "a.md", None), ('date: "[[2024-05-01]]"', "a.md", "2024-05-01"),
        ("createdAt: 2024-05-01T10:00+02:00", "a.md", "2024-05-01T08:00"), ("date: someday\ncreated_at: 2024-05-01", "a.md", "2024-05-01"),
        ("x: 1", "Daily/2024-05-01.md", "2024-05-01"), ("x: 1", "Daily/2024-05-01 Standup.md", "2024-05-01"),
        ("date: 2020-02-02", "2024-05-01.md", "2020-02-02"), ("x: 1", "Z/202405011030 A thought.md", "2024-05-01T10:30"),
        ("x: 1", "2024-13-01.md", None), ("x: 1", "12345678.md", None), ("x: 1", "2024.md", None), ("date: someday", "a.md", None),
    ],
)  # fmt: skip
def test_when_a_note_of_a_persons_was_written(front: str, path: str, created: str | None) -> None:
    expected = None if created is None else datetime.fromisoformat(created).replace(tzinfo=UTC)
    for head in (f"id: {ID}\n{front}", front):
        found = parse(f"---\n{head}\n---\nx".encode(), path)
        assert (found.created, found.problems) == (expected, ())
    if front == "x: 1":
        assert parse(b"no head", path).created == expected


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("Projects/Garden plan.md", "Garden plan"), ("a/Über  uns.MD", "Über uns"), ("u\u0308ber.md", "über"), ("2024-05-01.md", "2024-05-01"),
        ("a/fact/2026-11/fact_red-door_97acbe8e.md", None), ("97acbe8e.md", None), (f"{ID}.md", None), ("x" * 301 + ".md", "x" * 300),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> other\n", 2),
        (f"---\nid: {ID}\n<<<<<<< HEAD\ntitle: b\n||||||| base\n=======\ntitle: c\n>>>>>>> other\n---\n", 3),
        ("a\r\n<<<<<<< HEAD\r\nb\r\n=======\r\nc\r\n>>>>>>> other\r\n", 2),
        ("```\nunclosed fence\n<<<<<<< a\n=======\n>>>>>>> b\n", 3),
        ("<<<<<<< a\n```\n=======\n>>>>>>> b\n```\n", 1),
        ("```\n<<<<<<< a\n=======\n>>>>>>> b\n```\n", None),
        ("> ~~~~ text\n> x\n> ~~~~\nHeading\n=======\n", None),
        ("<<<<<<< a\n>>>>>>> b\n=======\n", None),
        ("    <<<<<<< a\n=======\n>>>>>>> b\n", None),
        ("<<<<<<<< a\n=======\n>>>>>>> b\n", None),
    ],
)
def test_conflict_markers(text: str, line: int | None) -> None:
    found = parse(text.encode(), "x.md")
    assert (found.kind is NoteKind.CONFLICTED) == (line is not None)
    if line is not None:
        assert found.problem is not None
        assert found.problem.line == line
        assert found.id == (ID if ID in text else None)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2026-11-21", datetime(2026, 11, 21, tzinfo=UTC)), ("2026-11-21T20:00", datetime(2026, 11, 21, 20, tzinfo=UTC)),
        ("2026-11-21 20:00:05", datetime(2026, 11, 21, 20, 0, 5, tzinfo=UTC)), ("2026-11-21T20:00:00+02:00", datetime(2026, 11, 21, 18, tzinfo=UTC)),
        ("2026-11-21t20:00:00.25z", datetime(2026, 11, 21, 20, 0, 0, 250_000, tzinfo=UTC)), ('"2026-11-21"', datetime(2026, 11, 21, tzinfo=UTC)),
        ("2026-11-21 8:00:00 -5", datetime(2026, 11, 21, 13, tzinfo=UTC)), ("2026-11-21T20:00:00+0530", datetime(2026, 11, 21, 14, 30, tzinfo=UTC)),
        ("", None), ("null", None), ("~", None),
    ],
)  # fmt: skip
def test_times_as_people_and_editors_write_them(written: str, value: datetime | None) -> None:
    assert note(f"created: {written}").created == value


@pytest.mark.parametrize(
    "written",
    ["9999-12-31T23:59:59-10:00", "0000-01-01", "20:00", "2026-11-21T25:00", "42", "May 2024", "someday", "11/12/2024"],
)
def test_no_times(written: str) -> None:
    found = note(f"created: {written}")
    assert (found.kind, found.created, found.taken) == (NoteKind.NOTE, None, ("created",))


@pytest.mark.parametrize(
    ("written", "tags"),
    [
        ("tags: one", ("one",)), ("tags: a, b", ("a", "b")), ("tags: '#a #b'", ("a", "b")), ("tags:\n  - a\n  - '#b'\n  -\n  - a", ("a", "b")),
        ("tags: [2024, yes, a b, null, '']", ("2024", "yes", "a b")), ("tags:", ()), ("tags: []", ()), ("tags:\n- C#\n- a/b", ("C#", "a/b")),
        ("tags: &t [x]\nmore: *t", ("x",)), ("more: &t [x]\ntags: *t", ("x",)),
    ],
)  # fmt: skip
def test_tags(written: str, tags: tuple[str, ...]) -> None:
    found = note(written)
    assert (found.kind, found.tags) == (NoteKind.NOTE, tags)


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


@pytest.mark.parametrize(
    ("written", "targets"),
    [
        ('related_to: ["[[a]]"]', ["a"]), ('related_to: "[[a]]"', ["a"]), ('related_to: "[[a]], [[b|B]]"', ["a", "b"]), ("related_to: [[a]]", ["a"]),
        ("related_to: [[a|b, c]]", ["a"]), ("related_to:\n  - [[a]]\n  - '[[b#h]]'\n  - \"[[c^d]]\"\n  - '[[a]]'", ["a", "b", "c"]),
        ("related_to: Some note.md", ["Some note.md"]), ("related_to: '[[#heading]]'", []), ("related_to:", []), ("related_to: []", []),
        ("related_to: ['[[f/fact_a_12345678|x]]', '[[fact_b_12345678]]']", ["f/fact_a_12345678"]),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("body", "targets"),
    [
        ("[[a]] and [[b|B]] and [[a#h]]", ["a", "b"]), ("`[[a]]` ``[[b]] ` `` [[c]]", ["c"]), ("```\n[[a]]\n```\n[[b]]", ["b"]),
        ("~~~ md\n[[a]]\n```\n~~~\n[[b]]", ["b"]), ("```\n[[a]]", []), ("- ```\n  [[a]]\n  ```\n- [[b]]", ["b"]), ("![[pic.png]] ![[pic.JPG|300]] ![[note]]", ["note"]),
        ("[[doc.pdf]] [[v1.2]]", ["v1.2"]), (r"\[[a]] [[b\|c]]", ["b"]), ("[[[a]]]", ["a"]), ("m = [[1, 2], [3, 4]]", []), ("a ` b\n\n[[c]] ` d", ["c"]),
        ("[a](My%20Note.md) and [b](<other note.md>)", ["My Note.md", "other note.md"]), ("![e](x.MD#h) [[y]]", ["y", "x.MD"]),
        ('[t](sub/a.md "A title") [u](./b.md) [v](../c/d.md)', ["sub/a.md", "./b.md", "../c/d.md"]), ("[p](Note%20(2).md)", ["Note (2).md"]),
        ("[w](https://example.org/a.md) [x](//host/a.md) [m](mailto:a@b.md)", []), ("[f](a.pdf) [g](a) [h](#top) [i]()", []), ("`[a](b.md)`", []),
        ("[a [b] c](d.md)", ["d.md"]), ("[open](a.md", []), ("[%](%zz.md)", ["%zz.md"]), ("[x](a%0Ab.md)", []),
        ("[[ ]] [[#x]] [[\n]]", []), ("| [[a\\|b]] |", ["a"]), ("[[KNOWN_12345678]] [[other/known_12345678]]", []), ("[[Known One]]", []),
    ],
)  # fmt: skip
def test_body_links(body: str, targets: list[str]) -> None:
    found = note("supports: ['[[fact_12345678]]', '[[known one]]']", body)
    assert [link.target for link in found.links if link.body] == targets
    assert all(link.edge is EdgeType.RELATED_TO for link in found.links if link.body)


@pytest.mark.parametrize(
    ("path", "front", "kind", "space"),
    [
        ("proj/decision/2026-11/x.md", "", NodeType.DECISION, "proj"), ("ormah/proj/decision/2026-11/x.md", "", NodeType.DECISION, "proj"),
        ("global/decision/2026-11/x.md", "", NodeType.DECISION, None), ("proj/decision/x.md", "", NodeType.DECISION, "proj"),
        ("ormah/person/fact/2026-11/x.md", "", NodeType.FACT, "person"), ("proj/notes/x.md", "", NodeType.FACT, None), ("decision/x.md", "", NodeType.FACT, None),
        ("x.md", "", NodeType.FACT, None), ("proj/decision/2026-11/x.md", "type: goal\nspace: Other", NodeType.GOAL, "Other"),
        ("proj/decision/2026-11/x.md", "space:", NodeType.DECISION, None), ("proj/decision/2026-11/x.md", "space: global", NodeType.DECISION, None),
    ],
)  # fmt: skip
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
