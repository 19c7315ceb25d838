"""Lines of the log as people, programs and systemd's journal read them; what systemd is told."""

from __future__ import annotations

import ast
import json
import logging
import os
import re
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ormahd.errors import Conflict
from ormahd.logs import KEPT_FILES, LATER, LINE, Logs
from ormahd.model.node import CreateNodeRequest
from ormahd.note import frontmatter
from ormahd.process.supervisor import LABEL, Supervisor, is_supervised
from ormahd.settings import LogSettings
from tests.house import wait_until


@pytest.fixture
def logs():
    made = []

    def make(**values) -> Logs:
        made.append(Logs(LogSettings(**values), foreground=True, environ={}))
        return made[-1]

    root = logging.getLogger()
    level = root.level
    yield make
    for one in made:
        one.close()
    root.setLevel(level)


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    found = logging.LogRecord("ormahd.rpc", logging.INFO, "f.py", 1, message, args, None)
    found.created = 1_795_291_200.25
    found.__dict__.update(extra)
    return found


def test_a_line_for_people():
    assert LINE.format(record("%s asked", "we")) == "2026-11-21T20:00:00.250Z info ormahd.rpc: we asked"


def faults() -> list[Exception]:
    """Exceptions as libraries and we make them, each about a text of somebody's note."""
    made: list[Exception] = []
    text = "Zwiebelfisch"

    def chained() -> None:
        try:
            raise KeyError(text)
        except KeyError as exc:
            raise ValueError(f"no {text}") from exc

    def during() -> None:
        try:
            raise KeyError(text)
        finally:
            int(text)

    def stored() -> None:
        db = sqlite3.connect(":memory:")
        db.execute("CREATE TABLE note (id TEXT PRIMARY KEY CHECK (id <> 'Zwiebelfisch'))")
        db.execute("INSERT INTO note VALUES (?)", (text,))

    acts: list[Callable[[], object]] = [
        chained, during, stored, lambda: json.loads(f'{{"{text}'), lambda: text.encode().join([b"\xff"] * 2).decode(),
        lambda: msgspec.json.decode(f'"{text}"'.encode(), type=int), lambda: CreateNodeRequest(content=text, type=text),  # type: ignore[arg-type]
        lambda: frontmatter.read(f"---\n{text}: [\n---\n"), lambda: Path(f"/nowhere/{text}").read_text(), lambda: ast.parse(f"{text} = ("),
        lambda: re.compile(f"({text}"), lambda: {}[text],
    ]  # fmt: skip
    for act in acts:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, it is logged
            act()
        made.append(caught.value)
    made.append(Conflict(f"“Remember: {text}” changed since", hint=f"look at {text}"))
    made.append(ExceptionGroup(text, [ValueError(text)]))
    return made


@pytest.mark.parametrize("fault", faults(), ids=lambda fault: type(fault).__name__)
def test_of_an_exception_the_log_has_kind_and_place_and_no_words(
    fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    found = record("it broke")
    found.exc_info = (type(fault), fault, fault.__traceback__)
    caplog.set_level(logging.INFO, "ormahd")
    line = LINE.format(found)
    assert type(fault).__qualname__ in line
    assert "Zwiebelfisch" not in line.replace("<> 'Zwiebelfisch'", "")
    caplog.set_level(logging.DEBUG, "ormahd")
    line = LINE.format(found)
    assert str(fault) in line


def test_the_journal_gets_priorities_on_every_line(capfd):
    with_journal = Logs(LogSettings(), foreground=True, environ={"JOURNAL_STREAM": "8:1"})
    logging.getLogger("ormahd.x").warning("one\ntwo")
    with_journal.close()
    assert capfd.readouterr().err == "<4>ormahd.x: one\n<4>two\n"


def test_what_was_said_before_the_file_was_known_is_in_it(logs, tmp_path):
    log = logs()
    logging.getLogger("ormahd.x").info("early")
    logging.getLogger("guest").info("a guest's chatter")
    log.to_file(tmp_path / "state")
    logging.getLogger("ormahd.x").info("late")
    logging.getLogger("guest").warning("a guest's worry")
    said = [line.split(" ", 1)[1] for line in (tmp_path / "state/ormahd.log").read_text().splitlines()]
    assert said == ["info ormahd.x: early", "info ormahd.x: late", "warning guest: a guest's worry"]


def test_the_level_is_the_settings_one(logs, tmp_path):
    log = logs(level="error")
    log.to_file(tmp_path)
    logging.getLogger("ormah").warning("not heard")
    logging.getLogger("ormah").error("heard")
    assert "not heard" not in (tmp_path / "ormahd.log").read_text()
    assert "heard" in (tmp_path / "ormahd.log").read_text()


def test_a_link_in_the_logs_place_is_not_followed(logs, tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "ormahd.log").symlink_to(tmp_path / "victim")
    logs().to_file(tmp_path)
    logging.getLogger("ormah").error("heard")
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_log_that_somebody_deleted_is_begun_anew(logs, tmp_path):
    logs().to_file(tmp_path)
    (tmp_path / "ormahd.log").unlink()
    logging.getLogger("ormah").error("heard")
    assert "heard" in (tmp_path / "ormahd.log").read_text()


def test_without_a_log_file_the_daemon_goes_on(logs, tmp_path):
    (tmp_path / "state").write_text("no folder")
    made = logs()
    made.to_file(tmp_path / "state" / "deeper" / "than that")
    assert made.file is None
    assert "there is no log file" in (made.trouble or "")


def test_systemd_is_told_in_ascii_and_children_cannot_speak_for_us(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "n"))
        heard.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "n"))
        monkeypatch.setenv("WATCHDOG_USEC", "30000000")
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
        assert is_supervised(os.environ, os.getpid())
        supervisor = Supervisor(os.environ)
        assert "NOTIFY_SOCKET" not in os.environ
        assert "WATCHDOG_USEC" not in os.environ
        assert supervisor.watchdog_seconds == 10
        supervisor.ready("bereit für 記憶")
        assert heard.recv(1000) == b"READY=1\nSTATUS=bereit f?r ??"


