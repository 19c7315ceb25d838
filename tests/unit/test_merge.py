"""The merge of notes: examples first, then what holds for any three versions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.model.node import EdgeType, NodeType, Tier
from ormahd.note.edit import edit
from ormahd.note.merge import merge_file, merged_set
from ormahd.note.read import parse
from ormahd.note.values import NoteKind, NoteLink
from ormahd.note.write import compose, give_id
from tests.tables import rows

PATH = "ormah/fact/2026-11/fact_uv-is-fast_97acbe8e.md"
ID = "97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1"
NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)
TARGETS = [f"fact_other_{digit * 8}" for digit in "123"]
TEXT = "one\n\ntwo\n\nthree\n\nfour"


def note(**changes: Any) -> bytes:
    values: dict[str, Any] = {
        "id": ID, "type": NodeType.FACT, "tier": Tier.WORKING, "space": "ormah", "title": "uv is fast", "tags": ["a"],
        "source": "agent:x", "confidence": 1.0, "created": NOW, "updated": NOW, "content": TEXT,
        "links": [NoteLink(EdgeType.SUPPORTS, TARGETS[0], 0.8, NOW, "why")],
    }  # fmt: skip
    return compose(**{**values, **changes})


BASE = note()


def merged(ours: bytes, theirs: bytes, base: bytes | None = BASE) -> bytes:
    result = merge_file(base, ours, theirs, PATH)
    assert result.conflicts == ()
    assert result.data is not None
    return result.data


def conflicts(ours: bytes, theirs: bytes, base: bytes | None = BASE) -> list[str]:
    result = merge_file(base, ours, theirs, PATH)
    assert result.data is None
    return [conflict.field for conflict in result.conflicts]


def sub(data: bytes, old: str, new: str) -> bytes:
    assert old.encode() in data
    return data.replace(old.encode(), new.encode(), 1)


def test_edits_of_different_fields_meet_in_both_orders_of_bytes() -> None:
    ours = edit(BASE, PATH, set={"title": "uv is very fast", "updated": NOW + timedelta(days=1)})
    theirs = edit(BASE, PATH, set={"tier": Tier.CORE, "updated": NOW + timedelta(days=2)}, content=TEXT + "\n\nfive")
    expected = edit(theirs, PATH, set={"title": "uv is very fast"})
    assert merged(ours, theirs) == merged(theirs, ours) == expected


def test_what_a_person_wrote_stays_as_it_is_written() -> None:
    person = (
        f"\ufeff---\r\n# mine\r\nid: {ID}   # do not touch\r\ncssclass: wide\r\ntags:\r\n    - a   # first\r\n"
        "title: 'uv is fast'\r\nrating:   5\r\n# the end\r\n---\r\n\r\n\r\nText.\r\n\r\n\r\n"
    ).encode()
    ours = sub(person, "wide", "narrow")
    theirs = edit(person, PATH, set={"title": "uv is quick", "tags": ["a", "b"]}, content="Text.\n\nMore.")
    for result in (merged(ours, theirs, person), merged(theirs, ours, person)):
        assert result == sub(theirs, "wide", "narrow")


def test_tags_and_aliases_merge_as_sets() -> None:
    base = sub(note(tags=["a", "b", "c"]), "---\nid", "---\naliases: [x, y]\nid")
    ours = sub(edit(base, PATH, set={"tags": ["a", "c", "d"]}), "[x, y]", "[x, y, z]")
    theirs = sub(edit(base, PATH, set={"tags": ["b", "c", "e"]}), "[x, y]", "[y, w]")
    for one, other in ((ours, theirs), (theirs, ours)):
        result = parse(merged(one, other, base), PATH)
        assert set(result.tags) == {"c", "d", "e"}
        assert set(result.aliases) == {"y", "z", "w"}


def test_edges_merge_one_by_one() -> None:
    one, two, three = (NoteLink(EdgeType.SUPPORTS, target) for target in TARGETS)
    part = NoteLink(EdgeType.PART_OF, TARGETS[0], 0.9, NOW, "belongs")
    base = note(links=[one, two])
    ours = edit(
        base, PATH, link=[NoteLink(EdgeType.SUPPORTS, TARGETS[2], 0.7)], unlink=[(EdgeType.SUPPORTS, TARGETS[0])]
    )
    theirs = edit(base, PATH, link=[part, NoteLink(EdgeType.SUPPORTS, TARGETS[1], 0.6, NOW, "because")])
    for left, right in ((ours, theirs), (theirs, ours)):
        links = {link.key: link for link in parse(merged(left, right, base), PATH).links}
        assert links == {
            two.key: NoteLink(EdgeType.SUPPORTS, TARGETS[1], 0.6, NOW, "because"),
            three.key: NoteLink(EdgeType.SUPPORTS, TARGETS[2], 0.7),
            part.key: part,
        }


def test_both_changed_an_edge() -> None:
    link = NoteLink(EdgeType.SUPPORTS, TARGETS[0], 0.8, NOW, "why")
    heavier = edit(BASE, PATH, link=[NoteLink(link.edge, link.target, 0.9, NOW, "why")])
    lighter = edit(BASE, PATH, link=[NoteLink(link.edge, link.target, 0.3, NOW - timedelta(days=1), "why")])
    kept = parse(merged(heavier, lighter), PATH).links
    assert kept == parse(merged(lighter, heavier), PATH).links
    assert kept == (NoteLink(link.edge, link.target, 0.9, NOW - timedelta(days=1), "why"),)
    gone = edit(BASE, PATH, unlink=[(link.edge, link.target)])
    assert conflicts(heavier, gone) == ["supports:11111111"]
    reasons = [edit(BASE, PATH, link=[NoteLink(link.edge, link.target, 0.8, NOW, reason)]) for reason in ("x", "y")]
    assert conflicts(*reasons) == ["supports:11111111 reason"]


def test_what_edges_says_of_links_in_the_text_merges_too() -> None:
    base = note(links=[], content=f"[[{TARGETS[0]}]] and [[{TARGETS[1]}]]")
    lines = [f'edges:\n  "related_to:{digit * 8}": {{weight: 0.9}}\n---\n' for digit in "12"]
    ours, theirs = (b"---\n" + sub(base[4:], "---\n", line) for line in lines)
    assert parse(merged(ours, base, base), PATH).links[0].weight == 0.9
    both = [link.weight for link in parse(merged(ours, theirs, base), PATH).links]
    assert both == [link.weight for link in parse(merged(theirs, ours, base), PATH).links] == [0.9, 0.9]
    longer = edit(theirs, PATH, set={"title": "longer"})
    changed = edit(base, PATH, set={"title": "other"})
    assert conflicts(longer, changed, base) == ["title"]


def test_rules_where_both_changed() -> None:
    ours = edit(BASE, PATH, set={"tier": Tier.ARCHIVAL, "updated": NOW + timedelta(days=2)})
    theirs = edit(BASE, PATH, set={"tier": Tier.CORE, "updated": NOW + timedelta(days=1)})
    result = merge_file(BASE, ours, theirs, PATH)
    assert result.reasons == ("tier: core of archival and core, the higher",)
    assert result.data is not None
    assert (parse(result.data, PATH).tier, parse(result.data, PATH).updated) == (Tier.CORE, NOW + timedelta(days=2))
    out = [edit(BASE, PATH, set={"valid_until": NOW + timedelta(days=n), "outdated_reason": "old"}) for n in (1, 2)]
    assert parse(merged(*out), PATH).valid_until == NOW + timedelta(days=1)


@pytest.mark.parametrize(("name", "one", "other"), rows(__file__, "true_conflicts_name_the_field_and_the_versions"))
def test_true_conflicts_name_the_field_and_the_versions(name: str, one: Any, other: Any) -> None:
    ours, theirs = (edit(BASE, PATH, set={name: value}) for value in (one, other))
    result = merge_file(BASE, ours, theirs, PATH)
    assert result.data is None
    (conflict,) = result.conflicts
    assert (conflict.path, conflict.node, conflict.field) == (PATH, ID, name)
    assert (conflict.ours, conflict.theirs) == (str(one), None if other is None else str(other))
    assert conflicts(theirs, ours) == [name]


def test_keys_of_other_programs() -> None:
    base = sub(BASE, "tags: [a]", "x: 1\ny:\n  - 1\ntags: [a]")
    ours = sub(base, "x: 1", "x: 2")
    theirs = sub(sub(base, "y:\n  - 1\n", "y: {deep: [1]}\n"), "x: 1\n", "x: 1\n# about z\nz: 'new'\n")
    expected = sub(theirs, "x: 1", "x: 2")
    assert merged(ours, theirs, base) == merged(theirs, ours, base) == expected
    assert conflicts(ours, sub(base, "x: 1", "x: 3"), base) == ["x"]
    assert conflicts(ours, sub(base, "x: 1\n", ""), base) == ["x"]
    one, other = (sub(edit(base, PATH, set={"title": title}), "x: 1", f"x: {title}") for title in ("2", "3"))
    assert conflicts(one, other, base) == ["title", "x"], "ours before those of other programs"
    assert b"x:" not in merged(sub(base, "x: 1\n", ""), edit(base, PATH, set={"tags": ["b"]}), base)


def texts(base: str, ours: str, theirs: str) -> str | None:
    """What a text becomes, the same from both sides; None: a conflict."""
    versions = [edit(BASE, PATH, content=text) for text in (base, ours, theirs)]
    results = [merge_file(versions[0], *sides, PATH) for sides in (versions[1:], versions[:0:-1])]
    found = [None if result.data is None else parse(result.data, PATH).content for result in results]
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(("base", "ours", "theirs", "result"), rows(__file__, "changes_that_only_touch_are_both_kept"))
def test_changes_that_only_touch_are_both_kept(base: str, ours: str, theirs: str, result: str | None) -> None:
    assert texts(base, ours, theirs) == result


def test_texts_merge_by_line_and_edits_of_one_line_conflict() -> None:
    ours = edit(BASE, PATH, content=TEXT.replace("one", "One"))
    theirs = edit(BASE, PATH, content=TEXT.replace("four", "Four"))
    assert parse(merged(ours, theirs), PATH).content == "One\n\ntwo\n\nthree\n\nFour"
    other = edit(BASE, PATH, content=TEXT.replace("one", "1"))
    result = merge_file(BASE, ours, other, PATH)
    assert [(c.field, c.base, c.ours, c.theirs) for c in result.conflicts] == [
        ("content", TEXT, TEXT.replace("one", "One"), TEXT.replace("one", "1"))
    ]
    assert parse(merged(ours, edit(ours, PATH, set={"title": "x"})), PATH).title == "x"


def test_notes_with_different_ids_are_not_merged() -> None:
    other = note(id="1" + ID[1:], content="something else")
    assert conflicts(edit(BASE, PATH, content="new"), other) == ["id"]
    assert conflicts(edit(BASE, PATH, content="new"), edit(BASE, PATH, content="x"), other) == ["id"]


def test_added_on_both_sides() -> None:
    ours, theirs = note(tags=["a", "b"]), note(tags=["c"], updated=NOW + timedelta(days=1))
    both = parse(merged(ours, theirs, None), PATH)
    assert (both.tags, both.updated) == (("a", "b", "c"), NOW + timedelta(days=1))
    assert conflicts(note(title="x"), note(title="y", content="z"), None) == ["title", "content"]
    assert merged(BASE, BASE, None) == BASE


def test_adopted_here_and_edited_there() -> None:
    bare = b"first line\n\nsecond line\n"
    ours = f"---\nid: {ID}\ntype: fact\ncreated: 2026-11-21T20:00:00Z\n---\nfirst line\n\nsecond line\n".encode()
    theirs = b"first line, longer\n\nsecond line\n"
    for one, other in ((ours, theirs), (theirs, ours)):
        assert merged(one, other, bare) == sub(ours, "first line", "first line, longer")
    assert merged(ours, sub(ours, "20:00", "19:00"), bare) == sub(ours, "20:00", "19:00")
    assert merged(sub(bare, "second", "2nd"), bare, ours) == sub(bare, "second", "2nd")


def test_files_that_are_no_notes_merge_as_text_without_markers() -> None:
    broken = b"---\nid: [\n---\na\n\nb\n\nc\n"
    assert merged(sub(broken, "a\n", "A\n"), sub(broken, "c\n", "C\n"), broken) == b"---\nid: [\n---\nA\n\nb\n\nC\n"
    assert conflicts(sub(broken, "a\n", "A\n"), sub(broken, "a\n", "B\n"), broken) == ["text"]
    latin = b"caf\xe9\n\nb\n\nc"
    assert merged(latin + b"\n", b"x" + latin, latin) == b"x" + latin + b"\n"
    assert conflicts(b"a", b"b", None) == ["text"]
    marked = b"<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n\nz\n"
    assert conflicts(marked, b"w\n", b"z\n") == ["text"]
    assert conflicts(sub(marked, "z", "w"), b"0\n\n" + marked, marked) == ["text"]


def test_a_person_broke_the_frontmatter_while_we_edited() -> None:
    theirs = sub(BASE, "title: uv is fast", 'title: "uv is fast')
    assert parse(theirs, PATH).kind is NoteKind.BROKEN
    assert merged(edit(BASE, PATH, content=TEXT + "\n\nfive"), theirs) == sub(theirs, "four", "four\n\nfive")


def test_long_texts_end_in_time() -> None:
    lines = [f"{n % 7}" for n in range(60_000)]
    ours, theirs = ["x", *lines[::-1], "y"], [*lines[:100], "z", *lines[100:]]
    versions = [note(content="\n".join(version)) for version in (lines, ours, theirs)]
    assert conflicts(versions[1], versions[2], versions[0]) == ["content"]
    assert parse(merged(versions[0] + b"\nx\n", versions[2], versions[0]), PATH).content.endswith("x")


# What holds for any versions

words = st.sampled_from(["alpha", "beta", "gamma", "Ünïcode: #x", "- item", "'quoted'", "[[link]]"])
dates = st.integers(0, 5).map(lambda count: NOW + timedelta(days=count))
links = st.builds(
    NoteLink, st.sampled_from(list(EdgeType)), st.sampled_from(TARGETS), st.sampled_from([0.5, 0.7]),
    st.none() | dates, st.none() | words,
)  # fmt: skip
contents = st.lists(words | st.just(""), max_size=6).map("\n".join)
changes = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(list(NodeType)), "tier": st.sampled_from(list(Tier)), "title": st.none() | words,
        "tags": st.lists(words, max_size=3), "updated": dates, "confidence": st.sampled_from([0.5, 1.0]),
        "space": st.none() | words, "content": contents, "links": st.lists(links, max_size=3),
        "valid_until": st.none() | dates, "outdated_reason": st.none() | words, "extra": words,
        "crlf": st.just(True),
    },
)  # fmt: skip


def version(made: dict[str, Any]) -> bytes:
    made = dict(made)
    crlf, extra = made.pop("crlf", False), made.pop("extra", None)
    data = note(**made)
    if extra:
        data = sub(data, "source:", f"# about mine\nmine: |\n  {extra}\nsource:")
    return data.replace(b"\n", b"\r\n") if crlf else data


versions = changes.map(version)


def said(data: bytes) -> tuple[Any, ...]:
    """What a note says, without its form."""
    read = parse(data, PATH)
    assert read.kind is NoteKind.NOTE
    mine = [line for line in data.decode().replace("\r\n", "\n").split("\n") if line.startswith(("mine", "# about"))]
    return (read.id, read.type, read.tier, read.space, read.title, frozenset(read.tags), read.confidence, read.created,
            read.updated, read.valid_until, read.outdated_reason, frozenset(read.links), read.content, tuple(mine))  # fmt: skip


@given(st.binary(max_size=60) | versions, st.binary(max_size=60) | versions)
def test_where_one_side_is_the_base_the_other_is_the_result(x: bytes, y: bytes) -> None:
    assert merge_file(x, x, y, PATH).data == y
    assert merge_file(x, y, x, PATH).data == y
    assert merge_file(x, y, y, PATH).data == y
    assert merge_file(None, y, y, PATH).data == y


@given(st.none() | versions, versions, versions)
def test_symmetric_up_to_form(base: bytes | None, ours: bytes, theirs: bytes) -> None:
    one, other = merge_file(base, ours, theirs, PATH), merge_file(base, theirs, ours, PATH)
    assert {c.field for c in one.conflicts} == {c.field for c in other.conflicts}
    assert (one.data is None) == bool(one.conflicts) == (other.data is None)
    if one.data is not None and other.data is not None:
        assert said(one.data) == said(other.data)


@given(changes, changes, changes)
def test_disjoint_edits_always_merge(before: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    theirs = {key: value for key, value in theirs.items() if key not in ours}
    result = merged(version({**before, **ours}), version({**before, **theirs}), version(before))
    assert said(result) == said(version({**before, **ours, **theirs}))


@given(st.lists(st.sampled_from("abc"), min_size=40, max_size=40), st.data())
def test_lines_changed_apart_are_never_lost(body: list[str], data: st.DataObject) -> None:
    lines = [f"{number} {letter}" for number, letter in enumerate(body)]
    cut = data.draw(st.integers(5, 35))
    ours_at = data.draw(st.sets(st.integers(0, cut - 2), min_size=1))
    theirs_at = data.draw(st.sets(st.integers(cut, 39), min_size=1))
    ours = [f"ours {line}" if at in ours_at else line for at, line in enumerate(lines)]
    theirs = [f"theirs {line}" if at in theirs_at else line for at, line in enumerate(lines)]
    result = merged(note(content="\n".join(ours)), note(content="\n".join(theirs)), note(content="\n".join(lines)))
    both = [theirs[at] if at in theirs_at else ours[at] for at in range(40)]
    assert parse(result, PATH).content == "\n".join(both)


@given(st.binary(max_size=80) | versions, st.binary(max_size=80) | versions, st.binary(max_size=80) | versions)
def test_any_bytes_merge_or_conflict_and_never_leave_markers(base: bytes, ours: bytes, theirs: bytes) -> None:
    result = merge_file(base, ours, theirs, PATH)
    assert (result.data is None) == bool(result.conflicts)
    if result.data is not None and result.data not in (ours, theirs):
        assert parse(result.data, PATH).kind is not NoteKind.CONFLICTED


@given(*[st.lists(st.integers(0, 6), unique=True)] * 3)
def test_sets(base: list[int], ours: list[int], theirs: list[int]) -> None:
    result = merged_set(base, ours, theirs)
    assert set(result) == set(merged_set(base, theirs, ours))
    for item in range(7):
        changed = [(item in side) != (item in base) for side in (ours, theirs)]
        assert (item in result) == ((item in base) != any(changed))


@given(changes, changes)
def test_an_undo_after_another_edit_gives_the_old_lines_back(op: dict[str, Any], later: dict[str, Any]) -> None:
    """base = what the op made, theirs = what was there before it, ours = today."""
    after, today = version(op), version({**op, **{key: value for key, value in later.items() if key not in op}})
    old = version({})
    result = merged(today, old, after)
    assert said(result) == said(version({key: value for key, value in later.items() if key not in op}))
    if today == after:
        assert result == old


def test_with_ours_kept_all_else_is_merged() -> None:
    base = note(content="one\n\ntwo\n\nthree", title="A title", tags=["a"])
    ours = sub(edit(base, PATH, set={"title": "Ours"}, content="one, ours\n\ntwo\n\nthree"), "tags", "mine: 1\ntags")
    theirs = edit(base, PATH, set={"title": "Theirs", "tags": ["a", "b"]}, content="one, theirs\n\ntwo\n\nthree!")
    theirs = sub(theirs, "tags", "mine: 2\ntags")
    merge = merge_file(base, ours, theirs, PATH, keep_ours=True)
    assert {conflict.field for conflict in merge.conflicts} == {"title", "content", "mine"}
    result = parse(merge.data or b"", PATH)
    assert (result.title, set(result.tags)) == ("Ours", {"a", "b"})
    assert result.content == "one, ours\n\ntwo\n\nthree!"
    assert b"mine: 1\n" in (merge.data or b"")


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [(b"a\n", b"b\n", b"c\n"), (None, b"b\n", b"c\n"), (b"\0a", b"\0b", b"\0c"), (BASE, b"---\nid: [\n---\n", b"x")],
)
def test_with_ours_kept_what_is_no_note_is_ours(base: bytes | None, ours: bytes, theirs: bytes) -> None:
    merge = merge_file(base, ours, theirs, "x.md", keep_ours=True)
    assert merge.data == ours
    assert merge.conflicts


def test_a_type_and_an_id_of_the_persons_merge_as_keys_of_theirs() -> None:
    base = sub(sub(BASE, "type: fact\n", "type: meeting\n"), f"id: {ID}\n", f"id: 42\normah_id: {ID}\n")
    ours = sub(base, "type: meeting\n", "type: book\n")
    theirs = edit(base, PATH, set={"type": NodeType.DECISION, "tier": Tier.CORE})
    assert b"type: meeting\normah_type: decision\n" in theirs
    result = merged(ours, theirs, base)
    assert result == merged(theirs, ours, base) == sub(theirs, "type: meeting\n", "type: book\n")
    assert merged(ours, sub(base, "id: 42\n", "id: 43\n"), base) == sub(ours, "id: 42\n", "id: 43\n")
    assert conflicts(ours, sub(base, "type: meeting\n", "type: film\n"), base) == ["type"]


def test_a_note_that_gets_an_id_meets_an_edit_of_it_with_an_id_of_its_own() -> None:
    base = b"---\nid: 42\ntype: book\n---\none\n\ntwo\n"
    ours = give_id(base, "a.md", id=ID, created=NOW)
    theirs = base.replace(b"two", b"zwei").replace(b"type: book", b"type: film")
    result = merge_file(base, ours, theirs, "a.md")
    assert result.data == give_id(theirs, "a.md", id=ID, created=NOW)


def test_a_key_that_stands_twice_merges_as_text() -> None:
    base = sub(BASE, "title: uv is fast\n", "title: a\ntitle: uv is fast\n")
    ours, theirs = sub(base, "tier: working", "tier: core"), sub(base, "four", "four!")
    assert merged(ours, theirs, base) == sub(ours, "four", "four!")
