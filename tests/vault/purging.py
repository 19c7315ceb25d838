"""A purge of the vault alone: what `ormahd.actions.purge` does, without index and state; and a memory to be purged."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.git.history import drop_unused
from ormahd.model.change import Kind
from ormahd.model.node import EdgeType
from ormahd.note.edit import edit
from ormahd.note.forgetting import Forgotten
from ormahd.note.values import NoteLink
from ormahd.purge import purge
from ormahd.purge.survey import PurgeSurvey
from ormahd.vault.vault import Vault
from tests.vault.git_house import START, sha
from tests.vault.observed import House, uuid

SHORT = "1a2b3c4d"
GOING, STAYING, THIRD = f"{SHORT}-0000-4000-8000-000000000001", uuid(0x22222222), uuid(0x33333333)
TITLE = "The red door"
WORDS = ("zebrafish", "narwhal", SHORT, "red-door", "red door")
"""What only the memory says, in all its versions and in its links."""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """For a file of tests that says `house = purging.house`."""
    house = House(tmp_path / "vault")
    yield house
    house.close()


def store(house: House, path: str, data: bytes | None, subject: str, node_id: str, kind: Kind = Kind.UPDATE) -> None:
    now = house.vault.read(path)
    with house.vault.transaction(subject, kind=kind, source="agent:test") as tx:
        if data is None:
            tx.remove(path, node_id=node_id, expect=sha(now))
        else:
            tx.put(path, data, node_id=node_id, expect=sha(now))


def told(house: House) -> tuple[str, str]:
    """A memory that goes, in two versions, and one that stays, linked to it and edited since; their paths."""
    going = house.remember("Behind it lives the zebrafish of the harbour master.", title=TITLE, node_id=GOING)
    staying = house.remember("The door of the house is blue.", title="The blue door", node_id=STAYING)
    data = house.read(staying)
    link = NoteLink(EdgeType.SUPPORTS, Path(going).stem, 0.8, START, "as red as the zebrafish")
    store(
        house, staying, edit(data, staying, link=[link]), f"Connect: The blue door supports {TITLE}", STAYING, Kind.LINK
    )
    store(house, going, house.read(going).replace(b"zebrafish", b"narwhal"), f"Update: {TITLE}", GOING)
    store(house, staying, house.read(staying).replace(b"blue.", b"green."), "Update: The blue door", STAYING)
    return going, staying


def gone(house: House) -> None:
    """Nowhere in the repository, which is sound."""
    left = everything(house.root / ".git")
    assert [word for word in (*WORDS, GOING) if word.lower().encode() in left.lower()] == []
    house.git("fsck", "--full", "--strict", "--no-dangling")
    house.git("fsck", "--unreachable")
    assert not (house.root / ".git/ormah-purge").exists()
    assert not drop_unused(house.root)
    assert sorted(path.name for path in (house.root / ".git").glob("*.lock")) == []


def nobody(_: str) -> bool:
    return False


def silent(*_: object) -> None:
    pass


def forget_today(vault: Vault, found: PurgeSurvey) -> None:
    tree = vault.tree()
    with vault.transaction("Purge: a memory was removed", kind=Kind.PURGE, source="person") as tx:
        for path, oid in tree.items():
            data = vault.blob(oid)
            if oid in found.drop:
                tx.remove(path, node_id=None, expect=sha(data))
            elif path in found.names:
                tx.remove(path, node_id=None, expect=sha(data))
                tx.put(found.names[path], found.forgotten.without(path, data), node_id=None, expect=None)
            elif found.forgotten.mentions(data):
                tx.put(path, found.forgotten.without(path, data), node_id=None, expect=sha(data))


def purge_all(vault: Vault, node_id: str | None, *secrets: str) -> PurgeSurvey:
    """Everything from looking to finishing."""
    found = purge.survey_vault(vault, Forgotten(node_id, secrets), nobody, silent)
    forget_today(vault, found)
    with vault.rewriting() as at:
        purge.replace_history(vault, found.forgotten, nobody, silent, at)
    assert purge.unfinished_purge(vault) == found.forgotten
    purge.end_purge(vault)
    return found


def everything(git_dir: Path) -> bytes:
    """The content of every object, reachable or not, and of every other file of the repository."""
    objects = subprocess.run(
        ["git", "--git-dir", str(git_dir), "cat-file", "--batch-all-objects", "--batch"],
        capture_output=True,
        check=True,
    )
    files = [path for path in git_dir.rglob("*") if path.is_file() and "objects" not in path.relative_to(git_dir).parts]
    return objects.stdout + b"".join(str(path).encode() + path.read_bytes() for path in files)
