"""Git typed by a person in the vault merges notes as undo does: with the daemon, without it, and with nobody at all."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.core.note import Note, edit, parse
from tests.house import House, open_house, wait_until

MARKERS = (b"<<<<<<<", b"=======", b">>>>>>>")


class Hand:
    """A house, and git as a person types it: with what it said and how it ended."""

    def __init__(self, house: House, daemon: bool) -> None:
        self.house = house
        self.daemon = daemon

    def leave(self) -> None:
        """From here on the daemon runs only where the test is about that."""
        self.follow()
        if not self.daemon:
            self.house.stop()

    def git(self, *words: str, status: int = 0) -> str:
        done = self.run(*words)
        assert done.returncode == status, f"git {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def run(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        env = self.house.env | {"GIT_EDITOR": "true"}
        folder = cwd or self.house.vault
        return subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True, text=True, timeout=60)

    def remember(self, content: str, **more: object) -> str:
        return self.house.call("agent.remember", content=content, **more).node_id

    def update(self, node_id: str, **fields: object) -> str:
        """Change a memory through the daemon; the commit."""
        self.house.call("agent.update", node_id=node_id, **fields)
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD").strip()

    def path(self, node_id: str) -> str:
        found = [name for name, data in self.house.notes().items() if parse(data, name).id == node_id]
        assert len(found) == 1, found
        return found[0]

    def note(self, node_id: str) -> Note:
        path = self.path(node_id)
        return parse((self.house.vault / path).read_bytes(), path)

    def edit(self, node_id: str, *, subject: str, **fields: object) -> str:
        """Change a note's frontmatter by hand and commit it by hand; the commit."""
        path = self.path(node_id)
        content = fields.pop("content", None)
        file = self.house.vault / path
        file.write_bytes(edit(file.read_bytes(), path, set=fields, content=content))
        self.git("commit", "-qm", subject, "--", path)
        return self.head()

    def follow(self) -> None:
        """The daemon (started where it is down) has followed git: what is found is what stands there."""
        house = self.house
        if house.process is None or house.process.poll() is not None:
            house.start()
        wait_until(lambda: house.call("admin.health").queued == 0, "what waited for git is written")
        wait_until(lambda: house.git("status", "--porcelain") == "", "everything is committed")
        wait_until(lambda: house.call("admin.health").index.fresh, "the index has followed")
        answer = house.json("verify")
        assert answer["ok"], answer

    def as_indexed(self, node_id: str) -> None:
        """The daemon answers with the note that stands in the folder."""
        found, note = self.house.call("agent.get", node_id=node_id), self.note(node_id)
        assert (found.title, sorted(found.tags), found.content) == (note.title, sorted(note.tags), note.content)

    def clean(self) -> None:
        for name, data in self.house.notes().items():
            assert not any(line.startswith(MARKERS) for line in data.splitlines()), name


@pytest.fixture(params=[True, False], ids=["daemon", "helper"])
def hand(request: pytest.FixtureRequest) -> Iterator[Hand]:
    with open_house() as house:
        house.start()
        yield Hand(house, request.param)
        wait_until(lambda: not helpers(house), "the helper has ended with its git")


HELPER_IN_THE_SOAK = pytest.mark.parametrize(
    "hand", [True, pytest.param(False, marks=pytest.mark.soak)], ids=["daemon", "helper"], indirect=True
)
"""For ways of git that are one way for whoever merges: the suite has ten minutes for everything."""


def helpers(house: House) -> list[str]:
    return [name for name in os.listdir(house.home / "runtime_dir") if name.startswith("ormah-merge-")]


def overlapping(hand: Hand) -> tuple[str, str]:
    """A memory, and the commit of an update that plain text cannot take back: the lines beside it changed since."""
    node_id = hand.remember("The ferry leaves at noon.", title="Ferry", tags=["sea"])
    commit = hand.update(node_id, title="The ferry")
    hand.update(node_id, tags=["sea", "travel"])
    return node_id, commit


def test_revert_takes_an_op_back_under_later_edits(hand: Hand) -> None:
    node_id, commit = overlapping(hand)
    op = hand.house.json("history")[1]["op"]
    hand.leave()
    hand.git("revert", "--no-edit", commit)
    note = hand.note(node_id)
    assert (note.title, set(note.tags)) == ("Ferry", {"sea", "travel"})
    before = hand.git("rev-list", "--count", "HEAD")
    hand.follow()
    hand.as_indexed(node_id)
    assert hand.git("rev-list", "--count", "HEAD") == before, "what git committed is not committed again"
    assert hand.house.json("history", "--limit", "9")[2]["op"] == op
    assert hand.house.json("history", "--limit", "9")[2]["undone_by"] == hand.head()
    hand.git("revert", "--no-edit", "HEAD")
    hand.follow()
    assert hand.note(node_id).title == "The ferry"
    assert hand.house.json("history", "--limit", "9")[3]["undone_by"] is None


