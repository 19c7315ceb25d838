"""Read and write which remote a vault is synced with, in git's configuration, and its remote-tracking ref."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from ormahd.errors import Conflict, NotFound
from ormahd.git.locks import in_use
from ormahd.git.process import GitFailed
from ormahd.git.repository import Git


class Remote(Struct, frozen=True):
    """What to sync with: a remote's name, its address, and its branch.

    `known`: it is configured in git, so that git is given its name and applies its other settings.
    """

    name: str
    url: str
    branch: str
    known: bool

    @property
    def address(self) -> str:
        return self.name if self.known else self.url

    @property
    def tracking(self) -> str:
        """The name of the remote-tracking ref."""
        return f"refs/remotes/{self.name}/{self.branch.removeprefix('refs/heads/')}"


def shown(url: str) -> str:
    """Return an address, or a text with addresses, without passwords. Over https the user name is dropped too: it
    may be a token."""
    without = re.sub(r"(ssh://[^/@:\s']*):[^/@\s']*@", r"\1@", url)
    return re.sub(r"(https?://)[^/@\s']*@", r"\1", without)


def configured(git: Git, name: str) -> str | None:
    """Return the address of a remote; None if there is no such remote."""
    try:
        return git.run("remote", "get-url", "--", name).decode("utf-8", "surrogateescape").strip() or None
    except GitFailed as exc:
        if "No such remote" in exc.stderr or exc.status == 2:
            return None
        raise


def find(git: Git, name: str) -> Remote:
    """Return the remote to sync the current branch with: its configured upstream, else the same branch of the remote
    `name`.

    Raises:
        Conflict: HEAD is on no branch. NotFound: there is no such remote.
    """
    branch = git.branch()
    if branch is None or not branch.startswith("refs/heads/"):
        raise Conflict(
            "HEAD is detached: there is no branch to sync", hint="`git switch main` in the vault, then again"
        )
    short = branch.removeprefix("refs/heads/")
    follows = value(git, f"branch.{short}.remote")
    merge = value(git, f"branch.{short}.merge")
    if follows and follows != ".":
        name = follows
    url = configured(git, name)
    if url is None:
        raise NotFound(f"the vault has no remote '{name}'", hint="run: ormahctl sync setup URL")
    there = merge if merge and merge.startswith("refs/heads/") and follows == name else branch
    return Remote(name, url, there, known=True)


@contextmanager
def as_before(git: Git, remote: Remote) -> Iterator[Callable[[], None]]:
    """Restore the remote-tracking ref after the block, also on an error, unless the block calls the given function.

    With the ref restored, no ref leads to the commits that the block fetched.
    """
    before, kept = git.resolve(remote.tracking), False

    def keep() -> None:
        nonlocal kept
        kept = True

    try:
        yield keep
    finally:
        if not kept and git.resolve(remote.tracking) != before:
            command = (
                ["update-ref", "-d", remote.tracking] if before is None else ["update-ref", remote.tracking, before]
            )
            unlocked(git, git.ref_files.lock(remote.tracking), lambda: git.run(*command))


def value(git: Git, key: str) -> str | None:
    return git.run("config", "--get", key, ok=(0, 1)).decode("utf-8", "surrogateescape").strip() or None


def follow(git: Git, remote: Remote) -> None:
    """Write the remote into the repository's configuration, as the upstream of the current branch."""
    branch = git.branch()
    assert branch is not None
    short = branch.removeprefix("refs/heads/")
    known = configured(git, remote.name)
    if known is None:
        unlocked(git, _config_lock(git), lambda: git.run("remote", "add", "--", remote.name, remote.url))
    elif known != remote.url:
        git.run("remote", "set-url", "--", remote.name, remote.url)
    set_value(git, f"branch.{short}.remote", remote.name)
    set_value(git, f"branch.{short}.merge", remote.branch)


def set_value(git: Git, key: str, text: str) -> None:
    """Write a setting into the repository's configuration."""
    if value(git, key) != text:
        unlocked(git, _config_lock(git), lambda: git.run("config", "--local", key, text))


def _config_lock(git: Git) -> Path:
    return git.common / "config.lock"


def unlocked(git: Git, lock: Path, act: Callable[[], object]) -> None:
    """Call `act`, which takes the lock file `lock`. A lock that a killed git left is deleted, and `act` is called
    once more."""
    try:
        act()
    except GitFailed as exc:
        if "File exists" not in exc.stderr or not lock.exists() or in_use(git, lock):
            raise
        lock.unlink(missing_ok=True)
        act()
