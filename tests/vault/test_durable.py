"""Durable means fsynced: strace sees every file and every new name flushed before the transaction returns."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.vault.git_house import open_vault, put

SCRIPT = """
import sys
from pathlib import Path
from tests.vault.git_house import open_vault, put, remove
root, mode = Path(sys.argv[1]), sys.argv[2]
with open_vault(root) as vault:
    Path(sys.argv[1] + ".begin").touch()
    if mode == "one":
        put(vault, ("new/fact/2026-11/a.md", b"a"), ("old/b.md", b"2"))
    elif mode == "many":
        put(vault, *[(f"new/{i}/a.md", b"%d" % i) for i in range(120)])
    else:
        remove(vault, "old/b.md")
    Path(sys.argv[1] + ".end").touch()
"""


def trace(root: Path, mode: str, tmp_path: Path) -> list[tuple[str, str]]:
    """(call, its text) between the two marks, in order; descriptors are shown with their paths."""
    out = tmp_path / "trace"
    calls = "openat,fsync,fdatasync,rename,renameat,renameat2,link,linkat,mkdir,mkdirat,unlink,unlinkat"
    done = subprocess.run(
        ["strace", "-f", "-yy", "-s", "4096", "-e", f"trace={calls}", "-o", str(out), sys.executable, "-c", SCRIPT,
         str(root), mode],
        cwd=Path(__file__).parents[2], env={**os.environ, "PYTHONPATH": "."}, capture_output=True, text=True,
    )  # fmt: skip
    if "ptrace" in done.stderr and done.returncode:
        pytest.skip("ptrace is not allowed here")
    assert done.returncode == 0, done.stderr
    found: list[tuple[str, str]] = []
    begun = False
    pending: dict[str, str] = {}
    for line in out.read_text(errors="replace").splitlines():
        pid, _, rest = line.partition(" ")
        rest = rest.strip()
        if rest.endswith("<unfinished ...>"):
            pending[pid] = rest.removesuffix("<unfinished ...>")
            continue
        if rest.startswith("<... "):
            rest = pending.pop(pid, "") + rest.partition("resumed>")[2]
        if f'{root}.begin"' in rest:
            begun = True
        elif f'{root}.end"' in rest:
            return found
        elif begun and "= -1" not in rest:
            found.append((rest.partition("(")[0], rest))
    raise AssertionError("the end was not seen")


def flushed_after(found: list[tuple[str, str]], what: str, path: Path) -> bool:
    """Whether `path` is fsynced after the last change of a name that contains `what`."""
    changes = ("rename", "link", "unlink", "mkdir")
    last = max((at for at, (call, text) in enumerate(found) if what in text and call.startswith(changes)), default=None)
    assert last is not None, f"{what} was not touched"
    return any(call in {"fsync", "fdatasync"} and f"<{path}>" in text for call, text in found[last:])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    with open_vault(tmp_path / "v") as vault:
        put(vault, ("old/b.md", b"1"))
    return tmp_path / "v"


def synced(found: list[tuple[str, str]]) -> list[str]:
    return [m.group(1) for call, text in found if "sync" in call and (m := re.search(r"<(/.*?)>\s*\)", text))]


def test_a_small_op(root: Path, tmp_path: Path) -> None:
    found = trace(root, "one", tmp_path)
    flushed = synced(found)
    # The lock's note, and the branch: durable before any file of the vault is touched.
    first = next(at for at, (call, text) in enumerate(found) if call == "renameat2" and f"<{root}/.ormah/tmp>" in text)
    assert any("index.ormah-lock" in text for call, text in found[:first] if call == "fsync")
    assert any(f"<{root}/.git>" in text for call, text in found[:first] if call == "fsync")
    assert any(f"<{root}/.git/refs/heads>" in text for call, text in found[:first] if call == "fsync")
    # The notes: content, names, and each folder that was made.
    assert len([path for path in flushed if path.startswith(f"{root}/.ormah/tmp/")]) == 2
    for folder in ("", "new", "new/fact", "new/fact/2026-11", "old"):
        assert str(root / folder).rstrip("/") in flushed, folder
    # The objects: two blobs, six trees (the root, new and two below, old) and a commit.
    objects = [path for path in flushed if "/.git/objects/" in path and "tmp_obj" in path]
    assert len(objects) >= 8
    made = {Path(m.group(2)).parent for _, text in found if (m := re.search(r'"(.*tmp_obj_.*?)", "(.*?)"', text))}
    assert made
    for folder in made:
        assert flushed_after(found, f"{folder}/", folder), folder
    # The branch and the index: content by git, names by us.
    assert any("refs/heads/main.lock" in path for path in flushed)
    assert flushed_after(found, "refs/heads/main.lock", root / ".git/refs/heads")
    assert any("index.ormah" in path for path in flushed)
    assert flushed_after(found, '.git/index"', root / ".git")


def test_a_large_op(root: Path, tmp_path: Path) -> None:
    found = trace(root, "many", tmp_path)
    flushed = synced(found)
    assert len([path for path in flushed if path.startswith(f"{root}/.ormah/tmp/")]) == 120
    assert {str(root / f"new/{i}") for i in range(120)} <= set(flushed)
    packs = [path for path in flushed if "/objects/pack/" in path]
    assert len([path for path in packs if "tmp_pack" in path]) == 1
    assert len([path for path in packs if "tmp_idx" in path]) == 1
    assert flushed_after(found, ".idx", root / ".git/objects/pack")


def test_a_removal(root: Path, tmp_path: Path) -> None:
    found = trace(root, "remove", tmp_path)
    assert flushed_after(found, '"b.md"', root / "old")
    assert flushed_after(found, "refs/heads/main.lock", root / ".git/refs/heads")
