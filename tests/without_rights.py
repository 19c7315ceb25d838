"""Starting a program without root's rights: for whom a file of mode 000 is there, and cannot be read."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.surroundings import ROOT

UID = 54321
NAMESPACE = ("unshare", "--user", f"--map-user={UID}", f"--map-group={UID}")
"""Somebody else in a user namespace of their own: to the kernel still the owner of our files, and no more than that."""
OTHER = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
"""Somebody else, to whom the files are given; Python and this folder must be theirs to read."""


@functools.cache
def command() -> tuple[str, ...] | None:
    """What goes before a command to run it without root's rights: nothing where we have none. None: not possible here."""
    if os.geteuid() != 0:
        return ()
    return next((words for words in (NAMESPACE, OTHER) if _works(words)), None)


def given(home: Path) -> None:
    """Give a folder with all that is in it to whom `command` runs as."""
    if command() == OTHER:
        for folder, _, names in os.walk(home):
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                os.chown(path, UID, UID, follow_symlinks=False)


def _works(words: tuple[str, ...]) -> bool:
    """Whether a program runs so, finds its modules, and is refused what is nobody's to read."""
    with tempfile.TemporaryDirectory(prefix="orm") as folder:
        file = Path(folder, "locked")
        file.touch()
        if words == OTHER:
            os.chown(folder, UID, UID)
            os.chown(file, UID, UID)
        file.chmod(0)
        program = f"import ormahd.paths, os, sys; sys.exit(os.access({str(file)!r}, os.R_OK))"
        try:
            done = subprocess.run(
                [*words, sys.executable, "-c", program], cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)},
                capture_output=True, check=False,
            )  # fmt: skip
        except OSError:
            return False
        return done.returncode == 0
