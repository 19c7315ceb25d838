"""`ormahctl forget --purge`: a memory is nowhere afterwards, and everything else is as it was."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from ormahd.errors import OrmahError
from ormahd.rpc import wire
from tests.blackbox import conftest
from tests.blackbox.purging import WORDS, holding, sound, told
from tests.blackbox.terminal import typed
from tests.house import House, wait_until
from tests.tables import rows

house = conftest.daemon


def test_it_is_nowhere_and_the_house_goes_on(house: House) -> None:
    going, staying = told(house)
    assert len(holding(house, "zebrafish", going)) > 5
    before = house.json("show", staying)
    done = house.json("forget", "--purge", going[:8], "--yes")
    assert (done["node_id"], done["versions"], len(done["paths"]), len(done["others"])) == (going, 3, 1, 3)
    assert (done["remotes"], done["left"]) == ([], [])
    assert holding(house, *WORDS, going, going[:8]) == []
    sound(house)
    assert house.ctl("show", going).returncode == 3
    assert house.json("recall", "harbour master")["results"] == [] or all(
        hit["id"] != going for hit in house.json("recall", "harbour master")["results"]
    )
    after = house.json("show", staying)
    assert after["connections"] == {"out": [], "in": []}
    assert {key: value for key, value in after.items() if key not in {"connections", "digest", "access_count", "last_accessed"}} == {
        key: value for key, value in before.items() if key not in {"connections", "digest", "access_count", "last_accessed"}
    }  # fmt: skip
    newest = house.json("history")[0]
    assert (newest["kind"], newest["source"], newest["commit"]) == ("purge", "person", done["commit"])
    assert newest["op"] == done["op"]
    assert newest["nodes"] == []

    new = house.json("remember", "And life goes on.")["id"]
    house.json("update", staying, "--content", "Ships are counted on Mondays.")
    house.git("revert", "--no-edit", "HEAD")
    wait_until(lambda: "Fridays" in house.json("show", staying)["content"], "the revert is indexed")
    house.restart()
    assert house.json("show", new)["content"] == "And life goes on."
    assert holding(house, *WORDS, going, going[:8]) == []
    sound(house)


def test_a_dry_run_changes_nothing_and_else_it_asks_first(house: House) -> None:
    going, _ = told(house)
    head, refs = house.git("rev-parse", "HEAD"), house.git("for-each-ref")
    would = house.json("forget", "--purge", going, "--dry-run")
    assert (would["dry_run"], would["op"], would["commit"], would["size_after"]) == (True, None, None, None)
    shown = house.ctl("forget", "--purge", going, "--dry-run")
    assert shown.returncode == 0
    parts = [line.split("  ")[0].strip() for line in shown.stdout.splitlines()]
    assert parts == ["memory", "its note", "others", "beside"]
    assert (house.git("rev-parse", "HEAD"), house.git("for-each-ref")) == (head, refs)
    assert not (house.vault / ".git/ormah-purge").exists()
    refused = house.ctl("forget", "--purge", going)
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    for answer, status in (("n", 1), ("y", 0)):
        out, code = typed(house, "forget", "--purge", going, answers=[("?", answer)])
        assert code == status, out
        assert "Purge it?" in out
        assert ("nothing was changed" in out) == (status == 1)
        assert (house.ctl("show", going).returncode == 0) == (status == 1)


def test_a_secret_that_is_asked_for_on_the_terminal(house: House) -> None:
    node = house.json("remember", "The cellar's word is Sesam-Oeffne and the guard knows it.", "--title", "Guard")["id"]
    out, code = typed(house, "forget", "--purge", "--text", "-", "--yes", answers=[("(not shown)", "Sesam-Oeffne")])
    assert code == 0, out
    assert "Sesam" not in out
    assert house.json("show", node)["content"] == "The cellar's word is (purged) and the guard knows it."
    assert holding(house, "Sesam-Oeffne") == []
    sound(house)


@pytest.mark.parametrize(("args", "status", "says"), rows(__file__, "what_is_refused"))
def test_what_is_refused(shared: House, args: list[str], status: int, says: str) -> None:
    done = shared.ctl("forget", *args)
    assert (done.returncode, says in done.stderr) == (status, True), done.stderr


def remote(house: House) -> Path:
    far = house.home / "far.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(far)], check=True)
    return far


@pytest.mark.parametrize("known", ["set up", "pushed to by hand"])
def test_remotes_are_told_and_a_sync_does_not_bring_it_back(house: House, known: str) -> None:
    going, _ = told(house)
    far = remote(house)
    if known == "set up":
        assert house.ctl("sync", "setup", str(far), "--yes").returncode == 0
    else:
        house.git("remote", "add", "origin", str(far))
        house.git("push", "-qu", "origin", "main")
    done = house.ctl("forget", "--purge", going, "--yes")
    assert done.returncode == 0, done.stderr
    assert "has the old history" in done.stderr
    assert "Backups and snapshots of the disk hold it too" in done.stderr
    [command] = [line.strip() for line in done.stderr.splitlines() if line.startswith("  git push")]
    synced = house.ctl("sync")
    assert synced.returncode == 4
    assert "this vault's history was rewritten" in synced.stderr
    assert holding(house, *WORDS, going) == []
    house.git(*command.split()[1:])
    assert house.ctl("sync").returncode == 0
    assert holding(house, *WORDS, going) == []
    assert (
        "narwhal" not in subprocess.run(["git", "log", "-p", "--all"], cwd=far, capture_output=True, text=True).stdout
    )
    sound(house)


def test_others_write_and_ask_meanwhile(house: House) -> None:
    going, _ = told(house)
    stop = threading.Event()
    faults: list[OrmahError] = []
    stored: list[str] = []

    def work(number: int) -> None:
        with house.connect() as connection:
            count = 0
            while not stop.is_set():
                count += 1
                try:
                    text = f"Beside it, writer {number} said {count}."
                    stored.append(connection.call("agent.remember", {"content": text}, timeout=120).node_id)
                    connection.call("agent.recall", {"query": "what was said"}, timeout=120)
                except OrmahError as fault:
                    faults.append(fault)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        house.json("forget", "--purge", going, "--yes")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert faults == []
    assert len(stored) > 3
    assert holding(house, *WORDS, going) == []
    for node in stored:
        assert house.call("agent.get", node_id=node).content.startswith("Beside it")
    sound(house)


@pytest.mark.parametrize(
    "stage",
    ["writing the history anew", "looking through state", *(
        pytest.param(stage, marks=pytest.mark.soak)
        for stage in ("copying the history", "checking every object", *(f"looking through {name}" for name in ("sessions", "state", "log", "set aside")))
    )]
)  # fmt: skip
def test_killed_on_the_way(house: House, stage: str) -> None:
    going, staying = told(house)

    def kill(at: object) -> None:
        if getattr(at, "stage", "") == stage:
            house.kill()

    # On a busy machine it may have answered before we hear of the stage.
    with contextlib.suppress(wire.Unavailable), house.connect() as connection:
        connection.call("admin.purge", {"node_id": going}, on_progress=kill, timeout=120)
    assert house.process is not None
    assert house.process.poll() == -signal.SIGKILL
    house.git("fsck", "--full")
    house.start()
    house.git("fsck", "--full")
    assert house.json("show", staying)["title"] == "Ships"
    if house.ctl("forget", "--purge", going, "--yes").returncode == 3:  # it was through already
        wait_until(lambda: not (house.vault / ".git/ormah-purge").exists(), "the rest is done")
    assert holding(house, *WORDS, going, going[:8]) == []
    sound(house)
