"""Find the project that a folder belongs to, and the space of a project.

A project is a repository, the same for all its worktrees and clones, or else the folder itself. The folder may contain
anything: unreadable data gives no project, and no code of the repository is run. Spaces are read from
`.ormah/spaces.jsonl`, again whenever it changes.
"""

from __future__ import annotations

import os
import stat
import subprocess
import time
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from ormahd.git.remote import RemoteUrl, read_remote
from ormahd.model.node import write_time
from ormahd.model.spaces import FILE, ProjectKey, free_name, read, spaces, suffixes
from ormahd.paths import known_home
from ormahd.process import own_files
from ormahd.vault.vault import Vault

ORIGINS: Final = 3
"""How many local clones are followed, one after the other, to the repository that they were cloned from."""
SECONDS: Final = 2.0
"""Timeout of a git command in seconds. To find the first commit, git walks the whole history."""
NAME_CHARACTERS: Final = 100
READ: Final = ("HEAD", "config", "packed-refs", "shallow")
"""Files of a git directory that git opens to answer a question about its history or its remote."""
LIMIT: Final = 4096
"""Number of bytes that are read of a file that leads to a git directory; it holds a path."""
REMEMBERED: Final = 256
"""Number of repositories whose remote and first commit are cached."""


class Project(Struct, frozen=True):
    """A git repository or plain folder that memories may belong to. `key` identifies it: `host/path` of its remote,
    `root:` and its first commit, or `folder:` and its path. `name` is short, for people. `ways`: suffixes that
    distinguish it from other projects of that name, best first. `folder`: its path, with the home directory as `~`.
    `git`: its git directory; None for a plain folder."""

    key: str
    name: str
    ways: tuple[str, ...]
    folder: str
    git: Path | None = None

    def first_commit(self) -> str | None:
        """Return the first commit of the repository's history; None when it has none or it cannot be found."""
        return None if self.git is None else _first_commit(self.git)

    def has_commit(self, commit: str) -> bool:
        """Whether the project's repository has this commit, checked out or not."""
        return self.git is not None and _has_commit(self.git, commit)


def find_project(folder: Path, nowhere: frozenset[Path]) -> Project | None:
    """Return the project that `folder` belongs to: the repository around it, else the folder itself.

    A repository whose root is in `nowhere` (such as a home directory with dotfiles) is ignored. None for a folder
    without a name.
    """
    found = _repository(folder, nowhere)
    if found is None:
        name, path = _shortened(folder.name), with_tilde(str(folder))
        return Project(f"folder:{path}", name, tuple(_suffixes(path)), path) if name else None
    return _project(*found, ORIGINS)


def project_folder(cwd: str | None) -> Path | None:
    """Return the folder of the project around `cwd`: the root of the repository's worktree, else `cwd` itself.

    None if `cwd` is no absolute path, and for the home directory and `/`, which are no projects, whatever is in them.
    """
    if not cwd or not os.path.isabs(cwd) or "\x00" in cwd:
        return None
    folder = Path(os.path.normpath(cwd))
    nowhere = frozenset({known_home() or Path(folder.anchor), Path(folder.anchor)})
    found = _repository(folder, nowhere)
    return found[1] if found is not None else None if folder in nowhere else folder


def read_branch(folder: Path) -> str | None:
    """Return the branch that is checked out in the repository `folder`; None if there is none."""
    own = _own_dir(folder / ".git")
    try:
        head = _read_small(own / "HEAD").strip() if own is not None else ""
    except (OSError, ValueError):
        return None
    branch = head.removeprefix("ref: refs/heads/")
    return branch if branch != head else None


def with_tilde(path: str) -> str:
    """Return the path with the home directory as `~`, so that it is the same on machines with other user names."""
    real = os.path.realpath(path)
    if (known := known_home()) is None:
        return real
    home = os.path.realpath(known)
    return "~" + real[len(home) :] if real == home or real.startswith(home + os.sep) else real


def without_tilde(path: str) -> Path:
    """Return a path in which `with_tilde` wrote the home directory as `~`, with the home directory of this machine."""
    known = known_home() if path == "~" or path.startswith("~/") else None
    return Path(path) if known is None else Path(os.path.realpath(known) + path[1:])


def has_commit(folder: str, commit: str) -> bool:
    """Whether `folder` (spelled as by `with_tilde`) is a repository that has this commit."""
    git = _git_dir(without_tilde(folder) / ".git")
    return git is not None and _has_commit(git, commit)


def _repository(folder: Path, nowhere: frozenset[Path]) -> tuple[Path, Path] | None:
    """Return (directory with git's configuration, root of the worktree) of the repository around the folder, or None."""
    for place in (folder, *folder.parents):
        found = None if place in nowhere else _git_dir(place / ".git")
        if found is not None:
            return found, place
    return None


