"""Proposals that are decided on: in one commit, remembered in the vault, and open again when that is taken back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ormahd.actions.amend import Caller
from ormahd.actions.views import iso
from ormahd.errors import Conflict
from ormahd.model.decision import FOLDER
from ormahd.state import proposals as book
from tests.contract import jobs_house
from tests.contract.jobs_house import ME, House
from tests.contract.proposing import lines as _lines
from tests.contract.proposing import only, propose, resolve, say, statuses, take_back

house = jobs_house.house

AGENT = Caller("agent:claude-code")


# Approved


@pytest.mark.parametrize(("action", "caller"), [("approved", ME), ("approve", AGENT)])
def test_approved_it_is_done_in_one_commit_with_the_decision(house: House, action: str, caller: Caller) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    start = house.head
    house.go(hours=1)
    row = only(house)
    done = house.proposals.resolve(row.id[:8], action, caller)
    assert (done.status, done.type, done.nodes) == ("approved", "merge", [one, two])
    assert done.text == "Tag “Memory number 00” as asked: approved"
    decided, begun = house.git("log", "--format=%H %s", f"{start}..HEAD").splitlines()
    assert decided.split(" ", 1)[0] == done.commit
    assert begun.endswith(" init: empty files for lines")
    assert house.tags(one) == ("asked",)
    said = house.git("show", "-s", "--format=%an%n%B", "HEAD")
    author = "Ada Person" if caller is ME else "agent:claude-code"
    assert said.startswith(
        f"{author}\nTagged: Memory number 00\n\nbecause the test says so\n\nProposed in the run {book.find(house.ormah.state, row.id).run}"
    )
    assert f"approved by {caller.source}." in said
    assert f"Ormah-Source: {caller.source}\n" in said
    changed = house.git("diff", "--name-only", f"{start}..HEAD").splitlines()
    assert changed == [f"{FOLDER}/2026-11.jsonl", house.path(one).relative_to(house.vault).as_posix()]
    shown = only(house, "approved")
    assert (shown.op, shown.resolved, shown.resolved_by) == (done.op, iso(house.now), caller.source)
    assert house.proposals.list().pending == 0
    house.sound()


def test_a_decision_is_made_once(house: House) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    proposal = only(house).id
    house.proposals.resolve(proposal, "approved", AGENT)
    head = house.head
    for action in ("approved", "rejected"):
        with pytest.raises(Conflict, match=r"was approved on 2026-11-21 by agent:claude-code") as caught:
            house.proposals.resolve(proposal, action, ME)
        assert caught.value.data["status"] == "approved"
        assert "ormahctl undo" in str(caught.value.hint)
    assert house.head == head


def test_other_edits_of_the_note_do_not_stand_in_the_way(house: House) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    say(house, one, tags=["green"], tier="core")
    resolve(house, "approved")
    assert house.tags(one) == ("green", "asked")


def test_rejected_for_good_also_after_the_state_was_lost(house: House) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    house.go(minutes=5)
    done = house.proposals.resolve(only(house).id, "reject", ME)
    assert done.text == "Tag “Memory number 00” as asked: rejected; it is not proposed again"
    said = house.git("show", "-s", "--format=%an%n%B", "HEAD")
    assert said.startswith("Ada Person\nRejected: Tag “Memory number 00” as asked\n\nthey look alike\n")
    assert "Ormah-Kind: feedback\n" in said
    (line,) = _lines(house)
    assert line["verdict"] == "rejected"
    assert (line["by"], line["type"], line["nodes"]) == ("person", "merge", sorted([one, two]))
    assert propose(house, one, two) == 0

    shutil.rmtree(house.ormah.state.path.parent)
    house.again()
    assert propose(house, one, two) == 0
    say(house, two, content="It says something else now")
    assert propose(house, one, two) == 1
    house.sound()


def test_rejected_on_another_machine(house: House, tmp_path: Path) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    other = tmp_path / "other"
    house.git("clone", "-q", str(house.vault), str(other))
    resolve(house, "rejected", AGENT)
    # the same vault as another machine pulls it: its state knows the proposal as pending
    with house.ormah.state.transaction() as db:
        db.execute("UPDATE proposal SET status = 'pending', resolved = NULL, op = NULL")
    assert house.proposals.list().proposals == []
    found = only(house, "rejected")
    assert (found.resolved_by, found.resolved) == ("agent:claude-code", iso(house.now))
    with pytest.raises(Conflict, match="was rejected on 2026-11-21 by agent:claude-code"):
        house.proposals.resolve(found.id, "approved", ME)


# Taken back


@pytest.mark.parametrize("action", ["approved", "rejected"])
def test_undone_it_is_open_again(house: House, action: str) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    before = house.files()
    op = resolve(house, action)
    assert house.files() != before
    take_back(house, op)
    assert house.files() == before | {f"{FOLDER}/2026-11.jsonl": b""}
    found = only(house)
    assert (found.resolved, found.op, found.resolved_by) == (None, None, None)
    assert propose(house, one, two) == 0, "it waits already"
    resolve(house, "approved")
    assert house.tags(one) == ("asked",)
    house.sound()


def test_git_revert_opens_it_again_and_later_decisions_stay(house: House) -> None:
    one, two, three = house.several(3)
    propose(house, one, two)
    house.ormah.socket = house.home / "nobody answers there"
    house.ormah.install_merge_driver()
    first = house.proposals.resolve(only(house).id, "approved", ME)
    propose(house, two, three)
    resolve(house, "rejected")
    say(house, one, content="Edited since, though")
    assert first.commit is not None
    house.git("revert", "--no-edit", first.commit)
    house.ormah.reconciler.scan()
    assert house.tags(one) == ()
    assert [line["verdict"] for line in _lines(house)] == ["rejected"]
    assert sorted(statuses(house)) == ["rejected", "stale"], "the memory was edited: stale"
    house.sound()
