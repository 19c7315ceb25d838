"""A repository as purging reads it: all of its objects in one pass, all changes of all commits in another."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from msgspec import Struct

from ormahd.git.process import CONFIG, GitFailed, call, environment, executable

OURS = ("refs/heads/", "refs/tags/", "refs/ormah/")
"""Refs whose history is this repository's own, and is rewritten."""
REMOTE = "refs/remotes/"
"""What was last seen of others: dropped, because it holds the old history; a fetch brings it again."""


class Object(NamedTuple):
    oid: str
    kind: str
    data: bytes


class Commit(Struct, frozen=True):
    """A commit with what it changed against its first parent, or with `merge` against any of them."""

    oid: str
    parents: tuple[str, ...]
    changes: tuple[tuple[str, str, str], ...]
    """(path, blob before, blob after); null ids where there was no file."""


class Store:
    """A repository by its git directory alone: nothing here needs files or an index."""

    def __init__(self, git_dir: Path) -> None:
        self.git_dir = git_dir
        self._options = ["--git-dir", str(git_dir)]
        for key, value in CONFIG.items():
            self._options += ["-c", f"{key}={value}"]

    @classmethod
    def make(cls, place: Path, object_format: str) -> Store:
        """A new bare repository in `place`, with nothing in it that a template would bring."""
        call(
            ["init", "--quiet", "--bare", "--template=", f"--object-format={object_format}", str(place)],
            cwd=place.parent,
            env={"GIT_DEFAULT_REF_FORMAT": "files"},
        )
        return cls(place)

    def run(self, *arguments: str, input: bytes | None = None, ok: Iterable[int] = (0,)) -> bytes:  # noqa: A002
        """What a git command printed; raises GitFailed."""
        return call([*self._options, *arguments], cwd=self.git_dir, input=input, ok=ok)

    def refs(self) -> dict[str, str]:
        """{full name: object id} of every ref, symbolic ones left out."""
        out = self.run("for-each-ref", "--format=%(objectname) %(refname) %(symref)")
        rows = (os.fsdecode(line).split(" ") for line in out.splitlines())
        return {name: oid for oid, name, symref in rows if not symref}

    def symbolic(self) -> list[str]:
        """The names of symbolic refs (`refs/remotes/origin/HEAD`)."""
        out = self.run("for-each-ref", "--format=%(refname) %(symref)")
        return [name for name, symref in (os.fsdecode(line).split(" ") for line in out.splitlines()) if symref]

    def objects(self, oids: Iterable[str] | None = None, *, trees: bool = False) -> Iterator[Object]:
        """Commits, tags and blobs (and `trees`): those named, or all that the repository has, reachable or not."""
        if oids is None:
            listed = self.run(
                "cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname) %(objecttype)"
            )
            rows = (line.split(b" ") for line in listed.splitlines())
            oids = (oid.decode() for oid, kind in rows if trees or kind != b"tree")
        with tempfile.TemporaryFile() as wanted:
            wanted.writelines(f"{oid}\n".encode() for oid in oids)
            wanted.seek(0)
            with _running([*self._options, "cat-file", "--batch", "--buffer"], self.git_dir, wanted) as out:
                while header := out.readline():
                    words = header.split()
                    if words[1:] == [b"missing"]:
                        continue  # the commit of a submodule
                    if len(words) != 3:
                        raise GitFailed(["cat-file", "--batch"], 1, header.decode("utf-8", "replace"))
                    data = out.read(int(words[2]))
                    out.read(1)
                    yield Object(words[0].decode(), words[1].decode(), data)

    def commits(self, *revisions: str) -> Iterator[Commit]:
        """Every commit that `revisions`, or else branches, tags and refs of ours reach, newest first, with its changes."""
        command = ["log", "-z", "--raw", "--no-abbrev", "--no-renames", "-m", "--root", "--topo-order", "--no-color",
                   "--no-show-signature", "--format=%x1f%H %P", *(revisions or ("--branches", "--tags", "--glob=refs/ormah/")), "--"]  # fmt: skip
        found: tuple[str, tuple[str, ...]] | None = None
        changes: list[tuple[str, str, str]] = []
        with _running([*self._options, *command], self.git_dir, subprocess.DEVNULL) as out:
            records = _records(out)
            for record in records:
                text = record.lstrip(b"\n")
                if text.startswith(b":"):
                    _, _, old, new, _ = text.decode().split(" ", 4)
                    changes.append((os.fsdecode(next(records)), old, new))
                elif text.startswith(b"\x1f"):
                    oid, *parents = text[1:].decode().split()
                    if found is not None and found[0] != oid:
                        yield Commit(*found, tuple(changes))
                        changes = []
                    found = oid, tuple(parents)
        if found is not None:
            yield Commit(*found, tuple(changes))

    def bytes(self) -> int:
        """On disk, all objects."""
        found = dict(line.split(b": ") for line in self.run("count-objects", "-v").splitlines())
        return 1024 * (int(found[b"size"]) + int(found[b"size-pack"]))


def _records(out: IO[bytes]) -> Iterator[bytes]:
    rest = b""
    while piece := out.read(1 << 16):
        *records, rest = (rest + piece).split(b"\0")
        yield from records
    if rest:
        yield rest


@contextlib.contextmanager
def _running(command: list[str], cwd: Path, stdin: IO[bytes] | int) -> Iterator[IO[bytes]]:
    """The standard output of a git command; raises GitFailed at the end when it failed."""
    with tempfile.TemporaryFile() as complaint:
        child = subprocess.Popen(
            [executable(), *command], cwd=cwd, env=environment(), stdin=stdin, stdout=subprocess.PIPE, stderr=complaint
        )
        assert child.stdout is not None
        try:
            yield child.stdout
        except BaseException:
            child.kill()
            raise
        finally:
            child.stdout.close()
            status = child.wait()
        if status:
            complaint.seek(0)
            raise GitFailed(command[-3:], status, complaint.read().decode("utf-8", "replace"))
