"""Trees as we make them are git's own, however names sort; and the tree that a scan keeps is what HEAD has."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from ormahd.git.objects import EXECUTABLE, FILE, TreeEntry
from tests.vault.git_house import git, open_vault, put, remove
from tests.vault.observed import House

NAMES = ["a", "a.md", "a-b", "a0", "a b", "ä.md", "a/x.md", "a.md.d/y", "a-b/z", "b/c/d/e.md", "b/c.md", "b/c-1/f"]
"""Names that sort differently as a file and as a folder."""


def listed(root: Path, tree: str) -> dict[bytes, tuple[bytes, str]]:
    out = git(root, "ls-tree", "-r", "-z", tree).encode("utf-8", "surrogateescape")
    rows = [row.partition(b"\t") for row in out.split(b"\0") if row]
    return {path: (meta.split()[0], meta.split()[2].decode()) for meta, _, path in rows}


@pytest.mark.parametrize("seed", range(4))
def test_a_tree_of_ours_is_the_one_that_git_makes(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with open_vault(tmp_path / "v") as vault:
        objects = vault._objects
        root: str | None = None
        wanted: dict[bytes, TreeEntry] = {}
        for _ in range(40):
            fresh: dict[str, tuple[str, bytes]] = {}
            changes: dict[bytes, TreeEntry | None] = {}
            for name in chance.sample(NAMES, 3):
                path = name.encode()
                clash = [
                    other
                    for other in wanted.keys() | changes.keys()
                    if other.startswith(path + b"/") or path.startswith(other + b"/")
                ]
                if path in wanted and chance.random() < 0.4:
                    changes[path] = None
                elif not clash:
                    oid = objects.add_blob(b"%d" % chance.randrange(5), fresh)
                    changes[path] = TreeEntry(chance.choice([FILE, EXECUTABLE]), oid)
            made = objects.edit(root, changes, fresh)
            objects.write(fresh)
            for path, entry in changes.items():
                wanted.pop(path, None)
                if entry is not None:
                    wanted[path] = entry
            assert listed(vault.root, made) == {path: (entry.mode, entry.oid) for path, entry in wanted.items()}
            index = {"GIT_INDEX_FILE": str(tmp_path / "index")}
            git(vault.root, "read-tree", made, env=index)
            assert git(vault.root, "write-tree", env=index) == made  # in git's own order
            for path, entry in wanted.items():
                assert objects.find_entry(made, path) == entry
            root = made if wanted else None


def test_the_tree_that_is_kept_is_what_head_has(tmp_path: Path) -> None:
    house = House(tmp_path / "vault")
    look, vault = house.reconciler.head_files, house.vault

    def same() -> None:
        head = vault.head()
        assert look.at(head) == vault.tree()

    same()
    for number in range(5):
        put(vault, (f"n{number}.md", b"%d\n" % number), (f"k/{number}.md", b"x\n"))
    same()
    put(vault, ("n1.md", b"again\n"))
    remove(vault, "n2.md")
    put(vault, ("n2.md", b"back\n"))
    same()
    first = look.at(vault.head())
    put(vault, ("later.md", b"later\n"))
    assert "later.md" not in first
    same()
    assert "later.md" not in first  # whoever holds a tree keeps that one
    (house.root / "mine.md").write_text("by hand\n")
    house.git("add", "mine.md")
    house.git("commit", "-qm", "by hand")
    put(vault, ("after.md", b"after\n"))
    same()
    house.git("reset", "-q", "--hard", "HEAD~3")
    same()
    put(vault, ("last.md", b"last\n"))
    same()
    house.close()
    assert os.listdir(house.root)