@HELPER_IN_THE_SOAK
def test_revert_of_the_last_change_leaves_the_bytes_of_before(hand: Hand) -> None:
    node_id = hand.remember("The ferry leaves at noon.", title="Ferry")
    tree = hand.git("rev-parse", "HEAD^{tree}")
    hand.update(node_id, title="The ferry")
    hand.leave()
    hand.git("revert", "--no-edit", "HEAD")
    assert hand.git("rev-parse", "HEAD^{tree}") == tree
    hand.follow()
    hand.as_indexed(node_id)


def two_sides(hand: Hand) -> str:
    """A memory with another title on `main` and other tags on `side`, one line from the other."""
    node_id = hand.remember("The ferry leaves at noon.", title="Ferry", tags=["sea"])
    hand.leave()
    hand.git("switch", "-qc", "side")
    hand.edit(node_id, subject="tags", tags=["sea", "travel"])
    hand.git("switch", "-q", "main")
    hand.edit(node_id, subject="title", title="The ferry")
    return node_id


def both(hand: Hand, node_id: str) -> None:
    note = hand.note(node_id)
    assert (note.title, set(note.tags)) == ("The ferry", {"sea", "travel"})
    hand.clean()
    hand.follow()
    hand.as_indexed(node_id)
    assert hand.house.call("agent.recall", query="ferry").results[0].id == node_id


def test_merge(hand: Hand) -> None:
    node_id = two_sides(hand)
    hand.git("merge", "--no-edit", "side")
    both(hand, node_id)


@HELPER_IN_THE_SOAK
def test_cherry_pick(hand: Hand) -> None:
    node_id = two_sides(hand)
    hand.git("cherry-pick", "side")
    both(hand, node_id)


@HELPER_IN_THE_SOAK
@pytest.mark.parametrize("how", ["--merge", "--apply"])
def test_rebase(hand: Hand, how: str) -> None:
    node_id = two_sides(hand)
    hand.git("rebase", how, "side")
    both(hand, node_id)
    assert hand.git("log", "-2", "--format=%s").split() == ["title", "tags"]


@HELPER_IN_THE_SOAK
def test_pull(hand: Hand) -> None:
    node_id = hand.remember("The ferry leaves at noon.", title="Ferry", tags=["sea"])
    hand.leave()
    there = hand.house.home / "elsewhere"
    hand.git("clone", "-q", ".", str(there))
    path = hand.path(node_id)
    (there / path).write_bytes(edit((there / path).read_bytes(), path, set={"tags": ["sea", "travel"]}))
    assert hand.run("commit", "-qam", "tags", cwd=there).returncode == 0
    hand.edit(node_id, subject="title", title="The ferry")
    hand.git("pull", "-q", "--no-rebase", "--no-edit", str(there), "main")
    both(hand, node_id)


@HELPER_IN_THE_SOAK
def test_stash_pop(hand: Hand) -> None:
    node_id = hand.remember("The ferry leaves at noon.", title="Ferry", tags=["sea"])
    hand.follow()
    hand.house.stop()  # a running daemon commits the edit before it can be stashed
    path = hand.path(node_id)
    file = hand.house.vault / path
    file.write_bytes(edit(file.read_bytes(), path, set={"tags": ["sea", "travel"]}))
    hand.git("stash", "-q")
    hand.edit(node_id, subject="title", title="The ferry")
    if hand.daemon:
        hand.follow()
    hand.git("stash", "pop", "-q")
    both(hand, node_id)
    assert hand.git("stash", "list") == ""


@HELPER_IN_THE_SOAK
def test_several_reverts_in_one_go(hand: Hand) -> None:
    node_id, commit = overlapping(hand)
    other, again = overlapping(hand)
    hand.leave()
    hand.git("revert", "--no-edit", commit, again)
    for one in (node_id, other):
        assert (hand.note(one).title, set(hand.note(one).tags)) == ("Ferry", {"sea", "travel"})
    hand.follow()
    assert [op["undone_by"] is not None for op in hand.house.json("history")[:8]].count(True) == 2


@HELPER_IN_THE_SOAK
def test_an_op_that_was_reverted_and_picked_again_is_one_op(hand: Hand) -> None:
    node_id, commit = overlapping(hand)
    op = hand.house.json("history")[1]["op"]
    hand.leave()
    hand.git("revert", "--no-edit", commit)
    hand.git("cherry-pick", commit)
    assert hand.note(node_id).title == "The ferry"
    hand.follow()
    assert hand.house.json("history", "show", op[:20])["commit"] == hand.head()
    assert hand.house.ctl("undo", op[:20]).returncode == 0
    assert (hand.note(node_id).title, set(hand.note(node_id).tags)) == ("Ferry", {"sea", "travel"})


