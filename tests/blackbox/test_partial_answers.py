"""Counts and lists of a daemon that has not read the vault yet say that they may not be all."""

from __future__ import annotations

import json
import shutil

from tests.crash.first_answers import first_answers
from tests.house import House

COMMANDS = (["stats"], ["list"], ["spaces"], ["insights"], ["graph", "--format", "json"])


def test_what_is_counted_before_the_vault_is_read_says_so(daemon: House) -> None:
    daemon.json("remember", "Tapirs swim.")
    for command in COMMANDS:
        now = daemon.ctl(*command)
        assert ("still reading" in now.stderr, now.returncode) == (False, 0), "the whole vault is known"
    assert daemon.json("status", "--verbose")["stats"]["degraded"] == []
    daemon.stop()
    shutil.rmtree(daemon.index_dir)
    stats, listed, *others, raw = first_answers(daemon, *COMMANDS, ["--json", "stats"])
    said = [
        one["err"].count("the daemon is still reading the vault, so this may not be all of it")
        for one in (stats, listed, *others, raw)
    ]
    assert said == [1] * 6
    found = json.loads(raw["out"])
    assert (found["total_nodes"], found["degraded"]) == (0, ["index"])
    assert json.loads(others[-1]["out"])["degraded"] == ["index"]
