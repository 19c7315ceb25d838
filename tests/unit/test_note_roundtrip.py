"""Properties of the codec: what is composed is read back, what is edited changes nothing else, nothing raises."""

from __future__ import annotations

import string
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from ormahd.errors import InvalidNote
from ormahd.model.node import EdgeType, NodeType, NoteGuard, NoteStanding, Tier, glob_fault
from ormahd.note.edit import edit
from ormahd.note.fields import clean_tag
from ormahd.note.frontmatter import Loader, PythonLoader, quoted, read, scalar
from ormahd.note.markdown import normalise
from ormahd.note.read import digest, parse
from ormahd.note.values import Note, NoteKind, NoteLink
from ormahd.note.write import compose, give_id
from tests.examples import examples

ID = "97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1"
PATH = "global/fact/2026-11/fact_x_97acbe8e.md"

_unicode = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
_nasty = st.sampled_from(
    [": ", " #", "- ", "? ", "---", "...", "'", '"', "\\", "{", "}", "[", "]", ",", "&", "*", "!", "|", ">", "%", "@", "`",
     "yes", "null", "~", "1e3", "0x1F", "1:20", "2026-11-21", "<<", "=", "😀", "שלום", "日本", "é", "\t", "\u2028", "\x85",
     "\ufeff", "[[x]]", "#", " ", "a", "Z"]
)  # fmt: skip
_text = st.lists(st.one_of(_nasty, st.text(_unicode, max_size=4)), max_size=8).map("".join)
_line = _text.map(lambda text: " ".join(text.split()))
_prose = st.lists(st.one_of(_nasty, st.just("\n"), st.just("\r\n"), st.text(_unicode, max_size=4)), max_size=8).map(
    "".join
)
_time = st.datetimes(
    datetime(1, 1, 3),
    datetime(9999, 12, 29),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)
_share = st.floats(0, 1).map(lambda number: number + 0.0)
_stem = st.text(st.sampled_from(string.ascii_letters + string.digits + " _-.,:'é日😀&!"), min_size=1, max_size=12).map(
    lambda text: " ".join(text.split()) or "x"
)
_target = st.one_of(_stem, st.tuples(_stem, st.from_regex(r"[0-9a-f]{8}", fullmatch=True)).map("_".join))
_link = st.builds(
    NoteLink, st.sampled_from(EdgeType), _target, _share, st.none() | _time,
    st.none() | _prose.filter(lambda text: bool(text.strip())),
)  # fmt: skip
_tags = st.lists(_line.map(clean_tag).filter(bool), max_size=4, unique=True)
_body = st.lists(
    st.one_of(
        st.sampled_from(["\n", "\r\n", "---\n", "...\n", "# h\n", "```\n", "[[fact_a_12345678]]", "  ", "a: b\n"]),
        _text,
    ),
    max_size=8,
).map("".join)


_globs = st.lists(_line.filter(lambda text: bool(text) and glob_fault(text) is None), max_size=3, unique=True).map(
    tuple
)


@st.composite
def _fields(draw: st.DrawFn) -> dict[str, Any]:
    links = draw(st.lists(_link, max_size=4))
    space = draw(st.none() | _line.filter(lambda t: bool(t) and t not in {".", ".."} and t.casefold() != "global"))
    return {
        "id": ID, "type": draw(st.sampled_from(NodeType)), "tier": draw(st.sampled_from(Tier)),
        "space": space, "everywhere": space is None and draw(st.booleans()),
        "title": draw(st.none() | _line.filter(bool)), "tags": draw(_tags), "source": draw(_line.filter(bool)),
        "confidence": draw(_share), "created": draw(_time), "updated": draw(_time), "content": draw(_body),
        "links": list({link.key: link for link in links}.values()), "valid_until": draw(st.none() | _time),
        "outdated_reason": draw(st.none() | _prose.filter(lambda text: bool(text.strip()))),
        "standing": draw(st.none() | st.sampled_from(NoteStanding)), "guard": draw(st.none() | st.sampled_from(NoteGuard)),
        "because": draw(st.none() | _prose.filter(lambda text: bool(text.strip()))),
        "paths": draw(_globs), "commands": draw(_globs),
    }  # fmt: skip


@given(_fields())
def test_what_is_composed_is_read_back(fields: dict[str, Any]) -> None:
    data = compose(**fields)
    note = parse(data, PATH)
    assert note.kind is NoteKind.NOTE
    assert note.problems == ()
    for key, value in fields.items():
        if key in {"links", "content", "tags"}:
            continue
        assert getattr(note, key) == value, key
    assert note.tags == tuple(fields["tags"])
    assert note.content == normalise(fields["content"])
    assert {link.key: link for link in note.links if not link.body} == {link.key: link for link in fields["links"]}
    assert note.digest == digest(data)
    assert data.endswith(b"\n")
    assert not data.endswith(b"\n\n")
    again = {key: getattr(note, key) for key in fields}
    assert compose(**again) == data


