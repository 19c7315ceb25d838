"""Installs Ormah's three-way merge of notes as a git merge driver. It is named in the repository's configuration,
and an attribute in .gitattributes assigns it to notes.

So when a person runs `git revert`, `git merge`, `git pull` or `git stash pop`, git merges notes as undo does (DESIGN
section 5). Git's configuration is not part of the history: a clone gets the driver from the first daemon that opens
it.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

from ormahd.errors import OrmahError, VaultBusy
from ormahd.model.change import Kind, finding, sha256
from ormahd.process.disk import sync, sync_directory
from ormahd.vault.create import ATTRIBUTES
from ormahd.vault.vault import Vault

KEY = "merge.ormah.driver"
NAME = "Ormah's three-way merge of notes"
SHIM = Path(__file__).parents[2] / "ormahctl" / "hook.py"
_MARKS = "git merge-file --marker-size=%L -L ours -L base -L theirs %A %O %B"
_ALONE = "echo ormah: %P: merged as plain text, because our driver did not answer >&2;"
_OURS = "/ormahctl/hook.py"


def command(socket: Path, *, interpreter: str = sys.executable, shim: Path = SHIM) -> str:
    """Return the shell command that git runs for each file to merge (gitattributes(5), "Defining a custom merge
    driver"). The command starts `shim`, a script that asks the daemon.

    Exit codes of the script: 0 merged, 65 not two versions of one note, 66 a person has to choose
    (`ormahctl/shim/merge.py`). With any other code, or without the interpreter, `git merge-file` merges the text and
    leaves conflict markers: no side is lost silently.
    """
    python, script, where = _quoted(interpreter), _quoted(str(shim)), _quoted(str(socket))
    return (
        f"test -x {python} && {python} -I -S {script} --merge --socket {where} %O %A %B %L %P; "
        f"case $? in 0) ;; 65) exit 1 ;; 66) {_MARKS}; exit 1 ;; *) {_ALONE} {_MARKS} || exit 1 ;; esac"
    )


def _quoted(word: str) -> str:
    """Return a word quoted for the shell, and for git, which expands `%` in the command."""
    return shlex.quote(word).replace("%", "%%")


def install(vault: Vault, wanted: str) -> list[str]:
    """Configure the command `wanted` as git's merge driver, and add Ormah's lines to .gitattributes. Writes only what
    differs, and never replaces a person's own driver. Return sentences on what was done and what failed."""
    sentences = []
    for step in (_set_driver, _complete_attributes):
        try:
            sentences += step(vault, wanted)
        except VaultBusy as exc:
            sentences.append(exc.message)
        except (OrmahError, OSError) as exc:
            sentences.append(f"git's merge driver could not be installed: {exc}")
    return sentences


def _set_driver(vault: Vault, wanted: str) -> list[str]:
    """Set git's merge driver to the command `wanted`, durably, unless it is that already or a person's own. Return
    sentences on what was done."""
    now = _setting(vault, KEY)
    if now == wanted or (now is not None and _OURS not in now):
        return []
    for key, value in (("merge.ormah.name", NAME), (KEY, wanted)):
        vault.git.run("config", "--local", "--replace-all", key, value)
    file = vault.git.git_dir / "config"
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync(fd)
    finally:
        os.close(fd)
    sync_directory(file.parent)
    return ["installed git's merge driver for notes" if now is None else "renewed git's merge driver for notes"]


def _setting(vault: Vault, key: str) -> str | None:
    """Return the value of a setting of git; None if it is not set."""
    out = vault.git.run("config", "-z", "--get", key, ok=(0, 1))
    return os.fsdecode(out).partition("\0")[0] if out else None


def _complete_attributes(vault: Vault, _wanted: str) -> list[str]:
    """Add to `.gitattributes` the lines of `ATTRIBUTES` that set something that it does not set, and commit them.
    Return sentences on what was done. The lines are added at the top, so that a person's lines take precedence."""
    path = ".gitattributes"
    before = vault.read(path)
    known = {pair for line in (before or b"").decode("utf-8", "replace").splitlines() for pair in _assignments(line)}
    missing = [line for line in ATTRIBUTES.splitlines(keepends=True) if not _assignments(line) <= known]
    after = "".join(missing).encode() + (before or b"")
    if after == before:
        return []
    body = "Without these lines git merges notes as plain text."
    with vault.transaction("init: git merges notes as notes", kind=Kind.INIT, source="system:self", body=body) as tx:
        tx.put(path, after, node_id=None, expect=None if before is None else sha256(before))
    return [f"completed {path}"]


def _assignments(line: str) -> set[tuple[str, str]]:
    """Return (pattern, name of the attribute) of each attribute that a line of `.gitattributes` sets."""
    words = line.split()
    return {(words[0], word.lstrip("-!").partition("=")[0]) for word in words[1:]}


def findings(vault: Vault) -> list[dict[str, Any]]:
    """Return the findings for `doctor` on the merge driver: why git would not merge notes as Ormah does when a person
    runs git. []: git would."""
    mend = "start the daemon again, or run: ormahctl doctor --fix"
    now = _setting(vault, KEY)
    if now is None:
        return [finding(None, "warning", "git has no merge driver for notes: it merges them as plain text", mend)]
    if _OURS not in now:
        what = f"git merges notes by a command that is not ours ({KEY}): {now[:100]}"
        return [finding(None, "info", what, f"to have ours: git config --unset-all {KEY}, then {mend}")]
    found = []
    for word in dict.fromkeys(shlex.split(now.replace("%%", "%").partition(" --merge ")[0])):
        if word.startswith("/") and not os.access(word, os.R_OK):
            what = f"git's merge driver for notes needs {word}, which is gone: conflicts are left with markers"
            found.append(finding(None, "warning", what, mend))
    fields = vault.git.run("check-attr", "-z", "merge", "--", "fact/note.md").split(b"\0")
    if (given := os.fsdecode(fields[2])) != "ormah":
        what = f"git is told to merge notes otherwise (attribute merge of *.md: {given})"
        found.append(
            finding(None, "info", what, "look into .gitattributes, .git/info/attributes and core.attributesFile")
        )
    return found
