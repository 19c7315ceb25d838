"""`ormahctl sync setup` with real daemons: what it refuses, how vaults become one, and syncs that go by themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.blackbox.terminal import typed
from tests.blackbox.two_houses import found, level, run_git, two_houses
from tests.house import House, open_house, wait_until


def test_setup_refuses_what_it_must_and_changes_nothing(tmp_path: Path) -> None:
    with open_house() as house:
        house.start()
        assert house.ctl("sync").returncode == 3
        assert house.json("doctor")["findings"] == [], "one try in a vault without a remote is no lasting trouble"
        before = house.git("for-each-ref"), (house.vault / ".git/config").read_bytes()
        other = tmp_path / "code"
        run_git("init", "-q", "--initial-branch=main", str(other), cwd=tmp_path)
        run_git("-c", "user.name=x", "-c", "user.email=x@y.z", "commit", "-qm", "code", "--allow-empty", cwd=other)
        done = house.ctl("sync", "setup", str(other))
        assert done.returncode == 4
        assert "something else than an Ormah vault" in done.stderr
        done = house.ctl("sync", "setup", str(tmp_path / "nowhere.git"))
        assert done.returncode == 69
        assert "next sync" not in done.stderr
        assert "the remote was not set up; look at the address, and repeat: ormahctl sync setup" in done.stderr
        done = house.ctl("sync", "setup", "ext::sh -c true")
        assert done.returncode == 2
        assert house.ctl("sync", "setup").returncode == 2
        assert house.ctl("sync", "--replace").returncode == 2
        assert (house.git("for-each-ref"), (house.vault / ".git/config").read_bytes()) == before
        for name in ("one.git", "two.git"):
            run_git("init", "-q", "--bare", str(tmp_path / name), cwd=tmp_path)
        assert house.ctl("sync", "setup", "../one.git", cwd=_inner(tmp_path)).returncode == 0
        assert house.json("sync", "setup", str(tmp_path / "one.git"))["state"] == "ours"
        done = house.ctl("sync", "setup", str(tmp_path / "two.git"))
        assert done.returncode == 4
        assert "--replace" in done.stderr
        before = house.git("for-each-ref"), (house.vault / ".git/config").read_bytes()
        done = house.ctl("sync", "setup", str(other), "--replace")
        assert "something else than an Ormah vault" in done.stderr
        assert (house.git("for-each-ref"), (house.vault / ".git/config").read_bytes()) == before
        assert house.json("sync", "setup", str(tmp_path / "two.git"), "--replace")["pushed"] > 0
        assert house.git("remote", "get-url", "origin").strip() == str(tmp_path / "two.git")


def _inner(tmp_path: Path) -> Path:
    inner = tmp_path / "inner"
    inner.mkdir()
    return inner


@pytest.mark.soak  # the suite has ten minutes
def test_a_remote_whose_branch_is_called_otherwise(tmp_path: Path) -> None:
    with open_house() as one, open_house() as two:
        one.start()
        bare = tmp_path / "remote.git"
        run_git("init", "-q", "--bare", "--initial-branch=trunk", str(bare), cwd=tmp_path)
        one.git("push", "-q", str(bare), "HEAD:trunk")
        two.start()
        node = two.json("remember", "On a branch of another name")["id"]
        two.git("remote", "add", "origin", str(bare))
        done = two.ctl("sync")
        assert done.returncode == 4
        assert "has no branch main, but trunk" in done.stderr
        assert run_git("for-each-ref", "--format=%(refname)", cwd=bare) == "refs/heads/trunk"
        assert two.json("sync", "setup", str(bare), "--yes")["branch"] == "trunk"
        one.json("sync", "setup", str(bare))
        level(one, two)
        assert one.json("show", node)["id"] == node


def test_joining_keeps_everything_of_both_and_goes_on_after_a_restart() -> None:
    with two_houses() as (one, two, bare):
        texts = {"one": [], "two": []}  # type: dict[str, list[str]]
        for name, house in (("one", one), ("two", two)):
            for number in range(12):
                text = f"memory {number} of machine {name}"
                house.json("remember", text, "--space", "work" if number % 2 else name)
                texts[name].append(text)
        me = next(path for path in two.notes() if "/person/" in path)
        node = two.json("remember", f"Drawn by hand: see [[{Path(me).stem}|me]]")["id"]
        two.json("connect", node, "related_to", Path(me).stem.rpartition("_")[2])
        former = two.call("admin.health").vault_id
        one.json("sync", "setup", str(bare))
        before = two.git("for-each-ref"), (two.vault / ".git/config").read_bytes()
        assert two.call("admin.sync_setup", url=str(bare), ask=True).state == "would_join"
        for words in (["sync"], ["--json", "sync"]):
            refused = two.ctl(*words, "setup", str(bare))
            assert (refused.returncode, "give --yes" in refused.stderr) == (2, True), "there is no terminal to ask on"
            assert "holds another vault, with " in refused.stderr
        assert (two.git("for-each-ref"), (two.vault / ".git/config").read_bytes()) == before
        done = two.json("sync", "setup", str(bare), "--yes")
        assert (done["state"], done["former_id"]) == ("joined", former)
        assert done["vault_id"] == one.call("admin.health").vault_id == two.call("admin.health").vault_id
        level(one, two)
        for house in (one, two):
            contents = {hit["content"] for hit in _exported(house)}
            assert set(texts["one"] + texts["two"]) <= contents
            shown = house.json("show", node)
            kept = next(path for path in house.notes() if "/person/" in path)
            assert f"[[{Path(kept).stem}|me]]" in shown["content"]
            assert {edge["id"][:8] for edge in shown["connections"]["out"]} == {Path(kept).stem[-8:]}
        assert _vaults(two, "cache_home") == {former}
        two.restart()
        for place in ("cache_home", "state_home"):
            assert _vaults(two, place) == {done["vault_id"]}
        assert two.json("verify") == {"ok": True, "differences": []}
        two.json("remember", "After the restart", "--about-self")
        level(one, two)
        assert found(one, "after the restart")


def test_on_a_terminal_it_asks_before_it_joins() -> None:
    with two_houses() as (one, two, bare):
        node = one.json("remember", "A memory of the other machine")["id"]
        one.json("sync", "setup", str(bare))
        before = two.git("for-each-ref"), (two.vault / ".git/config").read_bytes()
        assert typed(two, "sync", "setup", str(bare), answers=[("[y/N]", "n")])[1] == 1
        assert (two.git("for-each-ref"), (two.vault / ".git/config").read_bytes()) == before
        assert typed(two, "sync", "setup", str(bare), answers=[("[y/N]", "y")])[1] == 0
        assert two.json("show", node)["id"] == node


def _vaults(house: House, place: str) -> set[str]:
    """The ids of those that have a directory there."""
    return {path.name[:36] for path in (house.home / place / "ormah").iterdir()} - {house.models_dir.name}


def _exported(house: House) -> list[dict[str, str]]:
    done = house.ctl("export")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.soak  # the suite has ten minutes
def test_it_goes_by_itself_on_an_interval() -> None:
    with two_houses(ORMAH_SYNC_INTERVAL_MINUTES="0.01") as (one, two, bare):
        assert one.call("admin.health").sync.last is None
        one.json("sync", "setup", str(bare))
        two.json("sync", "setup", str(bare), "--yes")
        node = one.json("remember", "Carried over by nobody")["id"]
        wait_until(lambda: two.ctl("show", node).returncode == 0, "the other machine has it", 120)
        away = bare.with_name("away.git")
        bare.rename(away)
        wait_until(lambda: one.call("admin.health").sync.offline_since, "it is noticed that the remote is away")
        later = one.json("remember", "Written while the remote was away")["id"]
        away.rename(bare)
        wait_until(lambda: two.ctl("show", later).returncode == 0, "the other machine has it", 120)
        wait_until(lambda: one.call("admin.health").sync.offline_since is None, "all is well again")
        assert one.stop() == 0
        assert "Traceback" not in one.said()


def test_a_hanging_remote_holds_up_nobody() -> None:
    with open_house(ORMAH_SYNC_TIMEOUT_SECONDS="3600") as house:
        pid = house.home / "pid"
        ssh = house.home / "ssh"
        ssh.write_text(f"#!/bin/sh\necho $$ > {pid}\nexec sleep 600\n")
        ssh.chmod(0o755)
        house.settings["GIT_SSH_COMMAND"] = str(ssh)
        house.start()
        house.git("remote", "add", "origin", "ssh://example.org/x.git")
        asking = subprocess.Popen(
            [sys.executable, "-m", "ormahctl", "sync"],
            env=house.env, cwd=house.home, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        wait_until(lambda: pid.exists() and pid.read_text().strip(), "the remote is asked")
        node = house.json("remember", "Stored while a remote hangs")["id"]
        assert found(house, "stored while a remote hangs")
        assert house.json("forget", node)["changed"]
        assert house.stop() == 0
        _, said = asking.communicate(timeout=120)
        assert asking.returncode == 69, said
