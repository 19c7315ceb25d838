"""The promise on disk: complete or not there, and a damaged one never in the way."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ormahd.errors import VaultBusy
from ormahd.model.change import Kind, OpIds
from ormahd.vault.intents import FileStep, Intents, WriteIntent, decode, encode
from tests.vault.git_house import START, git, open_vault, put, sound

new_op = OpIds(lambda: START)
TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
STEPS = st.builds(FileStep, TEXT, st.none() | TEXT, st.none() | st.binary(), st.none() | st.binary())
INTENTS = st.builds(
    WriteIntent, TEXT, st.sampled_from(Kind), TEXT, TEXT, TEXT, st.booleans(), st.just(START), TEXT,
    st.lists(STEPS, max_size=3).map(tuple),
)  # fmt: skip


@given(st.lists(INTENTS, max_size=3))
def test_what_is_read_is_what_was_written(intents: list[WriteIntent]) -> None:
    assert decode(encode(intents)) == intents


@given(st.lists(INTENTS, min_size=1, max_size=1), st.data())
def test_any_damage_is_noticed(intents: list[WriteIntent], data: st.DataObject) -> None:
    whole = encode(intents)
    at = data.draw(st.integers(0, len(whole) - 1))
    broken = data.draw(st.sampled_from([whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]]))
    with pytest.raises(ValueError, match="checksum"):
        decode(broken)


def test_names_that_are_not_utf8() -> None:
    intent = WriteIntent(
        "x", Kind.EDIT, "person", "s", "m", True, START, "l", (FileStep("caf\udce9.md", None, None, b"x"),)
    )
    assert decode(encode([intent])) == [intent]


def waiting(root: Path) -> Path:
    """A vault with one promise in it; the promise's file."""
    with open_vault(root) as vault:
        (root / ".git/index.lock").touch()
        with pytest.raises(VaultBusy):
            put(vault, ("a.md", b"a\n"))
    (root / ".git/index.lock").unlink()
    (file,) = (root / ".ormah/intent").glob("*.json")
    return file


def test_a_damaged_promise_is_set_aside_and_named(tmp_path: Path) -> None:
    file = waiting(tmp_path / "v")
    file.write_bytes(file.read_bytes()[:-5])
    with open_vault(tmp_path / "v", recover=False) as vault:
        (said,) = vault.recover()
        assert "damaged intent" in said
        assert file.name in said
        assert vault.read("a.md") is None
        assert put(vault, ("b.md", b"b")) is not None
        assert vault.recover() == []
    assert (file.parent / "damaged" / file.name).exists()


def test_a_half_written_promise_was_none(tmp_path: Path) -> None:
    file = waiting(tmp_path / "v")
    os.rename(file, file.with_name(f".{file.name}.part"))
    with open_vault(tmp_path / "v", recover=False) as vault:
        assert vault.recover() == []
        assert vault.read("a.md") is None
    sound(tmp_path / "v")


def test_several_ops_in_one_file(tmp_path: Path) -> None:
    file = waiting(tmp_path / "v")
    (first,) = decode(file.read_bytes())
    second = WriteIntent(
        first.op[:-1] + ("0" if first.op[-1] != "0" else "1"), Kind.UPDATE, "person", "update: b", "update: b\n", True,
        START, first.lock, (FileStep("b.md", None, None, b"b\n"),),
    )  # fmt: skip
    file.write_bytes(encode([first, second]))
    with open_vault(tmp_path / "v") as vault:
        assert (vault.committed("a.md"), vault.committed("b.md")) == (b"a\n", b"b\n")
    sound(tmp_path / "v")


