"""Two histories joined: nothing is lost, a conflict keeps all its versions, and both machines come to the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ormahd.errors import Conflict, NotFound
from ormahd.note.read import parse
from ormahd.sync.join import count_commits
from ormahd.sync.replaced import set_aside_replaced
from ormahd.vault.conflicts import resolve, waiting
from tests.vault.sync_house import FILES, TEXT, A, B, C, Machine, Two, note, settle, two_machines


def test_changes_of_different_notes_come_together_and_the_other_side_only_follows(two: Two) -> None:
    one, other = two
    one.store({"a.md": note("one!\n\ntwo\n\nthree", A), "new/n.md": note("new", C), "plain.txt": b"1!\n2\n3\n"})
    other.store({"b.md": None, "plain.txt": b"1\n2\n3!\n"})
    one.sync()
    found = other.join()
    assert found.conflicts == []
    assert other.git("log", "-1", "--format=%P").split() == [found.head, found.other]
    assert other.push()
    before = one.vault.head()
    one.join()
    assert one.vault.head() == other.vault.head() != before
    assert "Ormah-Kind: sync" in one.git("log", "-1", "--format=%B")
    assert one.files() == other.files()
    assert set(one.files()) >= {"a.md", "new/n.md", "plain.txt"}
    assert "b.md" not in one.files()
    assert one.files()["plain.txt"] == b"1!\n2\n3!\n"
    for machine in (one, other):
        machine.sound()
    assert one.git("log", "-1", "--format=%H", "--merges") == one.vault.head()  # nothing was answered


def test_one_note_changed_on_both_sides_merges_field_by_field(two: Two) -> None:
    one, other = two
    one.store({"a.md": note("one!\n\ntwo\n\nthree", A, tags=["x"])})
    other.store({"moved/a.md": note("one\n\ntwo\n\nthree!", A, title="T"), "a.md": None})
    one.sync()
    settle(other, one)
    merged = parse(one.files()["moved/a.md"], "a.md")
    assert (merged.title, merged.tags, merged.content) == ("T", ("x",), "one!\n\ntwo\n\nthree!")
    assert "a.md" not in one.files()


def test_a_true_conflict_keeps_ours_and_sets_all_versions_aside(two: Two) -> None:
    one, other = two
    theirs = note("one, theirs\n\ntwo\n\nthree!", A, tags=["t"])
    ours = note("one, ours\n\ntwo\n\nthree", A)
    one.store({"a.md": theirs})
    other.store({"a.md": ours})
    one.sync()
    found = other.join()
    assert [conflict.fields for conflict in found.conflicts] == [("content",)]
    assert parse(other.files()["a.md"], "a.md").content == "one, ours\n\ntwo\n\nthree!"
    assert parse(other.files()["a.md"], "a.md").tags == ("t",)
    (aside,) = waiting(other.root)
    assert (aside.path, aside.node, aside.fields, aside.kept) == ("a.md", A, ("content",), "ours")
    versions = {side: (other.root / file).read_bytes() for side, file in aside.files.items()}
    assert versions == {"base": FILES["a.md"], "ours": ours, "theirs": theirs}
    assert {side: other.git("cat-file", "-t", commit or "") for side, commit in aside.commits.items()} == dict.fromkeys(
        ("base", "ours", "theirs"), "commit"
    )
    assert other.git("show", f"{aside.commits['theirs']}:a.md").encode() == theirs.rstrip(b"\n")
    said = other.git("log", "-1", "--format=%B")
    assert "a.md: content was changed on both sides; ours was kept" in said
    assert A in said
    other.sound()
    settle(other, one)
    assert waiting(one.root) == []
    assert resolve(other.root, A[:8]) == [aside]
    assert waiting(other.root) == []
    assert not list((other.root / ".ormah/conflicts").iterdir())


def test_commits_whose_clocks_differ_by_years(two: Two) -> None:
    """Git then lists commits of `A..B` that both have."""
    one, other = two

    def commit(machine: Machine, year: int, file: str, text: str) -> None:
        date = f"{year}-01-01T00:00:00Z"
        (machine.root / file).write_bytes(note(text, A if file == "a.md" else C))
        machine.git("add", file)
        machine.git("commit", "-q", "-m", text, env={"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date})

    commit(one, 2001, "a.md", "ours")
    assert one.push()
    commit(other, 2001, "a.md", "theirs")
    other.sync()  # its commit is younger by years
    one.join()
    before = one.vault.head()
    assert before
    for number in range(8):
        commit(one, 1999, "c.md", f"late {number}")
    head = one.vault.head()
    assert head
    assert (count_commits(one.vault, before, head), count_commits(one.vault, head, before)) == (0, 8)
    assert set_aside_replaced(one.vault, head, before) == []


@pytest.mark.parametrize("merger", [0, 1])
def test_a_deletion_never_wins_over_an_edit(two: Two, merger: int) -> None:
    one, other = two
    edited = note("edited", A)
    one.store({"a.md": None})
    other.store({"a.md": edited})
    merging, first = (one, other) if merger == 0 else (other, one)
    first.sync()
    found = merging.join()
    assert [(conflict.fields, conflict.kept) for conflict in found.conflicts] == [
        (("note",), ["theirs", "ours"][merger])
    ]
    (aside,) = waiting(merging.root)
    assert set(aside.files) == {"base", aside.kept}
    settle(merging, first)
    assert first.files()["a.md"] == edited


@pytest.mark.parametrize("merger", [0, 1])
def test_two_notes_at_one_path_are_both_kept_under_the_same_names_whoever_merges(two: Two, merger: int) -> None:
    one, other = two
    one.store({"new.md": note("mine", B[:-1] + "f")})
    other.store({"new.md": note("yours", C)})
    merging, first = (one, other) if merger == 0 else (other, one)
    first.sync()
    assert merging.join().conflicts == []
    settle(merging, first)
    assert one.files()["new.md"] == note("mine", B[:-1] + "f")
    assert one.files()[f"new_{C[:8]}.md"] == note("yours", C)


@pytest.mark.parametrize("merger", [0, 1])
def test_the_same_new_note_at_two_paths_stands_where_both_would_put_it(two: Two, merger: int) -> None:
    one, other = two
    one.store({"longer.md": note("same", C)})
    other.store({"short.md": note("same", C)})
    merging, first = (one, other) if merger == 0 else (other, one)
    first.sync()
    merging.join()
    settle(merging, first)
    assert "short.md" in one.files()
    assert "longer.md" not in one.files()


def test_the_same_new_note_with_another_text_is_a_conflict(two: Two) -> None:
    one, other = two
    one.store({"new.md": note("mine", C)})
    other.store({"new.md": note("yours", C)})
    one.sync()
    other.join()
    assert other.files()["new.md"] == note("yours", C)
    (aside,) = waiting(other.root)
    assert set(aside.files) == {"ours", "theirs"}
    assert (other.root / aside.files["theirs"]).read_bytes() == note("mine", C)


def test_two_notes_that_swapped_their_names_there(two: Two) -> None:
    one, other = two
    one.store({"a.md": FILES["b.md"], "b.md": FILES["a.md"]})
    other.store({"a.md": note(TEXT + "!", A)})
    one.sync()
    settle(other, one)
    assert one.files()["b.md"] == note(TEXT + "!", A)
    assert one.files()["a.md"] == FILES["b.md"]


def test_a_note_that_got_its_id_on_one_side_is_the_same_note(two: Two) -> None:
    one, other = two
    one.store({"bare.md": b"first\n\nlast\n"})
    one.sync()
    other.join()
    one.store({"bare.md": note("first\n\nlast", C)})
    other.store({"bare.md": b"first\n\nlast!\n"})
    one.sync()
    found = other.join()
    assert found.conflicts == []
    assert parse(other.files()["bare.md"], "bare.md").id == C
    assert parse(other.files()["bare.md"], "bare.md").content == "first\n\nlast!"
    settle(other, one)


@pytest.mark.parametrize("merger", [0, 1])
def test_files_of_lines_come_to_the_same_whoever_merges(tmp_path: Path, merger: int) -> None:
    where = ".ormah/feedback/2026-11.jsonl"

    def lines(*ids: str) -> bytes:
        return b"".join(json.dumps({"id": name}).encode() + b"\n" for name in ids)

    one, other = two_machines(tmp_path, {where: lines("a", "b", "c")})
    one.store({where: lines("a", "c", "x")})
    other.store({where: lines("a", "b", "c", "m")})
    merging, first = (one, other) if merger == 0 else (other, one)
    first.sync()
    assert merging.join().conflicts == []
    settle(merging, first)
    assert one.files()[where] == lines("a", "c", "m", "x")
    one.vault.close()
    other.vault.close()


def test_a_file_that_is_no_note_and_was_changed_on_both_sides(two: Two) -> None:
    one, other = two
    one.store({"plain.txt": b"theirs\n"})
    other.store({"plain.txt": b"ours\n"})
    one.sync()
    other.join()
    assert other.files()["plain.txt"] == b"ours\n"
    assert [aside.fields for aside in waiting(other.root)] == [("text",)]


def test_histories_with_the_same_files_are_joined_too(two: Two) -> None:
    one, other = two
    for machine in two:
        machine.store({"new.md": note("same", C)})
        machine.git("commit", "-q", "--amend", "-m", f"by hand, in {machine.root.name}")
    one.sync()
    found = other.join()
    assert found.changes == {}
    assert len(other.git("log", "-1", "--format=%P").split()) == 2
    settle(other, one)


ATTRIBUTES = {
    ".gitattributes": ("*.md filter=cat\n", "*.md merge=union\n", "* text=auto\n", "* -text\n*.md merge=ormah\n*.md eol=crlf\n", ""),
    "global/.gitattributes": ("*.md ident\n", "fact/** working-tree-encoding=UTF-16\n", "[attr]x filter=cat\n*.md x\n"),
    "global/fact/.gitattributes": ("*.md -merge\n", "\ufeff*.md filter=cat\n"),
    ".GITATTRIBUTES": ("*.md filter=cat\n",), "new/.GitAttributes": ("*.md export-ignore\n",),
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "rules"), [("x", "link"), ("x", "submodule"), *((path, one) for path, some in ATTRIBUTES.items() for one in some)]
)  # fmt: skip
def test_what_is_no_file_is_refused_by_name(two: Two, path: str, rules: str) -> None:
    one, other = two
    if rules == "link":
        (one.root / path).symlink_to("a.md")
    elif rules == "submodule":
        one.git("update-index", "--add", "--cacheinfo", f"160000,{one.vault.head()},x")
        (one.root / path).mkdir()
    else:
        (one.root / path).parent.mkdir(parents=True, exist_ok=True)
        (one.root / path).write_text(rules)
    one.store({})
    one.push()
    before = other.vault.head()
    with pytest.raises(Conflict, match=f"no vault may have: '{re.escape(path)}'"):
        other.join()
    assert other.vault.head() == before
    other.sound()


# ---------------------------------------------------------------- what was set aside


def test_asides_are_found_by_op_path_file_and_id(two: Two) -> None:
    one, other = two
    one.store({"a.md": note("theirs", A), "b.md": note("theirs", B)})
    other.store({"a.md": note("ours", A), "b.md": note("ours", B)})
    one.sync()
    op = other.carry_out(other.decide())
    assert [aside.path for aside in waiting(other.root)] == ["a.md", "b.md"]
    assert {aside.op for aside in waiting(other.root)} == {op}
    with pytest.raises(NotFound):
        resolve(other.root, "c.md")
    with pytest.raises(NotFound):
        resolve(other.root, "../../../a.md")
    assert [aside.path for aside in resolve(other.root, "b.md")] == ["b.md"]
    assert [aside.path for aside in waiting(other.root)] == ["a.md"]
    (other.root / ".ormah/conflicts" / (op or "") / "about.json").write_text("{")
    assert sorted(side for aside in waiting(other.root) for side in aside.files) == ["aside"] * 3
    assert len(resolve(other.root, (op or "")[:12])) == 3
    assert waiting(other.root) == []
