"""`ormahctl ingest` that comes to no end: Ctrl-C, of which it says the truth, and folders from which nothing is stored."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.house import House, wait_until
from tests.session_formats import claude_code


def test_the_turns_of_the_file_under_way_are_counted(daemon: House, tmp_path: Path) -> None:
    file = tmp_path / "long.jsonl"
    file.write_bytes(claude_code([(f"question {n} of the shop", f"answer {n}") for n in range(5_000)], "s1"))
    command = [sys.executable, "-m", "ormahctl", "ingest", str(file)]
    with (
        subprocess.Popen(command, env=daemon.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
        daemon.connect() as connection,
    ):
        wait_until(lambda: connection.call("agent.sessions", {}).total_turns >= 1_000, "two batches of turns")
        daemon.signal(signal.SIGSTOP)  # so that the file is not read to its end meanwhile
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
        daemon.signal(signal.SIGCONT)
    assert process.returncode == 130, err
    said = re.search(r"stopped after 0 files: ([\d,]+) turns archived", err)
    assert said is not None, err
    assert int(said[1].replace(",", "")) >= 500
    assert "the daemon reads long.jsonl to its end" in err


def test_from_an_excluded_folder_no_conversation_is_stored(house: House) -> None:
    hidden = house.home / "hidden"
    (hidden / "deep").mkdir(parents=True)
    house.settings["ORMAH_SESSIONS_EXCLUDE"] = str(hidden)
    house.start()
    said = "User: the ostrichfeather plan begins on Monday\nAssistant: Noted.\n"
    file = house.home / "talk.txt"
    file.write_text(said)
    for words, given in ((["-"], said), ([str(file)], ""), ([str(file), "--dry-run"], "")):
        done = house.ctl("ingest", *words, input=given, cwd=hidden / "deep")
        assert done.returncode == 2, done.stdout
        assert "sessions.exclude covers this folder" in done.stderr
    (house.home / "note.md").write_text("# Ferry\n\nThe ferry leaves at noon.\n")
    assert house.ctl("ingest", str(house.home / "note.md"), cwd=hidden).returncode == 0, "a document is no conversation"
    assert house.call("agent.sessions").total_turns == 0
    assert house.ctl("ingest", str(file)).returncode == 0
    assert house.call("agent.sessions").total_turns == 2