def _project(git: Path, place: Path, origins: int) -> Project | None:
    """Return the project of a repository; None if it has no name. `git`: the directory with git's configuration;
    `place`: the root of the worktree. A clone of a local repository is the project of that repository, which is looked
    up through at most `origins` clones."""
    # `main`: the folder of the repository itself, also for a worktree, a submodule or a bare repository.
    main = git.parent if git.name.startswith(".") else place if ".git" in git.parts else git
    folder = with_tilde(str(main))
    remote = _remote(git)

    # A clone of a repository on this machine is the same project as that.
    if remote is not None and remote.local:
        origin = Path(os.path.normpath(place / os.path.expanduser(remote.key)))
        remote = RemoteUrl(str(origin), remote.name, remote.owners, local=True)
        around = _git_dir(origin / ".git")
        if around is None and (origin / "HEAD").is_file() and (origin / "objects").is_dir():
            around = origin
        if around is not None and origins and around != git:
            return _project(around, origin, origins - 1)
        if not origin.exists():
            remote = None  # its origin is gone, so its history identifies it

    # The key: the remote's path or address; else the first commit; else the folder.
    if remote is not None and remote.local:
        path = with_tilde(remote.key)
        return Project(f"folder:{path}", _shortened(remote.name), _suffixes(path), folder, git)
    if remote is not None:
        *owners, host = (_shortened(part) for part in remote.owners)
        path = "/".join(reversed(owners))
        ways = tuple(dict.fromkeys(filter(None, [*owners[:1], path, host, f"{host}/{path}" if path else ""])))
        return Project(remote.key, _shortened(remote.name), ways, folder, git)
    name = _shortened(main.name.removesuffix(".git") or main.name)
    root = _first_commit(git)
    if not name:
        return None
    return Project(f"folder:{folder}" if root is None else f"root:{root}", name, _suffixes(folder), folder, git)


def _suffixes(folder: str) -> tuple[str, ...]:
    """Return the suffixes that distinguish a project in `folder` from others of its name: names of the folders above
    it."""
    return tuple(map(_shortened, suffixes(f"folder:{folder}")))


def _shortened(name: str) -> str:
    """Return a name on one line, cut to `NAME_CHARACTERS`; "" if it is `.` or `..`."""
    name = " ".join(name.split())[:NAME_CHARACTERS]
    return "" if name in {".", ".."} else name


def _git_dir(dot_git: Path) -> Path | None:
    """Return the directory with git's configuration: `.git` itself, or the directory that the `.git` file of a worktree
    or submodule leads to; None when there is none, or when git would block on one of its files."""
    git = dot_git if dot_git.is_dir() else _common_dir(dot_git)
    return git if git is not None and (git / "HEAD").exists() and all(_can_open(git / name) for name in READ) else None


def _own_dir(dot_git: Path) -> Path | None:
    """Return the directory with the worktree's own HEAD: `.git` itself, or what the `.git` file of a worktree names."""
    if dot_git.is_dir():
        return dot_git
    try:
        first = _read_small(dot_git).splitlines()[0]
    except (OSError, IndexError):
        return None
    if not first.startswith("gitdir: ") or "\x00" in first:
        return None
    return Path(os.path.normpath(dot_git.parent / first.removeprefix("gitdir: ").strip()))


def _common_dir(dot_git: Path) -> Path | None:
    """Return the directory with git's configuration that the `.git` file of a worktree or submodule leads to; None if
    it leads to none."""
    own = _own_dir(dot_git)
    common = own / "commondir" if own is not None else dot_git
    if own is None or not os.path.lexists(common):
        return own
    try:
        return Path(os.path.normpath(own / _read_small(common).strip()))
    except (OSError, ValueError):
        return None


def _read_small(file: Path) -> str:
    """Return the text of a small file, at most `LIMIT` bytes of it. Raises OSError."""
    return os.fsdecode(own_files.read(file, follow=True, limit=LIMIT))


def _can_open(file: Path) -> bool:
    """Whether `file` is a regular file or missing, so that git does not block when it opens it."""
    try:
        return stat.S_ISREG(file.stat().st_mode)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _remote(git: Path) -> RemoteUrl | None:
    """Return the address of the repository's remote; None if it has none, or it is no address."""
    config = git / "config"
    try:
        stamp = config.stat().st_mtime_ns
    except OSError:
        return None
    address = _address(str(config), stamp)
    return None if address is None else read_remote(address)


@lru_cache(maxsize=REMEMBERED)
def _address(config: str, stamp: int) -> str | None:  # noqa: ARG001 - the stamp makes a changed file a new question
    """Return the URL of the remote `origin`, else of the first remote, with the person's `insteadOf` rules applied;
    None without a remote. `stamp`: the mtime of the configuration file."""
    output = _git("config", "--file", config, "-z", "--get-regexp", r"^remote\..*\.url$") or b""
    urls: dict[str, str] = {}
    for entry in output.decode("utf-8", "replace").split("\0"):
        name, _, url = entry.partition("\n")
        if url.strip():
            urls.setdefault(name[len("remote.") : -len(".url")], url.strip())
    if not urls:
        return None
    url = urls.get("origin", next(iter(urls.values())))
    return (_git("ls-remote", "--get-url", "--", url) or b"").decode("utf-8", "replace").strip() or url


