"""All past sessions of a machine through the commands: foretold, archived once, in the background, and watched from then on."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.blackbox.test_sessions import lines, transcript
from tests.house import open_house, wait_until


def test_past_sessions_are_archived_once_and_new_ones_are_watched() -> None:
    names = [f"{number}f1d2c3b-aaaa-4bbb-8ccc-0123456789ab" for number in range(6)]
    with open_house(ORMAH_SESSIONS_WATCH="1", ORMAH_SESSIONS_QUIET_SECONDS="0.1") as house:
        folder = Path(house.env["HOME"]) / ".claude" / "projects" / "-home-ada-shop"
        folder.mkdir(parents=True)
        for name in names[:4]:
            transcript(folder / f"{name}.jsonl", name, 10)
            os.utime(
                folder / f"{name}.jsonl", (old := time.time() - 4 * 86_400, old)
            )  # older than what the watcher reads
        house.start()
        foretold = house.json("ingest", "--backfill", "--dry-run")
        assert len(foretold["files"]) == 4
        assert lines(house) == []
        done = house.ctl("ingest", "--backfill")
        assert "to read: 4 files" in done.stdout
        assert "80 turns of 4 sessions archived" in done.stdout
        assert "nothing new" in house.ctl("ingest", "--backfill").stdout
        elsewhere = house.home / "elsewhere"
        elsewhere.mkdir()
        transcript(elsewhere / f"{names[4]}.jsonl", names[4], 10)
        house.call("ingest.backfill", action="start", folders=[str(elsewhere)])
        wait_until(lambda: len(lines(house)) == 100, "the backfill in the background")
        transcript(folder / f"{names[5]}.jsonl", names[5], 10)
        wait_until(lambda: len(lines(house)) == 120, "what the watcher saw")
        assert len(set(lines(house))) == 120
        status = {one["source"]: one for one in house.json("status")["sources"]}
        assert (status["backfill"]["turns"], status["watcher"]["turns"]) == (100, 20)
        assert "100" in house.ctl("status", "--verbose").stdout
        assert house.ctl("ingest", "--stop").stdout == "no backfill is under way\n"
        assert house.ctl("ingest").returncode == 2
        assert house.stop() == 0
