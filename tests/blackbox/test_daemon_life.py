"""The daemon as a process: it starts in order, says why when it cannot, is found by its socket, and stops cleanly."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd import __version__
from ormahd.api import PROTOCOL
from ormahd.rpc import wire
from tests import forked
from tests.bench import corpus
from tests.house import House, open_house, wait_until


@pytest.fixture
def house() -> Iterator[House]:
    """A house whose daemon starts as under a shell or a supervisor."""
    with open_house() as found:
        found.plainly = True
        yield found


@pytest.fixture
def quick() -> Iterator[House]:
    """A house whose daemon is a fork, for what comes after its start."""
    with open_house() as found:
        yield found


def ormahd(house: House, *args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run `ormahd` with `args` to its end; in a quick house as a fork, too."""
    environment = house.env | (env or {})
    if not house.plainly and "--detach" not in args:
        done = forked.run("ormahd", *args, env=environment, cwd=house.home, given=b"", timeout=120)
        return subprocess.CompletedProcess(args, done.returncode, done.stdout.decode(), done.stderr.decode())
    return subprocess.run(
        [sys.executable, "-m", "ormahd", *args], env=environment, cwd=house.home, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip


def log_of(house: House) -> str:
    return (house.state / "ormahd.log").read_text("utf-8")


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The one sentence and the hint of a program that failed."""
    lines = [line for line in done.stderr.splitlines() if line.startswith(("error: ", "hint: "))]
    assert [line.split(":")[0] for line in lines] == ["error", "hint"], done.stderr
    assert "Traceback" not in done.stderr
    return lines[0]


# ---------------------------------------------------------------- starting


def test_it_listens_before_anything_heavy_is_imported():
    with open_house() as house:
        # the real model: its libraries take seconds to import
        env = {**house.env, "PYTHONPROFILEIMPORTTIME": "1"}
        del env["ORMAH_EMBEDDING_MODEL"]
        with (house.home / "stderr").open("wb") as stderr:
            process = subprocess.Popen([sys.executable, "-m", "ormahd", "run"], env=env, cwd=house.home, stderr=stderr)
        try:
            wait_until(
                lambda: "listening at" in (house.home / "stderr").read_text(errors="replace"), "it to listen", 60
            )
            with wire.connect(house.socket) as connection:
                assert connection.call("hello", timeout=120).phase in {"starting", "reconciling", "warming", "ready"}
        finally:
            process.kill()
            process.wait()
        said = (house.home / "stderr").read_text(errors="replace").split("listening at")[0]
        imported = set(re.findall(r"\| +(\w+)$", said, re.MULTILINE))
        assert "msgspec" in imported
        assert not imported & {"torch", "chromadb", "sentence_transformers", "transformers", "scipy", "rich"}


def test_it_becomes_ready_and_stops_cleanly_by_either_signal(house: House):
    for number in (signal.SIGTERM, signal.SIGINT):
        house.start()
        assert stat.S_IMODE(house.socket.lstat().st_mode) == 0o600
        house.signal(number)
        assert house.process is not None
        assert house.process.wait(120) == 0
        assert not house.socket.exists()
    log = log_of(house)
    order = [
        log.index(word)
        for word in ("begins", "listening at", "reconciling", "warming", ": ready", "SIGTERM", "stopped")
    ]
    assert order == sorted(order)


def test_what_is_remembered_about_a_person_at_the_first_start_is_stored(quick: House):
    """It is an edge of the self node, which the first scan brings into the index."""
    quick.begins = True
    quick.start(phase="")
    done = quick.call("agent.remember", content="I grew up in Porto.", about_self=True, tier="core")
    assert quick.json("show", done.node_id)["tags"] == ["about_self"]


def test_it_stops_in_the_middle_of_reading_a_vault_and_goes_on_at_the_next_start(quick: House):
    quick.start()
    quick.ctl("import", str(corpus.write(quick.home / "notes.jsonl", 400)), timeout=120)
    memories = quick.call("admin.health").nodes
    assert quick.stop() == 0
    shutil.rmtree(quick.index_dir)
    quick.start(phase="")
    wait_until(lambda: quick.call("admin.health").nodes, "some are read")
    read = quick.call("admin.health").nodes
    assert quick.stop() == 0
    assert "still at work" not in log_of(quick)
    assert log_of(quick).rstrip().endswith("stopped")
    quick.start()
    assert read <= quick.call("admin.health").nodes == memories
    assert quick.json("verify")["ok"]

    assert quick.stop() == 0
    shutil.rmtree(quick.index_dir)
    quick.start(phase="")
    exported = quick.ctl("export").stdout.splitlines()  # what asks for every memory waits until all are read
    assert len(exported) == memories


def test_the_second_signal_ends_it_at_once(quick: House):
    quick.start()
    quick.signal(signal.SIGSTOP)  # so that both are there before it looks
    quick.signal(signal.SIGTERM)
    quick.signal(signal.SIGINT)
    quick.signal(signal.SIGCONT)
    assert quick.process is not None
    assert quick.process.wait(120) in {128 + signal.SIGTERM, 128 + signal.SIGINT}
    quick.start()
    assert quick.call("admin.health").status


def test_a_second_daemon_is_refused_and_the_first_goes_on(daemon: House):
    done = ormahd(daemon, "run")
    assert done.returncode == 69
    assert "in use by process" in complaint(done)
    elsewhere = ormahd(daemon, "run", "--vault", str(daemon.home / "other"))
    assert elsewhere.returncode == 4
    assert "already running" in complaint(elsewhere)
    assert daemon.call("hello").phase == "ready"


@pytest.mark.parametrize(
    ("args", "env", "status", "words"),
    [
        ((), {"ORMAH_WHISPER_MAX_NODES": "many"}, 2, "whisper.max_nodes"),
        ((), {"ORMAH_NONSENSE": "1"}, 2, "ORMAH_NONSENSE"),
        (("--config", "/nowhere/c.toml"), {}, 2, "no configuration file"),
        (("--socket", "/" + "x" * 120), {}, 2, "103"),
    ],
)
def test_what_keeps_it_from_starting_is_one_sentence_and_a_hint(house: House, args, env, status, words):
    done = ormahd(house, "run", *args, env=env)
    assert done.returncode == status
    assert words in (done.stderr if "no configuration" in words else complaint(done))


def test_running_requests_are_finished_before_it_stops(quick: House):
    quick.start()
    lines = [json.dumps({"content": f"memory number {number}"}) for number in range(300)]
    answer: list[object] = []

    def ask() -> None:
        try:
            answer.append(quick.call("admin.import", lines=lines))
        except wire.Unavailable as exc:
            answer.append(exc)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_until(lambda: quick.vault.is_dir() and len(quick.notes()) > 1, "the import to begin")
    assert quick.stop() == 0
    thread.join(120)
    assert getattr(answer[0], "added", None) == 300, answer
    quick.start()
    assert quick.call("admin.stats").total_nodes >= 300


# ---------------------------------------------------------------- detached


def test_detached_it_answers_when_the_command_returns(house: House):
    done = ormahd(house, "run", "--detach")
    assert (done.returncode, done.stderr) == (0, "")
    assert str(house.socket) in done.stdout
    hello = house.call("hello")
    assert hello.version == __version__
    pid = house.call("admin.health").pid
    assert os.getsid(pid) != os.getsid(0)
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    assert os.path.samefile(f"/proc/{pid}/fd/2", house.state / "ormahd.log"), (
        "a native crash leaves its words in the log"
    )
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not house.socket.exists() and not Path(f"/proc/{pid}").exists(), "it to stop")
    assert "stopped" in log_of(house)


def test_detached_it_fails_with_the_same_sentence_and_status(daemon: House):
    done = ormahd(daemon, "run", "--detach")
    assert done.returncode == 69
    assert "in use by process" in complaint(done)
    bad = ormahd(daemon, "run", "--detach", env={"ORMAH_LOG_LEVEL": "loud"})
    assert bad.returncode == 2
    assert "log.level" in complaint(bad)


def test_detached_paths_are_meant_from_where_the_command_ran(house: House):
    (house.home / "run").mkdir()
    env = dict.fromkeys(("ORMAH_SOCKET", "ORMAH_VAULT"), "")
    done = ormahd(house, "run", "--detach", "--vault", "mine", "--socket", "run/o.sock", env=env)
    assert done.returncode == 0, done.stderr
    with wire.connect(house.home / "run" / "o.sock") as connection:
        health = connection.call("admin.health")
    assert health.vault == os.path.realpath(house.home / "mine")
    os.kill(health.pid, signal.SIGTERM)
    wait_until(lambda: not Path(f"/proc/{health.pid}").exists(), "it to stop")


# ---------------------------------------------------------------- supervised


def notifications(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(str(path))
    sock.settimeout(60)
    return sock


def test_systemd_hears_how_it_is(house: House):
    with notifications(house.home / "notify") as heard:
        house.settings |= {
            "NOTIFY_SOCKET": str(house.home / "notify"), "WATCHDOG_USEC": "300000",
        }  # fmt: skip
        house.start(phase="")
        said = ""
        while "WATCHDOG=1" not in said.partition("READY=1")[2]:
            said += heard.recv(4096).decode() + "\n"
        assert "STATUS=reconciling" in said.partition("READY=1")[0]
        assert "STATUS=ready, " in said
        house.signal(signal.SIGTERM)
        while "STOPPING=1" not in said:
            said += heard.recv(4096).decode() + "\n"
        assert house.process is not None
        assert house.process.wait(120) == 0
        del house.settings["NOTIFY_SOCKET"], house.settings["WATCHDOG_USEC"]


# ---------------------------------------------------------------- the socket, running


def test_a_caller_of_another_protocol_is_told_so(daemon: House):
    assert "agent.recall" in daemon.call("hello", protocol=PROTOCOL).capabilities
    with pytest.raises(wire.Incompatible, match="protocol"):
        daemon.call("hello", protocol=PROTOCOL + 1)


def test_a_socket_file_that_somebody_removes_comes_back(daemon: House):
    with daemon.connect() as known:
        daemon.socket.unlink()
        assert any("taken away" in warning for warning in known.call("admin.health").warnings)
        wait_until(daemon.socket.exists, "the socket to come back")
        wait_until(lambda: not known.call("admin.health").warnings, "the warning to go")
    assert daemon.call("hello").phase == "ready"


# ---------------------------------------------------------------- the log


def test_the_log_is_private_and_holds_no_texts(daemon: House):
    made = daemon.call("agent.remember", content="the orchid needs water on Tuesdays", agent="claude-code")
    daemon.call("agent.recall", query="when does the orchid want water")
    with pytest.raises(wire.NotFound):
        daemon.call("agent.get", node_id="00000000")
    with pytest.raises(wire.BadRequest):
        daemon.call("agent.remember", content="orchid", type="orchid")
    daemon.call("agent.forget", node_id=made.node_id)
    wait_until(lambda: "agent.forget" in log_of(daemon), "the last line")
    log = log_of(daemon)
    assert "orchid" not in log
    assert re.search(r"info ormahd\.rpc: claude-code agent\.remember \d+\.\d ms ok$", log, re.MULTILINE)
    assert re.search(r"info ormahd\.rpc: test agent\.get \d+\.\d ms not_found$", log, re.MULTILINE)
    assert stat.S_IMODE((daemon.state / "ormahd.log").stat().st_mode) == 0o600
    assert stat.S_IMODE(daemon.state.stat().st_mode) == 0o700
    assert daemon.call("admin.health").log_file == str(daemon.state / "ormahd.log")
    assert "agent.remember" in daemon.said(), "and on stderr in the foreground"


def test_a_hangup_opens_the_log_again(daemon: House):
    file = daemon.state / "ormahd.log"
    moved = file.rename(file.with_name("moved"))
    daemon.signal(signal.SIGHUP)
    wait_until(file.exists, "the new file")
    daemon.call("agent.recall", query="anything")
    wait_until(lambda: "agent.recall" in file.read_text(), "a line in the new file")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "agent.recall" not in moved.read_text()
    assert daemon.call("hello").phase == "ready", "a hangup is no reason to end"