_first_commits: dict[tuple[str, int], str] = {}
"""`{(repository, mtime of its configuration): first commit}`. "" is entered when git took too long, so that it is
not asked again. A repository without a commit is not entered, since it may soon have one."""


def _first_commit(git: Path) -> str | None:
    """Return the first commit of a repository's history; None if it has no commit, is a shallow clone, or git takes too
    long. If several commits have no parent, the one that git lists last."""
    if (git / "shallow").exists():
        return None  # a shallow clone does not have the first commit
    try:
        asked = str(git), (git / "config").stat().st_mtime_ns
    except OSError:
        return None
    if asked not in _first_commits:
        begun = time.monotonic()
        roots = (_git("--git-dir", str(git), "rev-list", "--max-parents=0", "HEAD", "--") or b"").split()
        if not roots and time.monotonic() - begun < SECONDS:
            return None
        if len(_first_commits) >= REMEMBERED:
            _first_commits.clear()
        _first_commits[asked] = roots[-1].decode("ascii", "replace") if roots else ""
    return _first_commits.get(asked) or None


def _has_commit(git: Path, commit: str) -> bool:
    """Whether the repository has this commit, checked out or not."""
    try:
        stamp = (git / "config").stat().st_mtime_ns
    except OSError:
        return False
    return _has_commit_cached(str(git), commit, stamp)


@lru_cache(maxsize=REMEMBERED)
def _has_commit_cached(git: str, commit: str, stamp: int) -> bool:  # noqa: ARG001 - see `_address`
    """Do what `_has_commit` does; the result is cached until the configuration file, whose mtime is `stamp`, changes."""
    return _git("--git-dir", git, "cat-file", "-e", f"{commit}^{{commit}}") is not None


def _git(*arguments: str) -> bytes | None:
    """Run git outside of every repository. Return its stdout, or None when it fails.

    It connects to nothing, and runs no program that a project's configuration names.
    """
    ours = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
    env = ours | {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *arguments]
    try:
        done = subprocess.run(
            command, cwd="/", env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return done.stdout if done.returncode == 0 else None


GLOBAL = "global"


class ProjectSpace(Struct, frozen=True):
    """The space of one project. `space`: its name. `key`: the key of the project. `line`: the line to add to
    `.ormah/spaces.jsonl` when the project gets its first memory; None: the line is there already."""

    space: str
    key: str
    line: ProjectKey | None = None


class Spaces:
    """Tells which space a project's memories belong to, by `.ormah/spaces.jsonl` of one vault. Safe for many
    threads."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def lines(self) -> tuple[list[ProjectKey], dict[str, str]]:
        """Return (all lines of `.ormah/spaces.jsonl`, oldest first; `{key of a project: space}`)."""
        lines = read(self._vault.read(FILE) or b"")
        return lines, spaces(lines)

    def space_of(self, project: Project, now: datetime) -> ProjectSpace:
        """Return the space of a project.

        A recorded space is found by the project's key or, when its remote is new, by its folder and history. Otherwise
        the project gets a new space with its own name, and a suffix when another space has that name.
        """
        lines, named = self.lines()
        key = project.key
        if key in named:
            # A repository without a remote is a copy if another one with its first commit still exists
            folders = {line.folder for line in lines if line.key == key and line.folder is not None}
            copied = key.startswith("root:") and project.folder not in folders
            if not (copied and any(has_commit(folder, key.removeprefix("root:")) for folder in folders)):
                return ProjectSpace(named[key], key)
            key = f"folder:{project.folder}"  # a copy is another project
            if key in named:
                return ProjectSpace(named[key], key)
        since = write_time(now, "auto")
        before = next((line for line in reversed(lines) if _is_earlier_line(line, project)), None)
        if before is not None:
            space = named[before.key]
            return ProjectSpace(
                space, key, ProjectKey(key=key, space=space, since=since, folder=project.folder, same=before.key)
            )
        name = f"{GLOBAL}-repo" if project.name.casefold() == GLOBAL else project.name
        space = free_name(name, project.ways, {one.casefold() for one in named.values()})
        return ProjectSpace(space, key, ProjectKey(key=key, space=space, since=since, folder=project.folder))


def _is_earlier_line(line: ProjectKey, project: Project) -> bool:
    """Whether a line of `.ormah/spaces.jsonl` records this project under an earlier key.

    The line then names the project's folder and, when either has a remote, a commit of its history. A clone that
    replaced another repository in the folder is another project.
    """
    if line.folder != project.folder:
        return False
    if line.root is None or project.git is None or project.has_commit(line.root):
        return True
    return all(key.startswith(("root:", "folder:")) for key in (line.key, project.key))
