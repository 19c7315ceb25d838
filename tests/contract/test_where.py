"""Where a project's last session stopped, as the next one is told: once a day, and after a compaction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ormahd.actions.amend import Caller
from ormahd.actions.remember import store_memory
from ormahd.actions.where import CHARACTERS, as_lines, last_work
from ormahd.model.node import CreateNodeRequest, Tier
from ormahd.ormah import Ormah
from ormahd.rpc.hooks import Hooks
from ormahd.sessions.files import Deed, Line, SessionHead
from ormahd.text.harness import strip
from ormahd.whisper.pipeline import Whisper
from tests.contract.archiving import opened, show
from tests.tables import rows

ASK = "> add the retry header to the client"
FAIL = "! pytest tests/test_client.py | AssertionError: assert 3 == 5"
REQUEST = {"request": ASK[2:]}
FAILED = {"command": "pytest tests/test_client.py", "error": "AssertionError: assert 3 == 5"}
CASES = {name: case for name, *case in rows(__file__, "cases")}
"""{case: (what was said (> person, < agent, -> taken back) and done ($ worked, ! failed, ~ edited), what is told of it)}."""
NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop/.git").mkdir(parents=True)
    (tmp_path / "shop/.git/HEAD").write_text("ref: refs/heads/retry\n")
    return tmp_path / "shop"


@pytest.fixture
def ormah(tmp_path: Path) -> Iterator[Ormah]:
    with opened(tmp_path, variables={"ORMAH_WHISPER_NUDGE_INTERVAL": "0"}) as found:
        yield found


def archive(ormah: Ormah, session: str, cwd: Path, happened: list[str], hour: int = 8) -> None:
    lines: list[Line | Deed] = []
    for number, one in enumerate(happened):
        key, time = f"{session}{number}", (NOW.replace(hour=hour) + timedelta(seconds=number)).isoformat()
        sign, _, text = one.partition(" ")
        if sign in (">", "<", "->"):
            role = "assistant" if sign == "<" else "user"
            lines.append(Line(key, role, text, time, mark="withdrawn" if sign == "->" else ""))
        else:
            command, _, error = text.partition(" | ")
            files = (text,) if sign == "~" else ()
            did = "" if files else command
            lines.append(Deed(key, did, files, "Edit" if files else "", int(sign == "!"), error, time=time))
    ormah.sessions.add([(SessionHead(session, "claude-code", str(cwd)), lines)])


@pytest.mark.parametrize("case", CASES)
def test_where_a_session_stopped(ormah: Ormah, shop: Path, case: str) -> None:
    happened, expected = CASES[case]
    archive(ormah, "s1", shop / "src", happened)
    found = last_work(ormah, str(shop))
    told = {
        name: value for name in ("request", "files", "command", "error", "question") if (value := getattr(found, name))
    }
    if expected.get("request") == "long":
        assert len(told.pop("request")) <= 160
        expected = {}
    assert told == expected
    lines = as_lines(found)
    assert bool(lines) == bool(found.request)
    assert sum(len(line) + len("\nOrmah: ") for line in lines) <= CHARACTERS
    assert not lines or lines[-1] == "the branch is retry now"


def start(hooks: Hooks, cwd: Path, session: str, source: str = "startup", harness: str = "claude-code") -> str:
    event = "BeforeAgent" if harness == "gemini" else "SessionStart"
    said = {"session_id": session, "source": source, "cwd": str(cwd), "prompt": "look at the header once more"}
    frame = b"\0".join((harness.encode(), event.encode(), str(cwd).encode(), b"", json.dumps(said).encode()))
    answer = hooks.answer(frame)
    return str(json.loads(answer)["hookSpecificOutput"]["additionalContext"]) if answer else ""


@pytest.mark.parametrize("harness", ["claude-code", "codex", "gemini"])
def test_the_next_session_is_told_once_a_day(ormah: Ormah, shop: Path, harness: str) -> None:
    hooks = Hooks(Whisper(ormah))
    archive(ormah, "s1", shop, [ASK, FAIL])
    told = start(hooks, shop, "s2", harness=harness)
    assert "was asked: “add the retry header to the client”" in told
    assert "a failure stood at its end: pytest tests/test_client.py: AssertionError" in told
    assert strip(told).strip() == "", "the archive never takes it for what was said"
    assert "retry header" not in start(hooks, shop, "s3", harness=harness)
    assert "retry header" not in start(hooks, shop / "src", "s4", harness=harness)


def test_another_project_a_resumed_session_and_a_switched_off_archive_are_told_nothing(
    ormah: Ormah, shop: Path
) -> None:
    hooks = Hooks(Whisper(ormah))
    archive(ormah, "s1", shop, [ASK])
    (shop.parent / "shopfront").mkdir()
    assert start(hooks, shop.parent / "shopfront", "s2") == ""
    assert start(hooks, shop, "s1", "resume") == ""
    assert "retry header" in start(hooks, shop, "s5", "clear")


def test_after_a_compaction_it_is_this_session_and_stands_before_the_memories(ormah: Ormah, shop: Path) -> None:
    hooks = Hooks(Whisper(ormah))
    store_memory(ormah, CreateNodeRequest(content="Money is integer cents.", tier=Tier.CORE), Caller("test"))
    archive(ormah, "s1", shop, ["> write the parser for the feed"])
    archive(ormah, "s2", shop, [ASK, "~ src/client.py"], hour=9)
    archive(ormah, "s3", shop, ["> something else entirely here"], hour=10)
    told = start(hooks, shop, "s2", "compact")
    assert told.index("it edited src/client.py") < told.index("Money is integer cents")
    assert "parser" not in told
    assert "something else" not in told


def test_a_session_shows_what_was_done_under_each_prompt(ormah: Ormah, shop: Path) -> None:
    archive(ormah, "s1", shop, [ASK, FAIL, "~ src/client.py", "< Done.", "> now run all of the tests", "$ make test"])
    shown = show(ormah, session_id="s1").deeds
    assert [(one.turn, one.command or one.files[0], one.status) for one in shown] == [
        (1, "pytest tests/test_client.py", 1),
        (1, "src/client.py", 0),
        (3, "make test", 0),
    ]


def test_a_home_under_git_is_no_project(ormah: Ormah, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, notes = tmp_path / "home", tmp_path / "home/notes"
    notes.mkdir(parents=True)
    (home / ".git").mkdir()
    (home / ".git/HEAD").write_text("ref: refs/heads/dotfiles\n")
    monkeypatch.setenv("HOME", str(home))
    archive(ormah, "s1", home / "shop", [ASK])
    assert last_work(ormah, str(notes)).request is None
    assert last_work(ormah, str(home)).request is None


def test_the_branch_of_a_worktree_is_its_own(ormah: Ormah, shop: Path, tmp_path: Path) -> None:
    own = shop / ".git/worktrees/hotfix"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/hotfix\n")
    (own / "commondir").write_text("../..\n")
    (tmp_path / "hotfix").mkdir()
    (tmp_path / "hotfix/.git").write_text(f"gitdir: {own}\n")
    archive(ormah, "s1", tmp_path / "hotfix", [ASK])
    assert last_work(ormah, str(tmp_path / "hotfix")).branch == "hotfix"
    archive(ormah, "s2", shop, [ASK])
    assert last_work(ormah, str(shop)).branch == "retry"
