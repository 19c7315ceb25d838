"""What a reader of the history sees of a change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.model.node import EdgeType
from ormahd.note.diff import note_diff
from ormahd.note.edit import edit
from ormahd.note.values import NoteLink
from ormahd.note.write import compose
from ormahd.text.diff import COMPARED, LINES, WIDE, text_diff

WHEN = datetime(2026, 11, 21, 20, tzinfo=UTC)
PATH = "work/fact/2026-11/fact_words_1a2b3c4d.md"
CHOSE = "decision_chose-vite_aaaabbbb"
NOTE = compose(
    id="1a2b3c4d-6d0a-4c1e-9a55-0a52b0f4f9d1", type="fact", tier="working", space=None, title="Words", tags=["a", "b"],
    source="agent:x", confidence=1.0, created=WHEN, updated=WHEN, content="one\ntwo\nthree",
)  # fmt: skip


def lines(before: bytes | None, after: bytes | None, old: str = PATH, new: str = PATH, **more: object) -> list[str]:
    found = note_diff(None if before is None else (old, before), None if after is None else (new, after), **more)  # type: ignore[arg-type]
    return found.text.split("\n") if found.text else []


def test_fields_lists_edges_and_text_each_in_their_way() -> None:
    changed = edit(NOTE, PATH, set={"title": "Other words", "tier": "core", "tags": ["b", "c"], "confidence": 0.5},
                   link=[NoteLink(EdgeType.SUPPORTS, CHOSE, 0.8, WHEN, "the build needs it")])  # fmt: skip
    changed = changed.replace(b"two\n", b"2\n")
    assert lines(NOTE, changed, name=lambda target: {CHOSE: "Chose Vite"}[target]) == [
        "title: Words -> Other words", "tier: working -> core", "confidence: 1 -> 0.5", "tags: +c -a",
        "+ supports -> Chose Vite, weight 0.8, reason: the build needs it",
        "content:", "@@ -1,3 +1,3 @@", " one", "-two", "+2", " three",
    ]  # fmt: skip


def test_an_edge_that_goes_and_one_whose_details_change() -> None:
    linked = edit(NOTE, PATH, link=[NoteLink(EdgeType.SUPPORTS, CHOSE, 0.8, WHEN, "why")])
    assert lines(linked, edit(linked, PATH, unlink=[(EdgeType.SUPPORTS, CHOSE)])) == [f"- supports -> {CHOSE}"]
    bare = edit(linked, PATH, unlink=[(EdgeType.SUPPORTS, CHOSE)])
    other = edit(bare, PATH, link=[NoteLink(EdgeType.SUPPORTS, CHOSE, 0.6, WHEN, "because")])
    assert lines(linked, other) == [f"supports -> {CHOSE}: weight: 0.8 -> 0.6, reason: why -> because"]


def test_a_note_that_came_and_one_that_went() -> None:
    came = lines(None, NOTE)
    assert {"+ title: Words", "+ type: fact", "+ space: work", "tags: +a +b", "content:", "+one", "+three"} <= set(came)
    assert not [line for line in came if line.startswith(("-", "@", "+ tier"))]
    assert [line.replace("+", "-") for line in came] == lines(NOTE, None)


def test_updated_alone_is_told_and_otherwise_not() -> None:
    later = edit(NOTE, PATH, set={"updated": WHEN + timedelta(days=1)})
    assert lines(NOTE, later) == ["updated: 2026-11-21T20:00:00Z -> 2026-11-22T20:00:00Z"]
    assert lines(NOTE, edit(later, PATH, set={"tier": "core"})) == ["tier: working -> core"]


def test_what_the_folder_says_is_told_when_the_note_moves() -> None:
    assert lines(NOTE, NOTE, new=f"other/{PATH}") == []
    moved = NOTE + b"more\n"
    assert lines(NOTE, moved, new="home/fact/2026-11/x.md")[0] == "space: work -> home"


def test_keys_of_the_persons_own_and_mere_form() -> None:
    own = NOTE.replace(b"tags:", b"cssclass: wide\ntags:")
    assert lines(NOTE, own) == ["+ cssclass: wide"]
    assert lines(own, own.replace(b"wide", b"narrow")) == ["cssclass: wide -> narrow"]
    assert lines(own, NOTE) == ["- cssclass: wide"]
    assert lines(NOTE, NOTE.replace(b"\n", b"\r\n")) == ["only line ends or blank space changed"]
    assert "+title:   Words" in lines(NOTE, NOTE.replace(b"title: Words", b"title:   Words"))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (b"---\nid: [\n---\na\n", b"---\nid: [\n---\nb\n", ["-a", "+b"]),
        (b'{"id": 1}\n', b'{"id": 1}\n{"id": 2}\n', ['+{"id": 2}']),
        (None, b"plain\n", ["+plain"]),
        (b"\xff\xfe", b"text\n", ["+text"]),
    ],
)
def test_what_is_no_readable_note_is_told_as_text(before: bytes | None, after: bytes, told: list[str]) -> None:
    found = lines(before, after, "x.md", "x.md")
    assert [line for line in found if line in told] == told


def test_what_is_no_text_at_all() -> None:
    assert lines(b"a\0b", b"a\0bc", "x.md", "x.md") == ["no text: 3 bytes -> 4 bytes"]


def test_a_long_difference_is_cut_and_says_so() -> None:
    long = NOTE.replace(b"two", b"\n".join(b"line %d" % n for n in range(500)))
    found = note_diff((PATH, NOTE), (PATH, long))
    assert found.cut
    shown = found.text.split("\n")
    assert shown[-1] == f"… {500 + 1 + 3 - LINES} more lines"
    assert len(shown) == 1 + LINES + 1
    assert not note_diff((PATH, NOTE), (PATH, long), lines=10_000).cut


def test_a_paragraph_is_shown_around_what_changed_in_it() -> None:
    words = "word " * 400
    found, _ = text_diff(f"{words}alpha {words}", f"{words}beta {words}")
    assert all(len(line) <= WIDE + 1 for line in found)
    assert "alpha" in found[1]
    assert "beta" in found[2]
    assert found[1].startswith("-…")


def test_wholly_different_long_texts_take_no_time() -> None:
    old, new = (["a", "b"] * COMPARED, ["b", "c"] * COMPARED)
    found, cut = text_diff("\n".join(old), "\n".join(new))
    assert cut
    assert len(found) == LINES + 1


@given(st.lists(st.sampled_from("abcde"), max_size=30), st.lists(st.sampled_from("abcde"), max_size=30))
def test_the_lines_tell_the_whole_difference(old: list[str], new: list[str]) -> None:
    """Taking away what has a minus and adding what has a plus, hunk by hunk, gives the new text."""
    found, cut = text_diff("\n".join(old), "\n".join(new), 1000)
    assert not cut
    before, after = "\n".join(old).splitlines(), "\n".join(new).splitlines()
    built, at = [], 0
    for line in found:
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            first = int(start) - (0 if count == "0" else 1)
            built += before[at:first]
            at = first
        elif line[0] == "+":
            built.append(line[1:])
        else:
            assert before[at] == line[1:]
            at += 1
            built += [line[1:]] if line[0] == " " else []
    assert built + before[at:] == after
