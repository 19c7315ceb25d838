"""Three states brought together: notes by id, other files by path, nothing lost in silence."""

import pytest

from ormahd.errors import Conflict
from ormahd.model.change import Kind
from ormahd.note.write import compose
from ormahd.vault.three_way import Version, changed, join, write
from ormahd.vault.vault import Vault
from tests.vault.git_house import START, commit_by_hand
from tests.vault.observed import uuid

ONE, TWO = uuid(0x1A2B3C4D), uuid(0x22222222)


def note(text: str, node_id: str = ONE, **fields: object) -> bytes:
    given = {"type": "fact", "tier": "working", "space": None, "title": None, "tags": [], "source": "agent:test",
             "confidence": 1.0, "created": START, "updated": START} | fields  # fmt: skip
    return compose(id=node_id, content=text, **given)  # type: ignore[arg-type]


def test_what_differs_is_matched_by_id_and_not_by_likeness(vault: Vault) -> None:
    before = commit_by_hand(vault.root, {"a.md": note("one\ntwo\nthree"), "notes.txt": b"1"})
    after = commit_by_hand(vault.root, {"a.md": None, "b.md": note("one\ntwo\nthree", TWO), "notes.txt": b"2"})
    assert changed(vault, before, after) == {
        ONE: (Version("a.md", note("one\ntwo\nthree")), None),
        TWO: (None, Version("b.md", note("one\ntwo\nthree", TWO))),
        "path:notes.txt": (Version("notes.txt", b"1"), Version("notes.txt", b"2")),
    }
    moved = commit_by_hand(vault.root, {"b.md": None, "c/d.md": note("four", TWO)})
    assert changed(vault, after, moved) == {
        TWO: (Version("b.md", note("one\ntwo\nthree", TWO)), Version("c/d.md", note("four", TWO)))
    }
    assert set(changed(vault, None, before)) > {ONE, "path:.ormah/vault.toml"}


def test_of_two_files_with_one_id_the_second_counts_by_its_path(vault: Vault) -> None:
    before = vault.head()
    after = commit_by_hand(vault.root, {"a.md": note("text"), "b.md": note("text")})
    assert set(changed(vault, before, after)) == {ONE, "path:b.md"}


def test_links_are_not_ours(vault: Vault) -> None:
    before = vault.head()
    (vault.root / "link.md").symlink_to("a.md")
    assert changed(vault, before, commit_by_hand(vault.root, {"a.md": note("x")})) == {
        ONE: (None, Version("a.md", note("x")))
    }


def test_a_side_that_did_nothing_follows_the_other_byte_for_byte() -> None:
    base, edited, moved = Version("a.md", b"1"), Version("a.md", b"2"), Version("b.md", b"1")
    for other in (edited, moved, None):
        assert join(base, other, base).version == other
        assert join(base, base, other).version == other
        assert join(base, other, other).version == other
    assert join(None, None, edited).version == edited


def test_a_move_here_and_an_edit_there_are_both_kept() -> None:
    base, here, there = note("one\ntwo"), note("one\ntwo"), note("one\n2")
    assert join(Version("a.md", base), Version("b.md", here), Version("a.md", there)).version == Version("b.md", there)
    assert join(Version("a.md", base), Version("a.md", there), Version("b.md", here)).version == Version("b.md", there)
    both = join(Version("a.md", base), Version("b.md", here), Version("c.md", there))
    assert both.version == Version("b.md", there)


def test_removed_here_and_changed_there_is_a_conflict_with_all_versions() -> None:
    base, edited = Version("a.md", note("one")), Version("a.md", note("two"))
    for ours, theirs in ((None, edited), (edited, None)):
        joined = join(base, ours, theirs)
        assert joined.version == ours
        (conflict,) = joined.conflicts
        assert (conflict.field, conflict.node, conflict.path) == ("note", ONE, "a.md")
        assert conflict.base == note("one").decode()
        assert (conflict.ours is None, conflict.theirs is None) == (ours is None, theirs is None)