def test_without_a_supervisor_nothing_is_told(monkeypatch):
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_PID"):
        monkeypatch.delenv(name, raising=False)
    supervisor = Supervisor(os.environ)
    supervisor.ready("x")
    supervisor.watchdog()
    assert supervisor.watchdog_seconds is None
    assert not is_supervised({"LISTEN_PID": "1"}, 2)
    assert is_supervised({"LISTEN_PID": "2"}, 2)
    assert is_supervised({"XPC_SERVICE_NAME": LABEL}, 2) == (sys.platform == "darwin")


def lines_of(directory) -> list[str]:
    return [line.split(": ", 1)[1] for line in (directory / "ormahd.log").read_text().splitlines()]


def test_lines_that_may_wait_are_written_together_and_soon(logs, tmp_path):
    logs().to_file(tmp_path)
    ours = logging.getLogger("ormahd.x")
    what = ["one"]
    for _ in range(50):
        ours.info("%s", what, extra={LATER: True})
    what[0] = "changed meanwhile"
    assert len(lines_of(tmp_path)) < 50, "each was written by itself"
    wait_until(lambda: len(lines_of(tmp_path)) == 50, "all of them")
    assert set(lines_of(tmp_path)) == {"['one']"}


def test_who_may_not_wait_comes_after_those_that_were_before(logs, tmp_path):
    logs().to_file(tmp_path)
    ours = logging.getLogger("ormahd.x")
    for number in range(5):
        ours.info("request %d", number, extra={LATER: True})
    ours.warning("trouble")
    assert lines_of(tmp_path) == [*(f"request {number}" for number in range(5)), "trouble"]


def test_what_waits_is_written_on_the_way_out(logs, tmp_path):
    log = logs()
    log.to_file(tmp_path)
    for number in range(5):
        logging.getLogger("ormahd.x").info("request %d", number, extra={LATER: True})
    log.close()
    assert lines_of(tmp_path) == [f"request {number}" for number in range(5)]


LEAVING = """
import logging, os, pathlib, sys
from ormahd.logs import LATER, Logs
from ormahd.settings import LogSettings
Logs(LogSettings(), foreground=True, environ={}).to_file(pathlib.Path(sys.argv[1]))
for number in range(5):
    logging.getLogger("ormahd.x").info("request %d", number, extra={LATER: True})
logging.shutdown()
os._exit(0)
"""


def test_the_librarys_own_way_out_does_not_wait_for_ever(tmp_path):
    """It closes handlers with their locks held; the thread of those that may wait wants one."""
    subprocess.run([sys.executable, "-c", LEAVING, str(tmp_path)], check=True, timeout=120, capture_output=True)
    assert lines_of(tmp_path) == [f"request {number}" for number in range(5)]


def test_a_file_turns_over_before_it_grows_too_large(logs, tmp_path, monkeypatch):
    monkeypatch.setattr("ormahd.logs.FILE_BYTES", 1024 * 64)
    log = logs()
    log.to_file(tmp_path)
    for number in range(9000):
        logging.getLogger("ormahd.x").info("request %d: %s", number, "x" * 40, extra={LATER: number % 2000 > 0})
    log.close()
    files = sorted(tmp_path.glob("ormahd.log*"))
    assert [file.name for file in files] == [
        "ormahd.log",
        *(f"ormahd.log.{number}" for number in range(1, KEPT_FILES + 1)),
    ]
    assert all(file.stat().st_size <= 64 * 1024 for file in files)
    told = [
        line.split("request ")[1].split(":")[0] for file in reversed(files) for line in file.read_text().splitlines()
    ]
    assert told == [str(number) for number in range(9000 - len(told), 9000)], "lines were lost or changed places"
