"""Where a person's attributes have git change a file on its way into the history (git-crypt, LFS, line ends, an encoding), git makes the
blob, and what git cannot make one of is refused by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ormahd.errors import Conflict
from ormahd.model.change import Kind
from ormahd.vault.vault import Vault
from tests.vault.git_house import git, open_vault, put, sha, sound
from tests.vault.observed import ONE, House

NOTE = "ormah/global/fact/2026-11/fact_x_12345678.md"


def repository(root: Path, attributes: str = "") -> Path:
    """A person's repository with a filter that makes capitals of a note, as git-crypt makes it unreadable; `broken` fails, and
    `loose` fails where that does not matter."""
    root.mkdir(exist_ok=True)
    git(root, "init", "-q")
    for key, value in {
        "crypt.clean": "tr a-z A-Z", "crypt.smudge": "tr A-Z a-z", "crypt.required": "true",
        "broken.clean": "exit 3", "broken.smudge": "cat", "broken.required": "true",
        "loose.clean": "exit 3", "loose.smudge": "cat",
        "half.smudge": "cat", "half.required": "true",
        "plain.clean": "cat", "plain.smudge": "cat",
    }.items():  # fmt: skip
        git(root, "config", f"filter.{key}", value)
    (root / ".gitattributes").write_text(attributes)
    (root / "diary.md").write_text("met the cardiologist\n")
    working = [word for name in ("broken", "half") for word in ("-c", f"filter.{name}.clean=cat")]
    git(root, *working, "add", ".gitattributes")
    git(root, *working, "add", "diary.md", ok=False)  # UTF-8 is not UTF-16
    git(root, *working, "commit", "-qm", "theirs")
    return root


def in_head(root: Path, path: str) -> bytes:
    return git(root, "cat-file", "blob", f"HEAD:{path}").encode()


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ("*.md filter=broken\n", "filter=broken"),
        ("* filter=broken\n", "filter=broken"),
        ("[attr]secret filter=broken\n*.md secret\n", "filter=broken"),
        ("ormah/** filter=broken\n", "filter=broken"),
        (".ormah/** filter=broken\n", "filter=broken"),
        ("*.md filter=half\n", "filter=half"),
        ("*.md filter=unknown\n", "filter=unknown for it, and git's configuration has no filter of that name"),
        (".ormah/** filter=lfs\n", "filter=lfs"),
        ("*.md working-tree-encoding=ISO-8859-1\n", "working-tree-encoding=ISO-8859-1"),
        ("*.md text working-tree-encoding=UTF-16\n", "working-tree-encoding=UTF-16"),
    ],
)
def test_no_vault_begins_where_git_could_not_make_blobs_of_its_notes(
    tmp_path: Path, attributes: str, said: str
) -> None:
    root = repository(tmp_path / "notes", attributes)
    head, listed = git(root, "rev-parse", "HEAD"), git(root, "ls-files")
    with pytest.raises(Conflict, match=f"{said}.*nothing was changed"):
        open_vault(root)
    assert (git(root, "rev-parse", "HEAD"), git(root, "ls-files")) == (head, listed)


@pytest.mark.parametrize(
    ("attributes", "data", "blob"),
    [
        ("*.png filter=lfs\n", b"one\n", b"one"),
        ("*.md filter=crypt\normah/** !filter\n", b"one\n", b"one"),
        ("*.md filter=crypt\normah/** -filter\n.ormah/** -filter\n", b"one\n", b"one"),
        ("# filter=crypt\n", b"one\n", b"one"),
        ("*.md filter=crypt\n", b"one\n", b"ONE"),
        ("*.md filter=crypt\n", "ein größeres\r\n".encode(), "EIN GRößERES".encode()),
        ("[attr]secret filter=crypt\n*.md secret\n", b"one\n", b"ONE"),
        ("*.md filter=loose\n", b"one\n", b"one"),
        ("*.md filter=plain\n", b"one\n", b"one"),
        ("*.md working-tree-encoding=UTF-8\n", "groß\n".encode(), "groß".encode()),
    ],
)
def test_git_makes_the_blob_of_what_is_written(tmp_path: Path, attributes: str, data: bytes, blob: bytes) -> None:
    with open_vault(repository(tmp_path / "notes", attributes)) as vault:
        put(vault, (NOTE, data))
        assert in_head(vault.root, NOTE).rstrip() == blob
        assert (vault.read(NOTE), vault.committed(NOTE)) == (data, data)
        assert vault.is_committed(NOTE, data)
        assert git(vault.root, "status", "--porcelain") == ""
        sound(vault.root)
    with open_vault(vault.root) as vault:
        assert (vault.recover(), vault.committed(NOTE)) == ([], data)


CRLF, LF, MIXED = b"one\r\ntwo\r\n", b"one\ntwo\n", b"one\r\ntwo\nthree\r\n"
IDENT = b"one\n$Id: 0123456789012345678901234567890123456789 $\n"


@pytest.mark.parametrize(
    ("attributes", "settings", "data", "blob"),
    [
        ("* text\n", {}, CRLF, LF),
        ("* text=auto\n", {}, CRLF, LF),
        ("* text=auto\n", {}, LF, LF),
        ("* eol=lf\n", {}, CRLF, LF),
        ("* text eol=crlf\n", {}, CRLF, LF),
        ("* text eol=crlf\n", {}, LF, LF),
        ("* text eol=crlf\n", {}, MIXED, b"one\ntwo\nthree\n"),
        ("* text eol=crlf\n*.md -text\n", {}, CRLF, CRLF),
        ("*.md binary\n", {"core.autocrlf": "true"}, CRLF, CRLF),
        ("* crlf=input\n", {}, CRLF, LF),
        ("* ident\n", {}, IDENT, b"one\n$Id$\n"),
        ("* ident text\n", {}, b"$Id: 1 $\r\n", b"$Id$\n"),
        ("* text\n", {"core.safecrlf": "true"}, CRLF, LF),
        ("", {"core.autocrlf": "true"}, CRLF, LF),
        ("", {"core.autocrlf": "input"}, CRLF, LF),
        ("", {"core.autocrlf": "true"}, LF, LF),
        ("", {"core.eol": "crlf"}, CRLF, CRLF),
    ],
)
def test_line_ends_and_ident_are_in_the_history_as_git_has_them(
    tmp_path: Path, attributes: str, settings: dict[str, str], data: bytes, blob: bytes
) -> None:
    root = tmp_path / "notes"
    with open_vault(repository(root)) as vault:
        (root / ".gitattributes").write_text(attributes)
        for key, value in settings.items():
            git(root, "config", key, value)
        git(root, "commit", "-qam", "attributes", ok=False)
        put(vault, ("note.md", data))
        assert vault.git.read(vault.blob_at("HEAD", "note.md") or "", "blob") == blob
        assert vault.blob_at(vault.head() or "", "note.md") == git(root, "hash-object", "note.md")
        assert vault.read("note.md") == data
        assert vault.committed("note.md") == data
        assert git(root, "status", "--porcelain") == ""
        put(vault, ("note.md", data + b"more\n"))
        assert git(root, "status", "--porcelain") == ""
        sound(root)


@pytest.mark.parametrize(
    "where", [".gitattributes", "ormah/.gitattributes", ".git/info/attributes", "home", "configured"]
)
def test_attributes_that_come_while_it_runs_hold_for_the_next_write(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = repository(tmp_path / "notes")
    with open_vault(root) as vault:
        put(vault, (NOTE, b"one\n"))
        before = git(root, "rev-parse", "HEAD")
        file = {"home": tmp_path / "config/git/attributes", "configured": tmp_path / "mine"}.get(where, root / where)
        file.parent.mkdir(parents=True, exist_ok=True)
        if where == "configured":
            git(root, "config", "core.attributesFile", str(file))
        file.write_text("*.md filter=broken\n")
        with pytest.raises(
            Conflict, match=r"fact_x_12345678\.md: git could not apply filter=broken to it.*nothing was changed"
        ):
            put(vault, (NOTE, b"two\n"))
        assert git(root, "rev-parse", "HEAD") == before
        assert vault.read(NOTE) == b"one\n"
        put(vault, ("ormah/plain.txt", b"no note\n"))
        git(root, "config", "filter.broken.clean", "tr a-z A-Z")
        git(root, "config", "filter.broken.smudge", "tr A-Z a-z")
        put(vault, (NOTE, b"two\n"))
        assert (in_head(root, NOTE), vault.committed(NOTE)) == (b"TWO", b"two\n")
        file.write_text("")
        put(vault, (NOTE, b"three\n"))
        assert (in_head(root, NOTE), vault.committed(NOTE)) == (b"three", b"three\n")
        assert git(root, "status", "--porcelain", NOTE) == ""


def test_of_several_files_one_that_git_cannot_take_keeps_all_of_them_back(tmp_path: Path) -> None:
    with open_vault(repository(tmp_path / "notes")) as vault:
        (vault.root / "ormah/secret").mkdir()
        (vault.root / "ormah/secret/.gitattributes").write_text("* filter=broken\n")
        before = git(vault.root, "rev-parse", "HEAD")
        with pytest.raises(Conflict, match=r"ormah/secret/a\.md: git could not apply filter=broken"):
            put(vault, ("ormah/b.md", b"b\n"), ("ormah/secret/a.md", b"a\n"))
        assert git(vault.root, "rev-parse", "HEAD") == before
        assert not (vault.root / "ormah/b.md").exists()
        assert list((vault.root / ".ormah/intent").glob("*.json")) == []


def test_a_promise_waits_for_a_filter_that_fails_after_it_was_given(tmp_path: Path) -> None:
    root = repository(tmp_path / "notes", "*.md filter=crypt\n")
    with open_vault(root) as vault:
        (root / ".git/index.lock").touch()
        with pytest.raises(Exception, match="is stored"):
            put(vault, (NOTE, b"one\n"))
    git(root, "config", "filter.crypt.clean", "exit 3")
    (root / ".git/index.lock").unlink()
    head = git(root, "rev-parse", "HEAD")
    with open_vault(root, recover=False) as vault:
        assert any("filter=crypt" in sentence for sentence in vault.recover())
        assert (vault.waiting, git(root, "rev-parse", "HEAD"), vault.read(NOTE)) == (1, head, b"one\n")
        git(root, "config", "filter.crypt.clean", "tr a-z A-Z")
        vault.recover()
        assert (vault.waiting, in_head(root, NOTE)) == (0, b"ONE")
        sound(root)


def test_a_persons_encrypted_notes_are_adopted_through_the_filter(tmp_path: Path) -> None:
    root = repository(tmp_path / "notes", "*.md filter=crypt\n")
    git(root, "tag", "theirs")
    house = House(root, adopt="all")
    try:
        house.settle()
        house.write("later.md", "a second secret\n")
        house.settle()
        for path, text in (("diary.md", "met the cardiologist"), ("later.md", "a second secret")):
            assert text in house.read(path).decode()
            assert f"{text}\n".upper() in house.git("cat-file", "blob", f"HEAD:{path}") + "\n"
            assert house.read(path).startswith(b"---\nid: ")
        assert house.clean()
        house.write("diary.md", house.read("diary.md") + b"and the dentist\n")
        house.settle()
        assert house.git("cat-file", "blob", "HEAD:diary.md").endswith("AND THE DENTIST")
        assert house.clean()
        house.remember("Blood group is AB negative.", title="Blood group", node_id=ONE)
        with house.vault.transaction(
            "forget: Blood group", kind=Kind.FORGET, source="person", body="AB negative"
        ) as tx:
            path = house.index.nodes()[ONE]
            tx.remove(path, node_id=ONE, expect=sha(house.read(path)))
        house.settle()
        everything = house.git("log", "-p", "-m", "--no-textconv", "--format=%B", "HEAD", "^theirs")
        assert "FILTERED" not in everything
        for word in ("cardiologist", "dentist", "second secret", "AB negative", "Blood group"):
            assert word not in everything, word
        assert house.log(2) == ["Forget: a filtered note", "Remember: a filtered note"]
    finally:
        house.close()


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ("later.md filter=broken\n", "filter=broken"),
        ("later.md filter=half\n", "filter=half"),
        ("later.md filter=unknown\n", "filter=unknown"),
        ("later.md working-tree-encoding=UTF-16\n", "working-tree-encoding=UTF-16"),
    ],
)
def test_notes_that_git_cannot_take_are_found_named_and_not_touched(tmp_path: Path, attributes: str, said: str) -> None:
    root = repository(tmp_path / "notes")
    house = House(root, adopt="all")
    try:
        house.settle()
        house.write(".gitattributes", attributes)
        house.git("commit", "-qm", "attributes", ".gitattributes")
        house.write("later.md", "a second secret\n")
        for _ in range(3):
            house.scan()
        assert house.read("later.md") == b"a second secret\n"
        assert house.git("ls-files", "later.md") == ""
        assert "later.md" in house.index.nodes().values()
        levels = [problem["level"] for problem in house.reconciler.problems() if problem["path"] == "later.md"]
        assert levels == ["warning" if "broken" in attributes or "half" in attributes else "info"]
        named = [problem["what"] for problem in house.reconciler.problems() if problem["path"] == "later.md"]
        assert len(named) == 1, named
        assert said in named[0]
    finally:
        house.close()


def test_a_note_is_taken_in_once_its_filter_works(tmp_path: Path) -> None:
    root = repository(tmp_path / "notes")
    house = House(root, adopt="all")
    try:
        house.settle()
        house.write(".gitattributes", "later.md filter=broken\n")
        house.git("commit", "-qm", "attributes", ".gitattributes")
        house.write("later.md", f"---\nid: {ONE}\ntype: fact\n---\na second secret\n")
        house.scan()
        assert house.git("ls-files", "later.md") == ""
        house.git("config", "filter.broken.clean", "tr a-z A-Z")
        house.git("config", "filter.broken.smudge", "tr A-Z a-z")
        house.settle()
        assert house.git("cat-file", "blob", "HEAD:later.md").endswith("A SECOND SECRET")
        assert [problem for problem in house.reconciler.problems() if problem["path"] == "later.md"] == []
    finally:
        house.close()


def test_git_is_not_asked_where_no_attributes_speak_of_it(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    run = vault.git.run
    monkeypatch.setattr(vault.git, "run", lambda *words, **more: (asked.append(words), run(*words, **more))[1])
    monkeypatch.setattr("ormahd.vault.conversion.executable", lambda: pytest.fail("git was asked for a blob"))
    for number in range(5):
        put(vault, (NOTE, b"%d\r\n" % number))
    (vault.root / ".gitattributes").write_text("* text=auto\n")
    put(vault, (NOTE, b"no line end that could be another\n"))
    assert [words for words in asked if words[0] == "check-attr"] == []


@pytest.mark.parametrize(("attributes", "times"), [("* text=auto\n", 0), ("* text=auto\n*.png filter=lfs\n", 1)])
def test_git_is_asked_once_for_all_files_of_a_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attributes: str, times: int
) -> None:
    root = repository(tmp_path / "notes", attributes)
    for number in range(5):
        (root / f"day-{number}.md").write_text(f"day {number}\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "days")
    asked: list[bytes] = []
    house = House(root)
    git_run = house.vault.git.run
    monkeypatch.setattr(
        house.vault.git,
        "run",
        lambda *words, **more: (asked.append(more.get("input", b"")), git_run(*words, **more))[1],
    )
    try:
        assert house.scan().indexed >= 5
    finally:
        house.close()
    assert len([files for files in asked if b"day-" in files]) == times


def test_an_attributes_file_with_another_time_is_read_again(tmp_path: Path) -> None:
    root = repository(tmp_path / "notes", "*.md filter=crypt\n")
    with open_vault(root) as vault:
        assert vault.attributes.rule("a.md") is not None
        (root / ".gitattributes").write_text("*.md filter=plain\n")
        os.utime(root / ".gitattributes", ns=(1, 1))
        rule = vault.attributes.rule("a.md")
        assert rule is not None
        assert rule.filter == "plain"


def test_a_filter_of_the_persons_that_fails_on_their_own_file_holds_no_write_of_ours_up(tmp_path: Path) -> None:
    root = repository(tmp_path / "notes", "*.md filter=broken\normah/** -filter\n")
    with open_vault(root) as vault:
        (root / "diary.md").write_text("met the dentist\n")
        for number in range(3):
            put(vault, (NOTE, b"%d\n" % number))
        assert in_head(root, NOTE) == b"2"
        assert in_head(root, "diary.md") == b"met the cardiologist"
