"""Notes that are only found (`vault.adopt = "index"`): memories with an id of their place, and not one byte in them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.model.change import Kind, sha256
from ormahd.note.values import adopted_id
from ormahd.vault import releasing
from ormahd.vault.choices import Choices
from ormahd.vault.create import CARD, Folder, read_card, with_choices
from tests.obsidian_vault import ObsidianVault, build
from tests.vault.observed import House


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> ObsidianVault:
    """A person's vault, in a repository of theirs with staged and unstaged work."""
    return build(tmp_path_factory.mktemp("person") / "notes", repository=True)


@pytest.fixture
def house(theirs: ObsidianVault, tmp_path: Path) -> Iterator[House]:
    root = tmp_path / "notes"
    subprocess.run(["cp", "-a", theirs.root, root], check=True)
    house = House(root)
    house.settle()
    yield house
    house.close()


def ids(house: House) -> dict[str, str]:
    return {path: node_id for node_id, path in house.index.nodes().items()}


def test_every_note_is_a_memory_and_nothing_is_written(house: House, theirs: ObsidianVault) -> None:
    assert read_card(house.read(CARD), house.root).adopt == "index"
    known = ids(house)
    assert [path for path in theirs.notes if path not in known] == []
    assert [path for path in theirs.groups["board"] if path not in known] == []
    assert [path for path in theirs.left_out if path in known and path not in theirs.groups["board"]] == []
    assert [path for path, data in theirs.files.items() if house.read(path) != data] == []
    assert sorted(
        line[:2] for line in house.git("status", "--porcelain", "--", ".", ":!ormah", ":!.ormah").splitlines()
    ) == [" M", "A "]
    touched = house.git("log", "--format=", "--name-only", f"{first(house)}..HEAD").split("\n")
    assert {path.split("/")[0] for path in touched if path} <= {"ormah", ".ormah"}


def first(house: House) -> str:
    return house.git("rev-list", "--max-parents=0", "HEAD")


def test_ids_are_made_of_the_place_and_outlive_index_and_edit(house: House) -> None:
    before = ids(house)
    assert before["Books/Momo.md"] == adopted_id(house.vault.id, "Books/Momo.md", b"")
    house.write("Books/Momo.md", "Quite another text.\n")
    house.index.rows.clear()
    house.reconciler = house.new_reconciler()
    house.settle()
    assert ids(house) == before
    assert house.index.find("Quite another") == ["Books/Momo.md"]


def test_a_renamed_note_keeps_its_id_also_when_nobody_looked(house: House) -> None:
    before = ids(house)
    (house.root / "Shelf").mkdir()
    (house.root / "Books/Momo.md").rename(house.root / "Shelf/Momo by Ende.md")
    house.settle()
    assert ids(house)["Shelf/Momo by Ende.md"] == before["Books/Momo.md"]
    assert house.log()[0] == "Follow a note that was renamed: Shelf/Momo by Ende.md"
    house.reconciler = house.new_reconciler()  # a new life
    (house.root / "Shelf").rename(house.root / "Regal")
    data = (house.root / "Books/Kokoro.md").read_bytes()
    (house.root / "Books/Kokoro.md").unlink()
    house.write("Regal/Kokoro.md", data)  # another inode, the same bytes
    house.settle()
    now = ids(house)
    assert (now["Regal/Momo by Ende.md"], now["Regal/Kokoro.md"]) == (
        before["Books/Momo.md"],
        before["Books/Kokoro.md"],
    )
    house.write("Books/Momo.md", "A new note in the old place.\n")
    house.settle()
    now = ids(house)
    assert now["Books/Momo.md"] not in {*before.values()}
    house.index.rows.clear()
    house.reconciler = house.new_reconciler()
    house.settle()
    assert ids(house) == now
    (house.root / "Books/Momo.md").unlink()
    (house.root / "Regal/Momo by Ende.md").rename(house.root / "Books/Momo.md")
    house.settle()
    assert ids(house)["Books/Momo.md"] == before["Books/Momo.md"]
    assert b"Momo" not in house.read(".ormah/renamed.jsonl")  # back where it was met first: no line is needed


def test_a_new_note_in_a_freed_inode_is_another_note(house: House) -> None:
    before = ids(house)
    (house.root / "Books/Momo.md").unlink()
    house.write("Books/New.md", "Something that was never there.\n")
    house.settle()
    assert ids(house)["Books/New.md"] != before["Books/Momo.md"]
    assert "Books/Momo.md" not in ids(house)


def test_one_that_is_deleted_is_forgotten_and_the_deletion_is_the_persons_to_commit(house: House) -> None:
    head = house.git("rev-parse", "HEAD")
    (house.root / "Books/Momo.md").unlink()
    house.settle()
    assert "Books/Momo.md" not in ids(house)
    assert house.git("rev-parse", "HEAD") == head
    assert house.git("status", "--porcelain", "--", "Books") == " D Books/Momo.md"


def test_secrets_markers_and_empty_ones_are_no_memories_and_a_broken_one_is_found(house: House) -> None:
    before = ids(house)["Books/Momo.md"]
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    house.write("keys.md", f"github {secret}\n")
    house.write("empty.md", " \n")
    house.write("broken.md", "---\ntitle: [\n---\nx")
    house.write("Books/Momo.md", "a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> other\n")
    (house.root / "pipe.md").symlink_to("keys.md")
    os.mkfifo(house.root / "fifo.md")
    house.settle()
    known = ids(house)
    assert {"keys.md", "empty.md", "pipe.md", "fifo.md"} & known.keys() == set()
    assert "broken.md" in known
    assert house.read("broken.md") == b"---\ntitle: [\n---\nx"
    assert known["Books/Momo.md"] == before  # as it was before the merge
    assert not any(secret.encode() in data for data, _ in house.index.rows.values())


