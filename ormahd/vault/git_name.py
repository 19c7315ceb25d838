"""The name of the repository that a folder lies in: the same for its worktrees and clones.

Used to tell which project a caller works in. The folder is somebody else's and may be anything; what cannot be read
gives no name.
"""

from __future__ import annotations

import os
import re
import subprocess
from functools import lru_cache
from pathlib import Path


def repository_name(folder: Path) -> tuple[str, Path] | None:
    """The name of the repository around `folder`, and the root of its worktree; None outside of one.

    The name is the last part of the `origin` remote's address, so that every clone agrees, else the name of the main
    worktree's folder, so that every linked worktree agrees.
    """
    for place in (folder, *folder.parents):
        found = _git_dir(place / ".git")
        if found is not None:
            return _name(found, place), place
    return None


def _git_dir(dot_git: Path) -> Path | None:
    """The directory with the configuration: `.git` itself, or where a worktree's or submodule's `.git` file leads."""
    try:
        if dot_git.is_dir():
            return dot_git if (dot_git / "HEAD").exists() else None
        if not dot_git.is_file():
            return None
        first = dot_git.read_text("utf-8", "surrogateescape").splitlines()[0]
    except (OSError, IndexError):
        return None
    if not first.startswith("gitdir: ") or "\x00" in first:
        return None
    own = Path(os.path.normpath(dot_git.parent / first.removeprefix("gitdir: ").strip()))
    try:
        common = (own / "commondir").read_text("utf-8", "surrogateescape").strip()
    except OSError:
        return own if own.is_dir() else None
    return Path(os.path.normpath(own / common))


def _name(git_dir: Path, place: Path) -> str:
    config = git_dir / "config"
    try:
        stamp = config.stat().st_mtime_ns
    except OSError:
        return place.name
    url = _origin(str(config), stamp)
    if url:
        last = re.split(r"[/:\\]", url.rstrip("/\\"))[-1].removesuffix(".git")
        if last:
            return last
    return git_dir.parent.name if git_dir.name == ".git" else git_dir.name.removesuffix(".git")


@lru_cache(maxsize=256)
def _origin(config: str, stamp: int) -> str | None:  # noqa: ARG001 - the stamp makes a changed file a new question
    environ = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "config", "--file", config, "--get", "remote.origin.url"],
            capture_output=True, stdin=subprocess.DEVNULL, timeout=2, env=environ, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace").strip() or None
