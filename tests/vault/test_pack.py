"""Packs as we write them are sound to git, hold every byte, and are on the disk before anybody relies on them."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ormahd.git import objects as git_pack
from ormahd.git.objects import write_pack, zlib_data
from ormahd.process.disk import Flusher
from ormahd.vault.vault import Vault
from tests.vault.git_house import git, open_vault, put, sound

SIZES = [0, 1, 15, 16, 17, 2047, 2048, 2049, 300_000, 3_000_000]
"""Around the places where a size in a pack takes another byte."""


def blobs(vault: Vault) -> dict[str, tuple[str, bytes]]:
    fresh: dict[str, tuple[str, bytes]] = {}
    for size in SIZES:
        vault._objects.add_blob(os.urandom(size // 2) + b"x" * (size - size // 2), fresh)
    return fresh


def packs(vault: Vault) -> list[Path]:
    return sorted((vault.root / ".git/objects/pack").glob("*"))


@pytest.fixture
def flusher() -> Flusher:
    return Flusher()


def test_every_size_is_read_back(tmp_path: Path, flusher: Flusher) -> None:
    with open_vault(tmp_path / "v") as vault:
        fresh = blobs(vault)
        write_pack(vault.git, fresh, flusher)
        (index,) = (path for path in packs(vault) if path.suffix == ".idx")
        assert f"non delta: {len(fresh)} objects" in git(vault.root, "verify-pack", "-v", str(index))
        for oid, (kind, data) in fresh.items():
            assert vault.git.read(oid, kind) == data
        git(vault.root, "fsck", "--full", "--strict")
        flusher.close()


@given(st.sampled_from(["commit", "tree", "blob"]), st.binary(max_size=5000))
@example("tree", b"x" * 4096)
@example("tree", b"x" * 4097)
def test_stored_or_compressed_it_is_the_same_to_zlib(kind: str, data: bytes) -> None:
    stream = zlib_data(kind, data)
    assert zlib.decompress(stream) == data
    assert int.from_bytes(stream[:2], "big") % 31 == 0, "git takes it for no loose object"


def test_small_commits_and_trees_are_stored_and_git_reads_them(tmp_path: Path) -> None:
    """As loose objects and in a pack, and nothing is lost when git packs them anew."""
    with open_vault(tmp_path / "v") as vault:
        put(vault, ("space/a.md", b"loose\n"))
        loose = git(vault.root, "rev-parse", "HEAD^{tree}").strip()
        assert (vault.root / f".git/objects/{loose[:2]}/{loose[2:]}").read_bytes()[2] == 1, "it is compressed"
        put(vault, *[(f"space/{number}.md", f"{number}\n".encode()) for number in range(200)])
        assert packs(vault)
        sound(vault.root)
        before = git(vault.root, "rev-list", "--objects", "HEAD")
        git(vault.root, "repack", "-a", "-d", "-f")
        git(vault.root, "fsck", "--full", "--strict")
        assert git(vault.root, "rev-list", "--objects", "HEAD") == before


def test_the_same_twice_is_one_pack(tmp_path: Path, flusher: Flusher) -> None:
    with open_vault(tmp_path / "v") as vault:
        fresh = blobs(vault)
        write_pack(vault.git, fresh, flusher)
        before = packs(vault)
        write_pack(vault.git, fresh, flusher)
        assert packs(vault) == before
        assert len(before) == 2
        assert {path.stat().st_mode & 0o777 for path in before} == {0o444}
        flusher.close()


def test_of_one_that_fails_nothing_is_left(tmp_path: Path, flusher: Flusher, monkeypatch: pytest.MonkeyPatch) -> None:
    real = git_pack.write_and_sync

    def full(fd: int, data: bytes) -> None:
        if data.startswith(b"\xfftOc"):  # the pack's index
            os.close(fd)
            raise OSError(28, "No space left on device", "pack.idx")
        real(fd, data)

    with open_vault(tmp_path / "v") as vault:
        put(vault, ("a.md", b"a\n"))
        head, before = vault.head(), packs(vault)
        with monkeypatch.context() as patch:
            patch.setattr(git_pack, "write_and_sync", full)
            with pytest.raises(Exception, match="No space left"):
                put(vault, *[(f"n{number}.md", b"%d\n" % number) for number in range(40)])
        assert (vault.head(), packs(vault)) == (head, before)
        assert vault.read("n3.md") is None
        put(vault, *[(f"n{number}.md", b"%d\n" % number) for number in range(40)])
        sound(vault.root)


BOTH_AT_ONCE = """
import sys, threading, time
from pathlib import Path
from ormahd.process.disk import Flusher
from ormahd.git.objects import write_pack
from tests.vault.git_house import open_vault

inside = threading.Event()

class Held:
    # GitPython's import is held up for a while inside of gitdb's, which has not come to its packs yet.
    def find_spec(self, name, path=None, target=None):
        if name == "gitdb.base" and not inside.is_set():
            inside.set()
            time.sleep(0.3)

with open_vault(Path(sys.argv[1])) as vault:
    fresh, flusher, failed = {}, Flusher(), []
    vault._objects.add_blob(b"one", fresh)
    sys.meta_path.insert(0, Held())

    def tried(work):
        try:
            work()
        except BaseException as exc:
            failed.append(repr(exc))

    looking = threading.Thread(target=tried, args=[vault.git.check])
    looking.start()
    assert inside.wait(120)
    tried(lambda: write_pack(vault.git, fresh, flusher))
    looking.join()
    flusher.close()
    sys.exit("; ".join(failed) or None)
"""


def test_the_first_pack_and_the_first_look_of_gitpython_may_come_together(tmp_path: Path) -> None:
    """A daemon that has just become ready opens the repository with GitPython, and may be writing many memories by then."""
    command = [sys.executable, "-c", BOTH_AT_ONCE, str(tmp_path / "v")]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
