"""Git's merge driver in the repository's configuration, the attributes that ask for it, and a person's own of both."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ormahd.vault import merge_driver
from ormahd.vault.create import ATTRIBUTES
from ormahd.vault.merge_driver import KEY, command, findings, install
from ormahd.vault.vault import Vault
from tests.vault.git_house import git, open_vault

WANTED = command(Path("/nowhere/s"))


def set_up(vault: Vault) -> str:
    return git(vault.root, "config", "--get", KEY, ok=False)


def test_installed_once_and_written_only_when_it_differs(vault: Vault) -> None:
    assert [one["what"] for one in findings(vault)] == [
        "git has no merge driver for notes: it merges them as plain text"
    ]
    assert install(vault, WANTED) == ["installed git's merge driver for notes"]
    assert set_up(vault) == WANTED
    assert git(vault.root, "config", "merge.ormah.name")
    assert findings(vault) == []
    before, head = (vault.git.git_dir / "config").stat(), vault.head()
    assert install(vault, WANTED) == []
    assert (vault.git.git_dir / "config").stat() == before
    assert vault.head() == head


def test_renewed_when_interpreter_or_socket_moved(vault: Vault) -> None:
    install(vault, command(Path("/elsewhere/s"), interpreter="/gone/bin/python"))
    (found,) = findings(vault)
    assert "/gone/bin/python, which is gone" in found["what"]
    assert install(vault, WANTED) == ["renewed git's merge driver for notes"]
    assert set_up(vault) == WANTED
    assert findings(vault) == []


def test_a_persons_own_driver_is_left_alone_and_told(vault: Vault) -> None:
    git(vault.root, "config", KEY, "my-merge %A %O %B")
    assert install(vault, WANTED) == []
    assert set_up(vault) == "my-merge %A %O %B"
    (found,) = findings(vault)
    assert found["level"] == "info"
    assert "my-merge" in found["what"]


def test_a_configuration_that_cannot_be_written_is_said(vault: Vault) -> None:
    (vault.git.git_dir / "config.lock").write_text("")
    (said,) = install(vault, WANTED)
    assert "could not be installed" in said
    assert findings(vault)[0]["level"] == "warning"


@pytest.mark.parametrize("name", ["plain", "with a space", 'it\'s "quoted" $HOME `x`', "per%cent %A", "über"])
def test_any_path_reaches_the_shim_as_it_is(tmp_path: Path, name: str) -> None:
    """Through git's own expansion and `sh`: a stand-in for the interpreter writes down what it was given."""
    place = tmp_path / name
    place.mkdir()
    python = place / "python"
    python.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {shlex.quote(str(tmp_path / "given"))}\ncat "$9" > "$8"\n')
    python.chmod(0o755)
    root = place / "vault"
    with open_vault(root) as vault:
        wanted = command(place / "s", interpreter=str(python), shim=place / "ormahctl" / "hook.py")
        install(vault, wanted)
        assert set_up(vault) == wanted
    fork(root, "a note's.md")
    git(root, "merge", "-q", "--no-edit", "side")
    given = (tmp_path / "given").read_text().splitlines()
    assert given[:6] == ["-I", "-S", str(place / "ormahctl/hook.py"), "--merge", "--socket", str(place / "s")]
    assert given[-1] == "a note's.md"
    assert (root / "a note's.md").read_text() == "theirs\n"


def fork(root: Path, name: str, base: str = "base\n", ours: str = "ours\n", theirs: str = "theirs\n") -> None:
    """A file that the current branch and `side` changed differently."""
    for branch, text in (("", base), ("-qc side", theirs), ("-q -", ours)):
        if branch:
            git(root, "switch", *branch.split())
        (root / name).write_text(text)
        git(root, "add", name)
        git(root, "commit", "-qm", text.strip())


@pytest.mark.parametrize(
    ("status", "ends", "says"),
    [(0, 0, "ours"), (65, 1, "ours"), (66, 1, "<<<<<<< ours"), (1, 1, "<<<<<<< ours"), (127, 1, "<<<<<<< ours")],
)
def test_what_git_is_told_for_each_status_of_the_shim(tmp_path: Path, status: int, ends: int, says: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexit {status}\n")
    python.chmod(0o755)
    root = tmp_path / "vault"
    with open_vault(root) as vault:
        install(vault, command(tmp_path / "s", interpreter=str(python)))
    fork(root, "a.md")
    env = os.environ | {"LC_ALL": "C"}
    done = subprocess.run(["git", "merge", "--no-edit", "side"], cwd=root, env=env, capture_output=True, text=True)
    assert done.returncode == ends
    assert (root / "a.md").read_text().startswith(says)
    assert ("merged as plain text" in done.stderr) == (status in {1, 127})
    if ends:
        assert git(root, "status", "--porcelain", "a.md") == "UU a.md"


def test_text_that_merges_is_merged_also_when_nobody_answers(tmp_path: Path) -> None:
    root = tmp_path / "vault"
    with open_vault(root) as vault:
        install(vault, command(tmp_path / "s", interpreter="/gone/python"))
    fork(root, "a.md", "1\n2\n3\n4\n", "one\n2\n3\n4\n", "1\n2\n3\nfour\n")
    git(root, "merge", "-q", "--no-edit", "side")
    assert (root / "a.md").read_text() == "one\n2\n3\nfour\n"


# Attributes


def test_lines_that_were_lost_come_back_above_a_persons_own(vault: Vault) -> None:
    file = vault.root / ".gitattributes"
    assert file.read_text() == ATTRIBUTES
    file.write_text("*.png binary\n")
    git(vault.root, "commit", "-qam", "mine")
    assert install(vault, WANTED)[1:] == ["completed .gitattributes"]
    assert file.read_text() == ATTRIBUTES + "*.png binary\n"
    assert git(vault.root, "status", "--porcelain") == ""
    assert git(vault.root, "log", "-1", "--format=%s") == "init: git merges notes as notes"
    assert install(vault, WANTED) == []


def test_a_persons_own_attribute_has_the_last_word_and_is_told(vault: Vault) -> None:
    file = vault.root / ".gitattributes"
    file.write_text("*.md merge=union\n")
    git(vault.root, "commit", "-qam", "mine")
    install(vault, WANTED)
    assert file.read_text() == "* -text\n*.jsonl merge=ormah\n*.md merge=union\n"
    (found,) = findings(vault)
    assert (found["level"], "union" in found["what"]) == ("info", True)


def test_git_that_is_held_gets_the_attributes_later(vault: Vault) -> None:
    git(vault.root, "rm", "-q", ".gitattributes")
    git(vault.root, "commit", "-qm", "away")
    (vault.git.git_dir / "MERGE_HEAD").write_text(vault.head() or "")
    said = install(vault, WANTED)
    assert "a merge is under way" in said[1]
    (vault.git.git_dir / "MERGE_HEAD").unlink()
    install(vault, WANTED)
    assert (vault.root / ".gitattributes").read_text() == ATTRIBUTES


# Kinds of repositories


def test_the_shim_is_where_the_command_says() -> None:
    assert merge_driver.SHIM.is_file()
    assert shlex.split(WANTED.replace("%%", "%"))[2] == sys.executable
