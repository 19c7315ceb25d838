"""The one door: what a transaction changes, what it refuses, and what stands in the history afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from ormahd.errors import BadRequest, Conflict, Internal
from ormahd.git import commit_message
from ormahd.model.change import Committed, Kind
from ormahd.vault.vault import Vault
from tests.vault.git_house import git, node_of, open_vault, put, remove, sha, sound, ticking


def test_a_transaction_is_a_file_a_commit_and_a_clean_tree(vault: Vault) -> None:
    done = put(vault, ("global/fact/2026-11/fact_x_12345678.md", b"one\n"), subject="remember: x")
    assert done is not None
    assert done.commit == vault.head() == git(vault.root, "rev-parse", "main")
    assert [(change.old, change.data) for change in done.changes] == [(None, b"one\n")]
    assert (vault.root / "global/fact/2026-11/fact_x_12345678.md").read_bytes() == b"one\n"
    assert vault.committed("global/fact/2026-11/fact_x_12345678.md") == b"one\n"
    sound(vault.root)


def test_nothing_happens_inside_the_block_and_nothing_when_it_raises(vault: Vault) -> None:
    before = vault.head()
    with (  # noqa: PT012 - the block is the thing under test
        pytest.raises(RuntimeError, match="no"),
        vault.transaction("x", kind=Kind.UPDATE, source="agent:a") as tx,
    ):
        tx.put("a.md", b"a", node_id=None, expect=None)
        assert not (vault.root / "a.md").exists()
        raise RuntimeError("no")
    assert vault.head() == before
    assert vault.read("a.md") is None
    sound(vault.root)


def test_an_expectation_that_does_not_hold_changes_nothing_of_the_whole_op(vault: Vault) -> None:
    put(vault, ("a.md", b"a"), ("b.md", b"b"))
    before = vault.head()
    (vault.root / "b.md").write_bytes(b"edited")
    with (  # noqa: PT012 - the block is the thing under test
        pytest.raises(Conflict, match=r"b\.md"),
        vault.transaction("x", kind=Kind.MERGE, source="job:m") as tx,
    ):
        tx.put("a.md", b"new", node_id=None, expect=sha(b"a"))
        tx.remove("b.md", node_id=None, expect=sha(b"b"))
    assert vault.head() == before
    assert (vault.root / "a.md").read_bytes() == b"a"
    assert (vault.root / "b.md").read_bytes() == b"edited"
    assert not list((vault.root / ".ormah/tmp").iterdir())


def test_put_with_expect_none_never_replaces(vault: Vault) -> None:
    (vault.root / "a.md").write_bytes(b"a person's")
    with pytest.raises(Conflict), vault.transaction("x", kind=Kind.REMEMBER, source="agent:a") as tx:
        tx.put("a.md", b"ours", node_id=None, expect=None)
    assert (vault.root / "a.md").read_bytes() == b"a person's"


def test_a_change_that_is_none_makes_no_commit(vault: Vault) -> None:
    put(vault, ("a.md", b"a"))
    before = vault.head()
    assert put(vault, ("a.md", b"a")) is None
    assert vault.head() == before


def test_a_persons_edit_is_committed_as_it_stands(vault: Vault) -> None:
    put(vault, ("a.md", b"a"))
    (vault.root / "a.md").write_bytes(b"edited\r\n")
    inode = (vault.root / "a.md").stat().st_ino
    done = put(vault, ("a.md", b"edited\r\n"), kind=Kind.EDIT, source="person", person=True)
    assert done is not None
    assert (vault.root / "a.md").stat().st_ino == inode
    assert (
        git(vault.root, "log", "-1", "--format=%an <%ae> %cn <%ce>")
        == "Ada Example <ada@example.org> Ada Example <ada@example.org>"
    )
    sound(vault.root)


def test_a_persons_deletion_is_taken_in(vault: Vault) -> None:
    put(vault, ("a.md", b"a"), ("b.md", b"b"))
    (vault.root / "a.md").unlink()
    (vault.root / "b.md").unlink()
    with vault.transaction("x", kind=Kind.EDIT, source="person", person=True) as tx:
        tx.remove("a.md", node_id=None, expect=None)
        tx.remove("b.md", node_id=None, expect=sha(b"b"))
    assert tx.committed is not None
    assert vault.tree().keys() & {"a.md", "b.md"} == set()
    sound(vault.root)
    with vault.transaction("x", kind=Kind.EDIT, source="person") as tx:
        tx.remove("a.md", node_id=None, expect=None)
    assert tx.committed is None


def test_removing_the_last_note_of_a_folder_removes_the_folder(vault: Vault) -> None:
    put(vault, ("s/fact/2026-11/a.md", b"a"))
    remove(vault, "s/fact/2026-11/a.md")
    assert not (vault.root / "s").exists()
    sound(vault.root)


@pytest.mark.parametrize(
    "path",
    ["", "/etc/x", "../x", "a/../b", "a//b", "./a", ".git/config", "a/.GIT/x", "a/.git /x", "a\0b", "x/" + "n" * 256,
     "a/.g\u200cit/x", "git~1/x", "a\\.git\\x", "\ud800.md", "d/" * 1000 + "x", ".ormah/lock", ".ormah/tmp/x", ".ormah/conflicts/x"],
)  # fmt: skip
def test_paths_that_no_note_may_have(vault: Vault, path: str) -> None:
    with pytest.raises(BadRequest), vault.transaction("x", kind=Kind.REMEMBER, source="agent:a") as tx:
        tx.put(path, b"x", node_id=None, expect=None)


def test_links_and_devices_and_other_repositories_are_left_alone(vault: Vault, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_bytes(b"secret")
    (vault.root / "link").symlink_to(outside)
    (vault.root / "file.md").symlink_to(outside / "secret.md")
    (vault.root / "folder.md").mkdir()
    (vault.root / "nested").mkdir()
    git(vault.root / "nested", "init", "-q")
    import os

    os.mkfifo(vault.root / "pipe.md")
    for path in ("link/new.md", "link/secret.md", "file.md", "folder.md", "nested/x.md", "pipe.md"):
        with pytest.raises(Conflict):
            put(vault, (path, b"x"))
    assert (outside / "secret.md").read_bytes() == b"secret"
    assert [p.name for p in outside.iterdir()] == ["secret.md"]
    assert not list((vault.root / ".ormah/tmp").iterdir())


@pytest.mark.parametrize(
    "name",
    [
        'qu"ote.md',
        "bäckup ☃.md",
        "日本語.md",
        "a b\tc.md",
        "new\nline.md",
        "-dash.md",
        "é.md",
        "*.md",
        "not utf-8 \udce9.md",
    ],
)
def test_names_of_all_kinds(vault: Vault, name: str) -> None:
    put(vault, (f"säck/{name}", b"1"))
    put(vault, (f"säck/{name}", b"2"))
    assert vault.committed(f"säck/{name}") == b"2"
    assert f"säck/{name}" in vault.tree()
    sound(vault.root)
    remove(vault, f"säck/{name}")
    sound(vault.root)


def test_messages_are_sentences_with_trailers(vault: Vault) -> None:
    with vault.transaction(
        "merge: two notes\nOrmah-Kind: purge", kind=Kind.MERGE, source="job:duplicate_merger", run="r1",
        body="Why.\n\nOrmah-Op: 00000000000000000000000000\nOrmah-Nodes : x\r\nend", trailers=[("Ormah-Undoes", "abc")],
    ) as tx:  # fmt: skip
        tx.put("a.md", b"a", node_id="id-a", expect=None)
        tx.put("b.md", b"b", node_id="id-b", expect=None)
    text = git(vault.root, "log", "-1", "--format=%B")
    assert text.splitlines()[0] == "merge: two notes Ormah-Kind: purge"
    trailers = git(vault.root, "log", "-1", "--format=%(trailers:only,unfold)").splitlines()
    assert trailers == [
        f"Ormah-Op: {tx.op}", "Ormah-Kind: merge", "Ormah-Source: job:duplicate_merger", "Ormah-Run: r1",
        "Ormah-Nodes: id-a id-b", "Ormah-Undoes: abc",
    ]  # fmt: skip
    parsed = commit_message.parse(text)
    assert parsed.trailer("Ormah-Op") == tx.op
    assert parsed.nodes == ("id-a", "id-b")
    assert "Ormah-Op: 0000" in parsed.body
    assert git(vault.root, "log", "-1", "--format=%an|%cn") == "job:duplicate_merger|Ada Example"


def test_a_message_keeps_its_trailers_when_the_person_signs_it_off() -> None:
    text = commit_message.compose("x", "", op="0" * 26, kind=Kind.UPDATE, source="person")
    parsed = commit_message.parse(text.rstrip("\n") + "\nSigned-off-by: Ada <a@b>\n(cherry picked from commit abc)\n")
    assert parsed.trailer("Ormah-Kind") == "update"


def test_a_subject_alone_cannot_be_a_trailer() -> None:
    text = commit_message.compose("Ormah-Op: x", "", op="0" * 26, kind=Kind.UPDATE, source="a\nOrmah-Kind: purge")
    assert commit_message.parse(text).trailers["Ormah-Op"] == ("0" * 26,)
    assert commit_message.parse(text).trailers["Ormah-Kind"] == ("update",)


def test_ops_sort_by_time_also_when_the_clock_stands(tmp_path: Path) -> None:
    now = ticking()()
    with open_vault(tmp_path / "v", clock=lambda: now) as vault:
        ops = [vault.transaction("x", kind=Kind.LINK, source="person").op for _ in range(100)]
    assert ops == sorted(set(ops))
    assert {len(op) for op in ops} == {26}


def test_listeners_hear_each_commit_in_order_and_may_read(vault: Vault) -> None:
    heard: list[Committed] = []
    vault.listen(heard.extend)
    vault.listen(
        lambda some: heard.extend(one for one in some if vault.read(one.changes[0].path) != one.changes[0].data)
    )
    done = [put(vault, (f"{i}.md", b"x")) for i in range(5)]
    assert heard == done


def test_a_listener_that_fails_or_writes_does_not_harm_the_write(
    vault: Vault, caplog: pytest.LogCaptureFixture
) -> None:
    vault.listen(lambda _: put(vault, ("again.md", b"x")) and None)
    assert put(vault, ("a.md", b"x")) is not None
    assert "a listener failed" in caplog.text
    assert vault.read("again.md") is None
    sound(vault.root)


def test_a_thousand_notes_in_one_op(vault: Vault) -> None:
    files = [(f"s/fact/2026-{i % 12 + 1:02d}/{i}.md", b"note %d\n" % i) for i in range(1000)]
    before = len(vault.tree())
    done = put(vault, *files, kind=Kind.IMPORT, source="person")
    assert done is not None
    assert len(done.changes) == 1000
    assert len(vault.tree()) == before + 1000
    assert len(list((vault.git.git_dir / "objects/pack").glob("*.pack"))) == 1
    sound(vault.root)


def test_misuse_is_named(vault: Vault) -> None:
    with vault.transaction("x", kind=Kind.UPDATE, source="person") as tx:
        tx.put("a.md", b"a", node_id=node_of("a.md"), expect=None)
        with pytest.raises(BadRequest, match="twice"):
            tx.put("a.md", b"b", node_id=None, expect=None)
    with pytest.raises(Internal):
        tx.put("b.md", b"b", node_id=None, expect=None)
    with pytest.raises(Internal), tx:
        pass
