"""The index follows git: whatever moves HEAD or the worktree, by whoever, is found by difference; what is half done waits."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.errors import VaultBusy
from ormahd.note.edit import edit
from ormahd.note.read import parse
from tests.house import House, open_house, wait_until


@pytest.fixture
def house() -> Iterator[House]:
    with open_house(ORMAH_VAULT_BUSY_WAIT_SECONDS="0.2") as found:
        found.start()
        yield found


def remember(house: House, content: str, **more: object) -> str:
    return house.call("agent.remember", content=content, **more).node_id


def words(house: House, query: str) -> list[str]:
    """What the memories say that a question finds, best first."""
    return [hit.content for hit in house.call("agent.recall", query=query).results]


def file_of(house: House, node_id: str) -> Path:
    return house.vault / house.call("agent.get", node_id=node_id).path


def git(house: House, *arguments: str, status: int = 0) -> str:
    env = house.env | {"GIT_EDITOR": "true"}
    done = subprocess.run(["git", *arguments], cwd=house.vault, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, f"git {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def followed(house: House, query: str, found: str | None) -> None:
    """The question's best answer is `found` (None: it is not answered from what is gone), and index and vault are one."""
    head = git(house, "rev-parse", "HEAD")
    if found is None:
        wait_until(
            lambda: not any(query in text for text in words(house, query)),
            lambda: f"{query!r} is forgotten; it said:\n{house.said()}",
        )
    else:
        wait_until(
            lambda: words(house, query)[:1] == [found], lambda: f"{query!r} finds {found!r}; it said:\n{house.said()}"
        )
    wait_until(lambda: house.call("admin.health").index.fresh, "the index knows HEAD")
    answer = house.json("verify")
    assert answer["ok"], answer
    assert git(house, "status", "--porcelain") == ""
    assert git(house, "rev-parse", "HEAD") == head, "following makes no commit"


NOON, NIGHT, DAWN = "The ferry leaves at noon.", "The ferry leaves at midnight.", "The ferry leaves at dawn."


def changed(house: House) -> tuple[str, str]:
    """A memory that was changed once: its id and the commit before."""
    node_id = remember(house, NOON, title="Ferry")
    before = git(house, "rev-parse", "HEAD")
    house.call("agent.update", node_id=node_id, content=NIGHT)
    return node_id, before


def test_amended_and_rebased_history(house: House) -> None:
    node_id, before = changed(house)
    file = file_of(house, node_id)
    git(house, "commit", "-q", "--amend", "-m", "in my own words")
    followed(house, "ferry", NIGHT)
    bus = remember(house, "The bus never leaves.")
    git(house, "rebase", "-q", "--onto", f"{before}", "HEAD~1", "main")
    followed(house, "ferry", NOON)
    assert house.call("agent.get", node_id=bus).content == "The bus never leaves."
    git(house, "reflog", "expire", "--expire=now", "--all")
    git(house, "gc", "-q", "--prune=now")
    followed(house, "ferry", NOON)
    file.write_text(file.read_text().replace("noon", "dawn"))
    wait_until(lambda: words(house, "ferry")[:1] == [DAWN], "edits go on")
    wait_until(lambda: git(house, "status", "--porcelain") == "", "and are committed")
    house.restart()
    followed(house, "ferry", DAWN)
    assert house.json("history")[0]["kind"] == "edit"


def test_everything_while_the_daemon_was_down(house: House) -> None:
    node_id, before = changed(house)
    gone = remember(house, "To be deleted: the marmalade.")
    kept = remember(house, "To be renamed: the xylophone.")
    paths = {one: file_of(house, one).relative_to(house.vault).as_posix() for one in (node_id, gone, kept)}
    house.stop()
    git(house, "rm", "-q", paths[gone])
    git(house, "mv", paths[kept], "renamed.md")
    git(house, "checkout", "-q", before, "--", paths[node_id])
    git(house, "commit", "-qm", "by hand")
    git(house, "commit", "-q", "--amend", "-m", "by hand, in other words")
    git(house, "gc", "-q", "--prune=now")
    house.start()
    followed(house, "ferry", NOON)
    followed(house, "marmalade", None)
    assert house.call("agent.get", node_id=kept).path == "renamed.md"


def test_a_restored_older_clone_in_place(house: House) -> None:
    """Another .git and other files under the same path: nothing that the index remembers of the history is there."""
    changed(house)
    house.stop()
    other = house.home / "other"
    git(house, "clone", "-q", "--no-hardlinks", ".", str(other))
    env = house.env
    subprocess.run(["git", "reset", "-q", "--hard", "HEAD~1"], cwd=other, env=env, check=True)
    subprocess.run(["git", "commit", "-q", "--amend", "-m", "rewritten"], cwd=other, env=env, check=True)
    subprocess.run(["git", "gc", "-q", "--prune=now"], cwd=other, env=env, check=True)
    house.vault.rename(house.home / "old")
    other.rename(house.vault)
    house.start()
    followed(house, "ferry", NOON)


# Half done


def fork(house: House) -> tuple[str, str]:
    """A memory that `main` and `side` changed differently, and another one that only `main` has."""
    node_id = remember(house, NOON, title="Ferry")
    path = file_of(house, node_id).relative_to(house.vault).as_posix()
    git(house, "branch", "side")
    house.call("agent.update", node_id=node_id, content=NIGHT)
    remember(house, "Only here: the marmalade.")
    followed(house, "ferry", NIGHT)
    house.stop()
    git(house, "switch", "-q", "side")
    file = house.vault / path
    file.write_bytes(edit(file.read_bytes(), path, content=DAWN))
    git(house, "commit", "-qam", "dawn")
    git(house, "switch", "-q", "main")
    house.start()
    return node_id, path


