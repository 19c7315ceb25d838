"""What lasts of a judgement: beyond a kill, a lost index and a purge, on two machines, and for other models."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from ormahd.errors import NotFound
from ormahd.model.chance import after_feedback
from tests.blackbox import judging
from tests.blackbox.judging import FLY, PROMPT, STAGING, judge, lines, remember, score, whisper
from tests.blackbox.two_houses import level, two_houses
from tests.house import House, open_house

house = judging.house


def test_alive_after_index_and_state_were_deleted(house: House) -> None:
    node = remember(house, STAGING)
    plain = score(house, node)
    judge(house, node)
    assert house.stop() == 0
    for gone in (house.index_dir, house.state):
        shutil.rmtree(gone)
    house.start()
    assert score(house, node) == pytest.approx(after_feedback(plain, 0.15), abs=1e-4)
    with pytest.raises(NotFound):
        judge(house, node, event="k3v9x2m7q4hd")
    assert judge(house, node, -1).counted, "what was whispered since can be judged"


def test_many_agents_judge_at_once_and_a_kill_loses_nothing(house: House) -> None:
    nodes = [remember(house, f"Kayak {number} is stored in the boathouse.") for number in range(6)]
    events = [whisper(house, f"is kayak {number} stored in the boathouse").event for number in range(6)]
    with ThreadPoolExecutor(8) as agents:
        answers = list(
            agents.map(
                lambda turn: judge(
                    house, nodes[turn % 6], 1, event=events[turn % 6], source=("explicit", "implicit")[turn % 2]
                ),
                range(24),
            )
        )
    house.kill()
    assert sum(one.counted for one in answers) == 6, "each of them was said four times"
    assert sorted((line["node_id"], line["source"]) for line in lines(house)) == sorted(
        (nodes[number], ("explicit", "implicit")[number % 2]) for number in range(6)
    )
    house.start()
    assert house.git("status", "--porcelain") == ""
    assert house.json("status", "--verbose")["stats"]["whisper"]["useful"] == 6


@pytest.mark.soak  # the suite has ten minutes
def test_two_machines_have_the_judgements_of_both() -> None:
    with two_houses() as (one, two, bare):
        node = remember(one, STAGING)
        assert one.json("sync", "setup", str(bare))["state"] == "empty"
        assert two.json("sync", "setup", str(bare), "--yes")["state"] == "joined"
        plain = score(one, node)
        judge(one, node, 1)
        score(two, node)
        judge(two, node, -1)
        level(one, two)
        assert len(lines(one)) == 2
        assert lines(one) == lines(two)
        assert {line["prompt_hash"] for line in lines(one)} != {lines(one)[0]["prompt_hash"]}, "each has its own key"
        for house in (one, two):
            assert score(house, node) == pytest.approx(plain, abs=2e-3), "one for, one against"
        # both judge again, in the same file, and one takes its first word back
        op = [op for op in one.json("history") if op["kind"] == "feedback"]
        mine = next(entry["op"] for entry in op if "not useful" not in entry["subject"])
        one.json("undo", mine)
        score(two, node)
        judge(two, node, -1)
        level(one, two)
        assert [line["signal"] for line in lines(one)] == [-1, -1]
        for house in (one, two):
            assert score(house, node) == pytest.approx(after_feedback(plain, -0.15), abs=1e-3)


def test_a_purged_memory_leaves_no_judgement(house: House) -> None:
    node, other = remember(house, STAGING), remember(house, FLY)
    whisper(house, f"{PROMPT} and production is deployed with fly deploy")
    judge(house, node)
    judge(house, other)
    assert len(lines(house)) == 2
    house.json("forget", node, "--purge", "--yes")
    assert [line["node_id"] for line in lines(house)] == [other]
    found = [
        str(file) for root in (house.vault, house.home / "state_home") for file in root.rglob("*")
        if file.is_file() and node[:8].encode() in file.read_bytes()
    ]  # fmt: skip
    assert found == []
    assert node[:8] not in house.git("log", "-p", "--all")
    with pytest.raises(NotFound):
        judge(house, node)


@pytest.mark.parametrize("commit", [False, True])
def test_the_prompts_text_is_written_where_it_is_wished(commit: bool) -> None:
    with open_house(ORMAH_FEEDBACK_COMMIT_PROMPTS=str(commit).lower()) as house:
        house.start()
        node = remember(house, STAGING)
        key = "ghp_" + "a1B2" * 9
        whisper(house, f"{PROMPT} with {key}")
        judge(house, node)
        text = (next((house.vault / ".ormah/feedback").iterdir())).read_text()
        assert ("staging deployed by the pipeline with [redacted" in text) is commit
        everything = [
            file for root in (house.vault, house.home / "state_home") for file in root.rglob("*") if file.is_file()
        ]
        assert [str(file) for file in everything if key.encode() in file.read_bytes()] == []
