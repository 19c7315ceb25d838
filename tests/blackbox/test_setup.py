"""`ormahctl setup` and `uninstall` as people and scripts run them, and the commands that they write as a harness does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.blackbox.terminal import typed
from tests.house import House, open_house
from tests.tables import rows

FILES = {"claude-code": ".claude/settings.json", "codex": ".codex/hooks.json", "gemini": ".gemini/settings.json"}
AGENT = pytest.mark.parametrize("agent", list(FILES))
MINE = b'{\n    // loud\n    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "beep"}]}]},\n    "model": "x"\n}\n'


@pytest.fixture(scope="module")
def living() -> Iterator[House]:
    with open_house() as house:
        house.start()
        house.call("agent.remember", content="Allergic to peanuts.", tier="core", space=None, about_self=True)
        yield house


@pytest.fixture
def home(house: House) -> Path:
    """Where no daemon runs."""
    return house.home


def commands(house: House, agent: str) -> dict[str, str]:
    """Event -> the command in the agent's settings that is ours."""
    hooks = json.loads((house.home / FILES[agent]).read_bytes())["hooks"]
    return {
        event: one["command"]
        for event, groups in hooks.items()
        for group in groups
        for one in group["hooks"]
        if "/ormahctl/hook.py" in one["command"]
    }


