"""When a purge is refused, what makes it wait, and how the history from before it is known again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ormahd.errors import Conflict, VaultBusy
from ormahd.model.change import Kind
from ormahd.note.forgetting import Forgotten
from ormahd.purge import purge
from ormahd.purge import purge as purge_check
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

    def look() -> None:
        found = purge.look(house.vault, Forgotten(GOING), nobody, silent)
        purge_check.check(house.vault, found, rewrite_foreign=False)

    with pytest.raises(Conflict) as caught:
        look()
    assert house.git("rev-parse", "HEAD") == head
    assert caught.value.hint
    return caught.value


def test_refused_with_commits_made_by_hand(house: House) -> None:
    told(house)
    house.write("x.md", "x\n")
    house.git("add", ".")
    house.git("commit", "-qm", "by hand, with the red door")
    error = refused(house)
    assert house.git("rev-parse", "--short=8", "HEAD") in error.message
    assert "--rewrite-foreign" in (error.hint or "")
    assert error.data["commits"] == [house.git("rev-parse", "HEAD")]
    purge_all(house.vault, GOING, foreign=True)
    gone(house)


def test_refused_where_notes_go_through_a_filter_and_the_way_out_works(house: House, tmp_path: Path) -> None:
    going, _ = told(house)
    house.git("config", "filter.crypt.clean", "base64")
    house.git("config", "filter.crypt.smudge", "base64 -d")
    house.write("private/.gitattributes", "*.md filter=crypt\n")
    house.git("add", "private")
    with house.vault.transaction("remember: filtered", kind=Kind.REMEMBER, source="agent:test") as tx:
        tx.put("private/note.md", b"filtered\n", node_id=None, expect=None)
    error = refused(house)
    assert "private/note.md goes through git's filter crypt" in error.message
    assert "nothing was changed" in error.message
    assert "git filter-repo --invert-paths --path PATH" in (error.hint or "")
    clone = tmp_path / "clone"
    house.git("clone", "-q", "--no-local", str(house.root), str(clone))
    paths = {
        path for path in house.git("log", "--follow", "--name-only", "--format=", "--", going).splitlines() if path
    }
    command = [part for path in sorted(paths) for part in ("--path", path)]
    subprocess.run(
        [sys.executable, "-m", "git_filter_repo", "--quiet", "--invert-paths", *command], cwd=clone, check=True
    )
    assert "narwhal" not in subprocess.run(["git", "log", "-p", "--all", "--format="], cwd=clone, capture_output=True, text=True,
                                           check=True).stdout  # fmt: skip


def test_not_refused_where_another_folder_has_an_encoding_of_its_own(house: House) -> None:
    """In the history such files are UTF-8."""
    told(house)
    house.write("letters/.gitattributes", "*.md working-tree-encoding=UTF-16\n")
    (house.root / "letters/a.md").write_bytes("Dear harbour master\n".encode("utf-16"))
    house.git("add", "letters")
    house.git("commit", "-qm", "letters")
    purge_all(house.vault, GOING, foreign=True)
    gone(house)
    assert (house.root / "letters/a.md").read_bytes().decode("utf-16") == "Dear harbour master\n"


def test_refused_with_sha256(tmp_path: Path) -> None:
    root = tmp_path / "vault"
    subprocess.run(["git", "init", "-q", "--object-format=sha256", "-b", "main", str(root)], check=True)
    house = House(root, adopt="all")
    told(house)
    assert "git-filter-repo cannot rewrite" in refused(house).message
    house.close()


def test_refused_in_a_folder_of_a_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    house = House(tmp_path / "notes")
    told(house)
    assert "whose history is not only the vault's" in refused(house).message
    house.close()


def test_refused_with_linked_worktrees(house: House, tmp_path: Path) -> None:
    told(house)
    house.git("worktree", "add", "-q", str(tmp_path / "linked"), "HEAD~1")
    assert "linked worktrees" in refused(house).message
    house.git("worktree", "remove", str(tmp_path / "linked"))
    purge_all(house.vault, GOING)
    gone(house)


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


def test_refused_with_borrowed_or_kept_objects(house: House) -> None:
    told(house)
    objects = house.root / ".git/objects"
    house.git("repack", "-adq")
    [pack] = (objects / "pack").glob("pack-*.pack")
    pack.with_suffix(".keep").touch()
    assert pack.with_suffix(".keep").name in refused(house).message
    pack.with_suffix(".keep").unlink()
    (objects / "info/alternates").write_text("/elsewhere/objects\n")
    assert "/elsewhere/objects" in refused(house).message


def test_refused_with_staged_work_that_holds_it(house: House) -> None:
    going, _ = told(house)
    house.write(going, house.read(going) + b"more\n")
    house.git("add", going)
    assert f"{going} is staged" in refused(house).message
    house.git("restore", "--staged", going)


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
        purge.replace(house.vault, purge.prepare(house.vault, found, nobody, silent), at)
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
    monkeypatch.setattr(purge_check, "SPARE", real.free * 2)
    found = purge.look(house.vault, Forgotten(GOING), nobody, silent)
    with pytest.raises(Exception, match="MB free"):
        purge_check.check(house.vault, found, rewrite_foreign=True)
    assert os.listdir(house.root / ".git/objects")
