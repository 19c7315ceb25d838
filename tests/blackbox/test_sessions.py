"""Sessions through the commands and the socket: archived, searched, shown, never whispered; the same set after any number of kills."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ormahctl import hook
from ormahd.rpc import wire
from tests.blackbox.ingesting import killed_while_ingesting
from tests.house import House, open_house, wait_until

ID = "6f1d2c3b-aaaa-4bbb-8ccc-0123456789ab"


def transcript(file: Path, session: str, exchanges: int) -> Path:
    """Write a transcript in which every text is said once."""
    rows: list[dict[str, Any]] = []
    for number in range(exchanges):
        at = f"2026-11-02T09:{number // 60:02d}:{number % 60:02d}"
        about = {"sessionId": session, "cwd": "/home/ada/shop"}
        question = f"{session} asks about ferry timetable number {number}"
        rows.append({"type": "user", "uuid": f"u{number}", "parentUuid": f"a{number - 1}" if number else None,
                     "timestamp": f"{at}.000Z", "message": {"role": "user", "content": question}, **about})  # fmt: skip
        text = [{"type": "text", "text": f"{session} says that ferry {number} leaves at noon"}]
        rows.append({"type": "assistant", "uuid": f"a{number}", "parentUuid": f"u{number}", "timestamp": f"{at}.500Z",
                     "message": {"id": f"m{number}", "role": "assistant", "content": text, "stop_reason": "end_turn"}, **about})  # fmt: skip
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def lines(house: House) -> list[str]:
    """The keys of all archived turns, as the files have them."""
    found = []
    for file in (house.home / "data_home" / "ormah" / "sessions").rglob("*.jsonl"):
        rows = [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
        found += [row["key"] for row in rows if "key" in row]
    return found


def test_archived_searched_shown_and_never_whispered(shared: House) -> None:
    folder = shared.home / "transcripts"
    folder.mkdir()
    transcript(folder / f"{ID}.jsonl", ID, 30)
    (folder / "notes.json").write_text("{}")
    foretold = shared.json("ingest", str(folder), "--dry-run")
    assert lines(shared) == []
    came = shared.json("ingest", str(folder))
    assert (len(foretold["files"]), came["added"], came["sessions"]) == (2, 60, 1)
    for chosen in ({"project": "shop"}, {"project": "/home/ada/shop", "harness": "claude-code"}):
        assert [one.id for one in shared.call("agent.sessions", **chosen).sessions] == [ID]
    for chosen in ({"project": "hop"}, {"harness": "codex"}, {"before": ID}):
        assert shared.call("agent.sessions", **chosen).sessions == []
    assert len(set(lines(shared))) == len(lines(shared)) == 60
    again = shared.ctl("ingest", str(folder))
    assert again.stdout.splitlines()[0].startswith("nothing new (2 files")
    assert again.stderr == "note: 1 file of other kinds passed over\n"
    best = shared.json("recall", "--sessions", "ferry timetable number 17", "-n", "3")["exchanges"][0]
    assert best["said"][0]["text"] == f"{ID} asks about ferry timetable number 17"
    assert best["open"] == f"cd /home/ada/shop && claude --resume {ID}"
    assert shared.ctl("recall", "--sessions", "quasar").returncode == 1
    assert shared.json("recall", "ferry timetable number 17")["results"] == [], "no memory was made of it"
    said = shared.call("agent.whisper", prompt="when does ferry number 17 leave?", session_id="s", cwd="/home/ada/shop")
    assert "noon" not in said.text
    assert shared.json("recall", "--sessions")["total_turns"] == 60
    assert "asks about ferry timetable number 29" in shared.ctl("show", ID[:6]).stdout
    assert shared.call("agent.where", cwd="/home/ada/shop").request == f"{ID} asks about ferry timetable number 29"
    assert shared.ctl("status", "--here").stderr == "note: no session in this project is archived\n"
    for bad, status in (
        (("show", "nobody"), 2),
        (("sessions", "print"), 2),
        (("ingest", str(folder / "notes.json")), 2),
    ):
        assert shared.ctl(*bad).returncode == status


def test_standard_input_and_an_export(shared: House) -> None:
    text = "User: which port has staging?\nAssistant: It is 8443.\n"
    for added in (2, 0):
        assert shared.json("ingest", "-", input=text)["added"] == added
    secret = "ghp_" + "aB3dE5fG7h" * 4
    talk = {"uuid": "k1", "chat_messages": [{"uuid": "p", "sender": "human", "text": f"the token is {secret}"}]}
    (shared.home / "conversations.json").write_text(json.dumps([talk]))
    done = shared.ctl("ingest", "conversations.json")
    assert done.returncode == 0
    assert "taken out before anything was kept: github-pat (1)" in done.stderr
    with pytest.raises(wire.OrmahError, match="no absolute path"):
        shared.call("ingest.sessions", path="conversations.json")


def stop_hook(house: House, file: Path, session: str, answer: str) -> None:
    """Run the hook that Claude Code runs when an agent has answered."""
    said = {"session_id": session, "transcript_path": str(file), "cwd": str(house.home), "hook_event_name": "Stop",
            "last_assistant_message": answer}  # fmt: skip
    script = Path(hook.__file__)
    words = ["--hook", "Stop", "--harness", "claude-code", "--socket", str(house.socket), "--deadline", "20000"]
    done = subprocess.run(
        [sys.executable, "-I", "-S", script, *words],
        input=json.dumps(said).encode(),
        env=house.env,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_what_another_program_remembered_is_proposed_once_and_stored_if_approved(shared: House) -> None:
    talk = {
        "uuid": "k7",
        "name": "Boats",
        "chat_messages": [{"uuid": "q1", "sender": "human", "text": "How long is a knot?"}],
    }
    remembered = {
        "conversations_memory": "**Home**\n\nAda keeps two hens in the yard.\n\nHer locker opens with sk-proj-Zk3vQ9mT8wLr2XbN7cYd5HfJ."
    }
    export = shared.home / "claude-export.zip"
    with zipfile.ZipFile(export, "w") as box:
        box.writestr("conversations.json", json.dumps([talk]))
        box.writestr("memories.json", json.dumps([remembered]))
        box.writestr("users.json", "[]")
    said = shared.ctl("ingest", str(export)).stdout
    assert "2 proposed as memories: ormahctl review" in said
    rows = {row["content"]: row for row in shared.json("review")["proposals"]}
    hens = rows["Ada keeps two hens in the yard."]
    (locker,) = (row for text, row in rows.items() if text.startswith("Her locker"))
    assert "Zk3vQ9mT8" not in json.dumps(list(rows.values()))
    (done,) = shared.json("review", "approve", hens["short_id"])
    assert next(one["content"] for one in shared.json("recall", "hens in the yard")["results"]) == hens["content"]
    assert shared.ctl("review", "reject", locker["short_id"]).returncode == 0
    os.utime(export)
    assert shared.json("ingest", str(export))["proposed"] == 0
    assert shared.json("review")["proposals"] == []
    assert shared.ctl("undo", done["commit"]).returncode == 0
    assert [row["content"] for row in shared.json("review")["proposals"]] == [hens["content"]]
    assert hens["content"] not in [one["content"] for one in shared.json("recall", "hens in the yard")["results"]]
    shared.ctl("review", "reject", hens["short_id"])


def test_hooks_archive_and_what_came_while_no_daemon_ran_is_read_later() -> None:
    with open_house() as house:
        house.start()
        one = transcript(house.home / "one.jsonl", "one", 2)
        stop_hook(house, one, "one", "one says that ferry 1 leaves at noon")
        wait_until(lambda: len(lines(house)) == 4, "the session that a hook told of")
        house.stop()
        secret = "an answer that no file of ours may have"
        stop_hook(house, transcript(house.home / "two.jsonl", "two", 3), "two", f'{secret} \\ "transcript_path": "/x"')
        (spooled,) = (house.home / "s.spool").iterdir()
        assert secret not in spooled.read_text()
        assert spooled.stat().st_mode & 0o777 == 0o600
        (house.home / "s.spool" / "junk").write_bytes(b"\xff\0\0\0\0{")
        house.start()
        wait_until(lambda: len(lines(house)) == 10, "the session of which a hook told while no daemon ran")
        wait_until(lambda: not list((house.home / "s.spool").iterdir()), "an empty spool")


def killed(house: House, kills: int, seed: int) -> None:
    """Kill the daemon while it archives, so many times, and then let it end."""
    folder = house.home / "many"
    folder.mkdir()
    files = [transcript(folder / f"{number}.jsonl", f"session-{number}", 40) for number in range(25)]
    killed_while_ingesting(house, files, kills, random.Random(seed), 0.6)
    assert house.ctl("ingest", str(folder)).returncode == 0
    assert len(lines(house)) == len(set(lines(house))) == 25 * 80
    assert house.json("recall", "--sessions")["total_turns"] == 25 * 80


def test_killed_while_archiving() -> None:
    with open_house() as house:
        killed(house, 4, 1)


@pytest.mark.soak
def test_killed_at_fifty_points() -> None:
    with open_house() as house:
        killed(house, 50, 2)
