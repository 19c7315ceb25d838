"""The tour of the house: one memory from its first word to its last, seen from outside only."""

from __future__ import annotations

import shutil

import pytest

from tests.house import House, wait_until

PERSON = "Ada Person"


@pytest.fixture
def daemon(house: House) -> House:
    """Daemon and commands as a person starts them."""
    house.plainly = True
    house.start()
    return house


def found(house: House, query: str) -> list[str]:
    return [hit.id for hit in house.call("agent.recall", query=query).results]


def test_the_life_of_a_memory(daemon: House) -> None:
    # remembered -> file -> commit with trailers
    done = daemon.call(
        "agent.remember", agent="claude-code", content="The beekeeper in Howth sells heather honey on Sundays.",
        title="Heather honey", type="fact", space="garden", tags=["food"],
    )  # fmt: skip
    note = daemon.vault / done.path
    text = note.read_text()
    assert "sells heather honey" in text
    assert f"id: {done.node_id}" in text
    assert done.path == f"garden/fact/{text.split('created: ')[1][:7]}/fact_heather-honey_{done.short_id}.md"
    message = daemon.git("log", "-1", "--format=%an%n%B")
    assert message.splitlines()[:2] == ["agent:claude-code", "Remember: Heather honey"]
    for trailer in (
        f"Ormah-Op: {done.op}",
        "Ormah-Kind: remember",
        "Ormah-Source: agent:claude-code",
        f"Ormah-Nodes: {done.node_id}",
    ):
        assert trailer in message
    assert daemon.git("status", "--porcelain") == ""

    # found
    assert found(daemon, "heather honey")[0] == done.node_id
    shown = daemon.call("agent.get", node_id=done.short_id)
    assert (shown.title, shown.space, shown.tags, shown.source) == (
        "Heather honey",
        "garden",
        ["food"],
        "agent:claude-code",
    )

    # edited by a person -> adopted -> found by its new words
    note.write_text(text.replace("on Sundays", "on market days, beside the lighthouse"))
    wait_until(lambda: found(daemon, "lighthouse")[:1] == [done.node_id], "the edit is found")
    wait_until(
        lambda: daemon.git("log", "-1", "--format=%an").strip() == PERSON, "the edit is committed in the person's name"
    )
    assert "Ormah-Kind: edit" in daemon.git("log", "-1", "--format=%B")

    # updated by an agent: only the lines it must
    before = note.read_text().splitlines()
    daemon.call("agent.update", node_id=done.node_id, tier="core")
    after = note.read_text().splitlines()
    changed = {line.split(":")[0] for line in set(before) ^ set(after)}
    assert changed - {"updated"} == {"tier"}

    # taken back by git: the index follows by itself
    daemon.git("revert", "--no-edit", "HEAD")
    wait_until(lambda: daemon.call("agent.get", node_id=done.node_id).tier == "working", "git revert is followed")

    # outdated and valid again
    daemon.call("agent.outdated", node_id=done.node_id, reason="she moved away")
    assert done.node_id not in found(daemon, "heather honey lighthouse")
    assert daemon.call("agent.get", node_id=done.node_id).outdated_reason == "she moved away"
    daemon.call("agent.outdated", node_id=done.node_id, revoke=True)
    assert found(daemon, "heather honey lighthouse")[0] == done.node_id

    # its life, as git tells it
    kinds = [op.kind for op in daemon.call("history.list", node_id=done.short_id).ops]
    assert kinds == ["outdated", "outdated", None, "update", "edit", "remember"]

    # forgotten
    daemon.call("agent.forget", node_id=done.node_id)
    assert not note.exists()
    assert done.node_id not in found(daemon, "heather honey lighthouse")
    assert daemon.git("show", f"HEAD~1:{done.path}")

    # the index deleted, restart, same answers
    for number in range(12):
        daemon.call(
            "agent.remember",
            content=f"Boat number {number} in Howth harbour is painted {['red', 'blue', 'green'][number % 3]}.",
        )
    answers = {query: found(daemon, query) for query in ("boat harbour", "red", "which one is blue", "number 7")}
    daemon.stop()
    shutil.rmtree(daemon.index_dir)
    daemon.start()
    assert {query: found(daemon, query) for query in answers} == answers
    assert daemon.call("admin.verify").ok
    assert daemon.call("admin.stats").by_type["person"] == 1, "there is one self node"
