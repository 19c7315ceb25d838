"""The guided set-up: in one command, and by answers on a terminal; everything it did is checked, and taken out again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.blackbox.terminal import typed
from tests.house import House, open_house, wait_until
from tests.tables import rows

SETTINGS = {
    ".claude/settings.json": b'{\n  // mine\n  "model": "opus",\n}\n',
    ".claude.json": b'{"numStartups": 3}',
    ".codex/config.toml": b'model = "o5" # the large one\r\n',
    ".cursor/mcp.json": b'{"mcpServers": {}}',
    "config_home/Code/User/mcp.json": b'{\n\t"servers": {} // none\n}',
}
TURNS = rows(__file__, "turns")  # fmt: skip


@pytest.fixture
def fresh() -> Iterator[House]:
    """A home with four agents, an Obsidian vault and a past session, on which Ormah never ran."""
    with open_house(ORMAH_SOCKET="", ORMAH_VAULT="", ORMAH_EMBEDDING_MODEL="") as house:
        for name, data in SETTINGS.items():
            (house.home / name).parent.mkdir(parents=True, exist_ok=True)
            (house.home / name).write_bytes(data)
        past = house.home / ".claude" / "projects" / "-src-shop" / "s1.jsonl"
        past.parent.mkdir(parents=True)
        past.write_text("".join(json.dumps(turn) + "\n" for turn in TURNS))
        config = house.home / "config_home"
        (config / "ormah").mkdir()
        (config / "ormah" / "config.toml").write_text('[embedding]\nmodel = "hashing" # quick\n')
        notes = house.home / "Notes"
        notes.mkdir()
        (notes / "Owl.md").write_text("Owls see at night.\n")
        (config / "obsidian").mkdir()
        (config / "obsidian" / "obsidian.json").write_text(json.dumps({"vaults": {"a": {"path": str(notes), "ts": 1}}}))
        (house.home / ".gitconfig").write_text("[user]\n\tname = Ada Byrne\n\temail = ada@example.org\n")
        try:
            yield house
        finally:
            house.ctl("down")


def files(house: House) -> dict[str, bytes]:
    return {name: (house.home / name).read_bytes() for name in SETTINGS}


def test_one_command_sets_all_up_and_one_takes_it_out(fresh: House) -> None:
    told = fresh.json("setup", "--dry-run")
    assert files(fresh) == SETTINGS
    assert (told["name"], told["sessions"]) == ("Ada Byrne", True)
    done = fresh.json(
        "setup", "--yes", "--name", "Grace Hopper", "--deadline", "9000", "--source", str(fresh.home / "Notes")
    )
    assert {one["agent"] for one in done["agents"]} == {"claude-code", "codex"}
    assert set(done["to_paste"]) == {"cursor", "vscode"}
    assert done["vault"] == str(fresh.home / "data_home" / "ormah" / "vault")
    checks = {one["what"]: one for one in done["checks"]}
    assert list(checks) == ["hook of claude-code", "hook of codex", "MCP server"]
    assert all(one["ok"] for one in checks.values()), checks
    assert [one["space"] for one in fresh.json("sources")["sources"]] == ["Notes"]
    me = fresh.json("recall", "--type", "person")["results"][-1]
    assert (me["type"], me["title"]) == ("person", "Grace Hopper")
    archive = fresh.home / "data_home" / "ormah" / "sessions"
    wait_until(lambda: b"kestrel" in b"".join(map(Path.read_bytes, archive.rglob("s1.jsonl"))), "the past session")
    assert fresh.json("config", "show", "sessions.watch")["settings"]["sessions.watch"]["value"] is True
    assert "# quick" in (fresh.home / "config_home" / "ormah" / "config.toml").read_text()
    german = fresh.ctl("setup", "--yes", "--agents", "none", env={"LANG": "de_DE.UTF-8"}).stderr
    assert "your system speaks de" in german
    assert "ormahctl model use multilingual" in german
    again = fresh.json("setup", "--yes", "--deadline", "9000")
    assert not any(one["changed"] for one in again["agents"]), "a second time changes nothing"
    assert fresh.json("recall", "--type", "person")["results"][-1]["title"] == "Grace Hopper", "it keeps the name"
    assert fresh.ctl("uninstall", "--yes").returncode == 0
    assert files(fresh) == SETTINGS
    assert not (fresh.home / ".codex" / "hooks.json").exists()
    assert fresh.json("recall", "-n", "50")["results"], "never a memory"


def test_what_cannot_be_is_refused_before_anything_is_changed(fresh: House) -> None:
    assert fresh.ctl("setup", "--yes", "--agents", "emacs").returncode == 2
    assert fresh.ctl("setup", "--name", "Ada").returncode == 2, "no terminal to ask the rest on"
    empty = fresh.ctl("setup", "--yes", "--vault", "")
    assert (empty.returncode, empty.stderr.splitlines()[0]) == (
        2, "error: invalid value for '--vault': it is empty; `.` is the folder here"
    )  # fmt: skip
    assert fresh.ctl("setup", "codex", "--past").returncode == 2
    assert fresh.ctl("setup", "--yes", "--no-instructions").returncode == 2
    assert files(fresh) == SETTINGS
    (fresh.home / ".codex" / "hooks.json").write_text("{oops}")
    assert fresh.ctl("setup", "--yes").returncode == 5
    assert b"ormah" not in (fresh.home / ".claude" / "settings.json").read_bytes()
    assert (
        fresh.ctl("setup", "--yes", "--agents", "none", "--no-past", "--vault", str(fresh.home / "v")).returncode == 0
    )
    assert fresh.json("status")["vault"] == str(fresh.home / "v")
    other = fresh.ctl("setup", "--yes", "--agents", "none", "--no-past", "--vault", str(fresh.home / "w"))
    assert other.returncode == 4
    assert "there is a vault already" in other.stderr


def test_a_person_answers_six_questions_at_most(fresh: House) -> None:
    claude = fresh.home / "bin" / "claude"
    claude.parent.mkdir()
    claude.write_text("#!/bin/sh\nexit 1\n")
    claude.chmod(0o755)
    fresh.settings["PATH"] = f"{claude.parent}:{os.environ['PATH']}"
    shown, status = typed(
        fresh,
        "setup",
        "--deadline",
        "9000",
        columns=80,
        answers=[
            ("Connect which?", "cursor, vscode"),
            ("A folder", "~/Memories"),
            ("A space for", "owls"),
            ("[Y/n]", "n"),
            ("a day [Y/n]", "y"),
        ],
    )
    assert status == 0, shown
    assert "5 questions" in shown
    assert "Agents on this machine: claude-code, codex, cursor, vscode" in " ".join(shown.split())
    assert "MCP server answers" in " ".join(shown.split())
    assert (fresh.home / ".claude" / "settings.json").read_bytes() == SETTINGS[".claude/settings.json"]
    assert "add this to" in shown
    assert files(fresh) == SETTINGS
    assert fresh.json("status")["vault"] == str(fresh.home / "Memories")
    assert "never written" in " ".join(shown.split())
    asked = "May Claude Code read finished sessions for memories, and judge what contradicts? It takes about 5,000 tokens a "
    assert asked + "session, at most 500,000 a day" in " ".join(shown.split())
    chosen = {key: one["value"] for key, one in fresh.json("config", "show")["settings"].items()}
    assert (chosen["jobs.judge"], chosen["judge.command"]) == ("command", "claude")
    told = " ".join(fresh.ctl("status").stdout.split())
    assert "sessions are read by judge" in told
    assert "of 500,000 tokens" in told
    wait_until(lambda: fresh.json("recall", "owls")["results"][:1], "the note in the Obsidian vault")
    assert fresh.json("recall", "owls")["results"][0]["space"] == "owls"
    assert [one.name for one in (fresh.home / "Notes").iterdir()] == ["Owl.md"]
    assert (fresh.home / "Notes" / "Owl.md").read_text() == "Owls see at night.\n"
    assert fresh.json("recall", "--type", "person")["results"][-1]["title"] == "Ada Byrne"


def test_a_setting_is_checked_before_it_is_written(fresh: House) -> None:
    file = fresh.home / "config_home" / "ormah" / "config.toml"
    before = file.read_bytes()
    assert fresh.ctl("config", "set", "whisper.nope", "1").returncode == 2
    assert fresh.ctl("config", "set", "whisper.limit").returncode == 2
    absent = fresh.ctl("config", "set", "embedding.model", "nosuch")
    assert (absent.returncode, "the embedding model 'nosuch' are not on this machine" in absent.stderr) == (69, True)
    assert fresh.json("config", "show", "embedding.model")["settings"]["embedding.model"]["value"] != "nosuch"
    assert fresh.ctl("config", "set", "sessions.watch", "perhaps").returncode == 2
    below = fresh.ctl("config", "set", "whisper.max_nodes", "--", "-4")
    assert "whisper.max_nodes: -4 is not allowed" in below.stderr
    assert file.read_bytes() == before
    fresh.settings["ORMAH_SESSIONS_WATCH"] = "true"
    assert fresh.ctl("config", "set", "sessions.watch", "false").returncode == 4, "the environment wins"
    del fresh.settings["ORMAH_SESSIONS_WATCH"]
    done = fresh.ctl("config", "set", "vault.path", str(Path("/tmp/my notes")))
    assert done.stdout.startswith('vault.path = "/tmp/my notes"')
    assert file.read_bytes().startswith(before)
