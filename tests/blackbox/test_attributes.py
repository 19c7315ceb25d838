"""A repository whose folders have attributes of every kind: notes are adopted, changed, taken back and released under each, git says after
each step that nothing is changed, and the person's bytes come back."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house import House, open_house, save, wait_until

IDENT = "$Id: 0123456789012345678901234567890123456789 $"

FOLDERS: dict[str, tuple[str, str]] = {
    "crypt": ("*.md filter=crypt", "# Health\nmet the cardiologist\n"),
    "crypt-crlf": ("*.md filter=crypt text eol=crlf", "# Health\r\nmet the dentist\r\n"),
    "loose": ("*.md filter=loose", "# Loose\nmet the vet\n"),
    "lf": ("*.md text eol=lf", "# Unix\r\nwritten on windows\r\n"),
    "crlf": ("*.md text eol=crlf", "# Dos\r\nwritten by notepad\r\n"),
    "crlf-of-lf": ("*.md text eol=crlf", "# Dos\nwritten on linux\n"),
    "crlf-mixed": ("*.md text eol=crlf", "# Mixed\r\nwritten here\nand over there\r\n"),
    "auto": ("* text=auto", "# Auto\r\nsaved by an editor\r\n"),
    "auto-lf": ("* text=auto", "# Auto\nsaved by a plain editor\n"),
    "binary": ("*.md -text", "# As it is\r\nno conversion at all\r\n"),
    "ident": ("*.md ident", f"# Keyword\n{IDENT}\nexpanded by git\n"),
    "ident-plain": ("*.md ident", "# Keyword\n$Id$\nnot expanded yet\n"),
    "plain": ("*.txt filter=crypt", "# Plain\nnothing applies here\n"),
}
"""Per folder: its attributes, and a note of the person's in it."""
ALIKE = {"crlf-of-lf", "auto-lf", "binary", "ident-plain"}
"""Those in which a whole life goes as in the one before them, but for the bytes at its ends: an adoption and its way back show these."""


@pytest.fixture(scope="module")
def repository() -> Iterator[House]:
    with open_house(ORMAH_VAULT_ADOPT="index") as house:
        house.vault.mkdir()
        house.git("init", "-q", "-b", "main")
        for name, clean in {"crypt": "base64", "loose": "false"}.items():
            house.git("config", f"filter.{name}.clean", clean)
            house.git("config", f"filter.{name}.smudge", "base64 -di" if clean == "base64" else "cat")
        house.git("config", "filter.crypt.required", "true")
        for folder, (attributes, text) in FOLDERS.items():
            (house.vault / folder).mkdir()
            (house.vault / folder / ".gitattributes").write_text(attributes + "\n")
            (house.vault / folder / "note.md").write_bytes(text.encode())
        (house.vault / ".gitattributes").write_text("ormah/global/**/*.md filter=crypt\n")
        house.git("add", "-A")
        house.git("commit", "-qm", "mine")
        house.start()
        yield house


def sound(house: House, folder: str) -> None:
    """Git has nothing to say, the index is what the vault says, and nothing of a filtered note is in the history as it stands."""
    assert house.git("status", "--porcelain", "--untracked-files=all") == ""
    assert house.call("admin.verify").differences == []
    if folder.startswith("crypt"):
        for commit in house.git("rev-list", "HEAD", "--", f"{folder}/note.md").split():
            blob = house.git("cat-file", "blob", f"{commit}:{folder}/note.md")
            assert "met the" not in blob, blob


@pytest.mark.parametrize("folder", [pytest.param(one, marks=[pytest.mark.soak] * (one in ALIKE)) for one in FOLDERS])
def test_a_note_lives_its_life_under_attributes(repository: House, folder: str) -> None:
    house, text = repository, FOLDERS[folder][1].encode()
    file = house.vault / folder / "note.md"
    body = text.splitlines()[-1].decode()
    sound(house, folder)

    house.json("vault", "adopt", f"{folder}/note.md", "--yes")
    adopted = file.read_bytes()
    assert adopted != text
    assert text in adopted
    sound(house, folder)
    found = next(row for row in house.json("recall", body)["results"] if body in row["content"])

    house.json("update", found["id"], "--content", f"{body}\n\nAnd more of it.")
    updated = file.read_bytes()
    assert b"And more of it." in updated
    assert (b"\r\n" in updated) == (b"\r\n" in text)
    sound(house, folder)
    [last] = house.json("history", found["id"], "--limit", "1")
    then = house.git("rev-parse", f"{last['commit']}^").strip()
    before = house.json("recall", body, "--as-of", then)["results"]
    assert [row["content"] for row in before if row["id"] == found["id"]] == [found["content"].replace(IDENT, "$Id$")]
    assert "And more of it." in house.json("show", found["id"])["content"]
    house.json("undo", last["op"])
    assert file.read_bytes().replace(b"\r\n", b"\n") == adopted.replace(b"\r\n", b"\n").replace(IDENT.encode(), b"$Id$")
    if folder not in {"crlf-mixed", "ident"}:
        assert file.read_bytes() == adopted
    sound(house, folder)

    save(file, file.read_bytes().decode().replace(body, f"{body} (by hand)"))
    wait_until(lambda: "(by hand)" in str(house.json("recall", body)["results"]), "the edit is found")
    wait_until(lambda: house.git("status", "--porcelain") == "", "the edit is committed")
    sound(house, folder)

    house.json("vault", "release", f"{folder}/note.md", "--yes")
    released = file.read_bytes()
    assert b"id:" not in released
    assert released.replace(b" (by hand)", b"").replace(b"\r\n", b"\n") == text.replace(b"\r\n", b"\n").replace(
        IDENT.encode(), b"$Id$" if b"$Id$" in released else IDENT.encode()
    )
    assert house.git("status", "--porcelain", "--untracked-files=all") == f" M {folder}/note.md\n"
    save(file, released.decode().replace(" (by hand)", ""))
    wait_until(lambda: "(by hand)" not in str(house.json("recall", body)["results"]), "the edit is found")
    sound(house, folder)


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_adoption_that_is_taken_back_leaves_the_persons_bytes(repository: House, folder: str) -> None:
    house = repository
    file = house.vault / folder / "second.md"
    text = FOLDERS[folder][1].replace("#", "# Second:").encode()
    file.write_bytes(text)
    wait_until(lambda: f"{folder}/second.md" in str(house.json("recall", "second")), "it is found", 20)
    done = house.json("vault", "adopt", f"{folder}/second.md", "--yes")
    assert text in file.read_bytes()
    assert house.git("status", "--porcelain") == ""
    [last] = house.json("history", "--limit", "1")
    assert last["kind"] == "adopt", (last, done)
    house.json("undo", last["op"])
    assert file.read_bytes() == text
    assert house.git("status", "--porcelain", "--untracked-files=all") == f"?? {folder}/second.md\n"
    assert house.call("admin.verify").differences == []
    file.unlink()
    wait_until(lambda: house.call("admin.verify").ok, "its end is seen")


