"""The vault as the rest of the daemon uses it: opening, recovery, transactions, and reading files and history."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Self

from ormahd.errors import NotFound, Unavailable
from ormahd.git import history
from ormahd.git.attributes import Attributes, Word
from ormahd.git.index import busy, clear_ours, discard, standing_lock, under_way
from ormahd.git.objects import Objects
from ormahd.git.oplog import OpLog
from ormahd.git.packs import PackIndex, tidy
from ormahd.git.process import GitFailed
from ormahd.git.refs import find_commit
from ormahd.git.remote import set_value, value
from ormahd.git.repository import Git, RepositoryFolders, locate
from ormahd.model.change import Clock, Committed, Entropy, Kind, OpIds, sha256
from ormahd.model.node import is_node_id
from ormahd.paths import default_vault, expand
from ormahd.process.disk import Flusher, make_folder
from ormahd.settings import VaultSettings
from ormahd.vault import create as creation
from ormahd.vault import writer
from ormahd.vault.apply import Applier
from ormahd.vault.conflicts import drop_unfinished
from ormahd.vault.conversion import Conversion, FilterFailed
from ormahd.vault.create import Card, NewLineFiles
from ormahd.vault.intents import Intents
from ormahd.vault.lock import VaultLock
from ormahd.vault.recovery import sweep
from ormahd.vault.transaction import Transaction
from ormahd.vault.versions import NoteCommits, Versions
from ormahd.vault.worktree import STAGING, Worktree, safe_path
from ormahd.vault.writer import Listener, Writer

SHOWN = 5
"""Number of unwritable folders that are named; the others are only counted."""
FORMER = "ormah.former"
"""The local git setting that holds the vault's id from before it joined another vault."""


def _nothing(step: str) -> None:
    """The default of `at`: does nothing."""


def _located(root: Path) -> RepositoryFolders | None:
    """Return the vault's repository; None: there is none. Raises Unavailable when
    only another repository around it can be read."""
    place = locate(root)
    if place is not None and os.path.realpath(place.top) != str(root) and os.path.lexists(root / ".git"):
        raise Unavailable(
            f"git cannot read {root}/.git, and the repository in {place.top} is another one",
            hint=f"bring {root}/.git back from a backup, or move it away and begin a new history with `git init {root}`",
        )
    return place


