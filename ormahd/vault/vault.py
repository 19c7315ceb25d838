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

from msgspec.structs import replace

from ormahd.errors import Conflict, NotFound, Unavailable
from ormahd.git import history
from ormahd.git.index import blocking_lock, busy, clear_leftovers, operation_under_way
from ormahd.git.objects import REGULAR, Objects, TreeEntry
from ormahd.git.packs import tidy
from ormahd.git.process import GitFailed, check_version
from ormahd.git.refs import find_commit
from ormahd.git.remote import config_value, set_config_value
from ormahd.git.repository import Git
from ormahd.git.rules import ConversionRules
from ormahd.model.change import Clock, Committed, Entropy, Kind, OpIds, sha256
from ormahd.model.lines import is_lines
from ormahd.model.node import is_node_id
from ormahd.paths import default_vault, expand
from ormahd.process.disk import Flusher, make_folder
from ormahd.settings import VaultSettings
from ormahd.vault import create as creation
from ormahd.vault import writer
from ormahd.vault.apply import Applier
from ormahd.vault.conflicts import drop_unfinished
from ormahd.vault.create import Card
from ormahd.vault.lock import VaultLock
from ormahd.vault.recovery import set_aside_unclaimed
from ormahd.vault.transaction import Transaction
from ormahd.vault.worktree import STAGING, Worktree, safe_path
from ormahd.vault.writer import Listener, Writer

MAX_NAMED_FOLDERS = 5
"""Number of unwritable folders that are named; the others are only counted."""
COPYING = frozenset({Kind.INIT, Kind.SYNC, Kind.UNDO, Kind.PURGE})
"""Kinds of ops that copy files from another state of the vault as they are; no empty file is committed before them."""
FORMER = "ormah.former"
"""The local git setting that holds the vault's id from before it joined another vault."""


