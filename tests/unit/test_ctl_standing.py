"""What `status`, `doctor` and `config show` say of an installation: who is connected, of which version, what was set where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd import __version__, api
from tests.unit.ctl_desk import STATS, Desk, health, open_desk


@pytest.fixture
def desk() -> Iterator[Desk]:
    with open_desk() as found:
        found.answers["admin.doctor"] = api.DoctorResult(findings=[])
        (found.home / ".claude").mkdir()
        yield found


def connect(desk: Desk) -> Path:
    """Connect an agent as a person does; its settings file."""
    file = desk.home / ".claude" / "settings.json"
    done = desk.ctl("setup", "claude-code", "--yes")
    assert done.returncode == 0, done.stderr
    return file


def test_status_says_who_is_connected_when_it_whispered_and_whether_it_starts_at_login(desk: Desk) -> None:
    runs = api.EmbeddingHealth(runtime="onnx", version="1.32.0")
    desk.answers["admin.health"] = health(
        last_whisper="2026-11-21T20:00:00Z", last_whisper_agent="agent:claude-code", archived=3, conflicts=2, embedding=runs,
    )  # fmt: skip
    desk.answers["admin.stats"] = STATS
    said = desk.ctl("status", "--verbose", env={"TZ": "UTC"}).stdout
    assert "agents    none is connected: ormahctl setup\n" in said
    assert "whispers  last 2026-11-21 20:00, for claude-code\n" in said
    assert "starts_at_login: no\n" in said
    assert "3 of them archived" in said
    assert "waiting   2 conflicts for you: ormahctl review\n" in said
    assert "embedding.runtime: onnx\nembedding.version: 1.32.0\n" in said
    connect(desk)
    found = json.loads(desk.ctl("--json", "status").stdout)
    assert (found["agents"], found["starts_at_login"], found["last_whisper"]) == (
        ["claude-code"],
        False,
        "2026-11-21T20:00:00Z",
    )
    assert "claude-code connected\n" in desk.ctl("status", "--verbose").stdout
    assert desk.ctl("doctor").stdout == "all is well\n"


@pytest.mark.skipif("os.uname().sysname == 'Darwin'", reason="launchd starts what lies in its folder")
def test_a_service_that_is_enabled_starts_at_login(desk: Desk) -> None:
    desk.answers["admin.health"] = health()
    units = Path(desk.env["XDG_CONFIG_HOME"]) / "systemd" / "user"
    (units / "sockets.target.wants").mkdir(parents=True)
    desk.answers["admin.stats"] = STATS
    (units / "ormahd.service").write_text("[Service]\n")
    assert json.loads(desk.ctl("--json", "status").stdout)["starts_at_login"] is False  # it is there and not enabled
    (units / "sockets.target.wants" / "ormahd.socket").symlink_to(units / "ormahd.socket")
    assert json.loads(desk.ctl("--json", "status").stdout)["starts_at_login"] is True


@pytest.mark.skipif("os.uname().sysname == 'Darwin'", reason="the unit is systemd's")
def test_doctor_sees_a_service_whose_program_or_interpreter_has_vanished(desk: Desk) -> None:
    unit = Path(desk.env["XDG_CONFIG_HOME"]) / "systemd" / "user" / "ormahd.service"
    unit.parent.mkdir(parents=True)
    script = desk.home / "my bin" / "ormahd"
    script.parent.mkdir()
    unit.write_text(f'[Service]\nExecStart="{script}" run\n')
    gone = desk.ctl("doctor")
    assert gone.returncode == 1
    assert f"the service runs {script}, which is not there" in " ".join(gone.stdout.split())
    assert gone.stdout.endswith("\n  ormahctl setup service --yes\n")
    script.write_text(f"#!{desk.home}/python3.11\n")
    script.chmod(0o755)
    assert f"the service runs {script}, which is not there or has no interpreter" in " ".join(
        desk.ctl("doctor").stdout.split()
    )
    script.write_text("#!/bin/sh\n")
    idle = desk.ctl("doctor")
    assert idle.returncode == 0, "a person may want it so"
    assert "info: the service is installed and not enabled" in " ".join(idle.stdout.split())
    (unit.parent / "sockets.target.wants").mkdir()
    (unit.parent / "sockets.target.wants" / "ormahd.socket").symlink_to(unit.parent / "ormahd.socket")
    assert desk.ctl("doctor").stdout == "all is well\n"


def test_doctor_sees_a_daemon_of_another_version(desk: Desk) -> None:
    hello = desk.answers["hello"]
    assert isinstance(hello, api.HelloResult)
    assert desk.ctl("doctor").returncode == 0
    hello.version = "9.9.9"
    done = desk.ctl("doctor")
    assert done.returncode == 1
    assert done.stdout == (
        f"warning: the daemon that runs is version 9.9.9, and {__version__} is installed\n  ormahctl restart\n"
    )


def test_doctor_sees_hooks_of_another_installation_and_hooks_that_are_gone(desk: Desk) -> None:
    file = connect(desk)
    assert desk.ctl("doctor").stdout == "all is well\n"
    old = desk.home / "old"
    (old / "ormahctl").mkdir(parents=True)
    (old / "ormahctl" / "hook.py").write_text("")
    here = str(Path(__file__).parents[2])
    written = file.read_text()
    file.write_text(written.replace(f"{here}/ormahctl/hook.py", f"{old}/ormahctl/hook.py"))
    done = desk.ctl("--json", "doctor")
    assert done.returncode == 1
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["what"] == f"the hooks of claude-code are of another installation ({old})"
    assert finding["mend"] == "ormahctl setup claude-code"
    (old / "ormahctl" / "hook.py").unlink()
    (finding,) = json.loads(desk.ctl("--json", "doctor").stdout)["findings"]
    assert finding["what"] == f"the hooks of claude-code run {old}/ormahctl/hook.py, which is not there"


@pytest.mark.parametrize(
    "files", [[".claude.json"], [".claude/settings.json"], [".claude/settings.json", ".claude.json"]]
)
@pytest.mark.parametrize("left", ['{"numStartups": 7}\n', "", None])
def test_an_agent_that_writes_its_file_back_without_our_entry_is_named(
    desk: Desk, files: list[str], left: str | None
) -> None:
    connect(desk)
    for name in files:
        (desk.home / name).unlink() if left is None else (desk.home / name).write_text(left)
    (finding,) = json.loads(desk.ctl("--json", "doctor").stdout)["findings"]
    assert finding["what"] == f"claude-code wrote {desk.home}/{files[-1]} without the entry of Ormah that was in it"
    assert finding["mend"] == "ormahctl setup claude-code"
    desk.ctl("setup", "claude-code", "--yes")
    assert desk.ctl("doctor").stdout == "all is well\n"


def test_doctor_sees_a_pasted_server_whose_program_is_gone(desk: Desk) -> None:
    cursor = desk.home / ".cursor" / "mcp.json"
    cursor.parent.mkdir()
    cursor.write_text(json.loads(desk.ctl("--json", "setup", "cursor", "--dry-run").stdout)["snippet"])
    assert desk.ctl("doctor").stdout == "all is well\n"
    cursor.write_text('{"mcpServers": {"ormah": {"command": "/gone/ormahctl", "args": ["mcp"]}}}')
    (finding,) = json.loads(desk.ctl("--json", "doctor").stdout)["findings"]
    assert finding["what"] == "the MCP server of cursor runs /gone/ormahctl, which is not there"


def test_config_show_begins_with_what_was_set_and_where(desk: Desk) -> None:
    config = Path(desk.env["XDG_CONFIG_HOME"]) / "ormah" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('[vault]\nquiet_seconds = 2.5\n[log]\nlevel = "debug"\n')
    lines = desk.ctl("config", "show", env={"ORMAH_WHISPER_MAX_NODES": "10"}).stdout.splitlines()
    assert lines[:2] == [f"# {config}", "# set by you"]
    chosen = lines[2 : lines.index("")]
    assert "vault.quiet_seconds = 2.5  # the file; default 1.5" in chosen
    assert any(one.startswith("whisper.max_nodes = 10  # ORMAH_WHISPER_MAX_NODES; default ") for one in chosen)
    assert any(one.startswith('log.level = "debug"  # the file; default ') for one in chosen)
    assert "# as they are by default" in lines
    assert not any(one.startswith("vault.quiet_seconds") for one in lines[lines.index("") :])
    found = json.loads(desk.ctl("--json", "config", "show").stdout)["settings"]["vault.quiet_seconds"]
    assert found == {"value": 2.5, "origin": str(config), "default": 1.5}
