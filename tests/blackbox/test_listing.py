"""Lists to look through: the newest memories, what was whispered to whom, a note opened elsewhere; and what a shell completes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.house import House, open_house

TEXT = "The staging cluster of the shop runs on Hetzner in Falkenstein"


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as found:
        found.start()
        made = [
            {"content": "Deploys happen on Tuesday", "space": "shop-frontend", "type": "decision"},
            {"content": TEXT, "space": "shop-frontend", "tags": ["ops"]},
            {"content": "日本語の記憶 🎉", "type": "preference"},
        ]
        begun = datetime.now(UTC).replace(microsecond=0)
        lines = [{**one, "created": (begun + timedelta(seconds=at)).isoformat()} for at, one in enumerate(made, 1)]
        done = found.ctl("import", "-", input="\n".join(map(json.dumps, lines)))
        assert done.returncode == 0, done.stderr
        yield found


def test_the_newest_come_first_and_can_be_narrowed(house: House) -> None:
    rows = house.json("list")
    assert [row["title"] for row in rows][:3] == ["日本語の記憶 🎉", TEXT, "Deploys happen on Tuesday"]
    assert {row["type"] for row in rows} == {"preference", "fact", "decision", "person"}
    assert [row["title"] for row in house.json("list", "--space", "shop-frontend", "--type", "decision")] == [
        rows[2]["title"]
    ]
    assert [row["title"] for row in house.json("list", "--tag", "ops")] == [TEXT]
    assert len(house.json("list", "-n", "2")) == 2
    assert house.json("list", "--before", "last week") == []
    assert len(house.json("list", "--after", "last week", "--space", "global")) == 2
    used = house.json("show", rows[1]["id"])["access_count"]
    house.json("list")
    assert house.call("agent.get", node_id=rows[1]["id"], touch=False).access_count == used
    assert house.ctl("list", "-n", "2").stderr == "note: 2 older memories are not shown (-n)\n"


def test_archived_and_outdated_memories_are_listed_and_marked(house: House) -> None:
    made = house.json("remember", "We use Subversion", "--space", "old", "--tier", "archival")
    house.json("outdated", made["id"], "--reason", "moved to git")
    (row,) = house.json("list", "--tier", "archival")
    assert row["id"] == made["id"]
    assert row["valid_until"] is not None
    first = house.ctl("list", "--space", "old").stdout.splitlines()[0]
    assert first.endswith("We use Subversion  outdated")


@pytest.mark.parametrize("command", [("list",), ("recall", "tea"), ("insights",), ("log",)])
def test_an_unknown_space_is_met_with_the_one_that_was_meant(house: House, command: tuple[str, ...]) -> None:
    done = house.ctl(*command, "--space", "shop-fronted")
    assert done.stderr.endswith("note: no memory is in a space 'shop-fronted'; did you mean shop-frontend?\n")


def test_a_new_space_that_is_much_like_another_is_pointed_out(house: House) -> None:
    done = house.ctl("remember", "Something of a mistyped project", "--space", "shop-fronttend")
    assert "it is the first memory of the space 'shop-fronttend'; if you meant shop-frontend: " in done.stderr
    assert "first memory" not in house.ctl("remember", "Another one", "--space", "shop-frontend").stderr


def test_the_log_says_what_was_whispered_to_whom_and_why_nothing(house: House) -> None:
    asked = f"{TEXT}?"
    for prompt in (asked, "thanks"):
        house.ctl("--agent", "claude-code", "whisper", prompt, "--session", "s1", "--space", "shop-frontend")
    silent, spoken = house.json("log")[:2]
    assert (silent["prompt"], silent["silence"], silent["memories"]) == ("thanks", "acknowledgement", [])
    assert (spoken["prompt"], spoken["silence"], spoken["agent"]) == (asked, None, "agent:claude-code")
    assert (spoken["session_id"], spoken["space"]) == ("s1", "shop-frontend")
    assert TEXT in [one["title"] for one in spoken["memories"]]
    shown = house.ctl("log").stdout
    assert "claude-code · shop-frontend · session s1 · event" in shown
    assert f"  “{asked}”\n" in shown
    assert "  silent: it only acknowledges\n" in shown
    assert house.json("log", "--since", "last week") == house.json("log")
    assert house.json("log", "--before", "yesterday") == []
    assert house.ctl("log", "--before", "yesterday").stderr == "note: no prompt was logged then\n"
    assert [one["prompt"] for one in house.json("log", "-n", "1")] == ["thanks"]


def test_open_prints_the_path_and_where_obsidian_has_the_vault_its_address(house: House) -> None:
    row = house.json("list")[0]
    path = house.vault.resolve() / row["path"]
    assert Path(house.ctl("open", row["short_id"], "--print").stdout.strip()).resolve() == path
    told = house.home / ".config" / "obsidian"
    told.mkdir(parents=True)
    env = {"HOME": str(house.home)}
    (told / "obsidian.json").write_text(json.dumps({"vaults": {"a": {"path": "/elsewhere"}}}))
    assert not house.ctl("open", row["id"], "--print", env=env).stdout.startswith("obsidian:")
    (told / "obsidian.json").write_text(json.dumps({"vaults": {"a": {"path": str(house.vault)}}}))
    found = house.json("open", row["id"], "--print", env=env)
    assert found["uri"] == f"obsidian://open?path={quote(found['path'], safe='')}"
    assert house.ctl("open", row["id"], "--print", env=env).stdout == found["uri"] + "\n"
    (told / "obsidian.json").write_text("[]")
    assert house.json("open", row["id"], "--print", env=env)["uri"] is None


def test_open_hands_the_note_to_the_desktop(house: House) -> None:
    tools = house.home / "tools"
    tools.mkdir()
    for name in ("xdg-open", "open"):
        (tools / name).write_text('#!/bin/sh\nprintf %s "$1" > "$HOME/opened"\n')
        (tools / name).chmod(0o755)
    row = house.json("list")[0]
    env = {"PATH": f"{tools}:{house.env['PATH']}", "HOME": str(house.home), "EDITOR": "", "VISUAL": ""}
    done = house.ctl("open", row["id"], env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"opened {row['short_id']} in ")
    assert (house.home / "opened").read_text().endswith(row["path"])
    for name in ("xdg-open", "open"):
        (tools / name).write_text("#!/bin/sh\nexit 3\n")
    done = house.ctl("open", row["id"], env=env)
    assert done.returncode == 2
    assert "ormahctl open ID --print" in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("recall x --space shop-", {"shop-frontend"}),
        ("jobs ", {"run", "pause", "resume"}),
        ("jobs run dup", {"duplicate_merger"}),
        ("jobs pause al", {"all"}),
        ("history --job deca", {"decay_manager"}),
        ("history sh", {"show"}),
        ("history --since last", {"last week", "last month"}),
        ("proposals app", {"approve"}),
        ("proposals approve ", set()),
        ("sync se", {"setup"}),
        ("maintenance ap", {"apply"}),
        ("setup cla", {"claude-code"}),
        ("undo --job auto", {"auto_linker", "auto_cluster"}),
    ],
)
def test_what_a_shell_completes(house: House, words: str, expected: set[str]) -> None:
    assert expected <= completed(house, words)
    assert all(one.startswith(words.rpartition(" ")[2]) for one in completed(house, words))


def test_ids_are_completed_with_their_titles(house: House) -> None:
    rows = house.json("list")
    assert completed(house, f"show {rows[0]['short_id'][:3]}") >= {rows[0]["short_id"]}
    newest = house.json("history")[0]["commit"][:8]
    assert newest in completed(house, f"undo {newest[:4]}")
    assert newest in completed(house, "history show ")


def test_nothing_is_completed_from_a_daemon_that_is_down() -> None:
    with open_house() as down:
        assert completed(down, "show ") == set()


def completed(house: House, words: str) -> set[str]:
    text = f"ormahctl {words}"
    env = {"_ORMAHCTL_COMPLETE": "bash_complete", "COMP_WORDS": text, "COMP_CWORD": str(text.count(" "))}
    done = house.ctl(env=env)
    assert done.stderr == ""
    return {line.split(",", 1)[1] for line in done.stdout.splitlines() if line}
