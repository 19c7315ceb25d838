"""A purge that is killed when its history is in place: nothing answers what was purged, from the first answer on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

from tests.blackbox.purging import SECOND, WORDS, holding, sound, told
from tests.contract.archiving import answered, asked, written
from tests.crash.first_answers import first_answers
from tests.house import open_house, wait_until


def test_nothing_answers_it_from_the_first_answer_on() -> None:
    with open_house() as house:
        house.start()
        going, staying = told(house)
        said = written(house.home / "s.jsonl", asked(0, "Who keeps what?"), answered(0, SECOND))
        os.utime(said, (1_700_000_000, 1_700_000_000))
        assert house.json("ingest", str(said))
        house.json("whisper", f"Is it so? {SECOND}", "--session", "s2")
        assert "narwhal" in house.ctl("recall", "--sessions", "cellar").stdout
        said.unlink()
        house.stop()
        cut = subprocess.run(
            [sys.executable, "-m", "tests.crash.purge_cut_short", going], env=house.env, cwd=house.home,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert cut.returncode == -signal.SIGKILL, cut.stderr
        assert holding(house, "narwhal"), "it is still kept beside the history"

        phase, *answers, other = first_answers(
            house, ["--json", "status"], ["recall", "--sessions", "cellar"], ["whispers"], ["recall", "kept in a cellar"], ["list"],
            ["graph", "--format", "json"], ["show", going], ["history"], ["--json", "show", staying],
        )  # fmt: skip
        assert json.loads(phase["out"])["phase"] == "starting"
        leaks = [one for one in answers if any(word in (one["out"] + one["err"]).lower() for word in WORDS)]
        assert leaks == []
        assert json.loads(other["out"])["title"] == "Ships"

        house.start()
        wait_until(lambda: not (house.vault / ".git/ormah-purge").exists(), "the purge is done")
        assert holding(house, *WORDS, going) == []
        sound(house)