@given(_fields())
def test_both_parsers_see_the_same_places(fields: dict[str, Any]) -> None:
    text = compose(**fields).decode()
    fast, slow = read(text, Loader), read(text, PythonLoader)
    assert fast is not None
    assert slow is not None
    assert list(fast.pairs) == list(slow.pairs)
    for key in fast.pairs:
        a, b = fast.pairs[key][1], slow.pairs[key][1]
        assert fast.raw(a).strip() == slow.raw(b).strip()


@settings(max_examples=examples(100))
@given(_text)
@example("agent:x")
@example("a: b")
@example("null")
@example("é:")
def test_every_text_is_one_line_of_yaml(text: str) -> None:
    for key, value in {
        "a": scalar(text),
        "b": f"[{scalar(text, flow=True)}]",
        "c": quoted(text),
        "d": f"{{{quoted(text)}: x}}",
    }.items():
        assert "\n" not in value
        for loader in (Loader, PythonLoader):
            block = read(f"---\n{key}: {value}\n---\n", loader)
            assert block is not None
            node = block.pairs[key][1]
            found = {"b": lambda n: n.value[0], "d": lambda n: n.value[0][0]}.get(key, lambda n: n)(node)
            assert found.value == text, loader


_lines_of_a_person = st.lists(
    st.sampled_from(
        ["cssclasses: [wide]", "# a comment", "rating: 5   # good", "due: 2026-01-01", 'weird: "a: b"', "empty:",
         "list:\n  - a\n\n  # in between\n  - b", "text: |\n  one\n\n  # two", "fold: >-\n  a\n  b", "map:\n  k: v\n  l: [1,2]",
         "anchor: &a [1]", "? complex\n: value", "  ", "flow: {a: 1,\n  b: 2}", "plain: goes\n  on here", "yes: no"]
    ),
    unique=True, max_size=6,
)  # fmt: skip


@st.composite
def _by_hand(draw: st.DrawFn) -> bytes:
    """A note of ours that a person has been at: their keys between ours, their line ends, BOM, quotes."""
    data = compose(**draw(_fields())).decode()
    head, _, body = data[4:].partition("\n---\n")
    lines = head.split("\n")
    extra = draw(_lines_of_a_person)
    entries: list[list[str]] = []
    for line in lines:
        if line.startswith(" "):
            entries[-1].append(line)
        else:
            entries.append([line])
    for more in extra:
        entries.insert(draw(st.integers(0, len(entries))), more.split("\n"))
    all_lines = ["---", *(line for entry in entries for line in entry), "---", *body.split("\n")]
    ends = draw(st.sampled_from(["\n", "\r\n", "mixed"]))
    out = "".join(
        line + (draw(st.sampled_from(["\n", "\r\n"])) if ends == "mixed" else ends) for line in all_lines[:-1]
    ) + draw(st.sampled_from(["", "\n", "no newline"]))
    return (draw(st.sampled_from(["", "\ufeff"])) + out).encode()


_setting = st.one_of(
    st.tuples(st.just("type"), st.sampled_from(NodeType)), st.tuples(st.just("tier"), st.sampled_from(Tier)),
    st.tuples(st.just("title"), st.none() | _line.filter(bool)), st.tuples(st.just("tags"), _tags.map(tuple)),
    st.tuples(st.just("source"), _line.filter(bool)), st.tuples(st.just("confidence"), _share),
    st.tuples(st.just("created"), _time), st.tuples(st.just("updated"), _time),
    st.tuples(st.just("valid_until"), st.none() | _time),
    st.tuples(st.just("outdated_reason"), st.none() | _prose.filter(lambda text: bool(text.strip()))),
    st.tuples(st.just("guard"), st.none() | st.sampled_from(NoteGuard)), st.tuples(st.just("commands"), _globs),
    st.tuples(st.just("paths"), _globs), st.tuples(st.just("standing"), st.none() | st.sampled_from(NoteStanding)),
    st.tuples(st.just("space"), st.none() | _line.filter(lambda t: t.strip(".") != "" and t.casefold() != "global")),
)  # fmt: skip


def _without(note: Note, key: str) -> dict[str, Any]:
    return {name: value for name, value in asdict(note).items() if name not in {key, "digest"}}


@settings(max_examples=examples(66))
@given(_by_hand(), _setting)
def test_an_edit_changes_its_key_alone(data: bytes, wish: tuple[str, Any]) -> None:
    before = parse(data, PATH)
    assert before.kind is NoteKind.NOTE, before.problems
    key, value = wish
    edited = edit(data, PATH, set={key: value})
    after = parse(edited, PATH)
    assert getattr(after, key) == (value if value is not None else None)
    placed = key == "space" and value is not None  # a space takes `global: true` away
    taken = {"everywhere": False} if placed else {}
    assert _without(after, key) == _without(before, key) | taken
    assert edit(edited, PATH, set={key: value}) == edited
    if value == getattr(before, key):
        assert edited == data
    block = read(data.decode())
    assert block is not None
    whole = data.decode()
    for other, (name, node) in block.pairs.items():  # everything else is there as it was, its line ends too
        if other != key and not (placed and other == "global"):
            start, end = block.start + name.start_mark.index, block.start + node.end_mark.index
            assert whole[start:end].rstrip().encode() in edited
    assert edited.startswith(b"\xef\xbb\xbf") == data.startswith(b"\xef\xbb\xbf")
    assert edited.endswith(whole[block.end :].encode())
    cleared = edit(edited, PATH, clear=[key])
    assert f"\n{key}:".encode() not in cleared[: cleared.index(b"\n---")]
    assert _without(parse(cleared, PATH), key) == _without(before, key) | taken


