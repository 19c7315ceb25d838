"""Undoing an adoption takes out what Ormah added and leaves the person's file where it is, as git knew it before."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.blackbox.tours import head, walk_home
from tests.house import House, open_house, save, wait_until

FILES = {
    "Ideas/A thought.md": b"# A thought\r\n\r\nabout rivers\r\n",
    "Tagged.md": b"---\ntags: [x]  # mine\ncolour: blue\n---\nabout hills",
    "Plain.md": "Grüße, about 田中\n".encode(),
    "Five.md": b"five\n",
    "Six.md": b"six\n",
}


@pytest.fixture
def house() -> Iterator[House]:
    with open_house(ORMAH_VAULT_ADOPT="all") as found:
        yield found


def write(house: House, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        (house.vault / path).parent.mkdir(parents=True, exist_ok=True)
        (house.vault / path).write_bytes(data)


def bytes_of(house: House, files: dict[str, bytes] = FILES) -> dict[str, bytes]:
    return {path: (house.vault / path).read_bytes() for path in files}


def adopted(house: House, files: dict[str, bytes] = FILES) -> str:
    """Wait until all of these are adopted; the op's commit."""
    wait_until(lambda: all(b"id: " in data for data in bytes_of(house, files).values()), "they are adopted")
    wait_until(lambda: house.git("log", "-1", "--format=%s").startswith("Adopt"), "it is committed")
    return head(house)


def show(house: House, what: str) -> bytes:
    return subprocess.run(["git", "show", what], cwd=house.vault, capture_output=True, check=True).stdout


def untracked(house: House) -> set[str]:
    out = house.git("status", "--porcelain", "-z", "--untracked-files=all")
    return {record[3:] for record in out.split("\0") if record.startswith("??")}


def stays(house: House, files: dict[str, bytes]) -> None:
    """The files are as they are, and a scan, a restart and a rebuild adopt none of them."""
    before = head(house)
    house.json("jobs", "run", "index_updater")
    house.restart()
    house.json("rebuild")
    assert bytes_of(house, files) == files
    assert head(house) == before
    assert house.call("admin.verify").ok


def test_the_first_commit_has_the_persons_bytes_and_the_second_ours(house: House) -> None:
    house.vault.mkdir()
    write(house, FILES)
    house.start()
    commit = adopted(house)
    for path, data in FILES.items():
        assert show(house, f"{commit}^:{path}") == data
    assert house.git("diff-tree", "--no-commit-id", "--name-status", "-r", f"{commit}^").split("\n")[0].startswith("A")
    assert {
        line[0] for line in house.git("diff-tree", "--no-commit-id", "--name-status", "-r", commit).splitlines()
    } == {"M"}
    ours = [
        line
        for line in house.git("diff", f"{commit}^", commit).splitlines()
        if line.startswith("-") and line[3:4] != " "
    ]
    assert ours == [
        f"--- a/{line[6:]}" if line.startswith("--- a/") else line for line in ours if line.startswith("---")
    ]
    assert [op["commit"] for op in house.json("history") if op["kind"] == "adopt"] == [commit], "it is one op"


def test_undo_leaves_the_files_untracked_and_undoing_that_brings_all_back(house: House) -> None:
    house.vault.mkdir()
    write(house, FILES)
    house.start()
    commit = adopted(house)
    after = bytes_of(house)
    before = house.git("status", "--porcelain")
    done = house.json("undo", commit)["undone"][0]
    assert {change["did"] for change in done["changes"] if change["node_id"]} == {"released"}
    assert bytes_of(house) == FILES
    assert untracked(house) == set(FILES)
    assert not set(FILES) & set(house.git("ls-tree", "-r", "--name-only", "HEAD").splitlines())
    stays(house, FILES)
    house.json("undo", done["undo_op"])
    assert bytes_of(house) == after
    assert house.git("status", "--porcelain") == before == ""
    assert house.git("diff", commit, "HEAD", "--", "*.md") == ""
    walk_home(house)
    again = house.json("undo", head(house))["undone"][0]
    assert bytes_of(house) == FILES
    assert untracked(house) == set(FILES)
    stays(house, FILES)
    house.json("undo", again["undo_op"])
    assert bytes_of(house) == after


def test_what_was_edited_since_stays_edited(house: House) -> None:
    house.vault.mkdir()
    write(house, FILES)
    house.start()
    commit = adopted(house)
    save(house.vault / "Five.md", (house.vault / "Five.md").read_text() + "and more\n")
    wait_until(lambda: head(house) != commit, "the edit is taken in")
    (house.vault / "Six.md").unlink()
    wait_until(lambda: house.git("ls-files", "Six.md") == "", "the deletion is taken in")
    undo = house.json("undo", commit)["undone"][0]
    left = {**FILES, "Five.md": b"five\nand more\n"}
    del left["Six.md"]
    assert bytes_of(house, left) == left
    assert not (house.vault / "Six.md").exists()
    save(house.vault / "Plain.md", FILES["Plain.md"].decode() + "typed while it was released\n")
    house.json("undo", undo["undo_op"])
    text = (house.vault / "Plain.md").read_text()
    assert text.startswith("---\nid: ")
    assert text.endswith("typed while it was released\n")


def test_what_the_person_tracked_stays_tracked(house: House) -> None:
    house.vault.mkdir()
    write(house, {"Clean.md": b"clean\n", "Dirty.md": b"first\n", "Ours later.md": b"x\n"})
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "mine"]):
        subprocess.run(["git", *words], cwd=house.vault, check=True, env={**house.env})
    files = {"Clean.md": b"clean\n", "Dirty.md": b"first\nand not committed\n", "New.md": b"new\n"}
    write(house, files)
    before = house.git("status", "--porcelain")
    house.start()
    adopted(house, files)
    adoptions = [
        op["commit"] for op in house.json("history", "--kind", "adopt")
    ]  # two, where a file became quiet later
    house.json("undo", *adoptions)
    assert bytes_of(house, files) == files
    assert house.git("status", "--porcelain") == before
    stays(house, files)


