"""What the tests of the observing side share: a vault with a reconciler, and a small index that really follows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ormahd.model.change import Committed, FileState, Kind
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind, path_for
from ormahd.note.write import compose
from ormahd.settings import VaultSettings
from ormahd.vault.vault import Vault
from ormahd.watch.reading import state_of
from ormahd.watch.reconciler import Reconciler
from tests.vault.git_house import git, history_of


def now() -> datetime:
    return datetime.now(UTC)


class SmallIndex:
    """Path to (bytes, state), fed the way the real one is. `calls` and `fed` count what it was told."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self.rows: dict[str, tuple[bytes, FileState]] = {}
        self.head: str | None = None
        self.calls: list[tuple[set[str], set[str]]] = []
        self.commits: list[Committed] = []
        self.changed = threading.Condition(threading.RLock())

    @property
    def position(self) -> str | None:
        return self.head

    def kinds(self) -> dict[str, NoteKind]:
        with self.changed:
            return {path: self.note(path).kind for path in self.rows}

    def known_files(self) -> dict[str, FileState]:
        with self.changed:
            return {path: state for path, (_, state) in self.rows.items()}

    def apply(self, upserts, removals, *, head, notes=None, seen=None) -> None:
        with self.changed:
            known = self.known_files() if seen is not None else {}
            same = {path for path in (*upserts, *removals) if known.get(path) == (seen or {}).get(path)}
            upserts = {path: one for path, one in upserts.items() if path in same}
            removals = [path for path in removals if path in same]
            self.calls.append((set(upserts), set(removals)))
            self._store(upserts, removals, head)

    def committed(self, some: Sequence[Committed]) -> None:
        for done in some:
            self.one(done)

    def one(self, done: Committed) -> None:
        upserts, removals = {}, []
        for change in done.changes:
            if change.path.startswith(".ormah/") or not change.path.endswith(".md"):
                continue
            if change.data is None:
                removals.append(change.path)
            elif (state := state_of(self.vault.root, change.path, change.data, change.stat)) is not None:
                upserts[change.path] = (change.data, state)
        with self.changed:
            self.commits.append(done)
            self._store(upserts, removals, done.commit if done.parent == self.head else None)

    def update_states(self, states: Sequence[FileState]) -> None:
        with self.changed:
            for one in states:
                if one.path in self.rows and self.rows[one.path][1].digest == one.digest:
                    self.rows[one.path] = (self.rows[one.path][0], one)

    def _store(self, upserts, removals, head) -> None:
        self.rows.update(upserts)
        for path in removals:
            self.rows.pop(path, None)
        self.head = head or self.head
        self.changed.notify_all()

    def wait(self, what: Callable[[SmallIndex], object], timeout: float = 120.0) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: what(self), timeout), f"not within {timeout} s: {sorted(self.rows)}"

    # What is found

    def note(self, path: str) -> Note:
        return parse(self.rows[path][0], path)

    def nodes(self) -> dict[str, str]:
        """{id: path} of everything that counts as a memory; an id that two files claim is a fault."""
        found: dict[str, str] = {}
        for path in self.rows:
            note = self.note(path)
            node_id = note.id if note.kind is NoteKind.NOTE else None
            if node_id is not None:
                assert node_id not in found, f"{path} and {found[node_id]} have one id"
                found[node_id] = path
        return found

    def find(self, words: str) -> list[str]:
        """Paths of all files that say this, in the title or the text, memories or not."""
        with self.changed:
            return sorted(path for path in self.rows if words in f"{self.note(path).title} {self.note(path).content}")


class House:
    """An open vault, its reconciler, its index, and short verbs for what a person does to the files."""

    def __init__(self, root: Path, *, quiet: float = 0.0, at=lambda step: None) -> None:
        self.root = root
        self.settings = VaultSettings(path=root, quiet_seconds=quiet, busy_wait_seconds=0)
        self.vault = Vault.open(self.settings, clock=now, at=at)
        self.vault.recover()
        self.index = SmallIndex(self.vault)
        self.vault.listen(self.index.committed)
        self.reconciler = self.new_reconciler()

    def new_reconciler(self, clock: Callable[[], datetime] = now) -> Reconciler:
        return Reconciler(self.vault, self.index, history_of(self.vault), settings=self.settings, clock=clock)

    def close(self) -> None:
        self.vault.close()

    def scan(self, **kwargs):
        return self.reconciler.scan(**kwargs)

    def settle(self) -> None:
        """Scan until nothing waits; then another scan must find nothing to do."""
        for _ in range(5):
            if not self.scan().waiting:
                break
        heads, calls = self.git("rev-list", "--count", "HEAD"), len(self.index.calls)
        last = self.scan()
        assert (last.indexed, last.edited, last.removed, last.waiting) == (0, 0, 0, set())
        assert (self.git("rev-list", "--count", "HEAD"), len(self.index.calls)) == (heads, calls)

    def git(self, *arguments: str, **kwargs) -> str:
        return git(self.root, *arguments, **kwargs)

    def write(self, path: str, data: bytes | str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        return file

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def remember(self, text: str, *, title: str | None = None, node_id: str) -> str:
        """Store a memory as an agent would; its path."""
        created = now()
        path = path_for(id=node_id, type="fact", space="work", title=title, content=text, created=created)
        data = compose(
            id=node_id, type="fact", tier="working", space="work", title=title, tags=[], source="agent:test",
            confidence=1.0, created=created, updated=created, content=text,
        )  # fmt: skip
        with self.vault.transaction(f"remember: {title}", kind=Kind.REMEMBER, source="agent:test") as tx:
            tx.put(path, data, node_id=node_id, expect=None)
        return path

    def log(self, count: int = 1) -> list[str]:
        return self.git("log", f"-{count}", "--format=%s").splitlines()

    def clean(self) -> bool:
        return self.git("status", "--porcelain", "--untracked-files=all") == ""


def trailers(house: House) -> dict[str, str]:
    text = house.git("log", "-1", "--format=%(trailers:unfold)")
    return dict(line.split(": ", 1) for line in text.splitlines() if line)


def uuid(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-{number:012x}"


ONE, TWO, THREE, FOUR = uuid(0x1A2B3C4D), uuid(0x22222222), uuid(0x33333333), uuid(0x44444444)