def fire(command: str, event: str, cwd: Path, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a hook as a harness does: by a shell, in an environment that knows nothing of ours, JSON on stdin."""
    said = {"hook_event_name": event, "session_id": "s", "cwd": str(cwd), "transcript_path": None, **more}
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd)}
    return subprocess.run(
        command, shell=True, input=json.dumps(said).encode(), capture_output=True, env=env, cwd=cwd, timeout=120
    )


# ---------------------------------------------------------------- what is written works


@AGENT
def test_the_command_in_the_settings_answers(living: House, agent: str) -> None:
    done = living.json("setup", agent, "--yes", "--deadline", "9000")
    assert done["agent"] == agent
    assert done["file"] == str(living.home / FILES[agent])
    assert done["changed"] is True
    assert done["removed"] == []
    written = commands(living, agent)
    assert list(written) == done["added"]
    for event, command in written.items():
        more = {"source": "startup"} if event == "SessionStart" else {"prompt": "ok"}
        answer = fire(command, event, living.home, session_id=f"of {agent}", **more)
        assert (answer.returncode, answer.stderr) == (0, b"")
        if event == ("BeforeAgent" if agent == "gemini" else "SessionStart"):
            output = json.loads(answer.stdout)["hookSpecificOutput"]
            assert output["hookEventName"] == event
            assert "Allergic to peanuts" in output["additionalContext"]
        else:
            assert answer.stdout == b""
    assert living.json("setup", agent, "--yes", "--deadline", "9000")["changed"] is False
    assert living.json("uninstall", agent, "--yes")["removed"] == done["added"]
    assert not (living.home / FILES[agent]).exists()


@pytest.mark.parametrize("gone", ["interpreter", "shim"])
def test_a_removed_installation_costs_nobody_a_prompt(house: House, gone: str) -> None:
    """Python ends with status 2 when its script is gone, which harnesses take for: block this prompt."""
    house.json("setup", "claude-code", "--yes")
    command = commands(house, "claude-code")["UserPromptSubmit"]
    missing = sys.executable if gone == "interpreter" else "/ormahctl/hook.py"
    assert missing in command
    answer = fire(
        command.replace(missing, "/nowhere/" + Path(missing).name), "UserPromptSubmit", house.home, prompt="hello"
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, b"", b"")


def test_an_installation_in_a_path_with_spaces_and_quotes(living: House) -> None:
    place = living.home / "my own 'tools' $HOME"
    place.mkdir()
    root = Path(__file__).parents[2]
    shutil.copytree(root / "ormahctl", place / "ormahctl", ignore=shutil.ignore_patterns("__pycache__"))
    (place / "ormahd").symlink_to(root / "ormahd")
    python = place / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    script = "import sys; sys.executable = sys.argv.pop(1); from ormahctl.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, str(python), "setup", "gemini", "--yes", "--deadline", "9000"],
        env=living.env | {"PYTHONPATH": str(place)}, cwd=living.home, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    command = commands(living, "gemini")["BeforeAgent"]
    assert str(place).replace("'", "'\"'\"'") in command
    answer = fire(command, "BeforeAgent", living.home, prompt="what am I allergic to", session_id="spaces")
    assert b"Allergic to peanuts" in answer.stdout
    assert living.json("uninstall", "gemini", "--yes")["changed"] is True


# ---------------------------------------------------------------- scripts


@AGENT
def test_dry_run_shows_the_change_and_makes_none(house: House, agent: str) -> None:
    done = house.ctl("setup", agent, "--dry-run")
    assert done.returncode == 0
    assert done.stdout.startswith(f"--- /dev/null\n+++ {house.home / FILES[agent]}\n@@ -0,0 +1,")
    assert '+    "SessionStart": [' in done.stdout
    assert not (house.home / FILES[agent]).parent.exists()
    shown = house.json("setup", agent, "--dry-run")
    assert shown["dry_run"] is True
    diffs = [shown["diff"], *(one["diff"] for one in shown["others"]), shown["instructions"]["diff"]]
    assert "\n".join(filter(None, diffs)) + "\n" == done.stdout
    house.json("setup", agent, "--yes")
    before = (house.home / FILES[agent]).read_bytes()
    assert house.ctl("setup", agent, "--dry-run").stdout == "nothing would change\n"
    assert house.json("uninstall", agent, "--dry-run")["changed"] is True
    assert house.ctl("uninstall", "--dry-run").stdout.startswith(f"--- {house.home / FILES[agent]}\n+++ /dev/null\n")
    assert (house.home / FILES[agent]).read_bytes() == before


def test_without_a_terminal_it_wants_to_be_told(home: Path, house: House) -> None:
    done = house.ctl("setup", "claude-code")
    assert done.returncode == 2
    changed = f"{home / FILES['claude-code']}, {home / '.claude.json'}"
    assert f"this changes {changed}, and there is no terminal to ask on" in done.stderr
    assert "--yes" in done.stderr
    assert not (home / ".claude").exists()
    house.json("setup", "claude-code", "--yes")
    assert house.ctl("setup", "claude-code").stdout.startswith("Claude Code is connected already")
    assert house.ctl("uninstall").returncode == 0, "only what is ours goes: a script need not be asked"
    assert not (home / ".claude").exists()


def test_all_agents_are_disconnected_and_the_vault_stays(living: House) -> None:
    mine = living.home / FILES["claude-code"]
    mine.parent.mkdir(exist_ok=True)
    mine.write_bytes(MINE)
    for agent in FILES:
        living.json("setup", agent, "--yes")
    notes = living.notes()
    done = living.ctl("uninstall", "--yes")
    assert done.returncode == 0
    assert "disconnected Claude Code" in done.stdout
    assert done.stdout.count("(the file was ours alone, and is gone)") == 4
    assert f"your memories stay: {living.vault}\n" in done.stdout
    assert mine.read_bytes() == MINE
    assert not (living.home / ".codex").exists()
    assert living.notes() == notes
    assert living.ctl("status").returncode == 0
    nothing = living.json("uninstall", "--yes")
    assert nothing == {"agents": [], "vault": str(living.vault), "instructions": [], "left": []}
    assert living.ctl("uninstall", "codex").stdout.startswith("Codex is not connected\n")


# ---------------------------------------------------------------- looking


def test_setup_alone_tells_how_things_stand(living: House) -> None:
    living.json("setup", "codex", "--yes", "--deadline", "9000")
    (living.home / ".gemini").mkdir(exist_ok=True)
    (living.home / FILES["gemini"]).write_text("{")
    looked = living.json("setup")
    assert looked["daemon"]["phase"] == "ready"
    assert looked["daemon"]["vault"] == str(living.vault)
    agents = {one["agent"]: one for one in looked["agents"]}
    codex = agents["codex"]
    assert codex["connected"] is True
    assert codex["state"] == "yes"
    assert codex["file"] == str(living.home / FILES["codex"])
    assert codex["answer"]["ok"] is True
    assert codex["answer"]["ms"] > 0
    assert agents["claude-code"]["state"] == "no"
    assert agents["gemini"]["state"] == "unreadable"
    assert "line 1, column 2" in agents["gemini"]["trouble"]
    told = living.ctl("setup")
    assert "~/.codex/hooks.json" in told.stdout
    assert "  ok, " in told.stdout
    path = living.home / FILES["codex"]
    path.write_text(path.read_text().replace(sys.executable, "/gone/python"))
    stale = {one["agent"]: one for one in living.json("setup")["agents"]}["codex"]
    assert stale["state"] == "outdated"
    assert stale["answer"]["ok"] is False
    assert "/gone/python" in stale["answer"]["trouble"]
    (living.home / FILES["gemini"]).unlink()
    living.json("uninstall", "--yes")


CODEX = """#!PYTHON
import json, os, pathlib, sys
for line in sys.stdin:
    call = json.loads(line)
    if call["method"] == "hooks/list":
        groups = json.loads(pathlib.Path(os.environ["HOME"], ".codex/hooks.json").read_text())["hooks"]
        hooks = [{"command": one["command"], "trustStatus": "STATUS"} for some in groups.values() for g in some for one in g["hooks"]]
        print(json.dumps({"id": call["id"], "result": {"data": [{"cwd": "/", "hooks": hooks}]}}), flush=True)
    elif "id" in call:
        print(json.dumps({"id": call["id"], "result": {}}), flush=True)
"""


def test_codex_is_asked_whether_it_trusts_the_hooks(living: House) -> None:
    tools = living.home / "tools"
    tools.mkdir()
    program = tools / "codex"
    living.settings["PATH"] = f"{tools}:{os.environ['PATH']}"
    living.json("setup", "codex", "--yes", "--deadline", "9000")
    for status, words in rows(__file__, "codex_is_asked_whether_it_trusts_the_hooks"):
        program.write_text(CODEX.replace("PYTHON", sys.executable).replace("STATUS", status))
        program.chmod(0o755)
        codex = {one["agent"]: one for one in living.json("setup", "--list")["agents"]}["codex"]
        assert words in (codex["trouble"] or ""), codex
        assert (codex["trouble"] is None) == (status == "trusted")
        found = [one for one in json.loads(living.ctl("--json", "doctor").stdout)["findings"] if "Codex" in one["what"]]
        assert [one["mend"] for one in found] == (
            [] if status == "trusted" else ["start codex, which asks, or type /hooks"]
        )
    program.write_text("#!/bin/sh\nexit 2\n")  # an older one without app-server
    assert {one["agent"]: one for one in living.json("setup", "--list")["agents"]}["codex"]["trouble"] is None
    living.json("uninstall", "--yes")


# ---------------------------------------------------------------- on a terminal


def test_a_person_sees_the_change_and_is_asked(house: House) -> None:
    path = house.home / FILES["claude-code"]
    path.parent.mkdir()
    path.write_bytes(MINE)
    shown, status = typed(house, "setup", "claude-code", answers=[("[y/N]", "n")])
    assert status == 1
    assert "\x1b[32m+" in shown
    assert "Change them?" in shown
    assert "nothing was changed" in shown
    assert path.read_bytes() == MINE
    shown, status = typed(house, "setup", "claude-code", answers=[("[y/N]", "y"), ("[y/N]", "n")])
    assert status == 0
    assert "Have CLAUDE.md tell the agent how to use its memory?" in shown
    assert not (path.parent / "CLAUDE.md").exists()
    assert "hook.py" in path.read_text()
    shown, status = typed(house, "setup", "claude-code", answers=[("[y/N]", "y")])
    assert status == 0
    assert "already" in shown
    assert "ormahctl" in (path.parent / "CLAUDE.md").read_text()
    shown, status = typed(house, "uninstall", answers=[("[y/N]", "")])
    assert status == 1
    assert "hook.py" in path.read_text()
    shown, status = typed(house, "uninstall", answers=[("[y/N]", "y")])
    assert status == 0
    assert "\x1b[31m-" in shown
    assert path.read_bytes() == MINE
    assert not (path.parent / "CLAUDE.md").exists()
    house.json("setup", "claude-code", "--yes")
    shown, status = typed(house, "uninstall", "claude-code", answers=[])
    assert status == 0
    assert "[y/N]" not in shown
    assert path.read_bytes() == MINE


def test_the_paragraph_where_nobody_can_be_asked(house: House) -> None:
    mine = house.home / ".claude" / "CLAUDE.md"
    mine.parent.mkdir()
    mine.write_bytes(b"# Rules")
    assert house.json("setup", "claude-code", "--yes", "--no-instructions")["instructions"] is None
    again = house.ctl("setup", "claude-code")
    assert again.returncode == 0, "there is nothing to ask about the hooks"
    assert "--yes" in again.stderr
    assert mine.read_bytes() == b"# Rules"
    done = house.json("setup", "claude-code", "--yes")["instructions"]
    assert (done["state"], done["file"]) == ("added", str(mine))
    assert mine.read_text().startswith("# Rules\n\n<!-- ormah:begin ")
    told = house.ctl("uninstall", "claude-code", "--yes")
    assert f"took the paragraph about Ormah out of {mine}" in told.stdout
    assert mine.read_bytes() == b"# Rules"


# ---------------------------------------------------------------- agents whose settings are not edited


def test_an_agent_without_hooks_adds_the_server_itself_or_a_person_pastes_it(house: House) -> None:
    tools = house.home / "tools"
    tools.mkdir()
    house.settings["PATH"] = f"{tools}:{os.environ['PATH']}"
    done = house.ctl("setup", "cursor")
    assert done.returncode == 0
    assert f"add this to {house.home}/.cursor/mcp.json" in " ".join(done.stdout.split())
    assert list(json.loads(done.stdout[done.stdout.index("{") :])["mcpServers"]) == ["ormah"]
    assert not (house.home / ".cursor").exists()
    assert house.ctl("setup", "opencode").returncode == 2, "it would run a command, and nobody can be asked"
    assert '"mcp"' in house.ctl("setup", "opencode", "--yes").stdout, "it is not installed"
    program = tools / "opencode"
    file = house.home / "config_home" / "opencode" / "opencode.json"
    program.write_text(OPENCODE.replace("PYTHON", sys.executable).replace("FILE", str(file)))
    program.chmod(0o755)
    done = house.json("setup", "opencode", "--yes")
    assert (done["changed"], done["file"]) == (True, str(file))
    assert house.json("setup", "opencode", "--yes")["connected"] is True
    row = {one["agent"]: one for one in house.json("setup", "--list")["agents"]}["opencode"]
    assert (row["state"], row["server"]) == ("yes", "yes")
    gone = house.ctl("uninstall", "opencode")
    assert f"opencode has the MCP server ormah still: take it out of {file}" in " ".join(gone.stderr.split())
    assert house.json("uninstall")["left"] == ["opencode"]


OPENCODE = """#!PYTHON
import json, pathlib, sys
assert sys.argv[1:5] == ["mcp", "add", "ormah", "--"]
file = pathlib.Path("FILE")
file.parent.mkdir(parents=True, exist_ok=True)
file.write_text(json.dumps({"mcp": {"ormah": {"type": "local", "command": sys.argv[5:]}}}))
"""
"""What `opencode mcp add` of OpenCode 1.18 does."""