@HELPER_IN_THE_SOAK
def test_a_revert_that_is_not_committed_by_git(hand: Hand) -> None:
    node_id, commit = overlapping(hand)
    hand.leave()
    hand.git("revert", "--no-commit", commit)
    assert hand.note(node_id).title == "Ferry"
    hand.git("commit", "-qm", "as it was")
    hand.follow()
    hand.as_indexed(node_id)
    assert hand.git("log", "-1", "--format=%s").strip() == "as it was"


# What is no merge


def test_a_look_alike_never_receives_anothers_change(hand: Hand) -> None:
    first = hand.remember("The ferry leaves at noon from the old pier, in every season.", title="Ferry", tags=["sea"])
    commit = hand.update(first, title="The ferry")
    hand.house.call("agent.forget", node_id=first)
    alike = hand.remember(
        "The ferry leaves at noon from the old pier, in every season!", title="The ferry", tags=["sea"]
    )
    hand.leave()
    kept = (hand.house.vault / hand.path(alike)).read_bytes()
    done = hand.run("revert", "--no-edit", commit)
    assert done.returncode != 0, "the note is gone: there is nothing to take back"
    assert (hand.house.vault / hand.path(alike)).read_bytes() == kept
    hand.git("revert", "--abort")
    hand.follow()
    assert hand.house.call("agent.get", node_id=alike).title == "The ferry"
    assert (hand.house.vault / hand.path(alike)).read_bytes() == kept


@HELPER_IN_THE_SOAK
def test_where_git_pairs_two_notes_the_driver_refuses(hand: Hand) -> None:
    """The note stands under another name on our side, as far as git can tell: its rename detection believes so."""
    first = hand.remember("The ferry leaves at noon from the old pier.", title="Ferry", tags=["sea"])
    hand.leave()
    path = hand.path(first)
    data = (hand.house.vault / path).read_bytes()
    hand.git("switch", "-qc", "side")
    hand.edit(first, subject="tags", tags=["sea", "travel"])
    hand.git("switch", "-q", "main")
    other = "a-look-alike.md"
    alike = data.replace(first.encode(), b"11111111-2222-4333-8444-555555555555")
    (hand.house.vault / other).write_bytes(alike)
    hand.git("rm", "-q", path)
    hand.git("add", other)
    hand.git("commit", "-qm", "another one")
    done = hand.run("merge", "--no-edit", "side")
    assert done.returncode == 1
    assert "these are different notes" in done.stderr
    assert (hand.house.vault / other).read_bytes() == alike
    assert hand.git("status", "--porcelain", other).startswith("UU")
    hand.git("merge", "--abort")
    hand.follow()


def test_modify_delete_stays_gits_own_conflict(hand: Hand) -> None:
    node_id, commit = overlapping(hand)
    hand.house.call("agent.forget", node_id=node_id)
    hand.leave()
    done = hand.run("revert", "--no-edit", commit)
    assert done.returncode == 1
    assert "CONFLICT (modify/delete)" in done.stdout
    hand.git("revert", "--abort")
    hand.follow()


def test_a_true_conflict_is_shown_named_and_kept_out_of_history_and_index(hand: Hand) -> None:
    node_id, other = hand.remember("The ferry leaves at noon.", title="Ferry"), hand.remember("The bus never leaves.")
    commit = hand.update(node_id, content="The ferry leaves at midnight.", add_tags=["night"])
    hand.update(node_id, content="The ferry leaves at breakfast.", add_tags=["day"])
    hand.leave()
    done = hand.run("revert", "--no-edit", commit)
    assert done.returncode == 1
    assert "both sides changed content" in done.stderr
    path = hand.path(node_id)
    data = (hand.house.vault / path).read_bytes()
    assert all(any(line.startswith(mark) for line in data.splitlines()) for mark in MARKERS)
    before, _, choice = data.partition(b"<<<<<<< ours\n")
    assert b"tags: [day]" in before, "what can be merged is no matter for a person"
    assert choice == b"The ferry leaves at breakfast.\n=======\nThe ferry leaves at noon.\n>>>>>>> theirs\n"
    head = hand.head()
    if hand.daemon:
        answer = hand.house.ctl("remember", "Something else meanwhile.")
        assert "its commit follows" in answer.stderr
        assert "its commit follows" in hand.house.ctl("update", other, "--title", "Bus").stderr
        assert hand.house.call("agent.get", node_id=node_id).content == "The ferry leaves at breakfast."
        assert any(path == one["path"] for one in hand.house.json("doctor", status=1)["findings"])
        assert hand.head() == head
    (hand.house.vault / path).write_bytes(hand.git("show", f"HEAD:{path}").replace("breakfast", "teatime").encode())
    hand.git("add", path)
    hand.git("revert", "--continue")
    hand.follow()
    hand.as_indexed(node_id)
    assert hand.house.call("agent.get", node_id=node_id).content == "The ferry leaves at teatime."
    if hand.daemon:
        assert hand.house.call("agent.recall", query="Something else meanwhile").results[0].content.startswith("Some")
        assert hand.note(other).title == "Bus"