def is_waited_for(house: House, why: str, node_id: str, path: str) -> None:
    """Nothing half done is in the history or in the index; a write meanwhile is refused, and changes nothing."""
    marmalade = house.call("agent.recall", query="marmalade").results[0].id
    head = git(house, "rev-parse", "HEAD")
    other = house.vault / "mine.md"
    other.write_text("An edit in the meantime: the xylophone.")
    house.call("admin.run_task", name="index_updater")
    with pytest.raises(VaultBusy, match=f"{why}; nothing was changed"):
        house.call("agent.remember", content="Written meanwhile: the accordion.")
    with pytest.raises(VaultBusy, match=f"{why}; nothing was changed"):
        house.call("agent.update", node_id=marmalade, title="Written meanwhile")
    assert house.call("agent.get", node_id=node_id).content == NIGHT
    assert words(house, "ferry")[:1] == [NIGHT]
    assert words(house, "marmalade")[:1] == ["Only here: the marmalade."]
    assert not any("<<<<" in text for text in words(house, "dawn"))
    findings = house.json("doctor", status=1)["findings"]
    assert any(why in one["what"] for one in findings), findings
    assert any(one["path"] == path and "conflict" in one["what"] for one in findings), findings
    assert house.json("status")["busy"] == why
    assert "detached" not in house.ctl("status").stdout
    assert house.json("verify")["ok"], "what waits is no difference"
    assert git(house, "rev-parse", "HEAD") == head
    assert "xylophone" not in git(house, "log", "-p", "-1")


def went_on(house: House) -> None:
    wait_until(lambda: git(house, "status", "--porcelain") == "", "what waited is committed")
    found = ["An edit in the meantime: the xylophone."]
    wait_until(lambda: words(house, "xylophone")[:1] == found, "the edit of the meantime is found")
    assert "Written meanwhile" not in git(house, "log", "--format=%s")
    house.call("agent.remember", content="Written meanwhile: the accordion.")
    assert words(house, "accordion")[:1] == ["Written meanwhile: the accordion."]


def resolve(house: House, path: str, text: str) -> None:
    file = house.vault / path
    file.write_bytes(edit(git(house, "show", f"HEAD:{path}").encode() + b"\n", path, content=text))
    git(house, "add", path)


@pytest.mark.parametrize("end", ["--continue", "--abort"])
@pytest.mark.parametrize("doing", ["rebase", "merge"])
def test_a_rebase_or_merge_in_progress(house: House, doing: str, end: str) -> None:
    node_id, path = fork(house)
    git(house, doing, "side", status=1)
    is_waited_for(house, f"a {doing} is under way", node_id, path)
    if end == "--continue":
        resolve(house, path, "The ferry leaves twice.")
    git(house, doing, end)
    text = "The ferry leaves twice." if end == "--continue" else NIGHT
    wait_until(lambda: words(house, "ferry")[:1] == [text], "the end of it is found")
    went_on(house)
    followed(house, "ferry", text)
    assert words(house, "marmalade")[:1] == ["Only here: the marmalade."]


def test_a_daemon_that_starts_into_a_rebase(house: House) -> None:
    node_id, path = fork(house)
    house.stop()
    git(house, "rebase", "side", status=1)
    house.start()
    is_waited_for(house, "a rebase is under way", node_id, path)
    house.restart()
    assert words(house, "ferry")[:1] == [NIGHT]
    git(house, "rebase", "--abort")
    went_on(house)
    followed(house, "ferry", NIGHT)


def test_an_index_that_was_lost_during_a_rebase_takes_what_there_is(house: House) -> None:
    node_id, path = fork(house)
    git(house, "rebase", "side", status=1)
    house.stop()
    shutil.rmtree(house.index_dir)
    house.start()
    assert house.call("agent.get", node_id=node_id).content == DAWN, "what HEAD has of the note with markers"
    assert house.json("verify")["ok"]
    git(house, "rebase", "--abort")
    followed(house, "ferry", NIGHT)
    assert file_of(house, node_id) == house.vault / path


def test_a_bisect(house: House) -> None:
    node_id, before = changed(house)
    git(house, "bisect", "start", "HEAD", before)
    git(house, "checkout", "-q", before)
    house.call("admin.run_task", name="index_updater")
    assert house.call("agent.get", node_id=node_id).content == NIGHT
    with pytest.raises(VaultBusy, match="a bisect is under way"):
        house.call("agent.remember", content="Written meanwhile: the accordion.")
    git(house, "bisect", "reset")
    followed(house, "ferry", NIGHT)


def test_a_detached_head_is_said_and_followed(house: House) -> None:
    node_id, before = changed(house)
    git(house, "checkout", "-q", before)
    followed(house, "ferry", NOON)
    sentence = "HEAD is detached"
    assert sentence in house.ctl("status").stdout
    assert [one["what"] for one in house.json("doctor", status=1)["findings"]].count(
        "HEAD is detached: commits belong to no branch"
    ) == 1
    added = remember(house, "Written on no branch: the accordion.")
    assert git(house, "log", "-1", "--format=%s").startswith("Remember")
    git(house, "switch", "-qc", "kept")
    followed(house, "accordion", "Written on no branch: the accordion.")
    assert sentence not in house.ctl("status").stdout
    git(house, "switch", "-q", "main")
    followed(house, "ferry", NIGHT)
    assert house.call("agent.get", node_id=node_id).content == NIGHT
    assert parse((house.vault / house.call("agent.get", node_id=node_id).path).read_bytes(), "x.md").id != added
