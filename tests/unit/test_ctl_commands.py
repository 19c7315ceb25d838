"""Commands as processes: what they send, what they print, how they end. The desk lays out the answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from ormahd.rpc import schema
from ormahd.rpc.wire import BY_CODE, Ambiguous, Incompatible, NotFound, VaultBusy
from tests.house import wait_until
from tests.surroundings import surroundings
from tests.unit.ctl_desk import Desk, ctl, hit, node, open_desk, write


@pytest.fixture
def desk() -> Iterator[Desk]:
    with open_desk() as found:
        yield found


@pytest.fixture
def nobody(tmp_path: Path) -> dict[str, str]:
    """An environment in which no daemon runs."""
    return surroundings(tmp_path)


def remembered(**changed: Any) -> schema.RememberResult:
    fields: dict[str, Any] = {
        "text": "prose", "node_id": "97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1", "short_id": "97acbe8e", "path": "a/b_97acbe8e.md",
        "commit": "c" * 40, "op": "op1",
    }  # fmt: skip
    return schema.RememberResult(**fields | changed)


# ---------------------------------------------------------------- remember


def test_remember_sends_all_options_and_prints_what_a_person_wants(desk: Desk) -> None:
    edge = schema.Edge(id="1a2b3c4d-0", short_id="1a2b3c4d", edge="supports", weight=0.5, title="Chose \x1bVite")
    desk.answers["agent.remember"] = remembered(links=[edge], redacted=["AWS key"], degraded=["vectors"])
    done = desk.ctl(
        "--agent", "codex", "remember", "Likes tea", "--type", "preference", "--tier", "core", "--space", "kitchen",
        "--title", "Tea", "--tag", "a", "--tag", "b", "--about-self", "--confidence", "0.5", "--link", "supports:1a2b3c4d",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert desk.params("agent.remember") == [
        schema.RememberParams(
            content="Likes tea", type="preference", tier="core", space="kitchen", title="Tea", tags=["a", "b"],
            about_self=True, confidence=0.5, connections=[schema.Link(target="1a2b3c4d", edge="supports")],
        )
    ]  # fmt: skip
    assert desk.calls[-1].agent == "codex"
    assert (
        done.stdout
        == "remembered 97acbe8e  a/b_97acbe8e.md\n  supports 1a2b3c4d (0.50)  Chose \\x1bVite\n  commit cccccccc\n"
    )
    assert "secret: taken out before anything was written: AWS key" in done.stderr
    assert "neighbours were not looked for" in done.stderr


def test_remember_as_json(desk: Desk) -> None:
    desk.answers["agent.remember"] = remembered()
    for args in (["--json", "remember", "x"], ["remember", "x", "--json"]):
        fields = json.loads(desk.ctl(*args).stdout)
        assert {name: fields[name] for name in ("id", "short_id", "path", "commit", "links", "redacted")} == {
            "id": "97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1", "short_id": "97acbe8e", "path": "a/b_97acbe8e.md",
            "commit": "c" * 40, "links": [], "redacted": [],
        }  # fmt: skip


def test_a_memory_from_stdin_is_sent_as_it_is(desk: Desk) -> None:
    desk.answers["agent.remember"] = remembered()
    done = desk.ctl("remember", "-", stdin="\ufeffzwei Zeilen,\n\nÜmläute 日本\n")
    assert done.returncode == 0
    assert desk.params("agent.remember")[0].content == "zwei Zeilen,\n\nÜmläute 日本\n"


def test_stdin_that_is_no_utf8_is_a_usage_error(desk: Desk) -> None:
    done = desk.ctl("remember", "-", stdin=b"caf\xe9")
    assert done.returncode == 2
    assert done.stderr.startswith("error: the memory on stdin is not valid UTF-8 (byte 4)")
    assert not desk.calls


def test_stdin_without_end_is_refused_early(desk: Desk) -> None:
    done = desk.ctl("remember", "-", stdin=b"x" * 8_000_001)
    assert done.returncode == 2
    assert "longer than 8,000,000 bytes" in done.stderr
    assert not desk.calls


def test_spaces_of_a_call(desk: Desk, tmp_path: Path) -> None:
    desk.answers["agent.remember"] = remembered()
    desk.ctl("remember", "x", cwd=tmp_path)
    desk.ctl("remember", "x", "--global")
    desk.ctl("remember", "x", env={"ORMAH_SPACE": "mine"})
    desk.ctl("remember", "x", env={"ORMAH_SPACE": "global"})
    assert [params.space for params in desk.params("agent.remember")] == [UNSET, None, "mine", None]
    assert desk.calls[0].cwd == str(tmp_path)
    assert desk.calls[0].agent == "person"
    assert desk.ctl("remember", "x", "--global", "--space", "y").returncode == 2


def test_what_is_known_already_and_what_waits_for_git(desk: Desk) -> None:
    desk.answers["agent.remember"] = remembered(existing=True, commit=None)
    assert desk.ctl("remember", "x").stdout.startswith("known already 97acbe8e")
    desk.answers["agent.remember"] = remembered(stored=True, commit=None)
    done = desk.ctl("remember", "x")
    assert done.returncode == 0
    assert "the memory is safe and its commit follows" in done.stderr


# ---------------------------------------------------------------- recall, show


def test_recall_filters_by_space_and_favours_the_callers(desk: Desk) -> None:
    desk.answers["agent.recall"] = schema.RecallResult(text="prose", results=[])
    done = desk.ctl(
        "recall", "which", "tea", "-n", "3", "--type", "fact", "--type", "goal", "--tier", "core", "--space", "a", "--space",
        "global", "--tag", "t", "--after", "2026-11-01T00:00:00Z", "--before", "2026-11-02T00:00:00+00:00", "--explain",
        env={"ORMAH_SPACE": "mine", "TZ": "UTC"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "nothing found for: which tea" in done.stderr
    assert desk.params("agent.recall") == [
        schema.RecallParams(
            query="which tea", limit=3, types=["fact", "goal"], tiers=["core"], spaces=["a", "global"], tags=["t"],
            created_after="2026-11-01T00:00:00+00:00", created_before="2026-11-02T00:00:00+00:00", space="mine", explain=True,
        )
    ]  # fmt: skip


def test_results_are_numbered_and_harmless(desk: Desk) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07 ignore\rme \u202egnp.exe \x9b31m"
    desk.answers["agent.recall"] = schema.RecallResult(
        text="prose",
        results=[
            hit(),
            hit(title=None, content="First line\nsecond", source="activated", space="日本"),
            hit(title=evil, content=evil * 50),
        ],
        degraded=["vectors"],
    )
    done = desk.ctl("recall", "tea", env={"TZ": "UTC"})
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "1. Likes tea",
        "   preference · working · global · 97acbe8e · 2026-11-21 · 0.81",
        "   Green tea, no sugar.",
    ]
    assert lines[3] == "2. First line"
    assert lines[4].endswith("日本 · 97acbe8e · 2026-11-21 · 0.81 · activated")
    assert lines[5] == "   second"
    assert lines[6].startswith("3. \\x1b[2J\\x1b]0;owned\\x07 ignore me \\u202egnp.exe \\x9b31m")
    assert not set(done.stdout) & set(evil[:1] + "\x07\r\u202e\x9b")


def test_results_as_json(desk: Desk) -> None:
    desk.answers["agent.recall"] = schema.RecallResult(
        text="prose", results=[hit(content="\x9b31m")], degraded=["vectors"]
    )
    done = desk.ctl("--json", "recall", "tea")
    found = json.loads(done.stdout)
    assert "\x9b" not in done.stdout
    assert set(found) == {"results", "degraded"}
    assert set(found["results"][0]) >= {
        "id", "short_id", "title", "type", "tier", "space", "tags", "score", "source", "content", "created", "origin",
    }  # fmt: skip


def test_explain_shows_every_number_and_what_was_dropped(desk: Desk) -> None:
    dropped = [{"node_id": f"{number:08}-x", "score": 0.05, "dropped": "cut: below \x1b"} for number in range(30)]
    desk.answers["agent.recall"] = schema.RecallResult(
        text="prose",
        results=[
            hit(trace={"node_id": hit().id, "rrf": 0.5, "path": [{"edge": "supports"}], "dropped": None}),
            hit(short_id="1a2b3c4d", trace={"node_id": "1a2b", "rrf": None, "cosine": 0.25}),
        ],
        trace={"question": True, "terms": ["a\x1b", "b"], "period": {"after": "x"}, "dropped": dropped},
    )
    out = desk.ctl("recall", "tea", "--explain").stdout
    assert "          1. 97acbe8e  2. 1a2b3c4d\n" in out
    assert "rrf               0.5            -\n" in out
    assert "path    edge=supports            -\n" in out
    assert "question: yes\nterms: a\\x1b, b\nperiod.after: x\n" in out
    assert "dropped (30)\nnode_id   score  dropped\n00000000  0.05   cut: below \\x1b\n" in out
    assert "and 10 more" in out


def test_show_prints_the_note_and_its_connections(desk: Desk) -> None:
    edge = schema.Edge(
        id="1a2b3c4d-0", short_id="1a2b3c4d", edge="supports", weight=0.8, title="Chose Vite", reason="why"
    )
    desk.answers["agent.get"] = node(connections=schema.Connections(out=[edge], incoming=[edge]), content="a\x1bb\n\nc")
    out = desk.ctl("show", "97ac").stdout
    assert out.startswith("Likes tea\npreference · working · global · 97acbe8e-")
    assert "\na\\x1bb\n\nc\n" in out
    assert "→ supports 1a2b3c4d  Chose Vite  0.80  (why)" in out
    assert "← supports" in out
    fields = json.loads(desk.ctl("--json", "show", "97ac").stdout)
    assert fields["connections"]["out"][0]["edge"] == "supports"
    assert fields["connections"]["in"][0]["id"] == "1a2b3c4d-0"
    assert fields["path"] == node().path
    assert "text" not in fields


# ---------------------------------------------------------------- changes


def test_update_sends_only_what_was_named(desk: Desk) -> None:
    desk.answers["agent.update"] = write()
    done = desk.ctl(
        "update", "97ac", "--content", "-", "--tag", "a", "--untag", "b", "--clear", "title", "--global", stdin="new"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("updated 97acbe8e")
    expected = schema.UpdateParams(
        node_id="97ac", content="new", add_tags=["a"], remove_tags=["b"], title=None, space=None
    )
    assert desk.params("agent.update") == [expected]


def test_changes_answer_with_the_node_as_json(desk: Desk) -> None:
    desk.answers |= {name: write() for name in ("agent.update", "agent.forget", "agent.outdated", "agent.connect")}
    desk.answers["agent.get"] = node()
    for args in (
        ["update", "97ac", "--tier", "core"],
        ["forget", "97ac"],
        ["outdated", "97ac", "--reason", "moved"],
        ["connect", "97ac", "supports", "1a2b", "--weight", "0.7"],
    ):
        done = desk.ctl("--json", *args)
        assert done.returncode == 0, done.stderr
        fields = json.loads(done.stdout)
        assert fields["id"] == node().id
        assert fields["content"] == "Green tea, no sugar."
        assert fields["commit"] == "c" * 40
    assert all(params.touch is False for params in desk.params("agent.get"))
    assert desk.params("agent.outdated") == [schema.OutdatedParams(node_id="97ac", reason="moved")]
    assert desk.params("agent.connect") == [
        schema.ConnectParams(source_id="97ac", target_id="1a2b", edge="supports", weight=0.7)
    ]


@pytest.mark.parametrize(
    "args",
    [
        ["update", "97ac"],
        ["update", "97ac", "--clear", "content"],
        ["update", "97ac", "--title", "x", "--clear", "title"],
        ["update", "97ac", "--confidence", "2"],
        ["outdated", "97ac", "--reason", "x", "--revoke"],
        ["connect", "97ac", "likes", "1a2b"],
        ["remember"],
        ["remember", "two", "words"],
        ["remember", "x", "--type", "poem"],
        ["remember", "x", "--link", "likes:1a2b"],
        ["recall", "x", "-n", "0"],
        ["recall", "x", "--after", "soon"],
        ["history", "--limit", "0"],
        ["import", "/no/such/file"],
        ["config", "explode"],
        ["--agent", " ", "status"],
        ["frobnicate"],
        ["--frobnicate"],
    ],
)
def test_usage_errors_say_what_and_what_next(desk: Desk, args: list[str]) -> None:
    done = desk.ctl(*args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "\nhint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not desk.calls
    error = json.loads(desk.ctl("--json", *args).stderr)["error"]
    assert error["code"] == "bad_request"
    assert set(error) == {"code", "message", "hint", "data"}


def test_hints_for_mistakes(desk: Desk) -> None:
    assert "did you mean recall?" in desk.ctl("recal", "x").stderr
    assert "quotes" in desk.ctl("remember", "two", "words").stderr
    assert "put -- before" in desk.ctl("remember", "-5 degrees are cold").stderr
    assert "--title" in desk.ctl("remember", "x", "--titel", "y").stderr


def test_bytes_that_are_no_utf8_are_refused_as_arguments(desk: Desk) -> None:
    done = desk.ctl("remember", b"caf\xe9")
    assert done.returncode == 2
    assert done.stderr.startswith("error: argument 2 (caf\\udce9) is not valid UTF-8")
    assert desk.ctl("remember", "x", env={"ORMAH_SPACE": "caf\udce9"}).returncode == 2


# ---------------------------------------------------------------- errors and exits


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_the_exit_status_is_that_of_the_error(desk: Desk, code: str) -> None:
    desk.answers["agent.get"] = BY_CODE[code]("what, \x1bwhich", hint="what next", data={"a": 1})
    done = desk.ctl("show", "97ac")
    assert done.returncode == BY_CODE[code].exit_status
    assert done.stdout == ""
    assert done.stderr == "error: what, \\x1bwhich\nhint: what next\n"
    assert json.loads(desk.ctl("--json", "show", "97ac").stderr) == {
        "error": {"code": code, "message": "what, \x1bwhich", "hint": "what next", "data": {"a": 1}}
    }


def test_an_ambiguous_id_lists_what_it_may_be(desk: Desk) -> None:
    desk.answers["agent.get"] = Ambiguous(
        "'97ac' is ambiguous", hint="give more", data={"ids": ["97ac0001", "97ac0002"]}
    )
    done = desk.ctl("show", "97ac")
    assert done.returncode == 2
    assert "  97ac0001\n  97ac0002\n" in done.stderr


def test_nobody_answers(nobody: dict[str, str]) -> None:
    for args in (["status"], ["recall", "x"], ["rebuild"], ["export"]):
        done = ctl(*args, env=nobody)
        assert done.returncode == 69
        assert done.stdout == ""
        assert done.stderr.startswith("error: the daemon is not running")
        assert "ormahctl up" in done.stderr
    assert json.loads(ctl("--json", "status", env=nobody).stderr)["error"]["code"] == "unavailable"
    down = ctl("down", env=nobody)
    assert (down.returncode, down.stdout) == (0, "ormahd is not running\n")


def test_another_version_and_another_protocol(desk: Desk) -> None:
    desk.answers["admin.health"] = health(version="0.0.1")
    done = desk.ctl("status")
    assert done.returncode == 0
    assert "the daemon is version 0.0.1" in done.stderr
    desk.answers["admin.health"] = Incompatible("protocol 2", hint="restart")
    assert desk.ctl("status").returncode == 76


# ---------------------------------------------------------------- looking


def health(**changed: Any) -> schema.HealthResult:
    from ormahd import __version__

    index = schema.IndexHealth(
        directory="/x", notes=3, pending_vectors=2, bytes=4_500_000, model="all-MiniLM-L6-v2", head="h", fresh=True
    )
    fields: dict[str, Any] = {
        "status": "ok", "phase": "ready", "version": __version__, "protocol": 1, "pid": 1, "uptime_seconds": 120.0,
        "vault": "/home/x/vault", "vault_id": "v", "socket": "/s", "nodes": 3, "index": index, "degraded": ["vectors"],
        "queued": 1, "busy": "a rebase", "watcher": "watching", "rss_mb": 230.4, "threads": 12, "clients": 1,
        "warnings": ["the model differs\x1b"], "jobs": {"j": schema.JobHealth(last_error="boom")},
    }  # fmt: skip
    return schema.HealthResult(**fields | changed)


def test_status_shows_what_is_missing(desk: Desk) -> None:
    desk.answers["admin.health"] = health()
    done = desk.ctl("status")
    assert done.returncode == 0, done.stderr
    for text in ("ready · ormahd", "up 2 min", "/home/x/vault  (3 memories)", "2 texts waiting", "4.5 MB", "vectors",
                 "the model differs\\x1b", "a rebase", "j failed: boom", "230 MB, 12 threads, 1 client"):  # fmt: skip
        assert text in done.stdout
    fields = json.loads(desk.ctl("--json", "status").stdout)
    assert {"phase", "vault", "nodes", "index", "degraded", "rss_mb"} <= set(fields)


def test_history_lists_newest_first(desk: Desk) -> None:
    op = schema.OpResult(
        op="op1", commit="c" * 40, time="2026-11-21T20:00:00Z", kind="remember", source="agent:claude-code", subject="Remember: te\x1ba",
        body="", nodes=["n"], run=None, undone_by="op2",
    )  # fmt: skip
    desk.answers["history.list"] = schema.HistoryResult(ops=[op])
    done = desk.ctl(
        "history",
        "97ac",
        "--job",
        "decay",
        "--kind",
        "edit",
        "--since",
        "2026-11-01",
        "--limit",
        "7",
        env={"TZ": "UTC"},
    )
    assert done.stdout == "2026-11-21 20:00  cccccccc  remember    agent:claude-code  Remember: te\\x1ba  (undone)\n"
    assert desk.params("history.list") == [
        schema.HistoryParams(node_id="97ac", job="decay", kind="edit", since="2026-11-01T00:00:00+00:00", limit=7)
    ]
    found = json.loads(desk.ctl("--json", "history").stdout)
    assert {"op", "commit", "time", "kind", "source", "subject", "nodes", "undone_by"} <= set(found[0])


def test_doctor_and_verify_exit_1_when_they_find_something(desk: Desk) -> None:
    info = schema.Finding(level="info", what="a book", path="b.md")
    error = schema.Finding(level="error", what="broken\x1b", path="a.md", line=3, mend="mend it")
    desk.answers["admin.doctor"] = schema.DoctorResult(findings=[error, info])
    done = desk.ctl("doctor", "--fix")
    assert done.returncode == 1
    assert done.stdout == "error: a.md:3: broken\\x1b\n  mend it\ninfo: b.md: a book\n"
    assert desk.params("admin.doctor") == [schema.DoctorParams(fix=True)]
    desk.answers["admin.doctor"] = schema.DoctorResult(findings=[info])
    assert desk.ctl("doctor").returncode == 0
    desk.answers["admin.verify"] = schema.VerifyResult(
        ok=False, differences=[schema.Difference(what="missing", path="a.md")]
    )
    done = desk.ctl("--json", "verify")
    assert done.returncode == 1
    assert json.loads(done.stdout)["differences"][0]["path"] == "a.md"
    desk.answers["admin.verify"] = schema.VerifyResult(ok=True, differences=[])
    assert desk.ctl("verify").stdout == "the index equals the vault\n"


def test_rebuild_draws_nothing_without_a_terminal(desk: Desk) -> None:
    desk.progress = [schema.Progress(done=1, total=2, stage="reading")]
    desk.answers["admin.rebuild"] = schema.RebuildResult(status="rebuilt", nodes_indexed=2, seconds=0.5)
    done = desk.ctl("rebuild")
    assert (done.stdout, done.stderr) == ("indexed 2 memories in 0.5 s\n", "")


def test_stats(desk: Desk) -> None:
    desk.answers["admin.stats"] = schema.StatsResult(
        total_nodes=2,
        by_tier={"core": 2},
        by_type={"fact": 2},
        by_space={"": 2},
        total_edges=1,
        by_edge={"supports": 1},
        plain_files=0,
    )
    assert "2 memories, 1 connection\n" in desk.ctl("stats").stdout


# ---------------------------------------------------------------- in and out


def test_import_sends_batches_of_one_run_and_keeps_line_numbers(desk: Desk, tmp_path: Path) -> None:
    def take(params: schema.ImportParams) -> schema.ImportResult:
        bad = [place for place, line in enumerate(params.lines, params.first_line) if "bad" in line]
        failed = [schema.ImportFailure(line=place, error="no good\x1b") for place in bad]
        return schema.ImportResult(added=len(params.lines) - len(bad), skipped=0, failed=failed, run="r1")

    desk.answers["admin.import"] = take
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

    def take(params: schema.ImportParams) -> schema.ImportResult:
        taken.append(params)
        if len(taken) > 1:
            raise VaultBusy("git is held")
        return schema.ImportResult(added=len(params.lines), skipped=0, failed=[], run="r1")

    desk.answers["admin.import"] = take
    file = tmp_path / "in.jsonl"
    file.write_text('{"content": "x"}\n' * 100)
    done = desk.ctl("import", str(file))
    assert done.returncode == 75
    assert "broken off after line 64: 64 memories added" in done.stderr
    assert "error: git is held" in done.stderr


def test_ctrl_c_in_an_import_finishes_the_batch_and_says_how_far(desk: Desk, tmp_path: Path) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def take(params: schema.ImportParams) -> schema.ImportResult:
        if "second" in params.lines[-1]:
            arrived.set()
            go_on.wait(30)
        return schema.ImportResult(added=len(params.lines), skipped=0, failed=[], run="r1")

    desk.answers["admin.import"] = take
    file = tmp_path / "in.jsonl"
    file.write_text('{"content": "x"}\n' * 64 + '{"content": "second"}\n')
    command = [sys.executable, "-m", "ormahctl", "import", str(file)]
    said = (
        tmp_path / "stderr"
    )  # a file: what a pipe's reader has taken in beyond the first line would be lost to the next one
    with (
        said.open("w") as stderr,
        subprocess.Popen(command, env=desk.env, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        assert arrived.wait(30)
        process.send_signal(signal.SIGINT)
        wait_until(lambda: "finishing" in said.read_text(), "it says that it stops")
        go_on.set()
        out, _ = process.communicate(timeout=30)
    err = said.read_text()
    assert process.returncode == 130
    assert out == ""
    assert "stopped after line 65: 65 memories added" in err
    assert "Traceback" not in err


def pages(count: int) -> Any:
    def page(params: schema.ExportParams) -> schema.ExportResult:
        first = int(params.after or 0)
        last = min(count, first + params.limit)
        items = [{"id": str(number), "content": "日本\x9b" + "x" * 200} for number in range(first, last)]
        return schema.ExportResult(items=items, next=str(last) if last < count else None)

    return page


def test_export_writes_json_lines(desk: Desk, tmp_path: Path) -> None:
    desk.answers["admin.export"] = pages(1200)
    done = desk.ctl("export")
    rows = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
    assert [row["id"] for row in rows] == [str(number) for number in range(1200)]
    assert "\x9b" not in done.stdout
    file = tmp_path / "out.jsonl"
    file.write_text("old")
    assert json.loads(desk.ctl("--json", "export", "--output", str(file)).stdout)["exported"] == 1200
    assert file.read_text() == done.stdout
    assert file.stat().st_mode & 0o077 == 0


def test_an_export_that_fails_leaves_the_old_file(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    file.write_text("old")
    desk.answers["admin.export"] = NotFound("gone")
    assert desk.ctl("export", "--output", str(file)).returncode == 3
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.jsonl"]
    assert desk.ctl("export", "--output", str(tmp_path)).returncode == 2
    assert desk.ctl("export", "--output", str(tmp_path / "no" / "dir")).returncode == 2


# ---------------------------------------------------------------- the world around


def test_a_reader_that_goes_away_is_no_error(desk: Desk) -> None:
    desk.answers["admin.export"] = pages(5000)
    command = [sys.executable, "-m", "ormahctl", "export"]
    with subprocess.Popen(command, env=desk.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"id":"0"')
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141


def test_ctrl_c_ends_quietly(desk: Desk) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def wait(_: Any) -> schema.NodeResult:
        arrived.set()
        go_on.wait(30)
        return node()

    desk.answers["agent.get"] = wait
    command = [sys.executable, "-m", "ormahctl", "show", "97ac"]
    with subprocess.Popen(command, env=desk.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert arrived.wait(30)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        go_on.set()
    assert (process.returncode, out, err) == (130, "", "interrupted\n")


def test_utf8_in_every_locale(desk: Desk) -> None:
    desk.answers["agent.recall"] = schema.RecallResult(text="", results=[hit(title="日本 עברית")])
    for env in (
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "nowhere.ISO-8859-1"},
        {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
    ):
        done = desk.ctl("recall", "日本".encode(), env=env)
        assert done.returncode == 0, done.stderr
        assert "日本 עברית" in done.stdout
    assert {params.query for params in desk.params("agent.recall")} == {"日本"}


def test_a_working_directory_that_is_gone(desk: Desk, tmp_path: Path) -> None:
    desk.answers["agent.remember"] = remembered()
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'rmdir "{gone}"; exec "{sys.executable}" -m ormahctl remember x'
    done = subprocess.run(["sh", "-c", script], cwd=gone, env=desk.env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert desk.calls[-1].cwd is None


def test_a_start_imports_only_what_it_needs(desk: Desk) -> None:
    desk.answers["admin.health"] = health()
    script = (
        "import sys; from ormahctl.run import run; status = run(['--json', 'status']); "
        "print(status, *sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], env=desk.env, capture_output=True, text=True, check=True)
    status, *modules = done.stderr.split()
    assert status == "0"
    heavy = {
        "rich",
        "pydantic",
        "numpy",
        "yaml",
        "git",
        "chromadb",
        "torch",
        "ormahd.config",
        "ormahd.core",
        "ormahd.vault",
    }
    assert not heavy & set(modules)
    assert [name for name in modules if name.startswith("ormahctl.commands.")] == ["ormahctl.commands.status"]


def test_version_help_and_completion(nobody: dict[str, str]) -> None:
    from ormahd import __version__

    assert ctl("--version", env=nobody).stdout == f"ormahctl {__version__}\n"
    assert ctl("--help", env=nobody).stdout.startswith("Usage: ormahctl")
    assert ctl(env=nobody).returncode == 2
    for shell in ("bash", "zsh", "fish"):
        done = ctl("completion", shell, env=nobody)
        assert done.returncode == 0, done.stderr
        assert "_ORMAHCTL_COMPLETE" in done.stdout
        assert f"ormahctl completion {shell} > " in done.stdout
    assert ctl("completion", "zsh", env=nobody).stdout.startswith("#compdef ormahctl\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ormahctl re", {"remember", "recall", "rebuild"}),
        ("ormahctl remember --ti", {"--tier", "--title"}),
        ("ormahctl remember x --type pr", {"preference", "project", "procedure"}),
        ("ormahctl recall x --tier ", {"core", "working", "archival"}),
        ("ormahctl remember x --link part", {"part_of:"}),
        ("ormahctl connect 97ac de", {"depends_on", "defines", "derived_from"}),
        ("ormahctl config ", {"show", "default", "check"}),
    ],
)
def test_what_is_completed(nobody: dict[str, str], words: str, expected: set[str]) -> None:
    parts = words.split(" ")
    env = nobody | {"_ORMAHCTL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(parts) - 1)}
    done = ctl(env=env)
    assert {line.split(",", 1)[1] for line in done.stdout.splitlines()} == expected
