"""Run git in one repository, and read its properties and objects. Objects are read by a long-lived git process.

All code that runs git or imports GitPython is in this package.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from msgspec import Struct

from ormahd.errors import Internal, Unavailable
from ormahd.git.process import CONFIG, GitFailed, call, environment, executable, importing
from ormahd.process import own_files

_GLOB = re.compile(r"[*?\[\\]")
NULL = "0" * 40
"""The id by which git names no object."""
_ANY_PATHSPEC = {"GIT_LITERAL_PATHSPECS": "0"}
"""Environment for `check-ignore`, which refuses literal pathspecs. Its paths get the prefix `./`, so that no special
character at their beginning has a meaning."""


class Signature(Struct, frozen=True):
    """The author or committer of a commit, without a time."""

    name: str
    email: str

    @classmethod
    def named(cls, name: str, email: str) -> Signature:
        """Return a signature with `name`, without the characters that git does not accept in names."""
        return cls(_ident_part(name) or "ormahd", email)

    def line(self, seconds: int) -> str:
        """Return the signature as a commit's header has it. `seconds`: its time since 1970."""
        return f"{self.name} <{self.email}> {seconds} +0000"


class Git:
    """Runs git commands in one repository, and reads its objects by one long-lived git process, which `close` ends.
    Thread-safe."""

    def __init__(self, top: Path) -> None:
        """`top`: the folder with the repository `.git`."""
        self.top = top
        self.git_dir = top / ".git"
        self._options = ["--git-dir", str(self.git_dir), "--work-tree", str(self.top)]
        for key, value in CONFIG.items():
            self._options += ["-c", f"{key}={value}"]
        self._child: subprocess.Popen[bytes] | None = None
        self._child_lock = threading.Lock()
        self._settings: Mapping[str, str] = {}

    @staticmethod
    def oid(kind: str, data: bytes) -> str:
        """Return the id that git gives an object of this kind with these bytes."""
        return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()

    def close(self) -> None:
        """End the long-lived git process."""
        with self._child_lock:
            self._drop_child()

    def check(self) -> None:
        """Raise Unavailable if GitPython, which other programs use to read a vault, cannot open the repository.

        Not called when the daemon starts, because importing GitPython is slow.
        """
        with importing:
            import git as gitpython

        try:
            gitpython.Repo(self.top, odbt=gitpython.GitCmdObjectDB, expand_vars=False).close()
        except (gitpython.InvalidGitRepositoryError, gitpython.NoSuchPathError) as exc:
            raise Unavailable(
                f"{self.top} is no repository that GitPython can open", hint="run `git status` there"
            ) from exc

    def reopen(self) -> None:
        """End the long-lived git process, so that the next one does not find deleted objects any more."""
        with self._child_lock:
            self._drop_child()

    # Commands

    def run(
        self,
        *arguments: str,
        input: bytes | None = None,  # noqa: A002 - subprocess names it so
        env: Mapping[str, str] | None = None,
        ok: Iterable[int] = (0,),
    ) -> bytes:
        """Run a git command and return its output. Raises GitFailed if its exit status is not in `ok`."""
        return call(arguments, options=self._options, cwd=self.top, input=input, env=env, ok=ok)

    def start(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: IO[bytes] | int = subprocess.PIPE,
        new_session: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start a git command with pipes for its streams, unless `stdin` is a file. The caller must wait for its end.

        `new_session`: start it in a process group of its own. It can then be ended with all its children, and signals
        to the daemon's group do not reach it.
        """
        return subprocess.Popen(
            [executable(), *self._options, *arguments],
            cwd=self.top,
            env=environment(env),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=new_session,
        )

    def stream(self, *arguments: str) -> Iterator[bytes]:
        """Yield the NUL-separated records of a command. Closing the iterator ends the command."""
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
            stderr = child.stderr.read().decode("utf-8", "replace")
            child.stdout.close()
            child.stderr.close()
            status = child.wait()
        if status:
            raise GitFailed(arguments, status, stderr)

    def log(self, *arguments: str) -> Iterator[bytes]:
        """Yield the records of `git log -z …`, newest first; none if there is no commit yet."""
        if self.head() is None:
            return
        yield from self.stream("log", "-z", "--no-color", "--no-show-signature", *arguments)

    # Questions to the long-lived child

    def _look_up(self, question: str, *, contents: bool) -> tuple[str, str, bytes] | None:
        """Return (oid, kind, bytes) of the object that the revision `question` names; None if there is none. The bytes
        are empty without `contents`. A git process that has died is started again once; then GitFailed is raised."""
        line = ("contents " if contents else "info ") + question + "\n"
        with self._child_lock:
            for attempt in (1, 2):
                if self._child is None or self._child.poll() is not None:
                    self._drop_child()
                    self._child = self.start("cat-file", "--batch-command", "--buffer")
                try:
                    return self._ask_child(self._child, line, contents)
                except (BrokenPipeError, EOFError) as exc:
                    stderr = self._drop_child()
                    if attempt == 2:
                        raise GitFailed(["cat-file", question], 1, stderr) from exc
        raise Internal("unreachable")

    @staticmethod
    def _ask_child(child: subprocess.Popen[bytes], line: str, contents: bool) -> tuple[str, str, bytes] | None:
        """Send one line to the long-lived git process, and read its answer; see `_ask` for the result. Raises
        BrokenPipeError or EOFError if the process has ended."""
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
        """End the long-lived git process, and return what it wrote to standard error; "" if none runs."""
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
        stderr = child.stderr.read().decode("utf-8", "replace")
        child.stderr.close()
        return stderr

    def head(self) -> str | None:
        """Return the id of HEAD's commit; None on a branch without commits. Raises Unavailable if git cannot read
        HEAD."""
        found = self._look_up("HEAD", contents=False)
        if found is not None:
            return found[0]
        # A branch that never had a commit has neither a file nor a reflog; one whose commit git cannot read has one
        branch = self.branch()
        if branch is None or any(os.path.lexists(self.git_dir / folder / branch) for folder in ("", "logs")):
            raise Unavailable(
                f"git cannot say which commit HEAD names in {self.top}",
                hint=f"`git -C {self.top} fsck --lost-found` names commits; `git update-ref HEAD COMMIT` brings one back",
            )
        return None

    def resolve(self, revision: str) -> str | None:
        """Return the full id of the object that a revision names, or None if it names none."""
        found = None if "\n" in revision or not revision.strip() else self._look_up(revision, contents=False)
        return found[0] if found else None

    def read(self, oid: str, kind: str) -> bytes:
        """Return the content of the object `oid`. Raises Unavailable if it is missing or of another kind."""
        found = self._look_up(oid, contents=True)
        if found is None or found[1] != kind:
            raise Unavailable(
                f"the repository {self.top} lacks the {kind} {oid}",
                hint="it is damaged: `git fsck` names what is missing; restore it from a clone or a backup",
            )
        return found[2]

    def branch(self) -> str | None:
        """Return the full name of the branch that HEAD is on (`refs/heads/main`), even if it has no commit yet; None if
        HEAD is detached. Raises Unavailable if HEAD is no file that git can read."""
        try:
            text = os.fsdecode(own_files.read(self.git_dir / "HEAD", follow=True)).strip()
        except OSError as exc:
            raise Unavailable(
                f"git cannot read {self.git_dir}/HEAD: {exc.strerror}", hint=f"`git -C {self.top} status` says more"
            ) from exc
        return text.removeprefix("ref:").strip() if text.startswith("ref:") else None

    def identity(self) -> Signature | None:
        """Return the person's git identity, or None if it is not configured."""
        values = self.settings()
        name, email = (_ident_part(values.get(key, "")) for key in ("user.name", "user.email"))
        return Signature(name, email) if name and email else None

    def settings(self) -> Mapping[str, str]:
        """Return git's configuration as `{key: value}`, read once. If a key has several values, the last one counts."""
        if not self._settings:
            entries = (entry.partition("\n") for entry in os.fsdecode(self.run("config", "--list", "-z")).split("\0"))
            self._settings = {key: value if line else "true" for key, line, value in entries}
        return self._settings

    def ignored_paths(self, paths: Iterable[str]) -> set[str]:
        """Return the paths in `paths` (posix, relative to the top) that git ignores."""
        plain: list[str] = []
        odd: list[str] = []
        for path in paths:
            (odd if _GLOB.search(path) else plain).append(path)
        # Paths with glob characters would match other paths in the index.
        return self._check_ignored(plain) | self._check_ignored(odd, "--no-index")

    def _check_ignored(self, paths: list[str], *options: str) -> set[str]:
        """Return the paths in `paths` that `git check-ignore` names when run with these options."""
        asked = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
        if not asked:
            return set()
        out = self.run("check-ignore", "-z", "--stdin", *options, input=asked, ok=(0, 1), env=_ANY_PATHSPEC)
        return {os.fsdecode(path[2:]) for path in out.split(b"\0") if path}


def _ident_part(text: str) -> str:
    """Return a name without the characters that have a meaning in a commit's header, as git cleans names."""
    return " ".join("".join(" " if c in "<>\n\0" else c for c in text).split()).strip(" .,;:\"'")


def _read_exactly(pipe: IO[bytes], size: int) -> bytes:
    """Return exactly `size` bytes from the pipe. Raises EOFError if it ends before."""
    data = pipe.read(size)
    if len(data) != size:
        raise EOFError
    return data
