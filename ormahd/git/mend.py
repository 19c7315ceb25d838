"""Repair files of the git directory, other than objects, that git cannot read: because of a power cut, a sync tool, or
an edit by hand.

A damaged file is first moved to `ormah-damaged` in the git directory. Each repair is reported in the log and by
`doctor`. Refs are restored from their reflogs, which are read as files, because git does not show the reflog of a ref
that it cannot read. Objects are never touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from ormahd.git.process import CONFIG, GitFailed, call
from ormahd.git.ref_files import RefFiles
from ormahd.process import own_files
from ormahd.process.disk import IN_GIT, is_file, note, set_aside

_DAMAGE: Final = re.compile(
    r"not a git repository|No such ref|bad config|bad numeric config|unable to read config|reading the configuration|packed-refs|"
    r"reference broken|unable to resolve reference|unable to append to|unable to create directory for|bad ref|"
    r"cannot lock ref .*(?:Is a directory|non-empty directory|Not a directory)|unable to create .*refs/|unable to create .*logs/|"
    r"commit-graph|multi-pack-index|mmap failed|HEAD missing|Failed to resolve HEAD|bad default revision|invalid sha1 pointer|"
    r"unknown repository extension|expected git repo version"
)
"""Error messages of git that a damaged file may cause, in contrast to a lock, a full disk or a wrong revision."""
_INDEX: Final = re.compile(
    r"index file|bad index|index entry|unordered stage|cache entry|index uses|unable to map index|/index:|bad signature 0x|sharedindex"
)
_ENTRY: Final = re.compile(rb"^[0-9a-f]{40,64} ([0-9a-f]{40}|[0-9a-f]{64}) [^\n\t]*\d+ [+-]\d{4}(?:\t([^\n]*))?$")
"""A line of a reflog. Groups: the new commit, the reason."""
_PACKED: Final = re.compile(rb"^([0-9a-f]{40}|[0-9a-f]{64}) (refs/[^\s\x00-\x1f]+)$")
_HEAD: Final = re.compile(rb"^(?:ref:\s*refs/heads/[!-~\x80-\xff]+|[0-9a-f]{40}|[0-9a-f]{64})\s*$")
_WENT: Final = re.compile(rb"^checkout: moving from \S+ to (\S+)$")
_DERIVED: Final = ("objects/info/commit-graph", "objects/info/commit-graphs", "objects/pack/multi-pack-index")
"""Files that git derives from the objects to be faster; it works without them."""
_QUIET: Final = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
"""Environment in which git does not read the person's own configuration: an error there is no damage of the
repository."""
MOST: Final = 1_000_000
"""The number of bytes that are read of a reflog, from its end."""
WHOLE: Final = 64
"""The largest number of files that are remembered as undamaged."""

log = logging.getLogger(__name__)


class GitMender:
    """Finds and repairs damage in the git directory of one repository. Thread-safe; the caller of the method `index`
    must hold git's `index.lock`."""

    def __init__(self, top: Path, git_dir: Path, common: Path, refs: RefFiles) -> None:
        self._top = top
        self._git_dir = git_dir
        self._common = common
        self._refs = refs
        self._lock = threading.RLock()
        self._at_work = False
        self.mends = 0
        """The number of repairs so far."""
        self._whole: dict[Path, object] = {}
        """{file: its inode, size and times when it was last found undamaged}."""
        self._files = [git_dir / name for name in ("HEAD", "index", "ORIG_HEAD", "FETCH_HEAD", "logs/HEAD")] + [
            common / name
            for name in ("config", "packed-refs", "info/exclude", "info/attributes", "shallow", *_DERIVED)
            if name != _DERIVED[1]
        ]

    # When to look

    def odd(self, branch: str | None = None) -> bool:
        """Whether git's `config` is missing, or something other than a file (such as a pipe) is in the place of a file
        that git opens. With `branch`, its ref and reflog are examined too."""
        if not os.path.lexists(self._common / "config"):
            return self._common.is_dir()
        files = self._files if branch is None or not self._refs.plain else [*self._files, *self._of(branch)]
        return any(_is_odd(file) for file in files)

    def odd_refs(self) -> list[Path]:
        """Return the paths below `refs` and `logs` that are neither files nor folders."""
        found = []
        for folder in ("refs", "logs") if self._refs.plain else ():
            for where, _, inside in os.walk(self._common / folder):
                found += [file for name in inside if _is_odd(file := Path(where, name)) and not _names_ref(file)]
        return found

    def sound(self) -> bool:
        """Whether git opens the repository and can read HEAD."""
        if not (self._common / "config").exists():
            return False
        try:
            self._git("rev-parse", "--git-dir")
            self._git("symbolic-ref", "--quiet", "HEAD", ok=(0, 1))
        except GitFailed:
            return False
        return True

    def after(self, failed: GitFailed) -> bool:
        """Repair the repository if `failed`, the error of a git command, shows that it may be damaged. Return whether
        to run the command again."""
        return _DAMAGE.search(failed.stderr) is not None and self.look()

    @staticmethod
    def blames_index(failed: GitFailed) -> bool:
        return _INDEX.search(failed.stderr) is not None

    def look(self) -> bool:
        """Examine all files that this class repairs, and repair those that git cannot read. Return whether any was
        repaired.

        Damage of git's index is left to the method `index`.
        """
        with self._lock:
            if self._at_work or not self._common.is_dir():
                return False
            self._at_work = True
            try:
                mended = sum([step() for step in self._steps()])  # run every step, in order
                self.mends += mended
                return mended > 0
            except (OSError, GitFailed) as exc:
                log.error("what git cannot read in %s could not be mended: %s", self._git_dir, exc)
                return False
            finally:
                self._at_work = False

    def _steps(self) -> list[Callable[[], bool]]:
        plain = [self._packed_refs, self._broken_refs] if self._refs.plain else []
        # Derived files come before refs: a commit that only a damaged list hides does exist.
        return [self._kinds, self._config, self._head, self._derived, *plain]

    # The steps

    def _kinds(self) -> bool:
        """Set aside folders, pipes, devices and dangling symlinks at paths where git expects files."""
        files = [file for file in self._files if _is_odd(file)]
        files += [file for file in self.odd_refs() if file not in files]
        mended = [self._aside(file, "is no file that git can read") for file in files]  # before any git command
        branch = self._branch() if self._refs.plain else None
        folders = [file for file in (self._of(branch) if branch else ()) if file.is_dir()]
        mended += [self._aside(folder, "is no file that git can read") for folder in folders]
        for folder in ("refs", "objects/info", "logs"):
            path = self._common / folder
            if os.path.lexists(path) and not path.is_dir():
                mended.append(self._aside(path, "is no folder"))
        return any(mended)

    def _config(self) -> bool:
        config = self._common / "config"
        lost = "what was set there (remotes, for example) has to be set anew"
        if not os.path.lexists(config):
            log.warning("git's config was gone; %s", lost)
            self._note("config", f"was gone; {lost}")
        else:
            try:
                self._git("config", "--file", str(config), "--list", at=False)
                if config.stat().st_size or not self._is_extended():
                    return False  # for a plain repository, an empty configuration is valid
            except GitFailed as exc:
                if "config" not in exc.stderr:
                    raise
            self._aside(config, f"could not be read by git; {lost}")
        self._init("main")
        return True

    def _head(self) -> bool:
        try:
            self._git("rev-parse", "--git-dir")
            branch = self._git("symbolic-ref", "--quiet", "HEAD", ok=(0, 1))
            if not branch or not self._refs.plain or _HEAD.match(b"ref: " + branch):
                return False
        except GitFailed as exc:
            if not re.search("not a git repository|No such ref", exc.stderr) or not (self._common / "objects").is_dir():
                return False
        head = self._git_dir / "HEAD"
        lost = not (head.is_file() and _HEAD.match(head.read_bytes()))
        if lost and os.path.lexists(head):
            self._aside(head, "could not be read by git")
        self._init("main")
        if lost and self._refs.plain:
            self._find_branch()
        return True

    def _find_branch(self) -> None:
        """Point HEAD at the branch that its reflog names last; if that is gone, at the most likely other branch."""
        entries = list(self._entries("HEAD"))
        known = {name for name in self._logged("refs/heads") if name}
        out = self._git("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads").decode(
            "utf-8", "surrogateescape"
        )
        at = {name: oid for oid, name in (line.split(" ", 1) for line in out.splitlines())}
        known |= at.keys()
        went = next((f"refs/heads/{os.fsdecode(to[1])}" for _, why in entries if (to := _WENT.match(why))), None)
        tip = entries[0][0] if entries else None
        there = sorted(
            known, key=lambda name: (name != went, tip is None or at.get(name) != tip, name != "refs/heads/main", name)
        )
        if there:
            self._git("symbolic-ref", "HEAD", there[0])
            log.warning("HEAD of %s names %s again", self._git_dir, there[0])

    def _packed_refs(self) -> bool:
        packed = self._common / "packed-refs"
        try:
            self._git("for-each-ref", "--count=1")
            return False
        except GitFailed as exc:
            if "packed-refs" not in exc.stderr:
                return False
        where = self._aside(packed, "could not be read by git")
        rows = [found for line in (where.read_bytes() if where else b"").splitlines() if (found := _PACKED.match(line))]
        for row in rows:
            oid, name = row[1].decode(), os.fsdecode(row[2])
            if not (self._common / name).exists() and not self._logs(name).is_file() and self._is_there(oid):
                self._git("update-ref", name, oid)
        for name in self._logged("refs"):
            self._restore(name)
        return True

    def _broken_refs(self) -> bool:
        """Restore refs that git cannot read: HEAD's branch, and others that have a reflog. Return whether any was
        restored.

        A ref other than HEAD's branch that has no file may be packed or deleted: it is restored only if `packed-refs`
        is empty.
        """
        branch = self._branch()
        packed = self._common / "packed-refs"
        emptied = packed.exists() and not packed.stat().st_size
        known = dict.fromkeys([*([branch] if branch else []), *self._logged("refs")])
        doubtful = [name for name in known if name == branch or emptied or os.path.lexists(self._common / name)]
        return sum([self._restore(name) for name in doubtful]) > 0

    def _restore(self, name: str) -> bool:
        """If git cannot read a ref, set it to the newest existing commit of its reflog. Return whether it was set."""
        with contextlib.suppress(GitFailed):
            self._git("rev-parse", "--quiet", "--verify", f"{name}^{{commit}}")
            return False
        tip = next((oid for oid, _ in self._entries(name) if self._is_there(oid)), None)
        if name == self._branch():
            of_head = next((oid for oid, _ in self._entries("HEAD") if self._is_there(oid)), None)
            if tip is None or (of_head is not None and self._is_on(tip, of_head)):
                tip = of_head or tip
        file = self._common / name
        if tip is None:
            if os.path.lexists(file):
                log.error(
                    "git cannot read %s, and no reflog knows what it was; `git fsck --lost-found` names commits", name
                )
            return False
        if os.path.lexists(file):
            self._aside(file, f"could not be read by git; {name} is {tip[:12]} again, as its reflog says")
        else:
            log.warning("%s was gone; it is %s again, as its reflog says", name, tip[:12])
            self._note(name, f"was gone; it is {tip[:12]} again, as its reflog says")
        self._git("update-ref", "-m", "ormah: mended from the reflog", name, tip)
        return True

    def _derived(self) -> bool:
        """Delete the damaged ones of the files that git derives from its objects (`_DERIVED`); git writes them again
        when it packs."""
        bad = [file for file in self._made() if not self._is_whole(file)]
        for name in {_DERIVED[2] if file.name == "multi-pack-index" else "commit-graph" for file in bad}:
            for path in (self._common / one for one in (_DERIVED[2:] if name == _DERIVED[2] else _DERIVED[:2])):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
            log.warning("git's %s was damaged; git goes on without it, and makes it anew by and by", name)
        return bool(bad)

    def derived_is_sound(self) -> bool:
        """Whether all existing files that git derives from its objects (`_DERIVED`) are undamaged. A damaged one can
        make existing objects seem missing."""
        return all(self._is_whole(file) for file in self._made())

    def _made(self) -> list[Path]:
        graphs = sorted((self._common / _DERIVED[1]).glob("*.graph"))
        return [file for file in (self._common / _DERIVED[0], *graphs, self._common / _DERIVED[2]) if file.exists()]

    def _is_whole(self, file: Path) -> bool:
        """Whether `file`, which git ends with a checksum of the other bytes, is undamaged. True also if it does not
        exist.

        A file that was undamaged earlier, and has the same stat now, is not read again.
        """
        try:
            found = file.stat()
            mark = found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
            if self._whole.get(file) == mark:
                return True
            data = own_files.read(file, follow=True)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        size = 32 if self._is_sha256() else 20
        if (
            len(data) < size
            or hashlib.new("sha256" if size == 32 else "sha1", memoryview(data)[:-size]).digest() != data[-size:]
        ):
            return False
        if len(self._whole) >= WHOLE:  # git gives each new commit graph a new name
            self._whole.clear()
        self._whole[file] = mark
        return True

    # The index, with its lock held

    def index_is_sound(self) -> bool:
        """Whether git's index exists and is undamaged. Git itself does not verify the checksum, and would use a
        damaged index."""
        index = self._git_dir / "index"
        if _is_odd(index) or not index.exists():
            return False
        if self._is_whole(index):
            return True
        try:
            if any(own_files.read(index, follow=True)[-20:]):
                return False
        except OSError:
            return False
        try:  # an index written without a checksum (index.skipHash)
            self._git("ls-files", "--stage", "-z")
        except GitFailed:
            return False
        return True

    def index(self, *, head: str | None) -> bool:
        """If git's index is missing or damaged, write a new one from the commit `head` and the folder's files.

        Return whether that was done; False if `head` is None.
        """
        index = self._git_dir / "index"
        if head is None:
            return False
        with self._lock:
            if os.path.lexists(index):
                if self.index_is_sound():
                    return False
                self._aside(
                    index, "could not be read by git; it was made anew, and what was staged has to be staged again"
                )
            else:
                log.warning("git's index was gone; it was made anew, and what was staged has to be staged again")
                self._note("index", "was gone; it was made anew, and what was staged has to be staged again")
            new = self._git_dir / "index.ormah-mended"
            new.unlink(missing_ok=True)
            env = {"GIT_INDEX_FILE": str(new)}
            self._git("read-tree", "--reset", head, env=env)
            self._git("update-index", "-q", "--refresh", env=env, ok=(0, 1))
            os.replace(new, index)
            self.mends += 1
        return True

    # Helpers

    def _git(
        self, *arguments: str, at: bool = True, env: dict[str, str] | None = None, ok: tuple[int, ...] = (0,)
    ) -> bytes:
        options = ["--git-dir", str(self._git_dir), "--work-tree", str(self._top)] if at else []
        for key, value in CONFIG.items():
            options += ["-c", f"{key}={value}"]
        return call(arguments, options=options, cwd=self._top if at else Path("/"), env=_QUIET | (env or {}), ok=ok)

    def _init(self, branch: str) -> None:
        """Run `git init`, which creates the missing parts of the repository and keeps existing files."""
        kinds = ["--object-format=sha256"] if self._is_sha256() else []
        kinds += [] if self._refs.plain else ["--ref-format=reftable"]
        call(["init", "--quiet", "--template=", f"--initial-branch={branch}", *kinds], cwd=self._top, env=_QUIET)

    def _is_extended(self) -> bool:
        """Whether the repository has a format (sha256, reftable) that git learns from its `config`."""
        return not self._refs.plain or self._is_sha256()

    def _is_sha256(self) -> bool:
        objects = self._common / "objects"
        for folder in (*objects.glob("[0-9a-f][0-9a-f]"), objects / "pack"):
            for file in folder.glob("*"):
                if file.suffix in {"", ".pack"}:
                    return len(file.stem.removeprefix("pack-")) > 40
        return False

    def _branch(self) -> str | None:
        with contextlib.suppress(GitFailed):
            return os.fsdecode(self._git("symbolic-ref", "--quiet", "HEAD", ok=(0, 1))).rstrip("\n") or None
        return None

    def _of(self, branch: str) -> tuple[Path, Path]:
        return self._common / branch, self._logs(branch)

    def _logs(self, name: str) -> Path:
        return (self._git_dir if name == "HEAD" else self._common) / "logs" / name

    def _logged(self, under: str) -> Iterator[str]:
        """Yield the full names of the refs below `under` that have a reflog: branches and `refs/stash`.

        Remote-tracking refs are left out: a fetch restores them.
        """
        root = self._common / "logs"
        for where, _, inside in os.walk(root / under):
            for name in inside:
                ref = Path(where, name).relative_to(root).as_posix()
                if ref.startswith("refs/heads/") or ref == "refs/stash":
                    yield ref

    def _entries(self, name: str) -> Iterator[tuple[str, bytes]]:
        """Yield (new commit, reason) of each line in the reflog of `name`, newest first, without malformed lines."""
        file = self._logs(name)
        if not file.is_file():
            return
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - MOST))
            lines = opened.read().split(b"\n")
        for line in reversed(lines):
            if (found := _ENTRY.match(line)) and set(found[1]) != {ord("0")}:
                yield found[1].decode(), found[2] or b""

    def _is_there(self, oid: str) -> bool:
        try:
            return self._git("cat-file", "-t", oid).strip() == b"commit"
        except GitFailed:
            return False

    def _is_on(self, old: str, new: str) -> bool:
        try:
            self._git("merge-base", "--is-ancestor", old, new)
        except GitFailed:
            return False
        return True

    def _aside(self, path: Path, why: str) -> Path | None:
        name = path.relative_to(self._git_dir if path.is_relative_to(self._git_dir) else self._common).as_posix()
        where = set_aside(path, self._git_dir / IN_GIT, name)
        if where is not None:
            log.warning("git's %s %s; what it was lies in %s", name, why, where)
            self._note(name, why)
        return where

    def _note(self, name: str, why: str) -> None:
        note(self._git_dir / IN_GIT, f"git's {name}", why)


def mend_place(folder: Path) -> bool:
    """Repair the repository that contains `folder`, if it is damaged. Return whether anything was repaired.

    Called before any other git command runs in the repository.
    """
    top = next((one for one in (folder, *folder.parents) if os.path.lexists(one / ".git")), None)
    if top is None or (top / ".git").is_symlink() or not (top / ".git" / "objects").is_dir():
        return False
    git_dir = top / ".git"
    refs = RefFiles(git_dir, git_dir, "reftable" if (git_dir / "reftable").is_dir() else "files")
    mender = GitMender(top, git_dir, git_dir, refs)
    return (mender.odd() or mender.odd_refs() or not mender.sound()) and mender.look()


def _is_odd(file: Path) -> bool:
    """Whether the path exists and is neither a regular file nor a symlink to one."""
    try:
        mode = os.lstat(file).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not (stat.S_ISLNK(mode) and is_file(file))


def _names_ref(file: Path) -> bool:
    """Whether the file is a symlink to another ref, as old versions of git wrote symbolic refs."""
    return file.is_symlink() and os.readlink(file).startswith("refs/")
