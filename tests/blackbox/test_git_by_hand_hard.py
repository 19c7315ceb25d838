"""Git typed by a person where it is no merge: another note, a true conflict, files that are no notes, and nobody there to ask."""

from __future__ import annotations

import contextlib
import subprocess

from ormahd.errors import VaultBusy
from ormahd.note.edit import edit
from ormahd.note.read import parse
from tests.blackbox.by_hand import HELPER_IN_THE_SOAK, MARKERS, Hand, overlapping
from tests.house import open_house, wait_until


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
    node_id = hand.remember("The ferry leaves at noon.", title="Ferry")
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
        assert answer.returncode == 75
        assert "a revert is under way; nothing was changed" in answer.stderr
        assert hand.house.call("agent.get", node_id=node_id).content == "The ferry leaves at breakfast."
        assert any(path == one["path"] for one in hand.house.json("doctor", status=1)["findings"])
        assert hand.head() == head
    (hand.house.vault / path).write_bytes(hand.git("show", f"HEAD:{path}").replace("breakfast", "teatime").encode())
    hand.git("add", path)
    hand.git("revert", "--continue")
    hand.follow()
    hand.as_indexed(node_id)
    assert hand.house.call("agent.get", node_id=node_id).content == "The ferry leaves at teatime."


def test_files_that_are_no_notes_and_lines_of_ours(hand: Hand) -> None:
    # the head cannot be read, so the daemon takes the file for no note and writes nothing into it
    readme, lines = hand.house.vault / "README.md", hand.house.vault / ".ormah/feedback/2026-11.jsonl"
    lines.parent.mkdir()
    readme.write_text("---\ntype: [book\n---\none\ntwo\nthree\n")
    lines.write_text('{"id":"b"}\n')
    hand.git("add", "README.md", ".ormah/feedback")
    hand.git("commit", "-qm", "files")
    hand.leave()
    hand.git("switch", "-qc", "side")
    readme.write_text("---\ntype: [book\n---\none\ntwo\nTHREE\n")
    lines.write_text('{"id":"a"}\n{"id":"b"}\n')
    hand.git("commit", "-qam", "there")
    hand.git("switch", "-q", "main")
    readme.write_text("---\ntype: [book\n---\nONE\ntwo\nthree\n")
    lines.write_text('{"id":"b"}\n{"id":"c"}\n')
    hand.git("commit", "-qam", "here")
    hand.git("merge", "--no-edit", "side")
    assert readme.read_text() == "---\ntype: [book\n---\nONE\ntwo\nTHREE\n"
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
            written = []
            for number in range(3):
                with contextlib.suppress(VaultBusy):
                    written.append(house.call("agent.remember", content=f"written meanwhile {number}"))
            ended = merge.wait(120)
        if ended:  # a write had git's lock when the merge began: it said so, and a person repeats it
            hand.git("merge", "-q", "--no-edit", "side")
        hand.follow()
        assert hand.git("log", "--merges", "--format=%s").splitlines() == ["Merge branch 'side'"]
        for one in written:
            assert house.call("agent.get", node_id=one.node_id).content.startswith("written meanwhile")
        notes = [parse(data, name) for name, data in house.notes().items()]
        assert sum(note.title == "Titled" and set(note.tags) >= {"a", "b"} for note in notes) >= 60


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