def test_an_edit_that_brought_files_with_ids_of_their_own_leaves_them(house: House) -> None:
    house.start()
    files = {f"Mine {n}.md": f"---\nid: {n:08x}-0000-4000-8000-{n:012x}\n---\nmine {n}\n".encode() for n in range(1, 8)}
    write(house, files)
    wait_until(
        lambda: house.git("status", "--porcelain") == "" and house.git("ls-files", "Mine 7.md"), "they are taken in"
    )
    for op in [op["op"] for op in house.json("history") if op["kind"] == "edit"]:
        house.json("undo", op)
    assert bytes_of(house, files) == files
    assert untracked(house) == set(files)
    stays(house, files)


def test_a_revert_by_hand_leaves_the_files_untracked_too(house: House) -> None:
    house.vault.mkdir()
    write(house, FILES)
    house.start()
    commit = adopted(house)
    house.git("revert", "--no-edit", commit)
    assert bytes_of(house) == FILES, "git took our lines out"
    wait_until(lambda: untracked(house) == set(FILES), "git no longer knows them")
    stays(house, FILES)
    after = house.json("undo", head(house))["undone"][0]
    assert {change["did"] for change in after["changes"] if change["path"] in FILES} == {"adopted"}
    wait_until(lambda: all(b"id: " in data for data in bytes_of(house).values()), "they are adopted again")


def test_a_revert_of_both_commits_by_hand_loses_no_file(house: House) -> None:
    house.vault.mkdir()
    write(house, FILES)
    house.start()
    commit = adopted(house)
    house.stop()
    house.git("revert", "--no-edit", commit, f"{commit}^")
    assert not (house.vault / "Five.md").exists(), "that is git's own rule"
    house.start()
    wait_until(lambda: untracked(house) == set(FILES), "they are back, and git does not know them")
    stays(house, FILES)


def test_a_revert_of_the_first_commit_alone_is_gits_own_conflict(house: House) -> None:
    house.vault.mkdir()
    write(house, FILES)
    house.start()
    commit = adopted(house)
    after = bytes_of(house)
    done = subprocess.run(
        ["git", "revert", "--no-edit", f"{commit}^"], cwd=house.vault, capture_output=True, text=True, env=house.env
    )
    assert done.returncode == 1
    assert "deleted in" in done.stdout
    assert bytes_of(house) == after
    house.git("revert", "--abort")
    walk_home(house)
    assert bytes_of(house) == after


WORDS = {"Plain.md": "Grüße", "Five.md": "five", "Six.md": "six", "Ideas/A thought.md": "rivers"}


def found(house: House) -> dict[str, str]:
    """The id under which each of these is found first."""
    firsts = {path: house.json("recall", word, "-n", "1")["results"][0] for path, word in WORDS.items()}
    assert {path: first["path"] for path, first in firsts.items()} == {path: path for path in WORDS}
    return {path: first["id"] for path, first in firsts.items()}


@pytest.mark.parametrize(("by", "which"), [("op", ["--all"]), ("run", ["--folder", "Ideas", "--space", "ideas"])])
def test_what_was_chosen_goes_with_the_adoption(which: list[str], by: str) -> None:
    with open_house() as house:
        house.vault.mkdir()
        write(house, FILES)
        house.start()
        wait_until(lambda: house.ctl("recall", "hills").returncode == 0, "the notes are found")
        before, card = found(house), (house.vault / ".ormah/vault.toml").read_bytes()
        space = house.json("recall", "rivers", "-n", "1")["results"][0]["space"]
        done = house.json("vault", "adopt", *which, "--yes")
        assert done["op"]
        assert done["run"]
        assert bytes_of(house) != FILES
        undone = house.json("undo", *([done["op"]] if by == "op" else ["--run", done["run"]]))
        assert (undone["undone"][0]["op"], undone["conflicts"]) == (done["op"], [])
        assert (house.vault / ".ormah/vault.toml").read_bytes() == card
        assert found(house) == before
        assert house.json("recall", "rivers", "-n", "1")["results"][0]["space"] == space
        later = house.vault / "Ideas/Later.md"
        later.write_text("written later, about medlars\n")
        wait_until(lambda: "medlars" in house.ctl("recall", "medlars").stdout, "the new note is found")
        stays(house, FILES)
        assert later.read_text() == "written later, about medlars\n"
        assert found(house) == before
        house.json("undo", "--run", undone["run"])
        assert bytes_of(house) != FILES
        wait_until(lambda: found(house) == before, "they are the same memories")


def test_what_is_released_where_all_is_adopted_is_still_found(house: House) -> None:
    house.vault.mkdir()
    write(house, FILES)
    house.start()
    commit = adopted(house)
    house.json("undo", commit)
    ids = found(house)
    assert house.json("show", ids["Plain.md"])["path"] == "Plain.md"
    refused = house.ctl("update", ids["Plain.md"], "--title", "x")
    assert (refused.returncode, "ormahctl vault adopt Plain.md" in refused.stderr) == (5, True)
    stays(house, FILES)
    assert found(house) == ids
    house.json("vault", "adopt", "Plain.md")
    assert b"id: " in (house.vault / "Plain.md").read_bytes()
    assert found(house).keys() == ids.keys()
