"""Two daemons on two machines, a bare repository between them: reached by commands, files and git only."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house import House, open_house, wait_until


def run_git(*args: str, cwd: Path) -> str:
    done = subprocess.run(["git", *args], cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextlib.contextmanager
def two_houses(**settings: str) -> Iterator[tuple[House, House, Path]]:
    """Two running daemons and an empty bare repository."""
    with open_house(**settings) as one, open_house(**settings) as two:
        bare = one.home / "remote.git"
        run_git("init", "-q", "--bare", "--initial-branch=main", str(bare), cwd=one.home)
        one.start()
        two.start()
        yield one, two, bare


@pytest.fixture(scope="module")
def machines() -> Iterator[tuple[House, House, Path]]:
    """Two machines that are set up with one remote."""
    with two_houses() as (one, two, bare):
        one.json("remember", "The printer is called Gutenberg", "--about-self")
        two.json("remember", "The scanner is called Lumiere", "--about-self")
        assert one.json("sync", "setup", str(bare))["state"] == "empty"
        assert two.json("sync", "setup", str(bare))["state"] == "joined"
        level(one, two)
        yield one, two, bare


def level(one: House, two: House) -> None:
    """Sync until both have the same, which takes one more on each side than what is new; then nobody has anything to say."""
    for house in (one, two, one):
        house.json("sync")
    assert one.git("rev-parse", "HEAD") == two.git("rev-parse", "HEAD")
    assert one.notes() == two.notes()
    for house in (one, two):
        assert house.json("sync") == house.json("sync")
        assert house.git("status", "--porcelain") == ""
        assert house.json("verify") == {"ok": True, "differences": []}
        assert not any(b"<<<<<<<" in data or b">>>>>>>" in data for data in house.notes().values())


def found(house: House, query: str) -> list[str]:
    return [hit["content"] for hit in house.json("recall", query)["results"] if hit["source"] == "search"]


def test_two_vaults_became_one(machines: tuple[House, House, Path]) -> None:
    one, two, _ = machines
    assert one.call("admin.health").vault_id == two.call("admin.health").vault_id
    cards = {(house.vault / ".ormah/vault.toml").read_bytes() for house in (one, two)}
    assert len(cards) == 1
    for house in (one, two):
        assert found(house, "printer")
        assert found(house, "scanner")
        persons = [path for path in house.notes() if "/person/" in path]
        assert len(persons) == 1
        assert len(house.json("show", persons[0].rpartition("_")[2][:8])["connections"]["out"]) == 2
    assert len(one.git("rev-list", "--max-parents=0", "HEAD").split()) == 2  # both histories are there


def test_what_happens_on_one_machine_comes_to_the_other(machines: tuple[House, House, Path]) -> None:
    one, two, _ = machines
    stays = one.json("remember", "Bees dance to tell the way")["id"]
    goes = one.json("remember", "Wasps do not dance")["id"]
    level(one, two)
    assert found(two, "bees dance") == ["Bees dance to tell the way", "Wasps do not dance"]
    two.json("forget", goes)
    two.json("update", stays, "--title", "Waggle dance", "--tag", "bees")
    other = two.json("remember", "Honey keeps for years", "--link", f"supports:{stays}")["id"]
    note = next(path for path in one.notes() if stays[:8] in path)
    (one.vault / "moved").mkdir(exist_ok=True)
    (one.vault / note).rename(one.vault / "moved/bees.md")
    wait_until(lambda: one.json("show", stays)["path"] == "moved/bees.md", "the move is taken in")
    level(one, two)
    shown = one.json("show", stays)
    assert (shown["path"], shown["title"], shown["tags"]) == ("moved/bees.md", "Waggle dance", ["bees"])
    assert [edge["id"] for edge in one.json("show", other)["connections"]["out"]] == [stays]
    assert one.ctl("show", goes).returncode == 3


def test_a_sync_takes_in_what_a_person_wrote_a_moment_ago(machines: tuple[House, House, Path]) -> None:
    one, two, _ = machines
    (one.vault / "by-hand.md").write_text("Typed in an editor, without an id.\n")
    wait_until(lambda: b"id:" in (one.vault / "by-hand.md").read_bytes(), "the note is adopted")
    level(one, two)
    assert (two.vault / "by-hand.md").read_bytes() == (one.vault / "by-hand.md").read_bytes()
    assert found(two, "typed in an editor")


def test_both_changed_the_same_words(machines: tuple[House, House, Path]) -> None:
    one, two, _ = machines
    node = one.json("remember", "The meeting is on Monday")["id"]
    level(one, two)
    one.json("update", node, "--content", "The meeting is on Tuesday")
    two.json("update", node, "--content", "The meeting is on Friday", "--tag", "plan")
    assert one.json("sync")["conflicts"] == []
    done = two.json("sync")
    assert [item["fields"] for item in done["conflicts"]] == [["content"]]
    assert (done["pulled"], done["pushed"], done["waiting"]) == (1, 2, 1)
    path = done["conflicts"][0]["path"]
    shown = two.json("show", node)
    assert (shown["content"], shown["tags"]) == ("The meeting is on Friday", ["plan"])
    (item,) = two.json("sync", "--conflicts")
    texts = {side: (two.vault / file).read_text() for side, file in item["files"].items()}
    assert all(day in texts[side] for side, day in (("base", "Monday"), ("ours", "Friday"), ("theirs", "Tuesday")))
    findings = two.json("doctor", status=1)["findings"]
    assert [finding["path"] for finding in findings if "sync --resolve" in finding["mend"]] == [path]
    assert "sync --conflicts" in two.ctl("status").stdout
    said = two.ctl("sync", "--conflicts")
    assert "in the vault" in said.stdout
    assert "--resolve" in said.stderr
    level(one, two)
    assert one.json("sync", "--conflicts") == []
    assert "sync" in {op["kind"] for op in two.json("history", "--limit", "5")}
    assert two.json("sync", "--resolve", path)["waiting"] == 0
    assert two.json("sync", "--conflicts") == []
    assert two.json("doctor")["findings"] == []
    assert two.ctl("sync", "--resolve", path).returncode == 3


def test_forgotten_here_and_edited_there(machines: tuple[House, House, Path]) -> None:
    one, two, _ = machines
    node = one.json("remember", "The spare key is under the pot")["id"]
    level(one, two)
    one.json("forget", node)
    two.json("update", node, "--content", "The spare key is with the neighbour")
    level(one, two)
    for house in (one, two):
        assert house.json("show", node)["content"] == "The spare key is with the neighbour"
    waiting = one.json("sync", "--conflicts") + two.json("sync", "--conflicts")
    assert [item["node"] for item in waiting] == [node]
    for house in (one, two):
        if house.json("sync", "--conflicts"):
            assert house.ctl("sync", "--resolve", node[:8]).returncode == 0


def test_a_person_pulls_and_pushes_in_between(machines: tuple[House, House, Path]) -> None:
    one, two, _ = machines
    one.json("remember", "Pulled by hand on the other machine")
    two.json("remember", "Pushed by hand from the other machine")
    one.json("sync")
    two.git("pull", "--no-rebase", "--no-edit", "-q")
    two.git("push", "-q")
    wait_until(lambda: found(two, "pulled by hand"), "the pull is indexed")
    level(one, two)
    assert found(one, "pushed by hand")


def test_undo_of_what_came_from_elsewhere(machines: tuple[House, House, Path]) -> None:
    one, two, _ = machines
    node = one.json("remember", "Taken back on the other machine")["id"]
    op = one.json("history", "--limit", "1")[0]["op"]
    level(one, two)
    assert two.ctl("undo", op).returncode == 0
    level(one, two)
    assert one.ctl("show", node).returncode == 3


def test_offline_is_no_harm(machines: tuple[House, House, Path]) -> None:
    one, two, bare = machines
    away = bare.with_name("away.git")
    bare.rename(away)
    node = one.json("remember", "Written on a train")["id"]
    done = one.ctl("sync")
    assert done.returncode == 69
    assert "cannot be reached" in done.stderr
    assert "safe here" in done.stderr
    assert one.call("admin.health").sync.offline_since
    assert "offline since" in one.ctl("status").stdout
    assert one.json("show", node)["content"] == "Written on a train"
    away.rename(bare)
    level(one, two)
    assert one.call("admin.health").sync.offline_since is None
    assert two.json("show", node)["id"] == node


def test_a_file_in_the_way_is_named_and_left(machines: tuple[House, House, Path]) -> None:
    one, two, _ = machines
    (one.vault / "plan.txt").write_text("theirs")
    one.git("add", "plan.txt")
    one.git("commit", "-qm", "a plan")
    one.json("sync")
    (two.vault / "plan.txt").write_text("mine")
    before = two.git("rev-parse", "HEAD")
    done = two.ctl("sync")
    assert done.returncode == 4
    assert "plan.txt is in the way" in done.stderr
    assert (two.vault / "plan.txt").read_text() == "mine"
    assert two.git("rev-parse", "HEAD") == before
    (two.vault / "plan.txt").unlink()
    level(one, two)
    assert (two.vault / "plan.txt").read_text() == "theirs"


def test_an_edit_under_way_is_waited_for(machines: tuple[House, House, Path]) -> None:
    one, two, _ = machines
    node = one.json("remember", "first line\n\nlast line")["id"]
    level(one, two)
    one.json("update", node, "--content", "first line, changed elsewhere\n\nlast line")
    one.json("sync")
    file = two.vault / two.json("show", node)["path"]
    data, end = file.read_text(), time.monotonic() + 1.5
    syncing = subprocess.Popen([sys.executable, "-m", "ormahctl", "sync"], env=two.env, cwd=two.home)
    while time.monotonic() < end:
        file.write_text(data.replace("last line", f"last line {end - time.monotonic():.2f}"))
    assert syncing.wait(60) == 0
    assert file.read_text().count("changed elsewhere") == 1
    level(one, two)
    assert one.json("show", node)["content"].startswith("first line, changed elsewhere\n\nlast line ")


def test_notes_that_a_remote_should_not_have_sent(machines: tuple[House, House, Path]) -> None:
    """Markers, and a note beyond every size: kept in git, not indexed, named by doctor, and nothing stops."""
    one, two, bare = machines
    level(one, two)
    clone = one.home / "clone"
    run_git("clone", "-q", str(bare), str(clone), cwd=one.home)
    (clone / "marked.md").write_text("<<<<<<< HEAD\nsecond thoughts\n=======\nfirst thoughts\n>>>>>>> x\n")
    (clone / "huge.md").write_text("giant word\n" * 1_100_000)
    run_git("add", "-A", cwd=clone)
    run_git("-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "odd", cwd=clone)
    run_git("push", "-q", cwd=clone)
    assert one.json("sync")["pulled"] == 1
    assert (one.vault / "marked.md").exists()
    assert found(one, "second thoughts") == []
    assert found(one, "giant word") == []
    named = {finding["path"] for finding in one.json("doctor", status=1)["findings"]}
    assert {"marked.md", "huge.md"} <= named
    one.git("rm", "-q", "marked.md", "huge.md")
    one.git("commit", "-qm", "tidy")
    level(one, two)


def test_a_history_that_was_rewritten_is_not_brought_back(machines: tuple[House, House, Path]) -> None:
    one, two, _ = machines
    level(one, two)
    base = one.git("rev-parse", "HEAD").strip()
    node = one.json("remember", "A secret that must go")["id"]
    level(one, two)
    one.git("reset", "-q", "--hard", base)
    wait_until(lambda: one.ctl("show", node).returncode == 3, "the reset is indexed")
    one.json("remember", "Something else instead")
    here = one.ctl("sync")
    assert here.returncode == 4
    assert "this vault's history was rewritten" in here.stderr
    one.git("push", "-q", "--force", "origin", "HEAD:main")
    assert one.json("sync")["pulled"] == 0
    meanwhile = two.json("remember", "Meanwhile on the other machine")["id"]
    there = two.ctl("sync")
    assert there.returncode == 4
    assert "was rewritten since the last sync" in there.stderr
    assert one.ctl("show", node).returncode == 3
    words = there.stderr.partition("git rebase ")[2].partition(" (")[0]
    two.git("status")
    two.git("rebase", "-q", *words.split())
    wait_until(lambda: two.ctl("show", node).returncode == 3, "the rebase is indexed")
    level(one, two)
    assert one.json("show", meanwhile)["id"] == meanwhile
    assert one.ctl("show", node).returncode == 3


# ---------------------------------------------------------------- setting up, and by itself


def test_setup_refuses_what_it_must_and_changes_nothing(tmp_path: Path) -> None:
    with open_house() as house:
        house.start()
        assert house.ctl("sync").returncode == 3
        before = house.git("rev-parse", "HEAD"), (house.vault / ".git/config").read_bytes()
        other = tmp_path / "code"
        run_git("init", "-q", "--initial-branch=main", str(other), cwd=tmp_path)
        run_git("-c", "user.name=x", "-c", "user.email=x@y.z", "commit", "-qm", "code", "--allow-empty", cwd=other)
        done = house.ctl("sync", "setup", str(other))
        assert done.returncode == 4
        assert "something else than an Ormah vault" in done.stderr
        done = house.ctl("sync", "setup", str(tmp_path / "nowhere.git"))
        assert done.returncode == 69
        done = house.ctl("sync", "setup", "ext::sh -c true")
        assert done.returncode == 2
        assert house.ctl("sync", "setup").returncode == 2
        assert house.ctl("sync", "--replace").returncode == 2
        assert (house.git("rev-parse", "HEAD"), (house.vault / ".git/config").read_bytes()) == before
        for name in ("one.git", "two.git"):
            run_git("init", "-q", "--bare", str(tmp_path / name), cwd=tmp_path)
        assert house.ctl("sync", "setup", "../one.git", cwd=_inner(tmp_path)).returncode == 0
        assert house.json("sync", "setup", str(tmp_path / "one.git"))["state"] == "ours"
        done = house.ctl("sync", "setup", str(tmp_path / "two.git"))
        assert done.returncode == 4
        assert "--replace" in done.stderr
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
        assert two.json("sync", "setup", str(bare))["branch"] == "trunk"
        one.json("sync", "setup", str(bare))
        level(one, two)
        assert one.json("show", node)["id"] == node


def test_a_vault_in_somebodys_repository_is_not_ours_to_sync() -> None:
    with open_house() as house:
        run_git("init", "-q", str(house.home / "repo"), cwd=house.home)
        house.settings["ORMAH_VAULT"] = str(house.home / "repo/notes")
        house.start()
        for words in (("sync",), ("sync", "setup", str(house.home / "x.git"))):
            done = house.ctl(*words)
            assert done.returncode == 2
            assert "pull and push there as usual" in done.stderr


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
        done = two.json("sync", "setup", str(bare))
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
        folders = {path.name[:36] for path in (two.home / "cache_home/ormah").iterdir()}
        assert folders == {former}
        two.restart()
        for place in ("cache_home", "state_home"):
            assert {path.name[:36] for path in (two.home / place / "ormah").iterdir()} == {done["vault_id"]}
        assert two.json("verify") == {"ok": True, "differences": []}
        two.json("remember", "After the restart", "--about-self")
        level(one, two)
        assert found(one, "after the restart")


def _exported(house: House) -> list[dict[str, str]]:
    done = house.ctl("export")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.soak  # the suite has ten minutes
def test_it_goes_by_itself_on_an_interval() -> None:
    with two_houses(ORMAH_SYNC_INTERVAL_MINUTES="0.01") as (one, two, bare):
        assert one.call("admin.health").sync.last is None
        one.json("sync", "setup", str(bare))
        two.json("sync", "setup", str(bare))
        node = one.json("remember", "Carried over by nobody")["id"]
        wait_until(lambda: two.ctl("show", node).returncode == 0, "the other machine has it", 60)
        away = bare.with_name("away.git")
        bare.rename(away)
        wait_until(lambda: one.call("admin.health").sync.offline_since, "it is noticed that the remote is away")
        later = one.json("remember", "Written while the remote was away")["id"]
        away.rename(bare)
        wait_until(lambda: two.ctl("show", later).returncode == 0, "the other machine has it", 60)
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
        _, said = asking.communicate(timeout=30)
        assert asking.returncode == 69, said
