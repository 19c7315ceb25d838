"""`kill -9` at every step of a write: what was acknowledged is there afterwards, nothing is half there, nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ormahd.git import commit_message
from ormahd.model.change import Kind
from ormahd.vault.vault import Vault
from tests.crash.strides import STRIDE, killed_at, numbered, save
from tests.vault.git_house import git, open_vault, put, remove, sha, sound

KEEPER, LOSER, NEW = "s/fact/2026-11/keeper.md", "s/fact/2026-10/loser.md", "t/fact/2026-11/new.md"


def scenario(vault: Vault, acknowledge: Callable[[str], None]) -> None:
    """An edit, a new note, a merge of two, and a removal."""
    put(vault, (KEEPER, b"keeper 2\n"))
    acknowledge("edit")
    put(vault, (NEW, b"new\n"))
    acknowledge("new")
    with vault.transaction("merge: two became one", kind=Kind.MERGE, source="job:m") as tx:
        tx.put(KEEPER, b"keeper 3\n", node_id=None, expect=sha(b"keeper 2\n"))
        tx.remove(LOSER, node_id=None, expect=sha(b"loser\n"))
    acknowledge("merge")
    remove(vault, NEW)
    acknowledge("removal")


STATES = [
    {KEEPER: b"keeper 1\n", LOSER: b"loser\n", NEW: None},
    {KEEPER: b"keeper 2\n", LOSER: b"loser\n", NEW: None},
    {KEEPER: b"keeper 2\n", LOSER: b"loser\n", NEW: b"new\n"},
    {KEEPER: b"keeper 3\n", LOSER: None, NEW: b"new\n"},
    {KEEPER: b"keeper 3\n", LOSER: None, NEW: None},
]


def begin(root: Path) -> None:
    with open_vault(root) as vault:
        put(vault, (KEEPER, b"keeper 1\n"), (LOSER, b"loser\n"))


def steps_of(root: Path, work: Callable[[Vault, Callable[[str], None]], None]) -> list[str]:
    seen: list[str] = []
    with open_vault(root, at=seen.append) as vault:
        work(vault, lambda _: None)
    return seen


@STRIDE
def test_every_step(tmp_path: Path, stride: int) -> None:
    begin(tmp_path / "dry")
    steps = steps_of(tmp_path / "dry", scenario)
    assert len(steps) > 30
    for number, step in numbered(steps, stride):
        root, log = tmp_path / f"v{number}", tmp_path / f"log{number}"
        begin(root)
        log.touch()

        def acknowledge(what: str, log: Path = log) -> None:
            with open(log, "a") as file:
                file.write(what + "\n")

        killed_at(number, lambda at, root=root, told=acknowledge: scenario(open_vault(root, at=at), told))  # type: ignore[misc]
        acknowledged = len(log.read_text().split())
        with open_vault(root, recover=False) as vault:
            said = vault.recover()
            state = {path: vault.read(path) for path in STATES[0]}
            here = f"killed at step {number} ({step}), {acknowledged} acknowledged: {said}"
            assert state in STATES[acknowledged : acknowledged + 2], here
            assert {path: vault.committed(path) for path in STATES[0]} == state, here
            ops = [commit_message.parse(r.decode()).trailer("Ormah-Op") for r in vault.git.log("--format=%B")]
            assert len(ops) == len(set(ops)) == STATES.index(state) + 2, here
            assert vault.recover() == [], here
            put(vault, (NEW, b"and on\n"))
        sound(root)


@STRIDE
def test_a_persons_save_in_the_moment_of_the_crash_is_kept(tmp_path: Path, stride: int) -> None:
    """The person saves at each step, then the daemon dies: whatever the step, the save is not lost."""
    begin(tmp_path / "dry")

    def edit(vault: Vault, acknowledge: Callable[[str], None]) -> None:
        put(vault, (KEEPER, b"keeper 2\n"))

    steps = steps_of(tmp_path / "dry", edit)
    for number, step in numbered(steps, stride):
        root = tmp_path / f"v{number}"
        begin(root)
        killed_at(
            number,
            lambda at, root=root: edit(open_vault(root, at=at), lambda _: None),  # type: ignore[misc]
            lambda root=root: save(root, KEEPER, b"the person's\n"),  # type: ignore[misc]
        )
        with open_vault(root) as vault:
            texts = [vault.read(KEEPER)] + [
                path.read_bytes() for path in (root / ".ormah/conflicts").rglob("*") if path.is_file()
            ]
            assert any(text is not None and b"the person's\n" in text for text in texts), (number, step)
        git(root, "fsck", "--strict", "--no-dangling")


@STRIDE
def test_a_crash_while_the_vault_is_made(tmp_path: Path, stride: int) -> None:
    steps: list[str] = []
    open_vault(tmp_path / "dry", at=steps.append).close()
    for number, step in numbered(steps, stride):
        root = tmp_path / f"v{number}"
        killed_at(number, lambda at, root=root: open_vault(root, at=at).close())  # type: ignore[misc]
        with open_vault(root) as vault:
            assert len([path for path in vault.tree() if "/person/" in path]) == 1, step
            assert git(root, "rev-list", "--count", "HEAD") == "1", step
        sound(root)