def test_files_that_are_no_notes_merge_as_text_or_not_at_all() -> None:
    texts = [Version("x.txt", data) for data in (b"1\n2\n3\n", b"1\n2\n3\n4\n", b"0\n2\n3\n")]
    assert join(*texts).version == Version("x.txt", b"0\n2\n3\n4\n")
    bytes_ = [Version("x.png", data) for data in (b"\0\n2\n3\n", b"\0\n2\n3\n4\n", b"\0\n1\n3\n")]
    assert join(*bytes_).version == bytes_[1]
    assert join(*bytes_).conflicts[0].field == "text"


def test_a_transaction_makes_what_was_joined(vault: Vault) -> None:
    commit_by_hand(vault.root, {"a.md": note("one"), "c.md": note("three", TWO)})
    changes = {
        ONE: (Version("a.md", note("one")), Version("b.md", note("two"))),
        TWO: (Version("c.md", note("three", TWO)), None),
        "path:x.txt": (None, Version("x.txt", b"x")),
        "path:y.txt": (None, None),
    }
    with vault.transaction("undo: a thing", kind=Kind.UNDO, source="person") as tx:
        assert write(tx, changes)
        assert not write(tx, {"path:y.txt": (None, None)})
    assert {path for path in vault.tree() if not path.startswith((".", "global"))} == {"b.md", "x.txt"}
    assert (vault.root / "b.md").read_bytes() == note("two")


def test_a_file_that_gets_its_id_at_its_place_is_one_file(vault: Vault) -> None:
    before = commit_by_hand(vault.root, {"a.md": b"words\n"})
    after = commit_by_hand(vault.root, {"a.md": note("words")})
    pair = Version("a.md", b"words\n"), Version("a.md", note("words"))
    assert changed(vault, before, after) == {ONE: pair}
    assert changed(vault, after, before) == {ONE: pair[::-1]}
    other = commit_by_hand(vault.root, {"a.md": note("words", TWO)})
    assert changed(vault, after, other) == {ONE: (pair[1], None), TWO: (None, Version("a.md", note("words", TWO)))}
    gone = commit_by_hand(vault.root, {"a.md": None, "b.md": b"words\n"})
    assert set(changed(vault, other, gone)) == {TWO, "path:b.md"}


def test_lines_are_a_set_and_no_file_an_empty_one() -> None:
    def lines(*ids: str) -> Version:
        return Version(".ormah/f.jsonl", b"".join(b'{"id":"%s"}\n' % one.encode() for one in ids))

    assert join(lines("a"), lines("a", "b"), None).version == lines("b")
    assert join(lines("a"), lines("a"), None).version is None
    assert join(lines("a", "b"), lines("b"), None).version is None
    assert join(None, lines("b"), lines("a")).version == lines("a", "b")
    assert join(lines("a", "b"), None, lines("a", "b", "c")).version == lines("c")


def test_paths_may_change_hands(vault: Vault) -> None:
    one, two = note("one"), note("two", TWO)
    commit_by_hand(vault.root, {"a.md": one, "b.md": two, "c.md": b"x"})
    with vault.transaction("undo: a swap", kind=Kind.UNDO, source="person") as tx:
        assert write(
            tx,
            {
                ONE: (Version("a.md", one), Version("b.md", one)),
                TWO: (Version("b.md", two), Version("a.md", two)),
                "path:c.md": (Version("c.md", b"x"), Version("c.md", b"x")),
            },
        )
    assert ((vault.root / "a.md").read_bytes(), (vault.root / "b.md").read_bytes()) == (two, one)
    assert tx.committed is not None
    assert {change.path for change in tx.committed.changes} == {"a.md", "b.md"}


def test_two_notes_never_take_one_place(vault: Vault) -> None:
    with (
        pytest.raises(Conflict, match=r"b\.md"),
        vault.transaction("undo: too much", kind=Kind.UNDO, source="person") as tx,
    ):
        write(tx, {ONE: (None, Version("b.md", note("one"))), TWO: (None, Version("b.md", note("two", TWO)))})
    assert vault.read("b.md") is None


def test_lines_of_a_persons_own_keep_their_order() -> None:
    base, ours, theirs = (Version("data.jsonl", data) for data in (b"z\ny\nx\n", b"z!\ny\nx\n", b"z\ny\nx!\n"))
    assert join(base, ours, theirs).version == Version("data.jsonl", b"z!\ny\nx!\n")
    assert join(base, None, theirs).conflicts
