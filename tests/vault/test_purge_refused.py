"""When a purge is refused, what makes it wait, and how the history from before it is known again."""

import os
import shutil

import pytest

from ormahd.errors import Conflict, Unavailable, VaultBusy
from ormahd.model.change import Kind
from ormahd.note.forgetting import Forgotten
from ormahd.purge import purge
from ormahd.vault import purge_records
from tests.vault import purging
from tests.vault.git_house import START
from tests.vault.observed import House
from tests.vault.purging import (
    GOING,
    SHORT,
    STAYING,
    THIRD,
    forget_today,
    gone,
    nobody,
    purge_all,
    silent,
    store,
    told,
)

house = purging.house


# ------------------------------------------------------------ refused


def refused(house: House) -> Conflict:
    head = house.git("rev-parse", "HEAD")

    with pytest.raises(Conflict) as caught:
        purge.look(house.vault, Forgotten(GOING), nobody, silent)
    assert house.git("rev-parse", "HEAD") == head
    assert caught.value.hint
    return caught.value


def test_refused_with_stashed_work(house: House) -> None:
    going, _ = told(house)
    house.write(going, "changed\n")
    house.git("stash", "-q")
    assert "stash" in refused(house).message
    house.git("stash", "drop", "-q")
    purge_all(house.vault, GOING)
    gone(house)


@pytest.mark.parametrize(
    ("do", "says", "undo"),
    [
        (("update-ref", "refs/keep/x", "HEAD"), "refs/keep/x", ("update-ref", "-d", "refs/keep/x")),
        (("notes", "add", "-m", "n"), "refs/notes/commits", ("update-ref", "-d", "refs/notes/commits")),
        (("switch", "-q", "--detach"), "HEAD is detached", ("switch", "-q", "main")),
        (("config", "extensions.preciousObjects", "true"), "preciousobjects", ("config", "--unset", "extensions.preciousObjects")),
    ],
)  # fmt: skip
def test_refused_where_the_old_history_would_stay(
    house: House, do: tuple[str, ...], says: str, undo: tuple[str, ...]
) -> None:
    told(house)
    house.git(*do)
    assert says in refused(house).message
    house.git(*undo)
    assert purge.look(house.vault, Forgotten(GOING), nobody, silent).found


def test_two_memories_with_one_short_id(house: House) -> None:
    told(house)
    house.remember("A twin.", title="Twin", node_id=f"{SHORT}-ffff-4000-8000-000000000001")
    assert "same first 8 characters" in refused(house).message


def test_busy_while_somebody_else_is_at_work(house: House) -> None:
    told(house)
    found = purge.look(house.vault, Forgotten(GOING), nobody, silent)
    forget_today(house.vault, found)
    (house.root / ".git/index.lock").touch()
    with pytest.raises(VaultBusy), house.vault.rewriting():
        pytest.fail("the lock is not ours")
    (house.root / ".git/index.lock").unlink()
    with house.vault.rewriting() as at:
        purge.rewrite(house.vault, found.forgotten, nobody, silent)
        purge.exchange(house.vault, at)
    purge.finish(house.vault)
    gone(house)


# ------------------------------------------------------------ two histories of one vault


def record(house: House, op: str) -> str:
    data = purge_records.with_record(house.vault.committed(purge_records.FILE), op, START)
    store(house, purge_records.FILE, data, "Purge", STAYING, Kind.PURGE)
    return house.git("rev-parse", "HEAD")


def test_a_history_from_before_a_purge_is_known(house: House) -> None:
    told(house)
    base = house.git("rev-parse", "HEAD")
    new = record(house, "01hk")
    purge_records.check_same(house.vault, new, "far", "main")
    purge_records.check_same(house.vault, base, "far", "main")  # ours only goes on from it
    house.git("switch", "-qc", "old", base)
    purge_records.check_same(house.vault, new, "far", "main")  # theirs only goes on from ours
    house.remember("Beside it.", title="Beside", node_id=THIRD)
    old = house.git("rev-parse", "HEAD")
    with pytest.raises(Conflict, match="was purged from far/main"):
        purge_records.check_same(house.vault, new, "far", "main")
    record(house, "02hk")
    with pytest.raises(Conflict, match="and the other way round"):
        purge_records.check_same(house.vault, new, "far", "main")
    house.git("switch", "-q", "main")
    with pytest.raises(Conflict, match="still holds what was purged here"):
        purge_records.check_same(house.vault, old, "far", "main")


def test_no_room_on_the_disk(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one thing that is not real here: a disk cannot be filled for a test."""
    told(house)
    real = shutil.disk_usage(house.root)
    monkeypatch.setattr(purge, "SPARE", real.free * 2)
    with pytest.raises(Unavailable, match="MB free"):
        purge.look(house.vault, Forgotten(GOING), nobody, silent)
    assert os.listdir(house.root / ".git/objects")
