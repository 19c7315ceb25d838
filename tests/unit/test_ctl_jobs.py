"""`ormahctl jobs` and `ormahctl proposals` as processes: what they send, what they print, how they end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from ormahd import api
from ormahd.rpc.wire import Conflict, NotFound
from tests.unit.ctl_desk import Desk, open_desk

A = "336001ac-6d0a-4c1e-9a55-0a52b0f4f9d1"


@pytest.fixture
def desk() -> Iterator[Desk]:
    with open_desk() as found:
        yield found


def ran(job: str, **more: Any) -> api.RunTaskResult:
    fields: dict[str, Any] = {"proposals": 0, "applied": 0, "skipped": 0, "commits": []}
    return api.RunTaskResult(job=job, **fields | more)


def proposal(**more: Any) -> api.ProposalRow:
    node = api.ProposalNode(
        id=A, short_id=A[:8], type="fact", tier="working", space=None, title="Port \x1b[31mred", content="x",
        created="2026-11-21T20:00:00Z", updated=None,
    )  # fmt: skip
    fields: dict[str, Any] = {
        "id": "45aa2d2c-0000-4000-8000-000000000000", "short_id": "45aa2d2c", "type": "merge", "status": "pending",
        "source_nodes": [A, "99ac115a-6d0a-4c1e-9a55-0a52b0f4f9d1"], "proposed_action": "Merge \x1b]0;evil\x07two", "reason": "alike",
        "created": "2026-11-21T20:00:00Z", "resolved": None, "preview": "\n".join(f"line {n}\u202e" for n in range(12)),
        "evidence": {"cosine": 0.8123, "words": [1, 2], "same_words": "no"}, "nodes": [node],
    }  # fmt: skip
    return api.ProposalRow(**fields | more)


def listed(*rows: api.ProposalRow, behind: int = 0) -> api.ProposalsResult:
    return api.ProposalsResult(proposals=list(rows), pending=len(rows) + behind, behind=behind)


# Jobs


def test_what_a_run_says(desk: Desk) -> None:
    desk.progress = [api.Progress(done=1, total=2, stage="auto_linker: neighbours")]
    desk.answers["admin.run_all"] = api.RunAllResult(results=[
        ran("importance_scorer"),
        ran("duplicate_merger", proposals=5, asked=1, applied=3, skipped=1, commits=["c"], run="r1", dropped=["one: edited \x1bmeanwhile"], more=True),
        ran("auto_linker", proposals=1, applied=1, error="the judge\nis gone"),
    ])  # fmt: skip
    done = desk.ctl("jobs", "run", "all")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "importance_scorer  nothing to do",
        "duplicate_merger   3 done, 1 proposal waits for you, 1 skipped",
        "  not: one: edited \\x1bmeanwhile",
        "  There is more to do: run it again, or with --force (without the limits of one run).",
        "auto_linker        failed: the judge is gone (1 done)",
    ]
    assert "to take all of it back: ormahctl undo --run r1" in done.stderr
    assert desk.params("admin.run_all") == [api.RunAllParams()]


def test_what_a_dry_run_says(desk: Desk) -> None:
    desk.answers["admin.run_task"] = ran(
        "duplicate_merger", proposals=4, asked=2, skipped=1, planned=["Merge: a", "proposal: b", "proposal: c"],
        dropped=["d: over the limit of one run"],
    )  # fmt: skip
    done = desk.ctl("jobs", "run", "duplicate_merger", "--dry-run", "--force")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "duplicate_merger   1 would be done, 2 proposals would wait for you, 1 would not", "  Merge: a", "  proposal: b",
        "  proposal: c", "  not: d: over the limit of one run",
    ]  # fmt: skip
    assert desk.params("admin.run_task") == [api.RunTaskParams(name="duplicate_merger", dry_run=True, force=True)]


# Proposals


def test_whose_words_hold_and_a_text_of_ones_own(desk: Desk) -> None:
    nodes = [
        api.ProposalNode(
            id=f"{number}" * 36, short_id=f"{number}" * 8, type="fact", tier="working", space=None, title=title, content=text,
            created=f"2026-11-0{number}T00:00:00Z", updated=None,
        )
        for number, title, text in ((1, "Node 18", "Node 18 it is."), (2, "Node 22", "Node 22 it is."))
    ]  # fmt: skip
    row = msgspec.structs.replace(proposal(), nodes=nodes, title="Node", content="Both it is.")
    desk.answers["agent.proposals"] = listed(row)
    desk.answers["agent.resolve_proposal"] = api.ResolveProposalResult(
        text="done", proposal_id=row.id, type="merge", status="approved", nodes=[], op="op", commit="c" * 40, stored=False,
        degraded=[],
    )  # fmt: skip
    editor = desk.home / "editor"
    editor.write_text('#!/bin/sh\ncp "$1" "$HOME/seen"\nprintf "# Node, newly\\n\\nWritten by hand.\\n" > "$1"\n')
    editor.chmod(0o755)
    env = {"EDITOR": str(editor), "VISUAL": str(editor), "HOME": str(desk.home)}
    assert desk.ctl("proposals", "approve", row.id, "--keep", "both").returncode == 0
    assert desk.ctl("proposals", "approve", row.id[:8], "--edit", env=env).returncode == 0
    assert (desk.home / "seen").read_text() == "# Node\n\nBoth it is.\n"
    assert desk.ctl("proposals", "approve", row.id[:8], "--edit", "--keep", "older", env=env).returncode == 0
    assert (desk.home / "seen").read_text() == "# Node 18\n\nNode 18 it is.\n"
    sent = [(one.keep, one.title, one.content) for one in desk.params("agent.resolve_proposal")]
    own = ("Node, newly", "Written by hand.")
    assert sent == [("both", None, None), (None, *own), ("older", *own)]
    editor.write_text('#!/bin/sh\n: > "$1"\n')
    done = desk.ctl("proposals", "approve", row.id, "--edit", env=env)
    assert (done.returncode, len(desk.params("agent.resolve_proposal"))) == (1, 3)
    assert "the text is empty; nothing was done" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--keep", "newer"), "--keep and --edit belong to: approve ID"),
        (("reject", "x", "--keep", "newer"), "--keep and --edit belong to: approve ID"),
        (("approve", "x", "y", "--edit"), "--edit is for one ID"),
        (("approve", "x", "--edit", "--keep", "both"), "--edit is for one ID"),
        (("aprove", "x"), "did you mean approve?"),
        (("approve", "x", "--keep", "newest"), "did you mean newer?"),
    ],
)
def test_a_choice_that_makes_no_sense_is_a_usage_error(desk: Desk, words: tuple[str, ...], said: str) -> None:
    done = desk.ctl("proposals", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert desk.calls == []


def test_a_proposal_for_people_is_harmless_and_short(desk: Desk) -> None:
    desk.answers["agent.proposals"] = listed(proposal(), behind=3)
    done = desk.ctl("proposals", "--type", "merge", "-n", "5")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "45aa2d2c  merge     Merge \\x1b]0;evil\\x07two"
    assert lines[1:3] == ["  alike", "  cosine 0.81, words 1, 2, same words no"]
    assert "Port \\x1b[31mred" in lines[3]
    assert lines[4] == "  99ac115a  (gone)"
    assert lines[5] == "  | line 0\\u202e"
    assert lines[13] == "  | … 4 more lines"
    assert "3 more wait behind these" in done.stderr
    assert desk.params("agent.proposals") == [api.ProposalsParams(status="pending", type="merge", limit=5)]
    assert json.loads(desk.ctl("--json", "proposals", "--all").stdout)[0]["preview"].startswith("line 0")
    assert desk.params("agent.proposals")[-1].status == "all"


def test_what_was_decided_says_by_whom(desk: Desk) -> None:
    row = proposal(status="rejected", resolved="2026-11-22T20:00:00Z", resolved_by="agent:x")
    desk.answers["agent.proposals"] = listed(row)
    done = desk.ctl("proposals", "--status", "rejected")
    assert "rejected 2026-11-22 20:00 by agent:x" in done.stdout.splitlines()[0]
    assert done.stderr == ""


def test_each_is_decided_on_by_itself(desk: Desk) -> None:
    def answer(params: api.ResolveProposalParams) -> api.Result:
        return api.ResolveProposalResult(
            text=f"{params.proposal_id}: approved", proposal_id=params.proposal_id, type="merge", status="approved", nodes=[A],
            op="op", commit="c" * 40 if params.proposal_id == "bbbb" else None, stored=params.proposal_id == "cccc", degraded=[],
        )  # fmt: skip

    desk.answers["agent.resolve_proposal"] = answer
    done = desk.ctl("proposals", "approve", "bbbb", "cccc", "bbbb")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["bbbb: approved", "  to take it back: ormahctl undo cccccccc", "cccc: approved"]
    assert "git is busy" in done.stderr
    assert [one.action for one in desk.params("agent.resolve_proposal")] == ["approved", "approved"]
    assert [one["proposal_id"] for one in json.loads(desk.ctl("--json", "proposals", "approve", "bbbb").stdout)] == [
        "bbbb"
    ]


def test_the_first_failure_is_the_commands(desk: Desk) -> None:
    desk.answers["agent.resolve_proposal"] = Conflict("it was rejected", hint="undo that")
    done = desk.ctl("proposals", "approve", "aaaa", "bbbb")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.count("it was rejected") == 2
    desk.answers["agent.resolve_proposal"] = NotFound("there is none")
    assert desk.ctl("--json", "proposals", "reject", "aaaa").returncode == 3
