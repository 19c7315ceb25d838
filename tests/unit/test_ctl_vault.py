"""Commands on the whole vault, as processes: status, history, doctor, verify, rebuild, stats, and what goes in and out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ormahd import api
from ormahd.rpc.wire import VaultBusy
from tests.unit.ctl_desk import STATS, Desk, health, op

# ---------------------------------------------------------------- looking


def test_status_shows_what_is_missing(desk: Desk) -> None:
    desk.answers["admin.health"] = health()
    done = desk.ctl("status")
    assert done.returncode == 0, done.stderr
    for text in ("ready · ormahd", "up 2 min", "/home/x/vault  (3 memories)", "2 texts left", "vectors",
                 "the model differs\\x1b", "a rebase", "j failed: boom"):  # fmt: skip
        assert text in done.stdout
    desk.answers["admin.stats"] = STATS
    details = desk.ctl("status", "--verbose").stdout
    for text in (done.stdout, "rss_mb: 230.4", "threads: 12", "stats.total_nodes: 2\n"):
        assert text in details
    fields = json.loads(desk.ctl("--json", "status").stdout)
    assert {"phase", "vault", "nodes", "index", "degraded", "rss_mb"} <= set(fields)


def test_history_lists_newest_first(desk: Desk) -> None:
    undone = op(source="agent:claude-code", subject="Remember: te\x1ba", nodes=["n"], undone_by="op2")
    desk.answers["history.list"] = api.HistoryResult(ops=[undone])
    typed = "history 97ac --source job:decay_manager --space shop --since 2026-11-01 --limit 7"
    done = desk.ctl(*typed.split(), env={"TZ": "UTC"})
    assert done.stdout == "2026-11-21 20:00  cccccccc  remember    agent:claude-code  Remember: te\\x1ba  (undone)\n"
    assert desk.params("history.list") == [
        api.HistoryParams(
            node_id="97ac", source="job:decay_manager", space="shop", since="2026-11-01T00:00:00+00:00", limit=7
        )
    ]
    found = json.loads(desk.ctl("--json", "history").stdout)
    assert {"op", "commit", "time", "kind", "source", "subject", "nodes", "undone_by"} <= set(found[0])


def test_doctor_and_verify_exit_1_when_they_find_something(desk: Desk) -> None:
    info = api.Finding(level="info", what="a book", path="b.md")
    error = api.Finding(level="error", what="broken\x1b", path="a.md", line=3, mend="mend it")
    desk.answers["admin.doctor"] = api.DoctorResult(findings=[error, info])
    done = desk.ctl("doctor", "--fix")
    assert done.returncode == 1
    assert done.stdout == "error: a.md:3: broken\\x1b\n  mend it\ninfo: b.md: a book\n"
    assert desk.params("admin.doctor") == [api.DoctorParams(fix=True)]
    desk.answers["admin.doctor"] = api.DoctorResult(findings=[info])
    assert desk.ctl("doctor").returncode == 0
    desk.answers["admin.verify"] = api.VerifyResult(ok=False, differences=[api.Difference(what="missing", path="a.md")])
    done = desk.ctl("--json", "verify")
    assert done.returncode == 1
    assert json.loads(done.stdout)["differences"][0]["path"] == "a.md"
    desk.answers["admin.verify"] = api.VerifyResult(ok=True, differences=[])
    assert desk.ctl("verify").stdout == "the index equals the vault\n"


def test_rebuild_draws_nothing_without_a_terminal(desk: Desk) -> None:
    desk.progress = [api.Progress(done=1, total=2, stage="reading")]
    desk.answers["admin.rebuild"] = api.RebuildResult(status="rebuilt", nodes_indexed=2, seconds=0.5)
    done = desk.ctl("rebuild")
    assert (done.stdout, done.stderr) == ("indexed 2 memories in 0.5 s\n", "")


# ---------------------------------------------------------------- in and out


def test_import_sends_batches_of_one_run_and_keeps_line_numbers(desk: Desk, tmp_path: Path) -> None:
    def take(params: api.ImportParams) -> api.ImportResult:
        bad = [place for place, line in enumerate(params.lines, params.first_line) if "bad" in line]
        failed = [api.ImportFailure(line=place, error="no good\x1b") for place in bad]
        return api.ImportResult(added=len(params.lines) - len(bad), skipped=0, failed=failed, run="r1")

    desk.answers |= {"admin.import": take, "history.list": api.HistoryResult(ops=[])}
    file = tmp_path / "in.jsonl"
    lines = [f'{{"content": "{number}"}}' for number in range(2000)]
    lines[3] = ""
    lines[1500] = '{"bad": 1}'
    file.write_bytes(("\ufeff" + "\r\n".join(lines)).encode() + b"\n\xff\n")
    done = desk.ctl("--json", "import", str(file))
    assert done.returncode == 2
    found = json.loads(done.stdout)
    assert (found["added"], found["skipped"], found["run"]) == (1998, 0, "r1")
    assert [failure["line"] for failure in found["failed"]] == [1501, 2001]
    runs = [params.run for params in desk.params("admin.import")]
    assert runs[0] is None
    assert set(runs[1:]) == {"r1"}
    people = desk.ctl("import", "-", stdin=file.read_bytes())
    assert people.returncode == 2
    assert people.stdout.startswith("1,998 memories added, 0 skipped, 2 failed")
    assert "line 1501: no good\\x1b" in people.stderr


def test_import_says_how_far_it_got(desk: Desk, tmp_path: Path) -> None:
    taken = []

    def take(params: api.ImportParams) -> api.ImportResult:
        taken.append(params)
        if len(taken) > 1:
            raise VaultBusy("git is held")
        return api.ImportResult(added=len(params.lines), skipped=0, failed=[], run="r1")

    desk.answers["admin.import"] = take
    file = tmp_path / "in.jsonl"
    file.write_text('{"content": "x"}\n' * 600)
    done = desk.ctl("import", str(file))
    assert done.returncode == 75
    assert "broken off after line 500: 500 memories added" in done.stderr
    assert "error: git is held" in done.stderr


def pages(count: int) -> Any:
    def page(params: api.ExportParams) -> api.ExportResult:
        first = int(params.after or 0)
        last = min(count, first + params.limit)
        items = [{"id": str(number), "content": "日本\x9b" + "x" * 200} for number in range(first, last)]
        return api.ExportResult(items=items, next=str(last) if last < count else None)

    return page


def test_export_writes_json_lines(desk: Desk) -> None:
    desk.answers["admin.export"] = pages(1200)
    done = desk.ctl("export")
    rows = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
    assert [row["id"] for row in rows] == [str(number) for number in range(1200)]
    assert "\x9b" not in done.stdout


def test_a_reader_that_goes_away_is_no_error(desk: Desk) -> None:
    desk.answers["admin.export"] = pages(5000)
    command = [sys.executable, "-m", "ormahctl", "export"]
    with subprocess.Popen(command, env=desk.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"id":"0"')
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(120) == 141
