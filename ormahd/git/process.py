"""Start git with a fixed environment and configuration, independent of the environment of Ormah's own process.

If a git hook started the daemon, the inherited `GIT_DIR` or `GIT_INDEX_FILE` would send Ormah's commits to another
repository. GitPython cannot unset these variables for its git processes. When it writes configuration, it drops the
person's comments; it does not support sha256 repositories; and its timeout for a fetch counts the whole transfer. It is
therefore only used to open and read repositories.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ormahd.errors import Unavailable

importing = threading.Lock()
"""Held while GitPython or gitdb is imported. Their imports are circular, so that two threads importing at different
places could see an incomplete module."""

_INHERITED = re.compile(
    "GIT_(CONFIG_(GLOBAL|SYSTEM|NOSYSTEM)|SSH|SSH_COMMAND|ASKPASS|EXEC_PATH|SSL_CAINFO|SSL_CAPATH|CEILING_DIRECTORIES"
    "|DISCOVERY_ACROSS_FILESYSTEM)"
)
"""Matches the only `GIT_*` variables that are passed on to git: they concern configuration and transport, never the choice of a
repository."""

CONFIG = {
    "core.hooksPath": "/dev/null",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "core.fsync": "committed,loose-object,derived-metadata,reference,index",
    "core.fsyncMethod": "fsync",
    "core.autocrlf": "false",
    "core.fsmonitor": "false",
    "core.quotePath": "false",
    "core.logAllRefUpdates": "true",
    "advice.detachedHead": "false",
    "log.showSignature": "false",
    "log.showRoot": "true",
}
"""Configuration of every git that Ormah runs, whatever the person has configured.

By default git 2.39 does not fsync loose objects, refs and the index. Hooks, signing and automatic gc are left to the
person's own commands.
"""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for a git process: that of this process, `extra`, and settings that prevent prompts. Of
    the `GIT_*` variables only those that `_INHERITED` matches are passed on."""
    env = {key: text for key, text in os.environ.items() if not key.startswith("GIT_") or _INHERITED.fullmatch(key)}
    env |= {
        "LC_ALL": "C",
        "LANGUAGE": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_PAGER": "cat",
    }
    return env | dict(extra or {})


def executable() -> str:
    """Return the full path of the git program, or its name if it is not found.

    The environment variable `GIT_PYTHON_GIT_EXECUTABLE` may name it, as for GitPython, so that both use the same git.
    """
    name = os.environ.get("GIT_PYTHON_GIT_EXECUTABLE") or "git"
    return shutil.which(name) or name


NEEDED = "2.38"


def check_version() -> None:
    """Raise Unavailable if git is missing or too old."""
    version = call(["version"], cwd=Path("/")).decode("utf-8", "replace").strip()
    found = re.search(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < (2, 38):
        raise Unavailable(f"{version} is too old", hint=f"install git {NEEDED} or newer")


class GitFailed(Unavailable):
    """A git command failed. `status`: its exit status; `stderr`: what it wrote to standard error."""

    def __init__(self, command: Sequence[str], status: int, stderr: str) -> None:
        reason = stderr.strip() or f"exit status {status}"
        super().__init__(
            f"git {' '.join(command[:2])} failed: {reason}",
            hint="look at the repository with `git status` and `git fsck`",
            data={"status": status, "stderr": stderr},
        )
        self.status = status
        self.stderr = stderr


def call(
    arguments: Sequence[str],
    *,
    cwd: Path,
    input: bytes | None = None,  # noqa: A002 - subprocess names it so
    env: Mapping[str, str] | None = None,
    ok: Iterable[int] = (0,),
    options: Sequence[str] = (),
) -> bytes:
    """Run a git command in the folder `cwd`, and return its output. `options`: git's options before the command;
    `input`: for its standard input; `env`: further variables.

    Raises GitFailed if the exit status is not in `ok`, and Unavailable if `cwd` is missing or git is not installed.
    """
    try:
        done = subprocess.run(
            [executable(), *options, *arguments],
            cwd=cwd,
            env=environment(env),
            input=input or b"",
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as exc:
        if not cwd.is_dir():
            raise Unavailable(
                f"{cwd} is gone", hint="put the vault back, or set vault.path to where it is now"
            ) from exc
        raise Unavailable("git is not installed", hint=f"install git {NEEDED} or newer") from exc
    if done.returncode not in set(ok):
        raise GitFailed(arguments, done.returncode, done.stderr.decode("utf-8", "replace"))
    return done.stdout