@pytest.mark.parametrize("daemon", [True, False], ids=["daemon", "helper"])
def test_git_merges_encrypted_notes_as_notes(repository: House, tmp_path: Path, daemon: bool) -> None:
    house = repository
    memory = house.json("remember", f"Ada has the key ({daemon}).", "--global", "--title", f"The key {daemon}")
    path, other = memory["path"], tmp_path / "other"
    house.git("worktree", "add", "-q", "-b", f"other-{daemon}", str(other))
    theirs = (other / path).read_text()
    assert "Ada has the key" in theirs
    (other / path).write_text(
        theirs.replace("confidence: 1.0", "confidence: 0.5").replace("---\n", "---\ntags: [keys]\n", 1)
    )
    house.git("-C", str(other), "commit", "-qam", "tags")
    house.json("update", memory["id"], "--content", "Grace has the key now.")
    if not daemon:
        house.stop()
    house.git("merge", "-q", "-m", "both", f"other-{daemon}")
    house.git("worktree", "remove", "--force", str(other))
    if not daemon:
        house.start()
    merged = (house.vault / path).read_text()
    assert "tags: [keys]" in merged
    assert "Grace has the key now." in merged
    assert "the key" not in house.git("cat-file", "blob", f"HEAD:{path}")
    assert house.git("status", "--porcelain") == ""
    wait_until(lambda: house.call("admin.verify").ok, "the merge is taken in")
    assert house.json("show", memory["id"])["tags"] == ["keys"]


def test_a_conflict_in_an_encrypted_note_keeps_ours_and_names_both(repository: House, tmp_path: Path) -> None:
    house = repository
    memory = house.json("remember", "The safe is blue.", "--global", "--title", "The safe")
    path, other = memory["path"], tmp_path / "other"
    house.git("worktree", "add", "-q", "-b", "conflict", str(other))
    (other / path).write_text((other / path).read_text().replace("is blue", "is green"))
    house.git("-C", str(other), "commit", "-qam", "green")
    house.json("update", memory["id"], "--content", "The safe is red.")
    done = subprocess.run(
        ["git", "merge", "conflict"], cwd=house.vault, env=house.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "both sides changed" in done.stderr + done.stdout
    assert "The safe is red." in (house.vault / path).read_text()
    house.git("checkout", "--theirs", "--", path)
    assert "The safe is green." in (house.vault / path).read_text()
    house.git("merge", "--abort")
    house.git("worktree", "remove", "--force", str(other))
    wait_until(lambda: house.call("admin.verify").ok, "the end of the merge is seen")


def test_no_encrypted_memory_becomes_part_of_a_plain_one(repository: House) -> None:
    house = repository
    secret = house.json(
        "remember", "The boat house key hangs behind the door.", "--global", "--title", "Boat house key"
    )
    (house.vault / "plain" / "key.md").write_text("# Boat house key\n\nThe boat house key hangs behind the door.\n")
    wait_until(lambda: "plain/key.md" in str(house.json("recall", "boat house")), "it is found", 20)
    house.json("vault", "adopt", "plain/key.md", "--yes")
    note = next(one for one in house.json("recall", "boat house")["results"] if one["id"] != secret["id"])
    ids = [note["id"], secret["id"]]
    merge = {"keep_id": ids[0], "remove_id": ids[1], "title": None, "content": None, "reason": "the same"}
    unite = {"node_ids": ids, "title": "Key", "content": "Behind the door.", "type": "fact", "reason": "the same"}
    for given in ({"merges": [merge]}, {"consolidations": [unite]}):
        receipt = house.json("maintenance")["receipt"]
        done = house.json("maintenance", "apply", "-", input=json.dumps({"receipt": receipt, **given}))
        (refused,) = done["refused"]
        assert "through a filter" in refused["why"], refused
