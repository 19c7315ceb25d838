"""Read a whole history for a purge, and replace it by the purged one. After a crash one of the two is complete.

Reading takes one pass over all objects, and one over the changes of all commits. Replacing takes these steps:

1. The packs of the new history are copied in beside the old objects.
2. A journal records which refs will move.
3. The refs move by compare-and-swap.
4. `git repack -a -d` and `git prune` delete what is no longer reachable.

Readers find a complete repository at every moment. After a crash, the next start finishes what the journal records. The
journal is kept until index and state are cleaned as well (`finish`).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from ormahd.errors import Conflict
from ormahd.git.index import in_use
from ormahd.git.process import CONFIG, GitFailed, call, environment, executable
from ormahd.git.repository import Git
from ormahd.note.forgetting import Forgotten
from ormahd.process.disk import sync, sync_directory, write_durably

OURS = ("refs/heads/", "refs/tags/", "refs/ormah/")
"""Prefixes of refs whose history belongs to this repository; a purge rewrites it."""
REMOTE = "refs/remotes/"
"""Prefix of remote-tracking refs. A purge deletes these refs, because they hold the old history; a fetch restores
them."""


class Object(NamedTuple):
    oid: str
    kind: str
    data: bytes


class Commit(Struct, frozen=True):
    """A commit and the files that it changed; for a merge commit, its changes against each of its parents."""

    oid: str
    parents: tuple[str, ...]
    changes: tuple[tuple[str, str, str], ...]
    """(path, blob before, blob after) of each change; a null id where there was no file."""


class Store:
    """Reads and writes one repository with git commands that use only its git directory, no working tree and no
    index."""

    def __init__(self, git_dir: Path) -> None:
        self.git_dir = git_dir
        self._options = ["--git-dir", str(git_dir)]
        for key, value in CONFIG.items():
            self._options += ["-c", f"{key}={value}"]

    @classmethod
    def make(cls, place: Path, object_format: str) -> Store:
        """Create a bare repository in `place`, without git's templates."""
        call(
            ["init", "--quiet", "--bare", "--template=", f"--object-format={object_format}", str(place)],
            cwd=place.parent,
            env={"GIT_DEFAULT_REF_FORMAT": "files"},
        )
        return cls(place)

    def run(self, *arguments: str, input: bytes | None = None, ok: Iterable[int] = (0,)) -> bytes:  # noqa: A002
        """Return the output of a git command; raises GitFailed."""
        return call([*self._options, *arguments], cwd=self.git_dir, input=input, ok=ok)

    def refs(self) -> dict[str, str]:
        """Return `{full name: object id}` of every ref, except symbolic refs."""
        out = self.run("for-each-ref", "--format=%(objectname) %(refname) %(symref)")
        rows = (os.fsdecode(line).split(" ") for line in out.splitlines())
        return {name: oid for oid, name, symref in rows if not symref}

    def symbolic(self) -> list[str]:
        """Return the names of symbolic refs (such as `refs/remotes/origin/HEAD`)."""
        out = self.run("for-each-ref", "--format=%(refname) %(symref)")
        return [name for name, symref in (os.fsdecode(line).split(" ") for line in out.splitlines()) if symref]

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

    def commits(self, *revisions: str) -> Iterator[Commit]:
        """Yield every commit reachable from `revisions`, newest first, with its changes.

        Without `revisions`: every commit reachable from branches, tags and `refs/ormah/`.
        """
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
        """Return the size of all objects on disk, in bytes."""
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
    """Context manager: run a git command during the block, and give the block the command's standard output to read.

    Raises GitFailed at the end of the block if the command failed.
    """
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


FOLDER = "ormah-purge"
"""Name of the purge's folder in the git directory. It is there because hard links to the objects need the same file
system, and because people and editors do not see it."""
CLONE = "clone.git"
JOURNAL = "journal.json"

SCRATCH = (
    "ORIG_HEAD", "FETCH_HEAD", "AUTO_MERGE", "COMMIT_EDITMSG", "MERGE_MSG", "SQUASH_MSG", "TAG_EDITMSG", "NOTES_EDITMSG",
    "gc.log", "logs", "rr-cache", "lost-found", "objects/info/commit-graph", "objects/info/commit-graphs",
)  # fmt: skip
"""Files and folders in the git directory, other than refs and objects, that may hold parts of the old history. A purge
deletes them."""

