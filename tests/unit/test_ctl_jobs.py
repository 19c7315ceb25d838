"""`ormahctl jobs` and `ormahctl review` as processes: what they send, what they print, how they end."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from ormahd import api
from ormahd.rpc.wire import Conflict, NotFound
from tests.unit.ctl_desk import Desk, on_terminal, write

A = "336001ac-6d0a-4c1e-9a55-0a52b0f4f9d1"


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
        ran("duplicate_merger", proposals=5, asked=1, applied=3, skipped=1, commits=["c04131a3ff"], run="r1", dropped=["one: edited \x1bmeanwhile"], more=True),
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
    assert "to take all of it back: ormahctl undo --run c04131a3" in done.stderr
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


def waiting(desk: Desk, *rows: api.ProposalRow, behind: int = 0) -> None:
    """Lay out answers for a queue of these proposals, a contradiction, a conflict of a sync, and a finding."""
    ends = [
        api.Belief(
            id=f"{number}" * 36, short_id=f"{number}" * 8, type="fact", space=None, title=title, content=title,
            created=f"2026-11-0{number}T00:00:00Z", valid_until=None, outdated_reason=None,
        )
        for number, title in ((1, "Node 18"), (2, "Node 22 \x1b"))
    ]  # fmt: skip
    tension = api.Tension(a=ends[0], b=ends[1], time="2026-11-21T20:00:00Z", reason="two", weight=0.5, settled=False)
    settled = msgspec.structs.replace(tension, settled=True)
    conflict = api.ConflictItem(
        op="o",
        path="a/b.md",
        node=A,
        fields=["content"],
        kept="ours",
        commits={},
        values={},
        files={},
        what="two texts",
    )
    info, error = api.Finding(level="info", what="a book"), api.Finding(level="error", what="broken", path="c.md")
    desk.answers |= {
        "agent.proposals": listed(*rows, behind=behind),
        "agent.insights": api.InsightsResult(text="", evolutions=[], tensions=[tension, settled]),
        "admin.sync_conflicts": api.ConflictsResult([conflict]),
        "admin.doctor": api.DoctorResult(findings=[info, error]),
    }


def test_what_waits_is_one_list_and_harmless(desk: Desk) -> None:
    waiting(desk, proposal(), behind=3)
    conflicts = desk.answers["admin.sync_conflicts"].conflicts
    conflicts.append(
        msgspec.structs.replace(conflicts[0], node=None, path="global/fact/2026-11/a picture of the tea.pdf")
    )
    done = desk.ctl("review")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "45aa2d2c  merge     Merge \\x1b]0;evil\\x07two"
    assert lines[1:3] == ["  alike", "  cosine 0.81, words 1, 2, same words no"]
    assert "Port \\x1b[31mred" in lines[3]
    assert lines[4:6] == ["  99ac115a  (gone)", "  | line 0\\u202e"]
    assert lines[13] == "  | … 4 more lines"
    assert lines[15] == "contradiction: two"
    assert lines[17].startswith("  2. Node 22 \\x1b")
    assert lines[19:22] == [f"{A[:8]}  a/b.md", "  two texts", f"  put it right, then: ormahctl sync --resolve {A}"]
    assert "  put it right, then: ormahctl sync --resolve 'global/fact/2026-11/a picture of the tea.pdf'" in lines
    assert "error: c.md: broken" in lines
    assert "3 more proposals behind these" in done.stderr
    found = json.loads(desk.ctl("--json", "review").stdout)
    assert [len(found[name]) for name in ("proposals", "contradictions", "conflicts")] == [1, 1, 2]
    assert [one["level"] for one in found["findings"]][:1] == ["error"]


def test_on_a_terminal_one_key_decides_on_an_item(desk: Desk) -> None:
    waiting(desk, proposal(title="Node", content="Both it is."), proposal(id="b" * 36, short_id="bbbbbbbb"))
    desk.answers["agent.resolve_proposal"] = resolved
    desk.answers["agent.outdated"] = write(commit="d" * 40)
    desk.answers["admin.sync_resolve"] = api.ResolveConflictResult(settled=[], waiting=0)
    editor = desk.home / "editor"
    editor.write_text('#!/bin/sh\nprintf "# Node, newly\\n\\nWritten by hand.\\n" > "$1"\n')
    editor.chmod(0o755)
    drawn = on_terminal(desk, "review", typed=[b"e", b"n", b"2", b"y", b" "], EDITOR=str(editor), VISUAL=str(editor))
    plain = re.sub("\x1b\\[[0-9]*m", "", drawn)
    assert "y merge \\x1b]0;evil\\x07two, n leave all as it is, and do not ask again" in plain
    sent = [(one.action, one.title, one.content) for one in desk.params("agent.resolve_proposal")]
    assert sent == [("approved", "Node, newly", "Written by hand."), ("rejected", None, None)]
    assert [(one.node_id, one.by) for one in desk.params("agent.outdated")] == [("1" * 36, "2" * 36)]
    assert "undo: ormahctl undo dddddddd" in drawn
    assert [one.name for one in desk.params("admin.sync_resolve")] == ["a/b.md"]


def test_q_ends_the_review(desk: Desk) -> None:
    waiting(desk, proposal())
    on_terminal(desk, "review", typed=[b"q"])
    assert desk.params("agent.resolve_proposal") == []


def resolved(params: api.ResolveProposalParams) -> api.Result:
    return api.ResolveProposalResult(
        text=f"{params.proposal_id}: {params.action}", proposal_id=params.proposal_id, type="merge", status="approved", nodes=[A],
        op="op", commit=None if params.proposal_id == "cccc" else "c" * 40, degraded=[],
    )  # fmt: skip


def test_each_is_decided_on_by_itself(desk: Desk) -> None:
    desk.answers["agent.resolve_proposal"] = resolved
    done = desk.ctl("review", "approve", "bbbb", "cccc", "bbbb", "--keep", "both")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["bbbb: approved, undo: ormahctl undo cccccccc", "cccc: approved"]
    assert [(one.action, one.keep) for one in desk.params("agent.resolve_proposal")] == [("approved", "both")] * 2
    assert [one["proposal_id"] for one in json.loads(desk.ctl("--json", "review", "approve", "bbbb").stdout)] == [
        "bbbb"
    ]


def test_the_first_failure_is_the_commands(desk: Desk) -> None:
    desk.answers["agent.resolve_proposal"] = Conflict("it was rejected", hint="undo that")
    done = desk.ctl("review", "approve", "aaaa", "bbbb")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.count("it was rejected") == 2
    desk.answers["agent.resolve_proposal"] = NotFound("there is none")
    assert desk.ctl("--json", "review", "reject", "aaaa").returncode == 3