def test_heads_of_other_tools_are_found_in_a_vault_of_ours(tmp_path: Path) -> None:
    house = House(tmp_path / "vault")
    house.write("hugo.md", "+++\ntitle = 'Kayaks'\n+++\nKayaks are narrow.\n")
    house.write("Board.md", "---\nkanban-plugin: basic\n---\n- [ ] buy timber\n")
    house.settle()
    assert {"hugo.md", "Board.md"} <= ids(house).keys()
    assert house.read("hugo.md").startswith(b"+++")
    assert "hugo.md" not in house.git("ls-files")
    house.close()


def test_all_writes_the_ids_that_the_notes_were_found_under(house: House, theirs: ObsidianVault) -> None:
    (house.root / "Books/Momo.md").rename(house.root / "Books/Momo by Ende.md")
    house.settle()
    before = ids(house)
    house.close()
    rows = house.index.rows
    house = House(house.root, adopt="all")
    house.index.rows |= rows
    house.settle()
    assert {path: node_id for path, node_id in ids(house).items() if path in before} == before
    assert before["Books/Momo by Ende.md"].encode() in house.read("Books/Momo by Ende.md")
    house.close()


def test_a_folder_of_the_persons_that_is_called_as_ours_is_theirs(tmp_path: Path) -> None:
    root = tmp_path / "notes"
    (root / "ormah/deep").mkdir(parents=True)
    theirs = {f"ormah/{name}.md": f"My notes on the {name}.\n" for name in ("loom", "mill", "deep/well")}
    for path, text in theirs.items():
        (root / path).write_text(text)
    house = House(root)
    house.settle()
    assert {path: house.read(path).decode() for path in theirs} == theirs
    assert set(theirs) <= set(ids(house))
    assert house.log() == ["init: a vault for memories"]
    (root / "ormah/kiln.md").write_text("Written later.\n")
    house.settle()
    assert house.read("ormah/kiln.md") == b"Written later.\n"
    own = next(path for path in ids(house) if "/person/" in path)
    (root / own).write_bytes(house.read(own) + b"\nA line more.\n")
    house.settle()
    assert house.log()[0].startswith("Edit"), "what Ormah keeps there stays a memory"
    house.close()


def test_notes_of_ours_that_were_there_before_the_vault_are_taken_in(house: House, tmp_path: Path) -> None:
    own = next(path for path in ids(house) if "/person/" in path)
    root = tmp_path / "restored"
    (root / own).parent.mkdir(parents=True)
    (root / own).write_bytes(house.read(own))
    other = House(root)
    other.settle()
    (root / "ormah/new.md").write_text("A note for Ormah.\n")
    other.settle()
    assert other.log()[0] == "Adopt: new"
    other.close()


def test_what_another_machine_chose_writes_into_no_note_that_lies_only_here(tmp_path: Path) -> None:
    root = tmp_path / "notes"
    (root / "Tools").mkdir(parents=True)
    theirs = {"own.md": "My notes on looms.\n", "Tools/mill.md": "My notes on mills.\n"}
    for path, text in theirs.items():
        (root / path).write_text(text)
    House(root).close()
    house = House(root)
    house.settle()
    for card in (with_choices(house.read(CARD), {"Tools": Folder("all")}), with_choices(house.read(CARD), {}, "all")):
        with house.vault.transaction("Sync: a test", kind=Kind.SYNC, source="person") as tx:
            tx.put(CARD, card, node_id=None, expect=sha256(house.read(CARD)))
        house.close()
        house = House(root)
        house.settle()
        assert {path: house.read(path).decode() for path in theirs} == theirs
        assert set(theirs) <= set(ids(house))
    assert [said["mend"] for said in house.reconciler.problems()] == ["to adopt them too: ormahctl vault adopt --all"]
    house.reconciler.renew_choices(Choices("ormah", "all"))
    house.close()
    house = House(root)
    house.settle()
    assert house.log()[0] == "Adopt 2 notes: own, mill"
    assert house.reconciler.problems() == []
    house.close()


def test_a_released_note_stays_released_when_it_is_edited_and_renamed(tmp_path: Path) -> None:
    house = House(tmp_path / "notes", adopt="all")
    texts = {"loom.md": b"My notes on looms.\n", "mill.md": b"My notes on mills.\n"}
    with house.vault.transaction("Release", kind=Kind.EDIT, source="person") as tx:
        lines = [releasing.Released(path, sha256(data)) for path, data in texts.items()]
        tx.put(releasing.PATH, releasing.with_files(b"", lines), node_id=None, expect=sha256(b""))
    for path, data in texts.items():
        (house.root / path).write_bytes(data)
    house.settle()
    (house.root / "loom.md").write_bytes(b"My other notes on looms.\n")
    house.settle()
    (house.root / "loom.md").rename(house.root / "weaving.md")
    house.settle()
    (house.root / "mill.md").rename(house.root / "grinding.md")
    (house.root / "grinding.md").write_bytes(b"My other notes on mills.\n")  # both before anybody looks
    house.settle()
    assert house.read("weaving.md") == b"My other notes on looms.\n"
    assert house.read("grinding.md") == b"My other notes on mills.\n"
    assert set(releasing.read(house.read(releasing.PATH))) == {"weaving.md", "grinding.md"}
    (house.root / "loom.md").write_bytes(b"A new note.\n")
    house.settle()
    assert house.log()[0] == "Adopt: loom"
    house.close()
