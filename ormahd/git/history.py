"""Reads a whole repository for a purge: one pass over all objects, one over the files of all commits."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from ormahd.git.process import CONFIG, GitFailed, call, environment, executable

PURGE_MARK = "ormah-purge"
"""File in a rewritten git directory: the purged memory as JSON, until index and state are cleaned."""
PURGE_PLACE = ".ormah/tmp/purge"
"""Folder in which a purge makes the new git directory. It is on the file system of the old one, and git ignores it."""
REMOTE = "refs/remotes/"
"""Prefix of remote-tracking refs. A purge deletes these refs, because they hold the old history."""


class Object(NamedTuple):
    """A git object of any kind (`commit`, `tree`, `blob` or `tag`), with its content."""

    oid: str
    kind: str
    data: bytes


class Store:
    """Reads and writes one repository with git commands that use only its git directory, no working tree and no
    index."""

    def __init__(self, git_dir: Path) -> None:
        self.git_dir = git_dir
        self._options = ["--git-dir", str(git_dir)]
        for key, value in CONFIG.items():
            self._options += ["-c", f"{key}={value}"]

    @classmethod
    def clone(cls, git_dir: Path, place: Path) -> Store:
        """Clone a repository into `place`, bare and without git's templates: all branches, tags and other refs except
        the remote-tracking ones, and the objects that they lead to."""
        options = ["--mirror", "--no-local", "--template=", "--config", "fastimport.unpackLimit=0"]
        call(["clone", "--quiet", *options, str(git_dir), str(place)], cwd=place.parent)
        made = cls(place)
        tracking = "".join(f"delete {name}\n" for name in made.refs() if name.startswith(REMOTE))
        made.run("update-ref", "--no-deref", "--stdin", input=os.fsencode(tracking))
        return made

    def run(self, *arguments: str, input: bytes | None = None, ok: Iterable[int] = (0,)) -> bytes:  # noqa: A002
        """Return the output of a git command; raises GitFailed."""
        return call([*self._options, *arguments], cwd=self.git_dir, input=input, ok=ok)

    def refs(self) -> dict[str, str]:
        """Return `{full name: object id}` of every ref, except symbolic refs."""
        out = self.run("for-each-ref", "--format=%(objectname) %(refname) %(symref)")
        rows = (os.fsdecode(line).split(" ") for line in out.splitlines())
        return {name: oid for oid, name, symref in rows if not symref}

    def objects(self, oids: Iterable[str] | None = None, *, trees: bool = False) -> Iterator[Object]:
        """Yield the objects with these ids, of any kind. Without ids: all commits, tags and blobs of the repository
        (with `trees` also trees), reachable or not."""
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
                        continue  # a submodule's commit: it is in another repository
                    if len(words) != 3:
                        raise GitFailed(["cat-file", "--batch"], 1, header.decode("utf-8", "replace"))
                    data = out.read(int(words[2]))
                    out.read(1)
                    yield Object(words[0].decode(), words[1].decode(), data)

    def blob_paths(self) -> Iterator[tuple[str, str]]:
        """Yield (blob id, path) of each file that a commit added or changed, in all branches and tags. A pair may
        repeat."""
        options = ["-z", "--raw", "--no-abbrev", "--no-renames", "-m", "--root", "--no-show-signature", "--format="]
        with _running([*self._options, "log", *options, "--all"], self.git_dir, subprocess.DEVNULL) as out:
            records = _records(out)
            for record in records:
                # `:old-mode new-mode old-id new-id status`; the path is the next record. A deleted file has id 000….
                words = record.decode("utf-8", "replace").split()
                if len(words) == 5:
                    path = os.fsdecode(next(records))
                    if words[3].strip("0"):
                        yield words[3], path

    def bytes(self) -> int:
        """Return the size of all objects on disk, in bytes."""
        found = dict(line.split(b": ") for line in self.run("count-objects", "-v").splitlines())
        return 1024 * (int(found[b"size"]) + int(found[b"size-pack"]))


def _records(out: IO[bytes]) -> Iterator[bytes]:
    """Yield the NUL-separated records of a stream."""
    rest = b""
    while piece := out.read(1 << 16):
        *records, rest = (rest + piece).split(b"\0")
        yield from records
    if rest:
        yield rest


@contextlib.contextmanager
def _running(command: list[str], cwd: Path, stdin: IO[bytes] | int) -> Iterator[IO[bytes]]:
    """Context manager: run a git command during the block, and give the block the command's standard output to read.

    Raises GitFailed at the end of the block if the command failed.
    """
    with tempfile.TemporaryFile() as stderr:
        child = subprocess.Popen(
            [executable(), *command], cwd=cwd, env=environment(), stdin=stdin, stdout=subprocess.PIPE, stderr=stderr
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
            stderr.seek(0)
            raise GitFailed(command[-3:], status, stderr.read().decode("utf-8", "replace"))


def drop_unused(root: Path) -> bool:
    """Delete the git directory that an interrupted purge left in its folder `PURGE_PLACE`, and return whether there was
    one. It is the new one, or, if the two had been exchanged, the old one. `root`: the vault."""
    existed = (root / PURGE_PLACE).exists()
    shutil.rmtree(root / PURGE_PLACE, ignore_errors=True)
    return existed