@settings(max_examples=examples(66))
@given(_by_hand(), st.lists(_link, min_size=1, max_size=3), st.data())
def test_edges_come_and_go(data: bytes, links: list[NoteLink], more: st.DataObject) -> None:
    links = list({link.key: link for link in links}.values())
    before = parse(data, PATH)
    edited = edit(data, PATH, link=links)
    after = {link.key: link for link in parse(edited, PATH).links if not link.body}
    old = {link.key: link for link in before.links if not link.body}
    for link in links:
        kept = old.get(link.key, link)
        assert after[link.key] == replace(link, target=kept.target)
    assert {key: link for key, link in after.items() if key not in {link.key for link in links}} == {
        key: link for key, link in old.items() if key not in {link.key for link in links}
    }
    assert edit(edited, PATH, link=links) == edited
    gone = more.draw(st.sampled_from(sorted(after)))
    left = edit(edited, PATH, unlink=[(after[gone].edge, after[gone].target)])
    assert {link.key for link in parse(left, PATH).links if not link.body} == after.keys() - {gone}
    assert edit(left, PATH, unlink=[(after[gone].edge, after[gone].target)]) == left
    none = edit(left, PATH, unlink=[(link.edge, link.target) for link in after.values()])
    assert not [link for link in parse(none, PATH).links if not link.body]
    assert b"\nedges:" not in none


@given(_by_hand(), _body)
def test_a_new_text_leaves_the_head_and_the_lines_that_stay(data: bytes, content: str) -> None:
    note = parse(data, PATH)
    block = read(data.decode())
    assert block is not None
    edited = edit(data, PATH, content=content)
    after = parse(edited, PATH)
    assert after.content == normalise(content)
    assert edited.startswith(data.decode()[: block.body].encode().rstrip(b"\r\n"))
    assert edit(edited, PATH, content=content) == edited
    assert edit(data, PATH, content=note.content) == data
    added = f"{note.content}\none more" if note.content else "one more"
    longer = edit(data, PATH, content=added)
    if note.content:
        core = data.rstrip(b" \t\r\n")
        assert longer.startswith(core)


@settings(max_examples=examples(133))
@given(
    st.one_of(
        st.binary(max_size=200),
        st.tuples(
            st.sampled_from([b"", b"\xef\xbb\xbf"]), st.just(b"---\n"),
            st.lists(st.sampled_from(
                [b"id: " + ID.encode(), b"type: fact", b"type: book", b"tags: ", b"tags: [a", b"- x", b"  ", b"\t", b": ", b"edges:", b"  k: v",
                 b"supports: [[x]]", b"&a [*a]", b"*b", b"? ", b"!!binary x", b"!<x> y", b"%YAML 1.2", b"|", b">\n", b"'", b'"\\ud800"', b"{a: b}",
                 b"created: yesterday", b"\x00", b"\xff", b"\r", b"\n", b"---", b"...", b"<<<<<<< a", b"=======", b">>>>>>> b", b"<<: *a", b"\xe2\x80\xa8",
                 b"confidence: .nan", b"\xc2\x85", b"```", b"[[", b"]]", b'"\\U00110000"', b"\\x", b"!!int", b"!!python/name:os.system"]), max_size=8)
            .map(b"\n".join),
            st.sampled_from([b"", b"\n---\n", b"\n---\nbody [[x]] `[[y]]`"]),
        ).map(b"".join),
    )
)  # fmt: skip
def test_junk_never_raises(data: bytes) -> None:
    note = parse(data, PATH)
    assert note.digest == digest(data)
    for problem in note.problems:
        assert problem.mend
        assert problem.line is None or 1 <= problem.line <= data.count(b"\n") + 1
    note.content.encode()
    if note.kind is NoteKind.NOTE:
        try:
            edited = edit(data, PATH, set={"title": "new", "tags": ["x"]}, link=[NoteLink(EdgeType.SUPPORTS, "y", 0.9)])
        except InvalidNote:
            return
        assert parse(edited, PATH).title == "new"
    elif note.kind is NoteKind.BARE:
        try:
            given = give_id(data, PATH, id=ID, created=datetime(2026, 1, 1, tzinfo=UTC))
        except InvalidNote:
            return
        after = parse(given, PATH)
        assert (after.kind, after.id, after.content) == (NoteKind.NOTE, ID, note.content)
        assert len(given) - len(data) < 120
    else:
        assert note.problems
        with pytest.raises(InvalidNote):
            edit(data, PATH, set={"title": "new"})