def test_an_op_that_is_in_the_history_is_not_committed_again(tmp_path: Path) -> None:
    """As after a power cut that brings a removed promise back."""
    root = tmp_path / "v"
    file = waiting(root)
    promise = file.read_bytes()
    open_vault(root).close()
    with open_vault(root) as vault:
        put(vault, ("a.md", b"newer\n"))
    head = git(root, "rev-parse", "HEAD")
    file.write_bytes(promise)
    with open_vault(root) as vault:
        assert vault.read("a.md") == b"newer\n"
    assert git(root, "rev-parse", "HEAD") == head
    sound(root)


def test_a_promise_is_private(tmp_path: Path) -> None:
    file = waiting(tmp_path / "v")
    assert file.parent.stat().st_mode & 0o077 == 0
    assert Intents(tmp_path / "v").load()[0][0].steps[0].data == b"a\n"
    assert git(tmp_path / "v", "status", "--porcelain", "--untracked-files=all") == ""


# Several that go together, in one file


def three(text: str = "x") -> list[WriteIntent]:
    return [
        WriteIntent(
            new_op(),
            Kind.UPDATE,
            "person",
            text,
            f"{text}\n",
            True,
            START,
            "lock",
            (FileStep(f"{n}.md", None, None, b"x\n"),),
        )
        for n in range(3)
    ]


def files(root: Path) -> list[str]:
    return sorted(os.listdir(root / ".ormah/intent"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".ormah").mkdir()
    return tmp_path


def test_they_stand_in_one_file_until_the_last_is_done(root: Path) -> None:
    intents, some = Intents(root), three()
    intents.write_all(some)
    assert len(files(root)) == 1
    for number, one in enumerate(some):
        assert intents.holds(one.op)
        intents.done(one.op)
        assert not intents.holds(one.op)
        assert len(files(root)) == (number < 2)


@pytest.mark.parametrize("name", ["", "as an older version names it"])
def test_after_a_crash_they_are_taken_up_without_a_byte_being_written(root: Path, name: str) -> None:
    """The disk may be full by then."""
    some = three()
    Intents(root).write_all(some)
    (file,) = (root / ".ormah/intent").iterdir()
    if name:
        file.rename(root / ".ormah/intent" / f"{some[0].op}.json")
    before = file.stat() if not name else (root / ".ormah/intent" / f"{some[0].op}.json").stat()
    intents = Intents(root)
    assert intents.load() == (some, [])
    assert files(root) == [file.name]
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    intents.write(some[0])
    assert Intents(root).load() == (some, [])
    for one in some:
        intents.done(one.op)
    assert files(root) == []


def test_one_that_was_taken_back_does_not_come_back_after_a_crash(root: Path) -> None:
    intents, some = Intents(root), three()
    intents.write_all(some)
    intents.remove(some[0].op)
    assert Intents(root).load()[0] == some[1:]


def test_what_was_promised_anew_counts(root: Path) -> None:
    intents, some, newer = Intents(root), three(), three("newer")
    newer = [replace(new, op=old.op) for new, old in zip(newer, some, strict=True)]
    intents.write_all(some)
    intents.write(newer[1])
    (root / "before").mkdir()
    shutil.copytree(root / ".ormah", root / "before/.ormah")
    assert Intents(root / "before").load()[0] == [some[0], newer[1], some[2]]
    for one in some:
        intents.done(one.op)
    assert files(root) == []


def test_a_write_that_fails_promises_nothing(root: Path) -> None:
    intents, some = Intents(root), three()
    blocker = root / ".ormah/intent" / f".{some[0].op}.together.json.part"
    blocker.mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        intents.write_all(some)
    blocker.rmdir()
    assert files(root) == []
    assert not any(intents.holds(one.op) for one in some)


def test_the_disk_is_full_when_one_is_taken_back(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Then nothing can be noted; the others stay promised, and it is said."""
    intents, some = Intents(root), three()
    intents.write_all(some)
    (name,) = files(root)
    (root / ".ormah/intent" / f".{name}.part").mkdir()
    intents.remove(some[2].op)
    assert "cannot be taken back" in caplog.text
    assert not intents.holds(some[2].op)
    assert intents.holds(some[1].op)
