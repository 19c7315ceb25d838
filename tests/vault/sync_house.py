"""Two vaults that are one, on two machines, with a bare repository between them; no daemon."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from ormahd.git.remote import Network, Remote, find
from ormahd.note.write import compose
from ormahd.sync.join import Plan, commit_plan, merge_base, plan
from ormahd.vault.vault import Vault
from tests.vault.git_house import START, commit_by_hand, git, open_vault, sound
from tests.vault.observed import uuid


def note(text: str, node_id: str, **fields: object) -> bytes:
    given = {"type": "fact", "tier": "working", "space": None, "title": None, "tags": [], "source": "agent:test",
             "confidence": 1.0, "created": START, "updated": START} | fields  # fmt: skip
    return compose(id=node_id, content=text, **given)  # type: ignore[arg-type]


def nothing(done: int, total: int, stage: str) -> None:
    """Nobody looks at the progress."""


def network(vault: Vault, *, silence: float = 30.0) -> Network:
    return Network(vault.git, silence=silence, closing=threading.Event())


@dataclass
class Machine:
    """One vault and its way to the remote."""

    vault: Vault

    @property
    def root(self) -> Path:
        return self.vault.root

    @property
    def remote(self) -> Remote:
        return find(self.vault.git, "origin")

    def git(self, *arguments: str, **more: object) -> str:
        return git(self.root, *arguments, **more)  # type: ignore[arg-type]

    def store(self, files: dict[str, bytes | None]) -> str:
        """Change files and commit them by hand."""
        return commit_by_hand(self.root, files)

    def fetch(self) -> str | None:
        return network(self.vault).fetch(self.remote, nothing)

    def decide(self) -> Plan:
        """What joining the remote's commit comes to."""
        head, tip = self.vault.head(), self.fetch()
        assert head is not None
        assert tip is not None
        return plan(self.vault, merge_base(self.vault, head, tip), head, tip)

    def carry_out(self, found: Plan) -> str | None:
        done = commit_plan(self.vault, found, "Sync: a test", source="person", person=True)
        return None if done is None else done.op

    def join(self) -> Plan:
        found = self.decide()
        self.carry_out(found)
        return found

    def push(self) -> bool:
        head = self.vault.head()
        assert head is not None
        return network(self.vault).push(self.remote, head, nothing)

    def sync(self) -> Plan:
        """Join, and hand out."""
        found = self.join()
        assert self.push()
        return found

    def files(self) -> dict[str, bytes]:
        """Every file of the folder that is git's, by its path."""
        names = self.git("ls-files", "-z").split("\0")
        return {name: (self.root / name).read_bytes() for name in names if name and (self.root / name).is_file()}

    def sound(self) -> None:
        sound(self.root)


def two_machines(tmp_path: Path, files: dict[str, bytes] | None = None) -> tuple[Machine, Machine]:
    """A vault, pushed, and its clone; `files` are in both."""
    bare = tmp_path / "remote.git"
    git(tmp_path, "init", "-q", "--bare", "--initial-branch=main", str(bare))
    one = Machine(open_vault(tmp_path / "one"))
    if files:
        one.store(dict(files))
    one.git("remote", "add", "origin", str(bare))
    one.git("push", "-q", "-u", "origin", "main")
    git(tmp_path, "clone", "-q", str(bare), str(tmp_path / "two"))
    return one, Machine(open_vault(tmp_path / "two"))


def settle(one: Machine, other: Machine) -> None:
    """Both sync until they are one; the second only follows."""
    one.sync()
    other.join()
    assert one.vault.head() == other.vault.head()
    for machine in (one, other):
        machine.sound()
    assert one.files() == other.files()


A, B, C = uuid(0x1A2B3C4D), uuid(0x2B2B2B2B), uuid(0x3C3C3C3C)
TEXT = "one\n\ntwo\n\nthree"
FILES = {"a.md": note(TEXT, A), "b.md": note("bees", B), "plain.txt": b"1\n2\n3\n"}
Two = tuple[Machine, Machine]
