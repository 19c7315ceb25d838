"""The vault's own data beside the notes (`.ormah/*.jsonl`, the card), where git or a person made it another one than HEAD has: it is in the
history again by itself, no line that was learned is lost, and git's status is clean."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ormahd.model.change import Kind, sha256
from tests.vault.observed import ONE, House

STRENGTH = ".ormah/strength.jsonl"
JUDGED = ".ormah/feedback/2026-11.jsonl"


def line(name: str, count: int = 1) -> bytes:
    return f'{{"id":"{name}","at":"2026-11-01T00:00:00Z","count":{count}}}\n'.encode()


def learn(house: House, path: str, *lines: bytes) -> None:
    """As a job does: these lines beside those that are there."""
    now = house.vault.read(path)
    with house.vault.transaction("Strength: folded", kind=Kind.STRENGTH, source="job:importance_scorer") as tx:
        tx.put(path, b"".join(sorted([*(now or b"").splitlines(keepends=True), *lines])), node_id=None,
               expect=None if now is None else sha256(now))  # fmt: skip


def lines(house: House, path: str) -> set[bytes]:
    return set(house.read(path).splitlines(keepends=True))


def settled(house: House, path: str, *wanted: bytes) -> None:
    house.settle()
    assert lines(house, path) == set(wanted)
    assert house.git("show", f"HEAD:{path}").encode() + b"\n" * bool(wanted) == house.read(path)
    assert house.clean(), house.git("status", "--porcelain")


@pytest.fixture
def learned(house: House) -> House:
    """A vault in which two lines were learned, one after the other, and a file was begun."""
    house.remember("a note", title="Note", node_id=ONE)
    learn(house, STRENGTH, line("a"))
    house.settle()
    house.git("tag", "before")
    learn(house, STRENGTH, line("b"))
    learn(house, JUDGED, line("j"))
    house.settle()
    return house


@pytest.mark.parametrize("meanwhile", ["running", "stopped"])
def test_a_branch_that_is_led_back_without_its_files_keeps_what_was_learned(learned: House, meanwhile: str) -> None:
    learned.git("reset", "-q", "--mixed", "before")
    assert not learned.clean()
    if meanwhile == "stopped":
        learned.reconciler = learned.new_reconciler()
    settled(learned, STRENGTH, line("a"), line("b"))
    settled(learned, JUDGED, line("j"))
    assert learned.git("log", "-1", "--format=%an") == learned.git("config", "user.name")
    learned.git("revert", "--no-edit", "HEAD")  # the file that it began does not conflict
    settled(learned, STRENGTH, line("a"))


def without(house: House, path: str, gone: bytes) -> None:
    house.write(path, house.read(path).replace(gone, b""))


BY_HAND: dict[str, tuple[Callable[[House], object], set[bytes]]] = {
    "a line is taken out": (lambda house: without(house, STRENGTH, line("a")), {line("b")}),
    "the line learned last is taken out": (lambda house: without(house, STRENGTH, line("b")), {line("a")}),
    "a line is put in": (lambda house: learn_by_hand(house, line("c")), {line("a"), line("b"), line("c")}),
    "the file is emptied": (lambda house: house.write(STRENGTH, b""), set()),
    "the file is deleted": (lambda house: (house.root / STRENGTH).unlink(), set()),
    "an older one is checked out": (lambda house: house.git("restore", "--source=before", STRENGTH), {line("a")}),
}


def learn_by_hand(house: House, more: bytes) -> None:
    house.write(STRENGTH, house.read(STRENGTH) + more)


@pytest.mark.parametrize("how", BY_HAND)
def test_what_a_person_changes_in_it_is_committed_as_theirs(learned: House, how: str) -> None:
    change, wanted = BY_HAND[how]
    change(learned)
    settled(learned, STRENGTH, *wanted)


@pytest.mark.parametrize("data", [b"<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> x\n", b"\0\0\0\0", b"\xff\xfe lines"])
def test_what_is_no_text_or_has_marks_of_a_conflict_is_named_and_not_committed(learned: House, data: bytes) -> None:
    learned.write(STRENGTH, data)
    learned.settle()
    assert learned.read(STRENGTH) == data
    (said,) = [one for one in learned.reconciler.problems() if one["path"] == STRENGTH]
    assert "not committed" in said["what"]
    assert f"git -C {learned.root} restore {STRENGTH}" in said["mend"]
    learned.git("restore", STRENGTH)
    settled(learned, STRENGTH, line("a"), line("b"))
    assert not [one for one in learned.reconciler.problems() if one["path"] == STRENGTH]


def test_a_card_that_the_branch_lacks_is_in_the_history_again(learned: House) -> None:
    card = ".ormah/vault.toml"
    learned.write(card, learned.read(card) + b"# a remark of a person\n")
    learned.settle()
    assert learned.clean()
    learned.git("reset", "-q", "--mixed", "before")
    learned.settle()
    assert b"# a remark of a person" in learned.read(card)
    assert learned.clean()


def test_a_link_in_the_place_of_a_file_is_left_alone(learned: House) -> None:
    file = learned.root / STRENGTH
    file.rename(learned.root.parent / "elsewhere")
    file.symlink_to(learned.root.parent / "elsewhere")
    learned.settle()
    assert file.is_symlink()
    assert learned.git("show", f"HEAD:{STRENGTH}").encode() + b"\n" == line("a") + line("b")
