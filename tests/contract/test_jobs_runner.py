"""The runner: limits, dry runs, preconditions, records, pauses, one run at a time (DESIGN sections 5 and 6)."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from ormahd.actions.remember import store_memory
from ormahd.actions.undo import undo
from ormahd.api import RunTaskResult, UndoParams
from ormahd.errors import BadRequest, NotFound, Unavailable
from ormahd.jobs.job import Done, PlannedChange, RunContext, Step
from ormahd.jobs.runner import IndexUpdater
from ormahd.model.change import Kind
from ormahd.model.node import CreateNodeRequest
from ormahd.state.runs import CUT_OFF
from tests.contract import jobs_house
from tests.contract.jobs_house import ME, House, Small, ask, asking, open_house, tag, tagging
from tests.house import wait_until
from tests.tables import rows

house = jobs_house.house


# One commit a change


def test_each_change_is_a_commit_that_says_why_and_can_be_undone(house: House) -> None:
    ids = house.several(3)
    before, start = house.files(), house.head
    (ran,) = house.runs(tagging())
    assert (ran.proposals, ran.applied, ran.skipped, ran.error, ran.more) == (3, 3, 0, None, False)
    assert ran.planned == [f"Tagged: Memory number {number:02}" for number in range(3)]
    made = house.git("rev-list", "--reverse", f"{start}..HEAD").split()
    assert ran.commits == made
    said = house.git("show", "-s", "--format=%an%n%B", made[0])
    assert said.startswith("job:tagger\nTagged: Memory number 00\n\nbecause the test says so\n")
    for line in ("Ormah-Kind: cluster", "Ormah-Source: job:tagger", f"Ormah-Nodes: {ids[0]}"):
        assert line in said
    runs = {
        line for line in house.git("log", "--format=%B", f"{start}..").splitlines() if line.startswith("Ormah-Run: ")
    }
    assert len(runs) == 1, "one run"
    assert [house.tags(one) for one in ids] == [("met",)] * 3

    undone = undo(house.ormah, UndoParams(run=runs.pop().split()[1]), ME, lambda *_: None)
    assert len(undone.undone) == 3
    assert house.files() == before
    house.sound()


# Limits


@pytest.mark.parametrize(
    ("notes", "most", "share", "force", "applied"),
    rows(__file__, "limits"),
    ids=["commits", "commits, forced", "20 always", "a share"],
)
def test_limits(notes: int, most: int, share: float, force: bool, applied: int) -> None:
    with open_house(**{"jobs.max_changes": most}) as house:
        house.max_share = share
        house.several(notes)
        start = house.head
        (ran,) = house.runs(tagging(), force=force)
        assert ran.applied == len(ran.commits) == applied
        assert int(house.git("rev-list", "--count", f"{start}..HEAD")) == applied
        over = applied < notes
        assert (ran.more, ran.skipped, ran.proposals) == (over, int(over), applied + over)
        assert [line.partition(": over")[1] for line in ran.dropped] == [": over"] * over
        assert len(ran.planned) == applied, "what is over the limit would not be done"


def test_the_next_runs_do_the_rest_and_then_end() -> None:
    with open_house(**{"jobs.max_changes": 2}) as house:
        house.several(5)
        assert [house.runs(tagging())[0].applied for _ in range(4)] == [2, 2, 1, 0]


def test_a_change_of_many_parts_counts_for_all_of_them(house: House) -> None:
    ids = house.several(4)

    def plan(turn: RunContext) -> Iterator[Step]:
        assert turn.limit == 20
        for node_id, weight in zip(ids, (21, 15, 5, 1), strict=True):
            change = tag(turn.ormah, node_id, "heavy")
            yield PlannedChange(change.kind, change.subject, change.body, change.edits, change.based_on, weight)

    (ran,) = house.runs(Small("heavy", plan))
    assert [bool(house.tags(one)) for one in ids] == [False, True, True, False]
    assert ran.dropped == [
        "Tagged: Memory number 00: more than a whole run may change (--force)", "Tagged: Memory number 03: over the limit of one run",
    ]  # fmt: skip


# Dry runs


def test_a_dry_run_changes_nothing(house: House) -> None:
    one, two = house.several(2)
    runner = house.runner_of(tagging(), asking(ask(house.ormah, one, two)), IndexUpdater())
    before, head, tables = house.files(), house.head, _tables(house)
    ran = runner.run(list(runner.jobs), dry=True)
    assert [(each.proposals, each.asked, each.applied, each.commits) for each in ran] == [
        (2, 0, 0, []), (1, 1, 0, []), (0, 0, 0, []),
    ]  # fmt: skip
    assert ran[1].planned == ["proposal: Tag “Memory number 00” as asked"]
    assert (house.files(), house.head, _tables(house)) == (before, head, tables)


def _tables(house: House) -> list[str]:
    with house.ormah.state.transaction() as db:
        return list(db.iterdump())


# Preconditions


def test_a_persons_edit_between_plan_and_commit_drops_that_one_change(house: House) -> None:
    ids = house.several(3)
    file = house.path(ids[1])

    def edit(number: int) -> None:
        if number == 1:
            file.write_text(file.read_text() + "\nA person was here.\n")

    (ran,) = house.runs(tagging(then=edit))
    assert (ran.applied, ran.skipped) == (2, 1)
    assert ran.dropped == [f"Tagged: Memory number 01: {file.relative_to(house.vault)} was edited meanwhile"]
    assert "A person was here." in file.read_text()
    assert [bool(house.tags(one)) for one in ids] == [True, False, True]
    house.ormah.reconciler.scan()
    assert [ran.applied for ran in house.runs(tagging())] == [1]
    assert "A person was here." in file.read_text()
    assert house.tags(ids[1]) == ("met",)


def test_what_makes_no_sense_any_more_is_dropped_and_said(house: House) -> None:
    ids = house.several(4)
    told: list[str] = []

    def senseless() -> list[object]:
        raise BadRequest("it is the self node")

    def plan(turn: RunContext) -> Iterator[Step]:
        made = [tag(turn.ormah, one, "met") for one in ids]
        house.path(ids[0]).unlink()
        yield made[0]
        yield PlannedChange(Kind.MERGE, "Senseless", "", senseless, {})  # type: ignore[arg-type]
        yield PlannedChange(Kind.MERGE, "Nothing left", "", list, {}, done=lambda: told.append("never"))
        yield PlannedChange(
            made[3].kind, made[3].subject, "", made[3].edits, made[3].based_on, done=lambda: told.append("done")
        )

    (ran,) = house.runs(Small("mixed", plan))
    assert (ran.proposals, ran.applied, ran.skipped, ran.error) == (4, 1, 3, None)
    assert [line.partition(": ")[2].split(" (")[0] for line in ran.dropped] == [
        f"Memory number 00: the note of {ids[0][:8]}", "it is the self node", "it is so already",
    ]  # fmt: skip
    assert told == ["done"]


def test_nothing_is_begun_while_git_is_held(house: House) -> None:
    ids = house.several(2)
    marker = house.vault / ".git" / "MERGE_HEAD"

    def hold(number: int) -> None:
        if number == 1:
            marker.write_text(house.head + "\n")

    runner = house.runner_of(tagging(then=hold))
    (ran,) = runner.run(["tagger"])
    assert (ran.applied, ran.error) == (1, "git is held: a merge is under way; what is left waits for the next run")
    marker.unlink()
    assert runner.run(["tagger"])[0].applied == 1
    assert [house.tags(one) for one in ids] == [("met",)] * 2
    house.sound()


# Faults, records


def test_a_job_that_fails_does_not_stop_the_others(house: House) -> None:
    def broken(turn: RunContext) -> Iterator[Step]:
        yield from tagging(word="broken").plan(turn)
        raise ZeroDivisionError("a fault")

    def refused(_: RunContext) -> Iterator[Step]:
        raise NotFound("the model is not there")
        yield Done()

    house.several(2)
    runner = house.runner_of(Small("broken", broken), Small("refused", refused), tagging())
    ran = runner.run(list(runner.jobs))
    assert [each.applied for each in ran] == [2, 0, 2]
    errors = ["a fault of its own: ZeroDivisionError('a fault')", "the model is not there", None]
    assert [each.error for each in ran] == errors
    assert [task.past.last_error for task in runner.tasks()] == errors
    past = runner.tasks()[0].past
    assert (past.run_count, past.error_count, past.last_success) == (1, 1, None)
    assert past.last_duration_ms is not None


def test_the_record_outlives_the_daemon(house: House) -> None:
    house.several(2)
    runner = house.runner_of(tagging())
    assert (runner.tasks()[0].past.last_run, runner.tasks()[0].past.run_count) == (None, 0)
    house.go(hours=5)
    runner.run(["tagger"])
    ran = house.now
    house.go(hours=5)
    house.again()
    past = house.runner_of(tagging()).tasks()[0].past
    assert (past.last_run, past.last_success, past.last_error, past.run_count) == (ran, ran, None, 1)


def test_a_run_that_was_cut_off_says_so(house: House) -> None:
    runner = house.runner_of(tagging())
    runner.runs.begin("run", "tagger")
    house.again()
    past = house.runner_of(tagging()).tasks()[0].past
    assert past.last_error == CUT_OFF


# Pauses, one at a time, stopping


class Thinking:
    """A job that tags memories, and before each waits until the test lets it."""

    def __init__(self, name: str = "thinker") -> None:
        self.at = threading.Semaphore(0)
        self.on = threading.Semaphore(0)
        self.job = tagging(name, word=name, then=self._wait)

    def _wait(self, _: int) -> None:
        self.at.release()
        assert self.on.acquire(timeout=120)

    def reached(self) -> None:
        assert self.at.acquire(timeout=120), "the job is to get there"


class Asked(threading.Thread):
    """Somebody who asked for a run."""

    def __init__(self, house: House, *jobs: Small, runner: object = None, **more: bool) -> None:
        super().__init__(daemon=True)
        self.runner = runner or house.runner_of(*jobs)
        self.names, self.more = [job.name for job in jobs], more
        self.ran: list[RunTaskResult] = []
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.ran = self.runner.run(self.names, **self.more)  # type: ignore[attr-defined]
        except Exception as exc:  # noqa: BLE001 - told to the test
            self.error = exc

    def end(self) -> list[RunTaskResult]:
        self.join(120)
        assert not self.is_alive()
        return self.ran


def test_a_pause_outlives_the_daemon_and_a_job_that_is_named_runs_all_the_same(house: House) -> None:
    house.several(1)
    runner = house.runner_of(tagging(), IndexUpdater())
    runner.pause(["tagger"])
    since = house.now
    house.again()
    runner = house.runner_of(tagging(), IndexUpdater())
    assert [task.paused for task in runner.tasks()] == [since, None]
    assert [ran.job for ran in runner.run(["tagger", "index_updater"], by_itself=True)] == ["index_updater"]
    assert [ran.applied for ran in runner.run(["tagger"])] == [1]
    runner.resume(["tagger"])
    assert [task.paused for task in runner.tasks()] == [None, None]


def test_a_job_that_is_paused_while_it_runs_ends_after_the_change_it_is_at(house: House) -> None:
    house.several(3)
    thinking, after = Thinking(), tagging("after", "after")
    runner = house.runner_of(thinking.job, after)
    asked = Asked(house, thinking.job, after, runner=runner)
    thinking.reached()
    assert [task.running for task in runner.tasks()] == [True, False]
    thinking.on.release()
    thinking.reached()
    runner.pause(["thinker"])
    thinking.on.release(3)
    first, second = asked.end()
    assert (first.applied, first.more, first.error) == (1, True, None)
    assert second.applied == 3
    past = runner.tasks()[0].past
    assert (past.last_error, past.run_count) == (None, 1)
    assert runner.runs.latest("thinker") == house.now, "as it was first heard of: a run that was stopped does not count"


def test_one_run_at_a_time_and_a_scan_beside_it(house: House) -> None:
    house.several(2)
    thinking, second, scan = Thinking(), tagging("second", "second"), IndexUpdater()
    runner = house.runner_of(thinking.job, second, scan)
    one = Asked(house, thinking.job, runner=runner)
    thinking.reached()
    said: list[str] = []
    two = Asked(house, second, runner=runner, progress=lambda _d, _t, stage: said.append(stage))  # type: ignore[arg-type]
    wait_until(lambda: "waiting for the run under way" in said, "the second one waits, and is told so")
    assert [ran.job for ran in runner.run(["index_updater"])] == ["index_updater"], "a scan waits for nobody"
    assert two.is_alive()
    assert [task.running for task in runner.tasks()] == [True, False, False]
    thinking.on.release(2)
    assert [ran.applied for ran in one.end()] == [2]
    assert [ran.applied for ran in two.end()] == [2]


def test_stopping_ends_a_run_after_the_change_it_is_at(house: House) -> None:
    house.several(3)
    thinking, after = Thinking(), tagging("after", "after")
    runner = house.runner_of(thinking.job, after)
    asked = Asked(house, thinking.job, after, runner=runner)
    thinking.reached()
    waiting = Asked(house, after, runner=runner)
    thinking.on.release()
    thinking.reached()
    runner.stop()
    thinking.on.release(3)
    assert [(ran.job, ran.applied) for ran in asked.end()] == [("thinker", 1)], "the next one does not begin"
    waiting.end()
    assert isinstance(waiting.error, Unavailable)
    house.again()
    house.sound()
    assert [ran.applied for ran in house.runs(tagging("thinker", "thinker"))] == [2], "the next life does the rest"


def test_nobody_waits_for_a_job_that_thinks(house: House) -> None:
    ids = house.several(2)
    thinking = Thinking()
    asked = Asked(house, thinking.job)
    thinking.reached()
    new = store_memory(house.ormah, CreateNodeRequest(content="Written while a job thinks", source="person"), ME)
    assert new.commit is not None
    thinking.on.release(3)
    assert [ran.applied for ran in asked.end()] == [2]
    assert [house.tags(one) for one in ids] == [("thinker",)] * 2
    house.sound()