class Vault:
    """Opens, reads and changes one vault: a folder of notes under git. Only one process at a time can have it open.
    Safe for many threads."""

    def __init__(
        self,
        root: Path,
        card: Card,
        place: RepositoryFolders,
        lock: VaultLock,
        settings: VaultSettings,
        *,
        clock: Clock,
        entropy: Entropy,
        at: Callable[[str], None],
    ) -> None:
        self.root = root
        self.id = card.id
        self.self_id = card.self_id
        self.settings = settings
        self.git = Git(place)
        inside = os.path.relpath(root, os.path.realpath(place.top))
        self.prefix = "" if inside == "." else inside + "/"
        """The vault's path in its repository: "" or a path with a slash at its end."""
        self.attributes = Attributes(self.git, self.prefix)
        self.oplog = OpLog(self.git, self.prefix)
        worktree = Worktree(root)
        self.conversion = Conversion(self.git, self.attributes, worktree, self.prefix)
        self.versions = Versions(self.git, self.prefix, self.conversion.checked_out)
        self.touched = NoteCommits(self.oplog, self.versions)
        self.lineage = threading.Lock()
        """Held by a caller that replaces the history or its packs, or fetches commits that no ref leads to yet."""
        self._lock = lock
        self._beginnings = NewLineFiles(self)
        self._recovered = False
        self._clock = clock
        self._ops = OpIds(clock, entropy)
        self._flusher = Flusher()
        self._packs = PackIndex(self.git, self.lineage)
        self._objects = Objects(self.git, self._flusher, self._packs.came)
        self._intents = Intents(root)
        self._applier = Applier(
            self.git, self._objects, self.conversion, worktree, self._intents, self._flusher,
            vault_id=card.id, prefix=self.prefix, at=at, still=lock.keep,
        )  # fmt: skip
        self._writer = Writer(self._applier, clock=clock, wait=settings.busy_wait_seconds)

    @classmethod
    def open(
        cls,
        settings: VaultSettings,
        *,
        clock: Clock,
        create: bool = True,
        entropy: Entropy = secrets.token_bytes,
        at: Callable[[str], None] = _nothing,
    ) -> Vault:
        """Open the vault in the folder `settings.path`. If there is none, create it (with `create`).

        `at` is called with each step of a write (tests stop it there). Ops that an earlier process promised are not
        touched: `recover` completes them. Raises NotFound without a vault and without `create`; Unavailable when
        another process has the vault open, or when the folder or repository needs repair first.
        """
        root = Path(os.path.realpath(expand(settings.path or default_vault())))
        there = next(path for path in (root, *root.parents) if path.exists())
        if not there.is_dir():
            raise Unavailable(f"{there} is a file, not a folder", hint="set vault.path to a folder")
        if not (root / creation.CARD).exists() and not create:
            raise NotFound(f"there is no vault in {root}", hint="start ormahd once, or set vault.path")
        beginning = None if (root / creation.CARD).exists() else creation.choose(root)
        creation.lay_ground(root)
        lock = VaultLock(root)
        lock.take()
        try:
            vault = cls._open_locked(root, settings, lock, beginning, clock, entropy, at)
        except BaseException:
            lock.release()
            raise
        return vault

    @classmethod
    def _open_locked(
        cls,
        root: Path,
        settings: VaultSettings,
        lock: VaultLock,
        beginning: creation.VaultKind | None,
        clock: Clock,
        entropy: Entropy,
        at: Callable[[str], None],
    ) -> Vault:
        card = creation.find_card(root)
        if card is not None:
            place = _located(root)
            if place is None or place.bare:
                raise Unavailable(
                    f"{root} is a vault, but its git repository is gone",
                    hint=f"bring .git back from a backup, or begin a new history with `git init {root}`",
                )
            return cls(root, card, place, lock, settings, clock=clock, entropy=entropy, at=at)
        beginning = beginning or creation.choose(root)
        place = creation.begin(root, beginning)
        git = Git(place)
        try:
            lost = git.head() and git.run("ls-files", "--", str(root / creation.CARD))
            who = git.identity()
        finally:
            git.close()
        if lost:
            raise Unavailable(
                f"{root / creation.CARD} is missing: without it the vault does not know itself",
                hint=f"git -C {root} restore --staged --worktree {creation.CARD}",
            )
        card, files = creation.first_files(root, who, now=clock(), entropy=entropy)
        vault = cls(root, card, place, lock, settings, clock=clock, entropy=entropy, at=at)
        try:
            with vault.transaction("init: a vault for memories", kind=Kind.INIT, source="system:self") as tx:
                for path, data in files.items():
                    now = vault.read(path)
                    node_id = card.self_id if path.endswith(".md") else None
                    tx.put(path, data, node_id=node_id, expect=None if now is None else sha256(now))
            (root / creation.UNDER_WAY).unlink(missing_ok=True)
        except BaseException:
            vault._stop()
            raise
        return vault

    def recover(self) -> list[str]:
        """Complete the ops that an earlier process promised, and remove the locks that it left. Return sentences for
        the log. Called at the start, before the first transaction; later calls only retry the waiting ops."""
        if self._recovered:
            self._writer.begin()
            return self._writer.take_said()
        self._recovered = True
        self._intents.prepare()
        make_folder(self.root, STAGING)
        said = clear_ours(self.git, self._applier.lock.vault_id, self._intents.was_moving())
        self._intents.moved()
        intents, damaged = self._intents.load()
        said += damaged
        for intent in intents:
            self._applier.lock.claim(intent.op)
            for step in intent.steps:
                if (
                    step.path == creation.CARD and step.base is not None
                ):  # the vault joined another one, and took its id
                    discard(self.git, creation.read_card(step.base, self.root).id)
        if history.drop_unused(self.root) and not (self.git.git_dir / history.PURGE_MARK).exists():
            said.append("a purge was interrupted before it changed the history: repeat it")
        self._writer.resume(intents)
        why = self._writer.begin()
        drop_unfinished(self.root, self.stands)
        said += self._writer.take_said()
        if why:
            said.append(f"{self._writer.waiting} writes wait: {why}")
        else:
            if self._applier.lock.ours():
                self._applier.lock.release()
                said.append("removed the index.lock that we held when we were stopped")
            said += sweep(self._applier, set())
            self._lock.keep()
        (self.root / creation.UNDER_WAY).unlink(missing_ok=True)
        card = creation.find_card(self.root)
        if card is not None and card.id != self.id:
            self.become(card)  # a join with another vault was completed
        return said + self.notices()

    def look_after(self) -> None:
        """Lock the vault's lock file again if it was removed. Raises Unavailable when another process has taken over
        the vault."""
        self._lock.keep()

    def unwritable(self) -> list[str]:
        """Return a sentence for each folder of the vault or its repository that this user cannot write to; at most
        `SHOWN` are named."""
        ours = [self.root / name for name in ("", ".ormah", ".ormah/intent", STAGING)]
        gits = [self.git.git_dir, *(self.git.common / name for name in ("objects", "refs"))]
        notes = sorted({path.rpartition("/")[0] for path in self.tree()} - {""})
        found = writer.unwritable_folders(dict.fromkeys([*ours, *gits, *(self.root / folder for folder in notes)]))
        return (
            found
            if len(found) <= SHOWN
            else [*found[:SHOWN], f"nothing can be written in {len(found) - SHOWN} more folders"]
        )

    def notices(self) -> list[str]:
        """Return sentences on the state of the repository that a person should read although everything works."""
        said = []
        if self.git.branch() is None and under_way(self.git) is None:  # a rebase detaches HEAD only for a while
            said.append("HEAD is detached: commits belong to no branch; `git switch -c NAME` in the vault keeps them")
        return said

    def stands(self, op: str) -> bool:
        """Whether an op is promised or in the history. Intents are checked first, because they are removed last."""
        return self._intents.holds(op) or find_commit(self.git, op) is not None

    def transaction(
        self,
        subject: str,
        *,
        kind: Kind,
        source: str,
        body: str = "",
        run: str | None = None,
        person: bool = False,
        trailers: Iterable[tuple[str, str]] = (),
        queue: bool = True,
    ) -> Transaction:
        """Return a transaction; `subject` is a sentence on the change.

        `person`: True: the commit's author is the person, with git's identity; False: it is `source`. `queue` False:
        if another program holds git's locks for too long, the change is refused, and not stored for later.
        """
        return Transaction(
            self._ops(), subject, kind=kind, source=source, body=body, run=run, person=person, trailers=trailers,
            queue=queue, commit=self._commit,
        )  # fmt: skip

    def _commit(self, tx: Transaction) -> Committed | None:
        said = {path: words for path in tx.wishes if (words := self.attributes.words(path))}
        self.attributes.ask_of(said)
        for path in said:  # refuse files that git cannot convert, before anything is promised
            if (data := tx.wishes[path].data) is not None:
                self.conversion.checked_in(path, data)
        notes = [path for path, words in said.items() if Word.FILTER in words and path[-3:].lower() == ".md"]
        if hidden := sum(self.attributes.filter_of(path) is not None for path in notes):
            tx.withhold(hidden)
        return self._write(tx)

    def _write(self, tx: Transaction) -> Committed | None:
        """Let the writer commit the transaction. Raises NoRoom when the disk is full."""
        try:
            self._beginnings.before(tx)
            return self._writer.commit(tx)
        except (OSError, Unavailable) as exc:
            if writer.is_full(exc):
                raise writer.no_room(self.root) from exc
            raise

    @property
    def rested(self) -> float:
        """Seconds since the last write."""
        return self._writer.rested

    def new_op(self) -> str:
        """Return a new id in the form of an op's id, unique and sortable by time. Used for a run of several ops."""
        return self._ops()

    def read(self, path: str) -> bytes | None:
        """Return the file's bytes, or those that it will have once the waiting ops are written; None: there is no file."""
        return self._writer.read(safe_path(path))

    def committed(self, path: str) -> bytes | None:
        """Return the file as HEAD has it; None: HEAD does not have it. Raises FilterFailed."""
        entry = self._objects.file(self._objects.root(self.head()), self.where(path))
        return None if entry is None else self.blob(entry.oid, path)

    def blob_at(self, commit: str, path: str) -> str | None:
        """Return the blob id of the regular file that a commit has at a path, or None."""
        entry = self._objects.file(self._objects.root(commit), self.where(path))
        return None if entry is None else entry.oid

    def is_committed(self, path: str, data: bytes | None) -> bool:
        """Whether a file with these bytes (None: no file) at `path` is unchanged against HEAD. Raises FilterFailed."""
        entry = self._objects.file(self._objects.root(self.head()), self.where(path))
        if entry is None or data is None:
            return entry is None and data is None
        return self.conversion.is_version(path, data, entry.oid)

    def head(self) -> str | None:
        """Return the commit of HEAD, or None on a branch without commits."""
        return self.git.head()

    def where(self, path: str) -> bytes:
        """Return the path of a file of the vault as git's trees spell it: relative to the top of the repository, as
        bytes."""
        return self._applier.where(safe_path(path))

    def tree(self, revision: str = "HEAD") -> dict[str, str]:
        """Return `{path relative to the root: blob id}` of a commit's regular files in the vault."""
        found = self.git.listing(revision, self.prefix.rstrip("/"))
        return {path[len(self.prefix) :]: oid for path, oid in found.items()}

    @property
    def empty_tree(self) -> str:
        """The id of the empty tree, which stands for the state before the first commit."""
        return self._objects.oid("tree", b"")

    def blob_id(self, path: str, data: bytes) -> str:
        """Return the id of the blob that git makes of these bytes at a path, as in `tree()`. Raises FilterFailed."""
        return self.conversion.blob_id(path, data)

    def blob(self, oid: str, path: str) -> bytes:
        """Return the bytes of the file that git makes from a blob at `path`, with the line ends that the file at
        `path` has now. Raises FilterFailed."""
        return self.conversion.in_folder(path, oid)

    def readable(self, oid: str, path: str) -> bytes | None:
        """Return `blob(oid, path)`, or None when a git filter cannot convert the blob."""
        try:
            return self.blob(oid, path)
        except FilterFailed:
            return None

    def is_ignored(self, paths: Iterable[str]) -> set[str]:
        """Return those of `paths` (relative to the root) that git ignores."""
        found = self.git.is_ignored(self.prefix + path for path in paths)
        return {path[len(self.prefix) :] for path in found}

    def listen(self, callback: Listener) -> None:
        """Call `callback` with each batch of commits, in order, before the callers of their transactions return. A
        listener must not start a transaction."""
        self._writer.listen(callback)

    def busy(self) -> str | None:
        """Return a clause for people that says why another program holds git's locks; None: no program does."""
        return busy(self.git, self._applier.lock)

    def git_says(self) -> str | None:
        """Return git's own words about a repository that it cannot read; None if it can."""
        try:
            self.git.run("status", "--porcelain", "--untracked-files=no")
            self.head()
        except GitFailed as exc:
            return " ".join(exc.stderr.split()) or exc.message
        except Unavailable as exc:
            return exc.message
        return None

    def standing_lock(self) -> Path | None:
        """Return the path of the lock file by which another git program keeps Ormah from writing, or None."""
        return standing_lock(self.git, self._applier.lock)

    def wait_for_git(self) -> None:
        """Wait until no other program holds git's locks. Raises VaultBusy after `vault.busy_wait_seconds`."""
        self._writer.wait_for_git()

    def tidy(self) -> bool:
        """Pack git's loose objects once there are many, and write git's commit-graph with the changed paths of each
        commit. Return whether it was done. Called now and then, because Ormah's own commits never start `git gc`."""
        with self.lineage:
            return tidy(self.git)

    @contextlib.contextmanager
    def rewriting(self) -> Iterator[Callable[[str], None]]:
        """Context manager: keep all other writers out, so that the caller can replace the history; afterwards clear
        all caches of the history. Yields a function that the caller calls with the name of each step. Raises
        VaultBusy."""
        with self.lineage, self._writer.alone(self._ops(), "the history is being rewritten"):
            try:
                yield self._applier.at
            finally:
                self.git.reopen()
                self._objects.reopen()
                self.conversion.reopen()
                self.oplog = OpLog(self.git, self.prefix)
                self.versions = Versions(self.git, self.prefix, self.conversion.checked_out)
                self.touched = NoteCommits(self.oplog, self.versions)

    @property
    def waiting(self) -> int:
        """Number of ops that are not written yet."""
        return self._writer.waiting

    def wait_rested(self, quiet: float, patience: float, stopping: threading.Event) -> bool:
        """Wait until nothing was written for `quiet` seconds, but at most `patience` seconds. Return False when
        `stopping` was set."""
        end = time.monotonic() + patience
        while (left := min(quiet - self._writer.rested, end - time.monotonic())) > 0:
            if stopping.wait(left):
                return False
        return not stopping.is_set()

    def writes(self, path: str, data: bytes) -> bool:
        """Whether an op that is waiting or being written leaves these bytes at `path`, and will then be passed to the
        listeners."""
        return self._writer.writes(path, data)

    @property
    def writing(self) -> bool:
        """Whether another thread is writing: HEAD may already have a commit that no listener knows of."""
        return self._writer.writing

    def become(self, card: Card) -> None:
        """Take over the id and self node of the vault that this one has joined. `former` then returns the earlier id."""
        self._writer.rename(card.id)
        self.id, self.self_id = card.id, card.self_id

    def remember_id(self) -> None:
        """Record the vault's id in git's configuration, before it changes."""
        set_value(self.git, FORMER, self.id)

    def former(self) -> str | None:
        """Return the id that the vault had before it joined another one; None: it never had another."""
        found = value(self.git, FORMER)
        return found if found is not None and is_node_id(found) and found != self.id else None

    def close(self) -> None:
        """Stop writing and release the lock. Waiting ops stay promised, and the next process completes them by
        `recover`."""
        self._stop()
        self._lock.release()

    def _stop(self) -> None:
        self._writer.close()
        self._flusher.close()
        self._packs.close()
        self.git.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
