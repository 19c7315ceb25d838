"""Two daemons on two machines, a bare repository between them: reached by commands, files and git only."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.blackbox.two_houses import found, level, run_git, two_houses
from tests.house import House, wait_until


@pytest.fixture(scope="module")
def machines() -> Iterator[tuple[House, House, Path]]:
    """Two machines that are set up with one remote."""
    with two_houses() as (one, two, bare):
        one.json("remember", "The printer is called Gutenberg", "--about-self")
        two.json("remember", "The scanner is called Lumiere", "--about-self")
        assert one.json("sync", "setup", str(bare))["state"] == "empty"
        assert two.json("sync", "setup", str(bare), "--yes")["state"] == "joined"
        level(one, two)
        yield one, two, bare


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
    (item,) = two.json("review")["conflicts"]
    texts = {side: (two.vault / file).read_text() for side, file in item["files"].items()}
    assert all(day in texts[side] for side, day in (("base", "Monday"), ("ours", "Friday"), ("theirs", "Tuesday")))
    findings = two.json("doctor", status=1)["findings"]
    assert [finding["path"] for finding in findings if "sync --resolve" in finding["mend"]] == [path]
    assert "ormahctl review" in two.ctl("status").stdout
    said = two.ctl("review")
    assert "in the vault" in said.stdout
    assert "--resolve" in said.stdout
    (replaced,) = one.json("sync")["replaced"]
    assert (replaced["node"], replaced["fields"], replaced["kept"]) == (node, ["content"], "theirs")
    assert replaced["by"] == socket.gethostname()
    assert (replaced["values"]["content"]["ours"], replaced["values"]["content"]["theirs"]) == (
        "The meeting is on Tuesday", "The meeting is on Friday",
    )  # fmt: skip
    assert one.json("sync", "--resolve", node)["waiting"] == 0
    level(one, two)
    assert one.json("review")["conflicts"] == []
    assert "sync" in {op["kind"] for op in two.json("history", "--limit", "5")}
    assert two.json("sync", "--resolve", path)["waiting"] == 0
    assert two.json("review")["conflicts"] == []
    assert two.json("doctor")["findings"] == []
    assert two.ctl("sync", "--resolve", path).returncode == 3


def test_the_machine_whose_words_lost_is_told_and_takes_them_back(machines: tuple[House, House, Path]) -> None:
    one, two, _ = machines
    node = one.json("remember", "The review is on Monday", "--title", "Review")["id"]
    level(one, two)
    one.json("update", node, "--content", "The review is on Tuesday", "--tag", "mine")
    two.json("update", node, "--content", "The review is on Friday", "--tag", "theirs")
    one.json("sync")
    two.json("sync")
    two.json("sync", "--resolve", node)
    told = one.ctl("sync")
    assert f"replaced: {one.json('show', node)['path']}, by the sync on {socket.gethostname()}:" in told.stderr
    for said in ("content  yours  The review is on Tuesday", "content  now    The review is on Friday",
                 f"hint: ormahctl sync --take-back {node[:8]}"):  # fmt: skip
        assert said in told.stderr
    findings = one.json("doctor", status=1)["findings"]
    assert [one["level"] for one in findings if "--take-back" in one["mend"]] == ["warning"]
    assert "1 conflict for you: ormahctl review" in one.ctl("status").stdout
    assert one.json("sync")["replaced"] == []  # it is told once, and listed until it is settled
    assert [item["node"] for item in one.json("review")["conflicts"]] == [node]

    one.json("update", node, "--title", "Review of the year")  # what was changed since stays
    done = one.json("sync", "--take-back", node[:8])
    assert (len(done["commits"]), done["waiting"]) == (1, 0)
    shown = one.json("show", node)
    assert (shown["content"], shown["title"]) == ("The review is on Tuesday", "Review of the year")
    assert set(shown["tags"]) == {"mine", "theirs"}
    level(one, two)
    assert two.json("show", node)["content"] == "The review is on Tuesday"
    assert two.json("review")["conflicts"] == []
    assert one.ctl("sync", "--take-back", node).returncode == 3
    one.json("undo", done["commits"][0])
    assert one.json("show", node)["content"] == "The review is on Friday"
    level(one, two)


def test_forgotten_here_and_edited_there(machines: tuple[House, House, Path]) -> None:
    one, two, _ = machines
    node = one.json("remember", "The spare key is under the pot")["id"]
    level(one, two)
    one.json("forget", node)
    two.json("update", node, "--content", "The spare key is with the neighbour")
    level(one, two)
    for house in (one, two):
        assert house.json("show", node)["content"] == "The spare key is with the neighbour"
    waiting = one.json("review")["conflicts"] + two.json("review")["conflicts"]
    assert {item["node"] for item in waiting} == {node}  # who lost is told, too
    for house in (one, two):
        if house.json("review")["conflicts"]:
            assert house.ctl("sync", "--resolve", node[:8]).returncode == 0


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


def test_a_remote_that_refuses_says_why(machines: tuple[House, House, Path]) -> None:
    one, _, bare = machines
    hook = bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        "#!/bin/sh\nprintf 'GH013: push \\033[1mcannot contain secrets\\nsee notes/pump.md:12\\n' >&2\nexit 1\n"
    )
    hook.chmod(0o755)
    one.json("remember", "The light in the pump room is broken")
    refused = one.ctl("sync")
    assert refused.returncode == 4
    assert "GH013: push" in refused.stderr
    assert "see notes/pump.md:12" in refused.stderr
    assert "\x1b" not in refused.stderr
    assert any("GH013" in found["what"] for found in one.json("doctor", status=1)["findings"])
    hook.unlink()
    assert one.ctl("sync").returncode == 0
    told = json.loads(one.ctl("--json", "doctor").stdout)["findings"]
    assert not any("GH013" in found["what"] for found in told)


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
