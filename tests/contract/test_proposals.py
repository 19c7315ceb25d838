"""Proposals: kept once, decided on in one commit, remembered in the vault, stale when a memory says something else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.actions.caller import Caller
from ormahd.actions.forget import forget
from ormahd.actions.purge import purge
from ormahd.actions.undo import Wish, undo
from ormahd.actions.update import Update, update
from ormahd.core.decision import FOLDER
from ormahd.core.node import ProposalType
from ormahd.errors import Ambiguous, BadRequest, Conflict, NotFound, OrmahError
from ormahd.jobs.proposals import Shown
from ormahd.journal import proposals as book
from tests.contract.jobs_house import CHANGES_OF, ME, House, ask, asking, open_house

AGENT = Caller("agent:claude-code")


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    with open_house(monkeypatch) as found:
        yield found


def propose(house: House, *ids: str, **more: object) -> int:
    """One run that asks; how many proposals are new."""
    return house.run(asking(ask(house.ormah, *ids, **more)))[0].asked  # type: ignore[arg-type]


def only(house: House, status: str = "pending") -> Shown:
    (found,) = house.proposals.list(status=status).proposals
    return found


def statuses(house: House) -> list[str]:
    return [one.row.status for one in house.proposals.list(status="all").proposals]


def resolve(house: House, action: str, caller: Caller = ME) -> str:
    """Decide on the only one that waits; the op."""
    done = house.proposals.resolve(only(house).row.id, action, caller)
    assert done.op is not None
    return done.op


def take_back(house: House, op: str) -> None:
    undo(house.ormah, Wish(ops=(op,)), ME, lambda *_: None)


def say(house: House, node_id: str, **fields: object) -> None:
    update(house.ormah, node_id, Update(fields), ME)


# Kept once


def test_what_is_listed(house: House) -> None:
    one, two = house.several(2)
    head, before = house.head(), house.files()
    assert propose(house, one, two) == 1
    assert (house.head(), house.files()) == (head, before), "a proposal changes nothing"
    found = only(house)
    assert (found.row.type, found.row.status, found.row.nodes, found.by) == (
        ProposalType.MERGE,
        "pending",
        (one, two),
        None,
    )
    assert (found.row.action, found.row.reason) == ("Tag “Memory number 00” as asked", "they look alike")
    assert (found.row.preview, found.row.evidence) == ("tags: asked", {"cosine": 0.81})
    assert (found.row.created, found.row.resolved, found.row.op) == (house.now, None, None)
    assert [node.id for node in found.nodes] == [one, two]


def test_never_doubled(house: House) -> None:
    one, two, three = house.several(3)
    assert propose(house, one, two) == 1
    assert propose(house, two, one, word="the other way round") == 0
    assert propose(house, one, three) == 1
    assert propose(house, one, two, type=ProposalType.CONFLICT) == 1, "another thing to do with the same two"
    say(house, three, tags=["green"])
    assert propose(house, one, three) == 0, "they say what they said"
    say(house, three, content="Something else")
    assert propose(house, one, three) == 1
    assert statuses(house).count("pending") == 3


def test_newest_first_of_a_status_and_type(house: House) -> None:
    one, two, three = house.several(3)
    for ids, kind in (
        ((one, two), ProposalType.MERGE),
        ((two, three), ProposalType.CONFLICT),
        ((three,), ProposalType.DECAY),
    ):
        house.go(minutes=1)
        propose(house, *ids, type=kind)
    assert [one.row.type for one in house.proposals.list().proposals] == ["decay", "conflict", "merge"]
    assert [one.row.type for one in house.proposals.list(limit=1).proposals] == ["decay"]
    assert [one.row.type for one in house.proposals.list(type="conflict").proposals] == ["conflict"]
    assert house.proposals.list(status="rejected").proposals == []
    with pytest.raises(BadRequest, match="status is 'open'"):
        house.proposals.list(status="open")
    with pytest.raises(BadRequest, match="type is 'link'"):
        house.proposals.list(type="link")


def test_as_many_as_a_person_can_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_house(monkeypatch, jobs__max_proposals=2) as house:
        ids = house.several(25)
        for node_id in ids[:5]:
            house.go(minutes=1)
            propose(house, node_id)
        found = house.proposals.list()
        assert [one.row.nodes for one in found.proposals] == [(ids[1],), (ids[0],)], "the oldest come first"
        assert (found.pending, found.behind) == (5, 3)
        house.proposals.resolve(found.proposals[0].row.id, "rejected", ME)
        assert [one.row.nodes for one in house.proposals.list().proposals] == [(ids[2],), (ids[0],)]
        (ran,) = house.run(asking(*(ask(house.ormah, one) for one in ids[5:])))
        assert (ran.asked, ran.more) == (16, True), "20 wait: the job stops there"
        assert "too many proposals wait" in ran.dropped[-1]


def test_about_a_memory_that_is_gone_nothing_is_asked(house: House) -> None:
    one, two = house.several(2)
    planned = ask(house.ormah, one, two)
    forget(house.ormah, two, ME)
    assert house.run(asking(planned))[0].asked == 0


# Approved


@pytest.mark.parametrize(("action", "caller"), [("approved", ME), ("approve", AGENT)])
def test_approved_it_is_done_in_one_commit_with_the_decision(house: House, action: str, caller: Caller) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    start = house.head()
    house.go(hours=1)
    row = only(house).row
    done = house.proposals.resolve(row.id[:8], action, caller)
    assert (done.status, done.type, done.nodes, done.stored) == ("approved", "merge", [one, two], False)
    assert done.text == "Tag “Memory number 00” as asked: approved"
    assert house.git("rev-list", f"{start}..HEAD") == done.commit
    assert house.tags(one) == ("asked",)
    said = house.git("show", "-s", "--format=%an%n%B", "HEAD")
    author = "Ada Person" if caller is ME else "agent:claude-code"
    assert said.startswith(
        f"{author}\nTagged: Memory number 00\n\nbecause the test says so\n\nProposed in the run {row.run}"
    )
    assert f"approved by {caller.source}." in said
    assert f"Ormah-Source: {caller.source}\n" in said
    changed = house.git("diff", "--name-only", f"{start}..HEAD").splitlines()
    assert changed == [f"{FOLDER}/2026-11.jsonl", house.path(one).relative_to(house.vault).as_posix()]
    shown = only(house, "approved")
    assert (shown.row.op, shown.row.resolved, shown.by) == (done.op, house.now, caller.source)
    assert house.proposals.list().pending == 0
    house.sound()


def test_a_decision_is_made_once(house: House) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    proposal = only(house).row.id
    house.proposals.resolve(proposal, "approved", AGENT)
    head = house.head()
    for action in ("approved", "rejected"):
        with pytest.raises(Conflict, match=r"was approved on 2026-11-01 by agent:claude-code") as caught:
            house.proposals.resolve(proposal, action, ME)
        assert caught.value.data["status"] == "approved"
        assert "ormahctl undo" in str(caught.value.hint)
    assert house.head() == head


def test_what_is_so_already_is_only_noted(house: House) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    say(house, one, tags=["asked"])
    done = house.proposals.resolve(only(house).row.id, "approved", ME)
    assert done.text.endswith("it is so already")
    assert statuses(house) == ["approved"]
    assert "Ormah-Kind: feedback" in house.git("show", "-s", "--format=%B", "HEAD")


def test_a_change_that_makes_no_sense_any_more_changes_nothing(house: House) -> None:
    one, two = house.several(2)
    propose(house, one, two)

    def senseless(*_: object) -> object:
        raise BadRequest("the self node stays")

    proposals = type(house.proposals)(house.ormah, CHANGES_OF | {ProposalType.MERGE: senseless})  # type: ignore[dict-item]
    head = house.head()
    with pytest.raises(Conflict, match="cannot be done any more: the self node stays"):
        proposals.resolve(only(house).row.id, "approved", ME)
    assert (house.head(), statuses(house)) == (head, ["pending"])


def test_other_edits_of_the_note_do_not_stand_in_the_way(house: House) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    say(house, one, tags=["green"], tier="core")
    resolve(house, "approved")
    assert house.tags(one) == ("green", "asked")


def test_while_git_is_held_the_decision_is_safe_and_follows(house: House) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    marker = house.vault / ".git" / "CHERRY_PICK_HEAD"
    marker.write_text(house.head() + "\n")
    done = house.proposals.resolve(only(house).row.id, "approved", ME)
    assert (done.stored, done.commit) == (True, None)
    assert statuses(house) == ["approved"]
    with pytest.raises(Conflict, match="was approved"):
        house.proposals.resolve(done.proposal_id, "rejected", ME)
    marker.unlink()
    house.again()
    assert statuses(house) == ["approved"]
    assert house.tags(one) == ("asked",)
    house.sound()


# Rejected


def test_rejected_for_good_also_after_the_state_was_lost(house: House) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    house.go(minutes=5)
    done = house.proposals.resolve(only(house).row.id, "reject", ME)
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
    assert (found.by, found.row.resolved) == ("agent:claude-code", house.now)
    with pytest.raises(Conflict, match="was rejected on 2026-11-01 by agent:claude-code"):
        house.proposals.resolve(found.row.id, "approved", ME)


def _lines(house: House) -> list[dict[str, object]]:
    files = sorted((house.vault / FOLDER).glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


# Taken back


@pytest.mark.parametrize("action", ["approved", "rejected"])
def test_undone_it_is_open_again(house: House, action: str) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    before = house.files()
    op = resolve(house, action)
    assert house.files() != before
    take_back(house, op)
    assert house.files() == before
    found = only(house)
    assert (found.row.resolved, found.row.op, found.by) == (None, None, None)
    assert propose(house, one, two) == 0, "it waits already"
    resolve(house, "approved")
    assert house.tags(one) == ("asked",)
    house.sound()


def test_git_revert_opens_it_again_and_later_decisions_stay(house: House) -> None:
    one, two, three = house.several(3)
    propose(house, one, two)
    house.proposals.prepare()
    assert (house.vault / FOLDER / "2026-11.jsonl").read_bytes() == b""
    head = house.head()
    house.proposals.prepare()
    assert house.head() == head
    house.ormah.socket = house.home / "nobody answers there"
    house.ormah.mend_git()
    first = house.proposals.resolve(only(house).row.id, "approved", ME)
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


def test_undone_after_a_later_decision_in_the_same_file(house: House) -> None:
    one, two, three = house.several(3)
    propose(house, one, two)
    first = resolve(house, "approved")
    propose(house, two, three)
    resolve(house, "rejected")
    take_back(house, first)
    assert house.tags(one) == ()
    assert [line["verdict"] for line in _lines(house)] == ["rejected"]
    assert sorted(statuses(house)) == ["pending", "rejected"]


def test_a_new_month(house: House) -> None:
    one, two, three = house.several(3)
    propose(house, one, two)
    resolve(house, "rejected")
    house.go(days=30)
    propose(house, two, three)
    resolve(house, "approved")
    assert len(_lines(house)) == 2
    assert not (house.vault / FOLDER / "2026-12.jsonl").exists(), "an approval begins no file where there is one"
    propose(house, one, three)
    resolve(house, "rejected")
    assert (house.vault / FOLDER / "2026-12.jsonl").exists()
    assert sorted(statuses(house)) == ["approved", "rejected", "rejected"]


# Stale


def test_a_memory_that_says_something_else_makes_it_stale_and_back_again_fresh(house: House) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    proposal, head = only(house).row.id, None
    house.go(minutes=1)
    say(house, two, content="It says something else")
    head = house.head()
    with pytest.raises(Conflict, match="is stale: one of its memories says something else by now") as caught:
        house.proposals.resolve(proposal, "approved", ME)
    assert caught.value.data["status"] == "stale"
    assert (house.head(), statuses(house), house.tags(one)) == (head, ["stale"], ())
    say(house, two, content="Memory number 01")
    assert statuses(house) == ["pending"]


def test_a_memory_that_is_gone_makes_it_stale(house: House) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    gone = forget(house.ormah, two, ME)
    assert statuses(house) == ["stale"]
    with pytest.raises(Conflict, match=f"is stale: {two[:8]} is not there any more"):
        house.proposals.resolve(house.proposals.list(status="stale").proposals[0].row.id, "rejected", ME)
    assert gone.op is not None
    take_back(house, gone.op)
    assert statuses(house) == ["pending"]


# Ids


def test_ids(house: House) -> None:
    one, two = house.several(2)
    for number, ids in enumerate(((one, two), (one,), (two,))):
        book.keep(
            house.ormah.state, id=f"abcd{number // 2}{number}00-0000-4000-8000-000000000000", type="merge", key=str(number), nodes=ids,
            action="a", reason="r", preview="", evidence={}, payload={}, based_on={}, run="run",
        )  # fmt: skip
    for prefix, error in (
        ("abc", BadRequest), ("abcd*", BadRequest), ("../../etc", BadRequest), ("%%%%", BadRequest), ("", BadRequest),
        ("beef", NotFound), ("abcd", Ambiguous), ("ABCD0", Ambiguous),
    ):  # fmt: skip
        with pytest.raises(error):
            house.proposals.resolve(prefix, "approved", ME)
    with pytest.raises(OrmahError) as caught:
        house.proposals.resolve("abcd0", "approved", ME)
    assert len(caught.value.data["ids"]) == 2
    with pytest.raises(BadRequest, match="action is 'maybe'"):
        house.proposals.resolve("abcd1", "maybe", ME)
    assert book.find(house.ormah.state, "ABCD1").nodes == (two,)


def test_old_ones_are_forgotten_and_those_that_wait_never(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "KEPT", 3)
    ids = house.several(6)
    propose(house, ids[5])
    for node_id in ids[:5]:
        house.go(minutes=1)
        propose(house, node_id)
        (newest, *_) = house.proposals.list().proposals
        house.proposals.resolve(newest.row.id, "rejected", ME)
    propose(house, ids[5], ids[0])
    assert sorted(statuses(house)) == ["pending", "pending", "rejected", "rejected", "rejected"]
    assert propose(house, ids[0]) == 0, "what was decided stands in the vault"


# Lines that somebody wrote, and a purge


def test_a_line_that_cannot_be_read_is_named_and_left(house: House) -> None:
    one, two = house.several(2)
    propose(house, one, two)
    resolve(house, "rejected")
    file = next((house.vault / FOLDER).glob("*.jsonl"))
    file.write_text(file.read_text() + "not ours\n")
    house.ormah.reconciler.scan()
    assert house.proposals.bad_lines() == [(f"{FOLDER}/2026-11.jsonl", 2, "it is no JSON")]
    assert statuses(house) == ["rejected"]
    propose(house, one)
    resolve(house, "rejected")
    assert file.read_text().endswith("not ours\n")


def test_a_purge_leaves_no_word_of_what_was_decided(house: House) -> None:
    one, two, three = house.several(3)
    for ids in ((one, two), (two, three)):
        house.go(minutes=1)
        propose(house, *ids)
        resolve(house, "rejected")
    propose(house, one)
    purge(house.ormah, one, [], ME, dry_run=False, rewrite_foreign=False, progress=lambda *_: None)
    assert [line["nodes"] for line in _lines(house)] == [sorted([two, three])]
    found = house.proposals.list(status="all").proposals
    assert [shown.row.nodes for shown in found] == [(two, three)]
    assert one not in house.git("log", "--all", "-p")
    with house.ormah.state.transaction() as db:
        assert not any(one in line for line in db.iterdump())
    house.sound()