def test_files_that_are_no_notes_and_lines_of_ours(hand: Hand) -> None:
    readme, lines = hand.house.vault / "README.md", hand.house.vault / ".ormah/feedback/2026-11.jsonl"
    lines.parent.mkdir()
    readme.write_text("---\ntype: book\n---\none\ntwo\nthree\n")
    lines.write_text('{"id":"b"}\n')
    hand.git("add", "README.md", ".ormah/feedback")
    hand.git("commit", "-qm", "files")
    hand.leave()
    hand.git("switch", "-qc", "side")
    readme.write_text("---\ntype: book\n---\none\ntwo\nTHREE\n")
    lines.write_text('{"id":"a"}\n{"id":"b"}\n')
    hand.git("commit", "-qam", "there")
    hand.git("switch", "-q", "main")
    readme.write_text("---\ntype: book\n---\nONE\ntwo\nthree\n")
    lines.write_text('{"id":"b"}\n{"id":"c"}\n')
    hand.git("commit", "-qam", "here")
    hand.git("merge", "--no-edit", "side")
    assert readme.read_text() == "---\ntype: book\n---\nONE\ntwo\nTHREE\n"
    assert lines.read_text() == '{"id":"a"}\n{"id":"b"}\n{"id":"c"}\n'
    hand.follow()


def test_writes_that_wait_for_gits_lock_do_not_hold_up_the_merge_that_holds_it() -> None:
    """Git holds index.lock while it runs the driver, the driver asks the daemon, whose writer waits for that lock."""
    with open_house() as house:
        house.start()
        hand = Hand(house, daemon=False)
        rows = "\n".join(f'{{"content": "fact {number} of {number * 7}", "tags": ["a"]}}' for number in range(60))
        assert house.json("import", "-", input=rows)["added"] == 60
        hand.leave()
        hand.git("branch", "side")
        for branch, change in (("main", {"title": "Titled"}), ("side", {"tags": ["a", "b"]})):
            hand.git("switch", "-q", branch)
            for name, data in house.notes().items():
                (house.vault / name).write_bytes(edit(data, name, set=change))
            hand.git("commit", "-qam", branch)
        hand.git("switch", "-q", "main")
        house.start()
        lock = house.vault / ".git/index.lock"
        with subprocess.Popen(["git", "merge", "-q", "--no-edit", "side"], cwd=house.vault, env=house.env) as merge:
            wait_until(lambda: lock.exists() or merge.poll() is not None, "git holds its lock")
            written = [house.call("agent.remember", content=f"written meanwhile {number}") for number in range(3)]
            assert merge.wait(60) == 0
        wait_until(lambda: house.call("admin.health").queued == 0, "what waited is written")
        hand.follow()
        assert hand.git("log", "--merges", "--format=%s").splitlines() == ["Merge branch 'side'"]
        for one in written:
            assert house.call("agent.get", node_id=one.node_id).content.startswith("written meanwhile")
        notes = [parse(data, name) for name, data in house.notes().items()]
        assert sum(note.title == "Titled" and set(note.tags) >= {"a", "b"} for note in notes) >= 60


# Nobody there


def test_with_the_interpreter_gone_markers_are_left_and_never_one_side() -> None:
    with open_house() as house:
        house.start()
        hand = Hand(house, daemon=True)
        node_id, commit = overlapping(hand)
        hand.follow()
        driver = house.git("config", "merge.ormah.driver").strip()
        house.git("config", "merge.ormah.driver", driver.replace("/bin/python", "/bin/gone/python"))
        done = hand.run("revert", "--no-edit", commit)
        assert done.returncode == 1
        assert "merged as plain text" in done.stderr
        data = (house.vault / hand.path(node_id)).read_bytes()
        assert all(any(line.startswith(mark) for line in data.splitlines()) for mark in MARKERS)
        assert b"travel" in data
        assert any("needs /" in one["what"] for one in house.json("doctor", status=1)["findings"])
        hand.git("revert", "--abort")
        assert house.ctl("doctor", "--fix").returncode == 0
        assert house.git("config", "merge.ormah.driver").strip() == driver
        hand.git("revert", "--no-edit", commit)
        hand.follow()
        hand.as_indexed(node_id)