class Vault:
    """Opens, reads and changes one vault: a folder of notes under git. Only one process at a time can have it open.
    Safe for many threads."""

    def __init__(
        self,
        root: Path,
        card: Card,
        lock: VaultLock,
        settings: VaultSettings,
        *,
        clock: Clock,
        entropy: Entropy,
        at: Callable[[str], None],
    ) -> None:
        """Called by `open`, which has taken `lock`. `at`: see `open`."""
        self.root = root
        self.id = card.id
        self.self_id = card.self_id
        self.settings = settings
        self.nested: str | None = None
        """A sentence about the repository around the vault, if the vault was made just now inside one."""
        self.git = Git(root)
        self.rules = ConversionRules(self.git, creation.ATTRIBUTES.encode())
        self.lineage = threading.Lock()
        """Held by a caller that replaces the history or its packs, or fetches commits that no ref leads to yet."""
        self._lock = lock
        self._creating_lock = threading.Lock()
        self._recovered = False
        self._clock = clock
        self._ops = OpIds(clock, entropy)
        self._flusher = Flusher()
        self._objects = Objects(self.git, self._flusher)
        self._worktree = Worktree(root)
        self._applier = Applier(self.git, self._objects, self._worktree, self._flusher, at=at, vault_lock=lock)
        self._writer = Writer(self._applier, clock=clock, wait=settings.busy_wait_seconds)

    @classmethod
    def open(
        cls,
        settings: VaultSettings,
        *,
        clock: Clock,
        create: bool = True,
        entropy: Entropy = secrets.token_bytes,
        at: Callable[[str], None] = lambda _: None,
    ) -> Vault:
        """Open the vault in the folder `settings.path`. If there is none and `create` is set, create it.

        `at` is called with the name of each step of a write (tests stop it there). What an earlier process was writing
        is not touched: `recover` finishes it. Raises NotFound without a vault and without `create`; Unavailable when
        another process has the vault open, or when the folder or repository needs repair first.
        """
        # Check the place before anything is written.
        root = Path(os.path.realpath(expand(settings.path or default_vault())))
        nearest = next(path for path in (root, *root.parents) if path.exists())
        if not nearest.is_dir():
            raise Unavailable(f"{nearest} is a file, not a folder", hint="set vault.path to a folder")
        if not (root / creation.CARD).exists() and not create:
            raise NotFound(f"there is no vault in {root}", hint="start ormahd once, or set vault.path")
        check_version()
        if not (root / creation.CARD).exists():
            creation.check_folder(root)

        # Only the process that holds the lock may read or write the vault's files.
        creation.make_own_folder(root)
        lock = VaultLock(root)
        lock.take()
        try:
            card, nested = creation.find_card(root), None
            if card is None:
                nested = creation.make_repository(root)
            else:
                creation.check_repository(root)
            new_card = card or creation.new_card(entropy)
            vault = cls(root, new_card, lock, settings, clock=clock, entropy=entropy, at=at)
            vault.nested = nested
            if card is None:
                vault._make_first_commit()
            else:
                creation.configure(vault.git)
        except BaseException:
            lock.release()
            raise
        return vault

    def _make_first_commit(self) -> None:
        """Commit the first files of a new vault, or finish that commit if an earlier process has begun it."""
        try:
            self._take_over()
            creation.configure(self.git)
            self._writer.begin()
            card = creation.find_card(self.root)
            if card is not None:  # a crash came after the first commit, whose files are there now
                self.adopt_card(card)
                return
            files = creation.first_files(self.root, self.id, self.self_id, self.git.identity(), now=self._clock())
            with self.transaction("init: a vault for memories", kind=Kind.INIT, source="system:self") as tx:
                for path, data in files.items():
                    now = self.read(path)
                    node_id = self.self_id if path.endswith(".md") else None
                    tx.put(path, data, node_id=node_id, expect=None if now is None else sha256(now))
            (self.root / creation.UNDER_WAY).unlink(missing_ok=True)
        except BaseException:
            self._stop()
            raise

    def _take_over(self) -> list[str]:
        """Make the folder for staged files, and remove the locks that an earlier process left. Return sentences for the
        log."""
        make_folder(self.root, STAGING)
        return clear_leftovers(self.git, self._applier.lock)

    def recover(self) -> list[str]:
        """Finish what an earlier process was writing, and remove the locks that it left. Return sentences for the log.
        Called at the start, before the first transaction; later calls do nothing."""
        if self._recovered:
            return []
        self._recovered = True
        log_lines = self._take_over()
        if history.drop_unused(self.root) and not (self.git.git_dir / history.PURGE_MARK).exists():
            log_lines.append("a purge was interrupted before it changed the history: repeat it")
        why, finished = self._writer.begin()
        log_lines += finished
        drop_unfinished(self.root, self.git)
        if why:
            log_lines.append(f"an interrupted write waits to be finished: {why}")
        else:
            log_lines += set_aside_unclaimed(self._applier)
            self._lock.keep()
        (self.root / creation.UNDER_WAY).unlink(missing_ok=True)
        card = creation.find_card(self.root)
        if card is not None and card.id != self.id:
            self.adopt_card(card)  # a join with another vault was completed
        return log_lines + ([self.nested] if self.nested else []) + self.notices()

    def keep_lock(self) -> None:
        """Lock the vault's lock file again if it was removed. Raises Unavailable when another process has taken over
        the vault."""
        self._lock.keep()

    def unwritable_folders(self) -> list[str]:
        """Return a sentence for each folder of the vault or its repository that this user cannot write to. At most
        `MAX_NAMED_FOLDERS` are named, and one more sentence counts the others."""
        ours = [self.root / name for name in ("", ".ormah", STAGING)]
        gits = [self.git.git_dir, *(self.git.git_dir / name for name in ("objects", "refs"))]
        notes = sorted({path.rpartition("/")[0] for path in self.tree()} - {""})
        found = writer.unwritable_folders(dict.fromkeys([*ours, *gits, *(self.root / folder for folder in notes)]))
        unnamed = len(found) - MAX_NAMED_FOLDERS
        more = [f"nothing can be written in {unnamed} more folders"] if unnamed > 0 else []
        return found[:MAX_NAMED_FOLDERS] + more

    def notices(self) -> list[str]:
        """Return sentences on the repository's state that a person should read although everything works."""
        # A rebase detaches HEAD only for a while.
        if self.git.branch() is not None or operation_under_way(self.git) is not None:
            return []
        return ["HEAD is detached: commits belong to no branch; `git switch -c NAME` in the vault keeps them"]

    def has_op(self, op: str) -> bool:
        """Whether the op with the id `op` is in the history."""
        return find_commit(self.git, op) is not None

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
    ) -> Transaction:
        """Return a transaction to use in a `with` block. `subject`: a sentence on the change. `body`, `trailers`: more
        text and further `Ormah-…` lines of the commit message. `run`: the id of the run that the op belongs to.
        `person`: the commit's author is the person, with git's identity; otherwise it is `source`."""
        return Transaction(
            self._ops(),
            subject,
            kind=kind,
            source=source,
            body=body,
            run=run,
            person=person,
            trailers=trailers,
            commit=self._commit,
        )

    def _commit(self, tx: Transaction) -> Committed | None:
        """Let the writer commit the transaction. Raises Conflict for a path that git would convert, NoRoom when the disk
        is full."""
        for path, rule in self.rules.find([path for path, wish in tx.wishes.items() if wish.data is not None]).items():
            raise Conflict(
                f"{path} is not written: git's attributes have {rule} for it; nothing was changed",
                hint="remove that rule (.gitattributes, .git/info/attributes, core.attributesFile), and repeat",
                data={"path": path, "attribute": rule},
            )
        try:
            self._create_line_files(tx)
            return self._writer.commit(tx)
        except (OSError, Unavailable) as exc:
            if writer.is_full(exc):
                raise writer.no_room_error(self.root) from exc
            raise

    def _create_line_files(self, tx: Transaction) -> None:
        """Commit the JSON-lines files that `tx` would create as empty files first; `tx` then adds their first lines
        (see `create`). Does nothing while another program holds git's locks."""
        filled = {path for path, wish in tx.wishes.items() if is_lines(path) and wish.data and wish.expect is None}
        if not filled or tx.kind in COPYING:
            return
        with self._creating_lock:
            missing = sorted(path for path in filled if self.read(path) is None)
            if not missing or self.busy():
                return
            subject = "init: empty files for lines"
            body = "So that each later change of these files can be taken back by git revert."
            with self.transaction(subject, kind=Kind.INIT, source="system:self", body=body) as created:
                for path in missing:
                    created.put(path, b"", node_id=None, expect=None)
        for path in missing:
            tx.wishes[path] = replace(tx.wishes[path], expect=sha256(b""))

    def unwritable_reason(self, path: str) -> str | None:
        """Return why Ormah does not write to a path, as a clause; None if Ormah writes to it."""
        rule = self.rules.find([path]).get(path)
        return None if rule is None else f"git's attributes have {rule} for it"

    def new_op(self) -> str:
        """Return a new id in the form of an op's id, unique and sortable by time. Used for a run of several ops."""
        return self._ops()

    def read(self, path: str) -> bytes | None:
        """Return the file's bytes; None: there is no file."""
        return self._worktree.read(path)

    def committed(self, path: str) -> bytes | None:
        """Return the file as HEAD has it; None: HEAD does not have it."""
        oid = self._oid_in_head(path)
        return None if oid is None else self.blob(oid)

    def is_committed(self, path: str, data: bytes | None) -> bool:
        """Whether a file with these bytes (None: no file) at `path` is unchanged against HEAD."""
        return self._oid_in_head(path) == (None if data is None else self.git.oid("blob", data))

    def _oid_in_head(self, path: str) -> str | None:
        """Return the blob id of the file at `path` in HEAD; None: HEAD does not have it."""
        entry = self._objects.file_entry(self._objects.root_tree(self.head()), os.fsencode(safe_path(path)))
        return None if entry is None else entry.oid

    def head(self) -> str | None:
        """Return the commit of HEAD, or None on a branch without commits."""
        return self.git.head()

    def tree(self, commit: str | None = None) -> dict[str, str]:
        """Return `{path: blob id}` of a commit's regular files in the vault; None: HEAD's."""
        files = self.differences(None, commit or self.head())
        return {path: entry.oid for path, _, entry in files if entry is not None and entry.mode in REGULAR}

    def differences(self, old: str | None, new: str | None) -> Iterator[tuple[str, TreeEntry | None, TreeEntry | None]]:
        """Yield (path, entry before, entry after) of what differs between two commits (None: the empty state). Raises
        Unavailable if a commit is not in the repository."""
        before_root, root = self._objects.root_tree(old), self._objects.root_tree(new)
        for path, before, after in self._objects.differences(before_root, root):
            yield os.fsdecode(path), before, after

    def blob(self, oid: str) -> bytes:
        """Return the bytes of a blob."""
        return self.git.read(oid, "blob")

    def ignored_paths(self, paths: Iterable[str]) -> set[str]:
        """Return the paths in `paths` (relative to the root) that git ignores."""
        return self.git.ignored_paths(paths)

    def listen(self, callback: Listener) -> None:
        """Call `callback` with each batch of commits, in order, before the callers of their transactions return. A
        listener must not start a transaction."""
        self._writer.listen(callback)

    def busy(self) -> str | None:
        """Return why nothing can be committed now, as a clause for people: another program holds git's locks, or a
        person has begun a git operation such as a merge. None: Ormah can commit."""
        return busy(self.git, self._applier.lock)

    def git_error(self) -> str | None:
        """Return git's own error message about a repository that it cannot read; None if git can read it."""
        try:
            self.git.run("status", "--porcelain", "--untracked-files=no")
            self.head()
        except GitFailed as exc:
            return " ".join(exc.stderr.split()) or exc.message
        except Unavailable as exc:
            return exc.message
        return None

    def blocking_lock(self) -> Path | None:
        """Return the path of the lock file by which another git program keeps Ormah from committing; None if there is
        none."""
        return blocking_lock(self.git, self._applier.lock)

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
        """Context manager: keep all other writers out, so that the caller can replace the history; afterwards clear all
        caches of the history. Yields a function that the caller calls with the name of each step. Raises VaultBusy."""
        with self.lineage, self._writer.exclusively(self._ops(), "the history is being rewritten"):
            try:
                yield self._applier.at
            finally:
                self.git.reopen()
                self._objects.reopen()

    def wait_until_quiet(self, quiet: float, patience: float, stopping: threading.Event) -> bool:
        """Wait until nothing was written for `quiet` seconds, but at most `patience` seconds. Return False if
        `stopping` was set meanwhile."""
        end = time.monotonic() + patience
        while (remaining := min(quiet - self._writer.seconds_since_write, end - time.monotonic())) > 0:
            if stopping.wait(remaining):
                return False
        return not stopping.is_set()

    def between_writes(self) -> contextlib.AbstractContextManager[None]:
        """Context manager: no commit is written during the block, and the listeners have been called with all earlier
        ones. The block must be short."""
        return self._writer.held()

    def adopt_card(self, card: Card) -> None:
        """Take over the id and self node of the vault that this one has joined. Afterwards `former_id` returns the earlier
        id."""
        self.id, self.self_id = card.id, card.self_id

    def remember_id(self) -> None:
        """Record the vault's id in git's configuration, before it changes."""
        set_config_value(self.git, FORMER, self.id)

    def former_id(self) -> str | None:
        """Return the id that the vault had before it joined another one; None: it never had another."""
        found = config_value(self.git, FORMER)
        return found if found is not None and is_node_id(found) and found != self.id else None

    def close(self) -> None:
        """Stop writing and release the lock."""
        self._stop()
        self._lock.release()

    def _stop(self) -> None:
        """End the writer, its helper threads and the git process."""
        self._writer.close()
        self._flusher.close()
        self.git.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
