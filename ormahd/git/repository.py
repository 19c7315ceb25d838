"""The repository as we read it: what kind of one it is, and a child that answers questions about its objects.

Everything that imports GitPython or runs git is in the files `git*.py` of this room.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from msgspec import Struct

from ormahd.errors import Internal, Unavailable
from ormahd.git.mend import Mender
from ormahd.git.process import CONFIG, GitFailed, call, environment, executable, importing
from ormahd.git.ref_files import FILES, RefFiles
from ormahd.process.disk import is_pipe

_GLOB = re.compile(r"[*?\[\\]")
SHOW_REFS = "--show-ref-format"
_ANY_PATHSPEC = {"GIT_LITERAL_PATHSPECS": "0"}
"""`check-ignore` knows no literal pathspecs; its paths get `./` before them, so that none of them is magic."""


class Identity(Struct, frozen=True):
    """Who stands in a commit, without a time."""

    name: str
    email: str

    @classmethod
    def named(cls, name: str, email: str) -> Identity:
        """With whatever git would not take out of the name."""
        return cls(_ident_part(name) or "ormahd", email)

    def line(self, seconds: int) -> str:
        return f"{self.name} <{self.email}> {seconds} +0000"


class Place(Struct, frozen=True):
    """Where a repository keeps its things; `common` differs from `git_dir` in a linked worktree."""

    top: Path
    git_dir: Path
    common: Path
    bare: bool
    object_format: str
    ref_format: str
    """How refs are kept: `files`, or `reftable`."""


def locate(folder: Path) -> Place | None:
    """The repository that `folder` is or lies in, or None. Raises where git refuses it (ownership, damage)."""
    try:
        out = call(
            [
                "rev-parse",
                "--is-bare-repository",
                "--show-object-format",
                "--absolute-git-dir",
                "--git-common-dir",
                SHOW_REFS,
            ],
            cwd=folder,
        )
    except GitFailed as exc:
        if "not a git repository" in exc.stderr and "gitfile" not in exc.stderr:
            return None
        if "dubious ownership" in exc.stderr or "unsafe" in exc.stderr:
            raise Unavailable(
                f"git refuses {folder}: it belongs to another user",
                hint=f"if you trust it: git config --global --add safe.directory {folder}",
            ) from exc
        raise
    bare, object_format, git_dir, common, refs = os.fsdecode(out).rstrip("\n").split("\n")
    refs = FILES if refs == SHOW_REFS else refs  # a git that does not know the question repeats it
    if bare == "true":
        return Place(Path(git_dir), Path(git_dir), Path(git_dir), True, object_format, refs)
    try:
        top = os.fsdecode(call(["rev-parse", "--show-toplevel"], cwd=folder)).rstrip("\n")
    except GitFailed as exc:
        raise Unavailable(
            f"{folder} lies inside a repository's .git", hint="set vault.path to a folder of notes"
        ) from exc
    return Place(Path(top), Path(git_dir), (folder / common).resolve(), False, object_format, refs)


def ignored_around(place: Place, folder: Path) -> bool:
    """Whether the repository around `folder` ignores it."""
    # Something inside it: a rule for folders (`/vault/`) does not match a folder that is still to be made.
    inside = "./" + os.path.relpath(folder / "note.md", os.path.realpath(place.top))
    out = call(["check-ignore", "--", inside], cwd=place.top, env=_ANY_PATHSPEC, ok=(0, 1))
    return bool(out)


class Git:
    """One repository, read. Safe for many threads; `close` leaves no child behind."""

    def __init__(self, place: Place) -> None:
        self.top = place.top
        self.git_dir = place.git_dir
        self.common = place.common
        self.object_format = place.object_format
        self.ref_files = RefFiles(place.git_dir, place.common, place.ref_format)
        self.oid_bytes = 32 if place.object_format == "sha256" else 20
        self.null = "0" * (2 * self.oid_bytes)
        self._options = ["--git-dir", str(self.git_dir), "--work-tree", str(self.top)]
        for key, value in CONFIG.items():
            self._options += ["-c", f"{key}={value}"]
        self._child: subprocess.Popen[bytes] | None = None
        self._asking = threading.Lock()
        self._settings: tuple[object, Mapping[str, str]] | None = None
        self._config_files: tuple[str, ...] = ()
        self._branch: tuple[object, str | None] | None = None
        self.mender = Mender(self.top, self.git_dir, self.common, self.ref_files)
        self.mend_index: Callable[[], bool] | None = None
        """Makes git's index anew where git cannot read it, while no op is being written; whether it was done. Set by the vault."""

    def oid(self, kind: str, data: bytes) -> str:
        """The id that git gives an object with these bytes."""
        made = hashlib.sha256 if self.object_format == "sha256" else hashlib.sha1
        return made(f"{kind} {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()

    def close(self) -> None:
        with self._asking:
            self._drop_child()

    def check(self) -> None:
        """Open the repository with GitPython too, as programs do that read a vault beside us. Raises Unavailable where it does
        not open there. Not at the start: importing it takes 50 ms, and starts git once."""
        with importing:
            import git as gitpython

        try:
            gitpython.Repo(self.top, odbt=gitpython.GitCmdObjectDB, expand_vars=False).close()
        except (gitpython.InvalidGitRepositoryError, gitpython.NoSuchPathError) as exc:
            raise Unavailable(
                f"{self.top} is no repository that GitPython can open", hint="run `git status` there"
            ) from exc

    def reopen(self) -> None:
        """Look at the repository anew: objects that are gone from it cannot be read any longer."""
        with self._asking:
            self._drop_child()

    # Commands

    def run(
        self,
        *arguments: str,
        input: bytes | None = None,  # noqa: A002 - subprocess names it so
        env: Mapping[str, str] | None = None,
        ok: Iterable[int] = (0,),
    ) -> bytes:
        """What a git command printed; exit statuses outside `ok` raise GitFailed, but not before what git cannot read was mended."""
        self.look_out()
        mends = self.mender.mends
        try:
            return call(arguments, options=self._options, cwd=self.top, input=input, env=env, ok=ok)
        except GitFailed as exc:
            if not self.mended(exc) and self.mender.mends == mends:  # another thread may just have done it
                raise
        return call(arguments, options=self._options, cwd=self.top, input=input, env=env, ok=ok)

    def mended(self, failed: GitFailed) -> bool:
        """Mend what made a command fail; whether it is worth another try."""
        if self.mender.blames_index(failed):
            return self.mend_index is not None and self.mend_index()
        return self.mender.after(failed)

    def look_out(self) -> None:
        """Set aside what would hold up a git that opens it, before one is started: a pipe in the place of a file."""
        known = self._branch
        if self.mender.odd(None if known is None else known[1]):
            self.mender.look()

    def start(
        self, *arguments: str, env: Mapping[str, str] | None = None, new_session: bool = False
    ) -> subprocess.Popen[bytes]:
        """A running git command with pipes on all three ends; the caller waits for it. `new_session`: it is not ended
        with us by a signal to our group, and can be ended with all that it starts."""
        self.look_out()
        return subprocess.Popen(
            [executable(), *self._options, *arguments],
            cwd=self.top,
            env=environment(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=new_session,
        )

    def stream(self, *arguments: str) -> Iterator[bytes]:
        """The NUL-separated records of a command, as they come; leaving early ends the command."""
        child = self.start(*arguments)
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdin.close()
        rest = b""
        ended = False
        try:
            while piece := child.stdout.read1(1 << 16):  # type: ignore[attr-defined]
                *records, rest = (rest + piece).split(b"\0")
                yield from records
            if rest:
                yield rest
            ended = True
        finally:
            if not ended:
                child.kill()
            complaint = child.stderr.read().decode("utf-8", "replace")
            child.stdout.close()
            child.stderr.close()
            status = child.wait()
        if status:
            failed = GitFailed(arguments, status, complaint)
            self.mended(failed)  # so that it goes well the next time
            raise failed

    def log(self, *arguments: str) -> Iterator[bytes]:
        """`git log -z …` record by record, newest first; nothing where there is no commit yet."""
        if self.head() is None:
            return
        yield from self.stream("log", "-z", "--no-color", "--no-show-signature", *arguments)

    # Questions to the long-lived child

    def _ask(self, question: str, *, contents: bool) -> tuple[str, str, bytes] | None:
        """(oid, kind, bytes) of what `question` names; None when it is missing."""
        line = ("contents " if contents else "info ") + question + "\n"
        with self._asking:
            for attempt in (1, 2):
                if self._child is None or self._child.poll() is not None:
                    self._drop_child()
                    self._child = self.start("cat-file", "--batch-command", "--buffer")
                try:
                    return self._exchange(self._child, line, contents)
                except (BrokenPipeError, EOFError) as exc:
                    failed = GitFailed(["cat-file", question], 1, self._drop_child())
                    if attempt == 2:
                        raise failed from exc
                    self.mender.after(failed)
        raise Internal("unreachable")

    @staticmethod
    def _exchange(child: subprocess.Popen[bytes], line: str, contents: bool) -> tuple[str, str, bytes] | None:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(os.fsencode(line) + b"flush\n")
        child.stdin.flush()
        header = child.stdout.readline()
        if not header.endswith(b"\n"):
            raise EOFError
        words = os.fsdecode(header[:-1]).rsplit(" ", 2)
        if len(words) != 3 or not words[2].isdigit():
            return None  # "<question> missing", "… ambiguous"
        oid, kind, size = words
        data = _read_exactly(child.stdout, int(size)) if contents else b""
        if contents:
            _read_exactly(child.stdout, 1)
        return oid, kind, data

    def _drop_child(self) -> str:
        child, self._child = self._child, None
        if child is None:
            return ""
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        child.stdout.close()
        try:
            child.wait(timeout=2)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        complaint = child.stderr.read().decode("utf-8", "replace")
        child.stderr.close()
        return complaint

    def head(self) -> str | None:
        """The commit that HEAD names now, or None on a branch without commits. Raises Unavailable where git cannot say."""
        self.look_out()
        found = self._ask("HEAD", contents=False)
        if found is None and not self._is_unborn():
            self.mender.look()
            self.reopen()
            found = self._ask("HEAD", contents=False)
            if found is None and not self._is_unborn():
                raise Unavailable(
                    f"git cannot say which commit HEAD names in {self.top}",
                    hint=f"`git -C {self.top} fsck --lost-found` names commits; `git update-ref HEAD COMMIT` brings one back",
                )
        return found[0] if found else None

    def _is_unborn(self) -> bool:
        """Whether HEAD is on a branch that never had a commit: one that was lost has a reflog still, or a file that cannot be read."""
        branch = self.branch()
        if branch is None or not branch.startswith("refs/heads/") or self.ref_files.has_file(branch):
            return False
        try:
            self.run("reflog", "exists", branch)
        except GitFailed as exc:
            if exc.status == 1:
                return True
            raise
        return False

    def resolve(self, revision: str) -> str | None:
        """The full id of what a revision names, or None. A revision with a line break names nothing."""
        found = None if "\n" in revision or not revision.strip() else self._ask(revision, contents=False)
        return found[0] if found else None

    def read(self, oid: str, kind: str) -> bytes:
        """The content of an object that must be there."""
        found = self._ask(oid, contents=True)
        if found is None and self.mender.look():  # a list of what is in the packs may be at fault
            self.reopen()
            found = self._ask(oid, contents=True)
        if found is None or found[1] != kind:
            raise Unavailable(
                f"the repository {self.top} lacks the {kind} {oid}",
                hint="it is damaged: `git fsck` names what is missing; restore it from a clone or a backup",
            )
        return found[2]

    def branch(self) -> str | None:
        """The full name of the branch that HEAD is on (`refs/heads/main`), also before its first commit; None: detached. Git is
        asked when HEAD may have changed since, not for each commit: a git that starts takes 2 ms."""
        mark, known = self.ref_files.mark(), self._branch
        if known is not None and mark is not None and known[0] == mark:
            return known[1]
        branch = os.fsdecode(self.run("symbolic-ref", "--quiet", "HEAD", ok=(0, 1))).rstrip("\n") or None
        self._branch = mark, branch
        return branch

    def identity(self) -> Identity | None:
        """The person's git identity, where they have set one."""
        values = self.settings()
        name, email = (_ident_part(values.get(key, "")) for key in ("user.name", "user.email"))
        return Identity(name, email) if name and email else None

    def settings(self) -> Mapping[str, str]:
        """The person's configuration of git, by key as git prints it (`filter.lfs.clean`); of several values the last. Read again,
        and another object, when a configuration file changes."""
        if self._settings is not None and self._settings[0] == self._config_state(self._config_files):
            return self._settings[1]
        out = self.run("config", "--list", "-z", "--show-origin")
        values: dict[str, str] = {}
        xdg = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
        unset = ["~/.gitconfig", f"{xdg}/git/config", os.environ.get("GIT_CONFIG_GLOBAL", "")]
        files = {self.common / "config", *(Path(os.path.expanduser(name)) for name in unset if name)}
        fields = os.fsdecode(out).split("\0")
        for origin, entry in zip(fields[::2], fields[1::2], strict=False):
            if origin == "command line:":
                continue  # what we give to every git of ours
            key, line, value = entry.partition("\n")
            values[key] = value if line else "true"
            if origin.startswith("file:"):
                files.add(self.top / origin[5:])
        self._config_files = tuple(sorted(os.fspath(file) for file in files))
        self._settings = (self._config_state(self._config_files), values)
        return values

    def flag(self, key: str, *, default: bool) -> bool:
        """A setting that is on or off, as git reads such words; `key` in small letters."""
        said = self.settings().get(key)
        return default if said is None else said.lower() not in {"false", "no", "off", "0", ""}

    @staticmethod
    def _config_state(files: Iterable[str]) -> object:
        state = []
        for file in files:
            try:
                found = os.stat(file)
                state.append((file, found.st_mtime_ns, found.st_size, found.st_ino))
            except OSError:
                state.append((file, 0, 0, 0))
        return state

    def is_ignored(self, paths: Iterable[str]) -> set[str]:
        """Those of `paths` (posix, relative to the top) that the person's ignore rules leave out of git."""
        plain: list[str] = []
        odd: list[str] = []
        blocked: set[str] = set()
        piped: dict[str, bool] = {}
        for path in paths:
            if self._is_piped(path.rpartition("/")[0], piped):
                blocked.add(path)
            else:
                (odd if _GLOB.search(path) else plain).append(path)
        # As patterns, the odd ones would match other paths of the index.
        return blocked | self._ignored(plain) | self._ignored(odd, "--no-index")

    def _is_piped(self, folder: str, known: dict[str, bool]) -> bool:
        """Whether the `.gitignore` of a folder, or of one above it, is a pipe: git would wait for it for ever."""
        if folder not in known:
            here = is_pipe(self.top / folder / ".gitignore")
            known[folder] = here or (folder != "" and self._is_piped(folder.rpartition("/")[0], known))
        return known[folder]

    def _ignored(self, paths: list[str], *options: str) -> set[str]:
        asked = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
        if not asked:
            return set()
        out = self.run("check-ignore", "-z", "--stdin", *options, input=asked, ok=(0, 1), env=_ANY_PATHSPEC)
        return {os.fsdecode(path[2:]) for path in out.split(b"\0") if path}

    def listing(self, revision: str = "HEAD", under: str = "") -> dict[str, str]:
        """{path relative to the top: blob id} of the regular files of a commit, below `under`."""
        if revision == "HEAD" and self.head() is None:
            return {}
        found = {}
        pathspec = ["--", under + "/"] if under else []
        for record in self.stream("ls-tree", "-r", "-z", "--full-tree", revision, *pathspec):
            meta, _, path = record.partition(b"\t")
            mode, kind, oid = meta.split(b" ")
            if kind == b"blob" and mode != b"120000":
                found[os.fsdecode(path)] = oid.decode()
        return found


def _ident_part(text: str) -> str:
    """A name as git would write it: without the characters that structure a commit's header."""
    return " ".join("".join(" " if c in "<>\n\0" else c for c in text).split()).strip(" .,;:\"'")


def _read_exactly(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) != size:
        raise EOFError
    return data