PATIENCE = 20.0
"""Seconds that `recover` waits for a git process to end that a killed daemon may have left."""

At = Callable[[str], None]


class Journal(Struct, frozen=True):
    """The journal of a purge: the changes to refs that it still has to make, so that it can be completed after a
    crash.

    `refs`: {name: (old id, new id)}. `drop`: {name: id} of refs to delete. `symbolic`: names of symbolic refs to
    delete. `forgotten`: what the purge removes.
    """

    refs: Mapping[str, tuple[str, str]]
    drop: Mapping[str, str]
    symbolic: tuple[str, ...]
    forgotten: Forgotten

    def encode(self) -> bytes:
        return json.dumps(asdict(self) | {"forgotten": asdict(self.forgotten)}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Journal:
        found = json.loads(data)
        refs = {name: (old, new) for name, (old, new) in found["refs"].items()}
        return cls(refs, found["drop"], tuple(found["symbolic"]), Forgotten.of(found["forgotten"]))


def folder_of(git: Git) -> Path:
    return git.common / FOLDER


def read_journal(git: Git) -> Journal | None:
    """Return the journal of an unfinished purge, or None."""
    try:
        return Journal.decode((folder_of(git) / JOURNAL).read_bytes())
    except FileNotFoundError:
        return None


def switch(git: Git, clone: Store, journal: Journal, at: At) -> None:
    """Replace the repository's history by that of `clone`; `journal` lists the refs to change. The caller makes sure
    that nothing else writes to the repository.

    `at` is called with the name of each step that is done. Raises Conflict, and changes no ref, if a ref has moved
    since `clone` was made.
    """
    _adopt_packs(git, clone)
    at("purge-packs")
    write_durably(folder_of(git) / JOURNAL, journal.encode())
    at("purge-promised")
    try:
        _move_refs(git, journal.refs, journal.drop, journal.symbolic)
    except GitFailed as exc:
        (folder_of(git) / JOURNAL).unlink()
        raise Conflict(f"the refs have moved meanwhile: {exc.stderr.strip()}", hint="repeat the command") from exc
    at("purge-refs")
    clean(git, at)


def clean(git: Git, at: At) -> None:
    """Delete all objects of the old history, and the files in the git directory that may hold parts of it
    (`SCRATCH`). Objects that a ref or git's index needs stay. May be called again. `at`: as in `switch`."""
    for name in SCRATCH:
        path = git.common / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    at("purge-scratch")
    _plain_index(git)
    at("purge-index")
    git.run("pack-refs", "--all")
    at("purge-packed-refs")
    git.run("repack", "-a", "-d", "--quiet")
    at("purge-repacked")
    git.run("prune", "--expire=now")
    sync_directory(git.common / "objects/pack")
    at("purge-pruned")
    shutil.rmtree(folder_of(git) / CLONE, ignore_errors=True)
    at("purge-cleaned")


def finish(git: Git) -> None:
    """Delete the journal and its folder. Called once Ormah's index and state are purged as well."""
    folder = folder_of(git)
    (folder / JOURNAL).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def is_clean(git: Git) -> bool:
    """Whether git's repository is completely purged, so that only `finish` is left."""
    return not (folder_of(git) / CLONE).exists()


def recover(git: Git, at: At) -> str | None:
    """Complete a purge that a crash interrupted; if it has no journal yet, only delete its folder. Return a sentence
    if a person has to act, else None. `at`: as in `switch`.

    Runs before anything is written to the vault. The journal stays until the caller has purged Ormah's index and
    state.
    """
    if not folder_of(git).is_dir():
        return None
    journal = read_journal(git)
    if journal is None:
        finish(git)
        return "a purge was interrupted before it changed the history: repeat it"
    if is_clean(git):
        return None
    deadline = time.monotonic() + PATIENCE
    while busy := in_use(git, git.git_dir / "index.lock"):
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    if busy:
        return "a purge was interrupted, and another git is at work in the vault: restart ormahd when that is done"
    _unlock(git, journal)
    now = Store(git.common).refs()
    waiting = {name: pair for name, pair in journal.refs.items() if now.get(name) == pair[0] != pair[1]}
    moved = [
        name for name, (old, new) in journal.refs.items()
        if old != new and name not in waiting and now.get(name, new) != new and _reaches(git, now[name], old)
    ]  # fmt: skip
    drop = {name: oid for name, oid in journal.drop.items() if now.get(name) == oid}
    _move_refs(git, waiting, drop, journal.symbolic)
    clean(git, at)
    if moved:
        return f"a purge was interrupted, and {', '.join(moved)} went on from the old history: purge it again"
    return None


def _unlock(git: Git, journal: Journal) -> None:
    """Delete the ref locks that a killed git process of the purge left: those that are younger than the journal.

    Called only while no other git runs in the repository.
    """
    since = (folder_of(git) / JOURNAL).stat().st_mtime_ns
    names = ["HEAD", "packed-refs", "index.ormah-purge", *journal.refs, *journal.drop]
    for path in (git.common / f"{name}.lock" for name in names):
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_mtime_ns >= since:
                path.unlink()


def _adopt_packs(git: Git, clone: Store) -> None:
    """Copy (or hard-link) the clone's packs into the repository, and fsync them.

    Pack indexes (`.idx`) are copied last: git uses a pack as soon as it finds the pack's index.
    """
    source, target = clone.git_dir / "objects/pack", git.common / "objects/pack"
    target.mkdir(parents=True, exist_ok=True)
    for file in sorted(source.glob("pack-*"), key=lambda path: path.suffix == ".idx"):
        new = target / file.name
        if new.exists():
            continue
        try:
            os.link(file, new)
        except OSError:  # a file system without hard links
            part = target / f"tmp_{file.name}"  # `git prune` deletes files with this prefix
            shutil.copyfile(file, part)
            os.replace(part, new)
        with open(new, "rb") as opened:
            sync(opened.fileno())
    sync_directory(target)


def _move_refs(
    git: Git, refs: Mapping[str, tuple[str, str]], drop: Mapping[str, str], symbolic: tuple[str, ...]
) -> None:
    """Move the refs `refs` and delete the refs `drop` in one transaction of git, each only if it is still at its old
    id; then delete the symbolic refs `symbolic`. For their forms see `Journal`. Raises GitFailed."""
    lines = ["start"]
    lines += [f"update {name} {new} {old}" for name, (old, new) in refs.items() if old != new]
    lines += [f"delete {name} {oid}" for name, oid in drop.items()]
    git.run("update-ref", "--no-deref", "--stdin", input=os.fsencode("\n".join([*lines, "prepare", "commit", ""])))
    for name in symbolic:
        if name.startswith(REMOTE) and git.run("symbolic-ref", "--quiet", name, ok=(0, 1)):
            git.run("symbolic-ref", "--delete", name)
    for folder in sorted({git.ref_files.folder(name) for name in (None, "refs/heads", *refs, *drop)}):
        sync_directory(folder)


def _plain_index(git: Git) -> None:
    """Rewrite git's index as one file, without its resolve-undo data (blobs of earlier conflicts). Its entries
    stay."""
    index, copy = git.git_dir / "index", git.git_dir / "index.ormah-purge"
    if not index.exists():
        return
    shutil.copyfile(index, copy)
    try:
        env = {"GIT_INDEX_FILE": str(copy)}
        git.run("update-index", "--clear-resolve-undo", "--no-split-index", "--force-write-index", env=env)
        os.replace(copy, index)
    finally:
        copy.unlink(missing_ok=True)
    for shared in git.git_dir.glob("sharedindex.*"):
        with contextlib.suppress(FileNotFoundError):
            shared.unlink()
    sync_directory(git.git_dir)


def _reaches(git: Git, commit: str, old: str) -> bool:
    """Whether `old` is an ancestor of `commit`; False if `old` does not exist."""
    try:
        git.run("merge-base", "--is-ancestor", old, commit)
    except GitFailed:
        return False
    return True
