"""A judge as people meet it: a real daemon, whose jobs ask a scripted judge over both ports."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import scripted_judge
from tests.house import House, open_house, wait_until
from tests.scripted_judge import Served, prompts, served
from tests.surroundings import ROOT

BEFORE = "We deploy the payment service on Tuesday mornings after the backup has run"
AFTER = "On Tuesday mornings after the backup has run we deploy the payment service"
OLD_PORT, NEW_PORT = (
    "The payment gateway listens on port 8080 for traffic",
    "The payment gateway listens on port 9090 for traffic",
)
TOKEN = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
KEY = "correct horse battery staple"
"""No pattern of secrets has it: it must not show all the same."""
SECRET = f"The staging server is reached with the token {TOKEN} by the deploy script"
SECRET_TOO = f"By the deploy script the staging server is reached with the token {TOKEN}"
SHIM = ROOT / "ormahctl" / "hook.py"


class Court:
    """A house whose judge is scripted, by `kind`."""

    def __init__(self, house: House, server: Served, folder: Path) -> None:
        self.house, self.server, self.folder = house, server, folder

    def behaves(self, mode: str) -> None:
        (self.folder / "mode").write_text(mode)

    def asked(self) -> list[str]:
        return prompts(self.folder)

    def remember(self, content: str, **more: Any) -> str:
        return str(self.house.call("agent.remember", content=content, **more).node_id)

    def run(self, job: str) -> dict[str, Any]:
        (done,) = self.house.json("jobs", "run", job)
        assert done["error"] is None, done
        found: dict[str, Any] = done
        return found

    def merge(self) -> int:
        """Run the job that merges, approve what it proposes because the texts are less alike, and return how many it judged to
        be the same."""
        done = self.run("duplicate_merger")
        for one in self.house.call("agent.proposals").proposals:
            self.house.call("agent.resolve_proposal", proposal_id=one.id, action="approved")
        return int(done["proposals"])

    def health(self) -> dict[str, Any]:
        found: dict[str, Any] = self.house.json("status")["judge"]
        return found

    def troubles(self) -> list[str]:
        return [one["kind"] for one in self.health()["troubles"]]

    def test(self, status: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = self.house.json("doctor", "--judge", status=status)
        return found


@pytest.fixture(params=["command", "openai"])
def court(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Court]:
    key = tmp_path / "key"
    key.write_text(KEY)
    settings = {
        "ORMAH_JUDGE_KEY_FILE": str(key), "ORMAH_LOG_LEVEL": "debug",
        "ORMAH_JOBS_ENABLED": "false", "ORMAH_JOBS_JUDGE": request.param, "ORMAH_JUDGE_MODEL": "llama",
        "ORMAH_JUDGE_COMMAND": scripted_judge.command(tmp_path),
        "ORMAH_SECRETS_REDACT": "false",  # so that the vault holds secrets which the judge must not see
    }  # fmt: skip
    with served(tmp_path) as server, open_house(ORMAH_JUDGE_URL=server.url, **settings) as house:
        house.start()
        yield Court(house, server, tmp_path)


def test_a_night_with_a_judge_and_nights_with_a_bad_one(court: Court) -> None:
    """One daemon for all of it: rude, hanging and silent nights lose nothing, and the good one does the work."""
    house = court.house
    two = {
        court.remember(BEFORE, title="Deploying", space="pay"),
        court.remember(AFTER, title="Deploying", space="pay"),
    }
    old, new = court.remember(OLD_PORT, space="pay"), court.remember(NEW_PORT, space="pay")
    court.remember(SECRET, title="Staging", space="pay")
    court.remember(SECRET_TOO, title="Staging", space="pay")
    head = house.git("rev-parse", "HEAD")
    assert court.health()["answered"] is None

    for mode in ("html", "schema", "braces", "prose"):
        court.behaves(mode)
        assert court.run("conflict_detector")["applied"] == 0
        assert court.troubles() == ["rude"]
        court.behaves("honest")
        assert court.test()["right"], "asked by a person, the judge counts again at once"
        assert court.troubles() == []

    nothing_stalls(court)
    assert house.git("rev-parse", "HEAD") == head, "nothing was changed"

    court.behaves("honest")
    assert court.test()["usable"]
    assert court.merge() >= 1
    left = [node for node in two if house.ctl("show", node).returncode == 0]
    assert len(left) == 1
    assert house.git("log", "-1", "--grep", "Ormah-Kind: merge", "--format=%B")
    court.run("conflict_detector")
    assert "Judged by" in house.git("log", "-1", "--grep", "Ormah-Kind: conflict", "--format=%B")
    drawn = {
        node: {one["id"] for one in house.json("show", node)["connections"]["out"] if one["edge"] == "evolved_from"}
        for node in (old, new)
    }
    # both were written within one second, so that either counts as the newer one
    assert drawn in ({new: {old}, old: set()}, {old: {new}, new: set()})
    for job in ("auto_linker", "consolidator"):
        court.run(job)
    assert court.troubles() == []
    sent = json.dumps([court.asked(), [body for _, _, body in court.server.requests]])
    assert "[redacted: " in sent
    assert TOKEN not in sent
    kept = [file.read_bytes() for file in house.state.rglob("*") if file.is_file()]
    assert not [secret for secret in (TOKEN, KEY) if any(secret.encode() in data for data in kept)]
    house.json("undo", house.git("log", "-1", "--grep", "Ormah-Kind: merge", "--format=%H"))
    assert all(house.ctl("show", node).returncode == 0 for node in two)


def nothing_stalls(court: Court) -> None:
    """While the judge thinks without end the daemon answers, and it stops when it is told to."""
    house, known = court.house, len(court.asked())
    court.behaves("hang")
    thread = threading.Thread(target=house.ctl, args=("jobs", "run", "duplicate_merger"))
    thread.start()
    wait_until(lambda: len(court.asked()) > known, "the judge to be asked")
    assert house.json("recall", "payment gateway port")["results"]
    assert house.call("agent.whisper", prompt="which port has the payment gateway?", space="pay", session_id="s").text
    court.remember("The cellar is dry in summer.")
    assert thread.is_alive()
    assert house.stop() == 0
    thread.join(120)
    assert not thread.is_alive()
    assert "still at work" not in house.said()
    house.git("reset", "-q", "--hard", "HEAD~1")  # without what was remembered meanwhile
    house.start()
    assert court.troubles() == [], "a stop is no fault of the judge's"


def test_what_status_and_doctor_say(court: Court) -> None:
    house = court.house
    court.remember(BEFORE, title="Deploying", space="pay")
    court.remember(AFTER, title="Deploying", space="pay")
    assert "no answer yet; today 0 of 200 calls" in house.ctl("status").stdout
    court.behaves("fails" if house.settings["ORMAH_JOBS_JUDGE"] == "command" else "denied")
    (dropped,) = court.run("duplicate_merger")["dropped"]
    assert dropped.startswith("the judge left 1 of 1 questions open: ")
    said = house.ctl("status").stdout
    assert "does not answer, since" in said
    assert ("status 3: quota exceeded for today" in said) or ("status 401: bad key" in said)
    assert "asked again from" in said
    doctor = house.ctl("doctor")
    assert doctor.returncode == 1
    assert "does not answer" in doctor.stdout
    assert "ormahctl doctor --judge" in doctor.stdout
    shown = [
        house.ctl(*words).stdout
        for words in (("config", "show"), ("--json", "config", "show"), ("--json", "status"), ("logs",))
    ]
    assert all(KEY not in one for one in (said, doctor.stdout, *shown))
    assert not court.test(status=1)["usable"]
    assert "gave no answer" in house.ctl("doctor", "--judge").stdout

    calls = court.health()["calls"]
    house.stop()  # over a restart it is known since when
    house.settings["ORMAH_JUDGE_CALLS_A_DAY"] = str(calls + 1)
    house.start()
    assert court.troubles() == ["down"]
    court.behaves("fenced")
    assert court.merge() == 1
    assert court.troubles() == []
    court.remember("The shop sells bread and rolls from Monday to Friday", title="Shop", space="pay")
    court.remember("From Monday to Friday the shop sells rolls and bread", title="Shop", space="pay")
    assert court.merge() == 0
    (trouble,) = court.health()["troubles"]
    assert trouble["kind"] == "budget"
    assert "is not asked any more today" in house.ctl("status").stdout
    assert house.ctl("doctor").returncode == 0, "a budget that is used up is no fault"


def test_a_session_of_the_judge_is_told_nothing(court: Court) -> None:
    court.remember("The payment gateway listens on port 8080 for all traffic", space="pay")
    house = court.house
    words = [
        sys.executable,
        "-I",
        "-S",
        str(SHIM),
        "--hook",
        "UserPromptSubmit",
        "--harness",
        "claude-code",
        "--deadline",
        "60000",
    ]

    def hook(prompt: str, cwd: Path, **variables: str) -> str:
        said = {
            "prompt": prompt,
            "session_id": f"s{len(prompt)}{len(variables)}",
            "cwd": str(cwd),
            "hook_event_name": "UserPromptSubmit",
        }
        return subprocess.run(
            words, input=json.dumps(said), env=house.env | {"ORMAH_SPACE": "pay"} | variables, cwd=house.home, capture_output=True,
            text=True, timeout=120, check=True,
        ).stdout  # fmt: skip

    prompt = "on which port does the payment gateway listen for traffic?"
    assert "8080" in hook(prompt, house.home)
    assert hook(prompt + " ", house.home, ORMAH_JUDGING="1") == ""
    own = house.state / "judge"
    assert hook(prompt + "  ", own) == ""
    assert hook(f"<!-- ormah:judge -->\n{prompt}", house.home) == ""
    asked = house.call("agent.whispers", limit=50).whispers
    assert len(asked) == 1, "what the judge is asked is not logged either"
    refused = house.ctl("remember", "What a judge thinks.", env={"ORMAH_JUDGING": "1"})
    assert refused.returncode == 2
    assert "runs as its judge" in refused.stderr
