"""Many memories in and out: an export is a backup, an import that was stopped is run again."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.blackbox.conftest import wait_until

if TYPE_CHECKING:
    from tests.blackbox.conftest import House


def write(file: Path, count: int) -> None:
    rows = (
        {
            "content": f"fact number {number} about kettles",
            "type": "fact",
            "tags": ["n"],
            "created": "2026-01-02T03:04:05Z",
        }
        for number in range(count)
    )
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_an_import_is_one_run_and_bad_lines_are_named(daemon: House, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    write(file, 300)
    lines = file.read_text().splitlines()
    lines[10:10] = ["not json", "", "[1, 2]", '{"content": ""}', '{"content": "x", "colour": "blue"}']
    lines.insert(15, '{"content": "tied to nothing", "connections": [{"target": "nothing"}]}')
    lines.append('{"content": "café"}')
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode("latin-1"))
    done = daemon.json("import", str(file), status=2)
    assert (done["added"], done["skipped"]) == (300, 0)
    assert [failure["line"] for failure in done["failed"]] == [11, 13, 14, 15, 16, 307]
    assert done["failed"][4]["error"].startswith("connections[0].target: 'nothing' is no memory id; give the id, or at")
    runs = {op["run"] for op in [op for op in daemon.json("history") if op["kind"] == "import"]}
    assert runs == {done["run"]}
    assert daemon.json("recall", "fact number 17", "--before", "2026-02-01")["results"][0]["created"].startswith(
        "2026-01-02T03:04:05"
    )
    again = daemon.json("import", str(file), status=2)
    assert (again["added"], again["skipped"]) == (0, 300)


def test_no_edge_leads_to_a_line_that_failed(daemon: House, tmp_path: Path) -> None:
    ids = [f"0000000{number}-0000-4000-8000-000000000000" for number in range(5)]
    targets = [
        [ids[1]],
        [ids[2]],
        ["nothing"],
        [ids[4]],
        [ids[3]],
    ]  # 0 leads to 1, 1 to 2, which fails; 3 and 4 to each other
    file = tmp_path / "edges.jsonl"
    file.write_text("".join(
        json.dumps({"id": one, "content": f"The buoy of the channel, {one}", "connections": [{"target": two} for two in to]}) + "\n"
        for one, to in zip(ids, targets, strict=True)
    ))  # fmt: skip
    done = daemon.json("import", str(file), status=2)
    assert (done["added"], [one["line"] for one in done["failed"]]) == (2, [1, 2, 3])
    assert [one["id"] for one in daemon.json("show", ids[3])["connections"]["out"]] == [ids[4]]


def test_what_is_exported_can_be_imported_elsewhere(daemon: House, house: House, tmp_path: Path) -> None:
    first = daemon.json(
        "remember", "The kettle is blue", "--title", "Kettle", "--tag", "t", "--space", "home", "--confidence", "0.5"
    )
    second = daemon.json("remember", "Tea needs water 日本", "--link", f"depends_on:{first['short_id']}", "--global")
    fields = {
        "rejected": "it leaks",
        "commands": ["make tea*"],
        "paths": ["tea/**"],
        "evidence": [f"tea/pot.py@{'0a' * 20}"],
    }
    daemon.call("agent.remember", content="Tried the glass pot for tea.", type="decision", **fields)
    file = tmp_path / "out.jsonl"
    file.write_text(daemon.ctl("export").stdout)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert daemon.ctl("export").stdout == file.read_text()
    house.start()
    done = house.json("import", str(file))
    assert done["failed"] == []
    again = [json.loads(line) for line in house.ctl("export").stdout.splitlines()]
    for edge in (edge for row in (*rows, *again) for edge in row["connections"]):
        edge.pop("created")  # an edge is as old as its import
    assert again == rows
    edges = house.json("show", second["id"])["connections"]["out"]
    assert ("depends_on", first["id"]) in [(edge["edge"], edge["id"]) for edge in edges]
    assert [row["evidence"] for row in rows].count(fields["evidence"]) == 1


def test_an_import_that_was_interrupted_is_run_again(daemon: House, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    write(file, 3000)
    command = [sys.executable, "-m", "ormahctl", "import", str(file)]
    with subprocess.Popen(
        command, env=daemon.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: daemon.call("admin.stats").total_nodes > 550, "a part of it")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in err
    stopped = re.search(r"stopped after line ([\d,]+)", err)
    assert stopped, err
    write(file, lines := int(stopped[1].replace(",", "")) + 1200)  # more of the same shows no more
    done = daemon.json("import", str(file))
    assert done["added"] + done["skipped"] == lines
    assert done["skipped"] > 0
    assert done["added"] > 0
    assert daemon.json("verify")["ok"] is True
