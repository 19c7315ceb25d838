"""Past sessions are found, foretold, archived in the background and watched, each turn once; what cannot be read is named and retried."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ormahctl.setup.change import Record
from ormahd import paths
from ormahd.api import PastParams, SourceHealth
from ormahd.errors import BadRequest
from ormahd.ingest.backfill import past_sessions
from ormahd.ingest.intake import Intake
from ormahd.ormah import Ormah
from tests.contract.archiving import SHOP, answered, archived, asked, bring, opened, written
from tests.house import wait_until

QUIET = {"quiet_seconds": "0.05"}


def shelf(home: Path, many: int) -> Path:
    """The folder of Claude Code, with sessions of two exchanges, the last one the newest."""
    folder = home / ".claude" / "projects" / "-src-shop"
    folder.mkdir(parents=True)
    for number in range(many):
        about = {"session": f"s{number}"}
        file = written(
            folder / f"s{number}.jsonl", asked(0, f"Use cents {number}.", **about), answered(0, f"Yes {number}.", **about),
            asked(1, f"Round {number}.", **about), answered(1, f"Done {number}.", **about),
        )  # fmt: skip
        os.utime(file, (time.time() - 10_000 + number,) * 2)
    return folder


@contextmanager
def sources(ormah: Ormah) -> Iterator[Intake]:
    """What the daemon starts."""
    intake = Intake(ormah)
    intake.start()
    intake.watch()
    try:
        yield intake
    finally:
        assert intake.stop(120)


def said_of(intake: Intake, source: str) -> SourceHealth:
    return next(one for one in intake.health() if one.source == source)


def test_it_is_foretold_what_comes_and_nothing_is_done(tmp_path: Path) -> None:
    folder = shelf(tmp_path, 12)
    with opened(tmp_path) as ormah:
        found = past_sessions(ormah, PastParams(folders=[]))
        assert [Path(file).name for file in found.files][:2] == ["s11.jsonl", "s10.jsonl"]
        assert found.bytes == sum(file.stat().st_size for file in folder.iterdir())
        claude, *others = found.folders
        assert (claude.files, claude.fresh, claude.trouble) == (12, 12, None)
        assert not any(one.exists for one in others)
        assert past_sessions(ormah, PastParams(folders=[str(folder)])).files == found.files
        assert archived(ormah) == []
        with pytest.raises(BadRequest, match="no absolute path"):
            past_sessions(ormah, PastParams(folders=["projects"]))
    with opened(tmp_path, keep="false") as ormah, pytest.raises(BadRequest, match=r"sessions\.keep is off"):
        past_sessions(ormah, PastParams(folders=[]))


def test_the_variables_of_the_agents_are_honoured(tmp_path: Path) -> None:
    found = paths.transcript_folders({"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x", "GEMINI_CLI_HOME": "/g"})
    assert found == [
        ("claude-code", Path("/c/projects")), ("codex", Path("/x/sessions")), ("codex", Path("/x/archived_sessions")),
        ("gemini", Path("/g/.gemini/tmp")),
    ]  # fmt: skip


def test_every_folder_that_setup_connected_is_looked_into(tmp_path: Path) -> None:
    with opened(tmp_path):
        usual = paths.transcript_folders()
        for agent, file in (
            ("claude-code", "team/settings.json"),
            ("claude-code", "team/.claude.json"),
            ("codex", "other/hooks.json"),
            ("codex", "other/config.toml"),
            ("gemini", "third/.gemini/settings.json"),
        ):
            Record(agent=agent, file=f"/{file}", real=f"/{file}", after="", edits=(), existed=True).store()
        (paths.setup_dir() / "codex-damaged.json").write_text("{")
        assert set(paths.transcript_folders()) - set(usual) == {
            ("claude-code", Path("/team/projects")), ("codex", Path("/other/sessions")),
            ("codex", Path("/other/archived_sessions")), ("gemini", Path("/third/.gemini/tmp")),
        }  # fmt: skip


def test_a_backfill_can_be_stopped_goes_on_after_a_restart_and_adds_nothing_twice(tmp_path: Path) -> None:
    shelf(tmp_path, 12)
    with opened(tmp_path) as ormah:
        first = Intake(ormah).backfill
        first._closing.set()  # the daemon stops before the first file is read
        first.answer("start", [])
        assert archived(ormah) == []
        with sources(ormah) as intake:
            state = wait_until(lambda: not intake.backfill.state().running and intake.backfill.state(), "its end")
            assert (state.done, state.total, state.added, state.failed) == (12, 12, 48, 0)
            assert state.ended is not None
            assert archived(ormah)[0][0] == "s0"
            assert len(archived(ormah)) == 48
            counted = said_of(intake, "backfill")
            assert (counted.turns, counted.on, counted.waiting) == (48, False, 0)
            again = intake.backfill.answer("start", [])
            assert again.begun is not None
            state = wait_until(lambda: not intake.backfill.state().running and intake.backfill.state(), "its end")
            assert (state.total, state.added) == (0, 0)
            assert not intake.backfill.answer("stop", []).running
            with pytest.raises(BadRequest, match="action is"):
                intake.backfill.answer("begin", [])
        with sources(ormah) as intake:  # what was through is not begun again
            assert not intake.backfill.state().running


def test_a_stopped_backfill_does_not_go_on_by_itself(tmp_path: Path) -> None:
    shelf(tmp_path, 2)
    with opened(tmp_path) as ormah:
        intake = Intake(ormah)
        intake.backfill._closing.set()
        intake.backfill.answer("start", [])
        intake.backfill.answer("stop", [])
        with sources(ormah) as other:
            assert not other.backfill.state().running
        assert archived(ormah) == []


def test_a_stop_breaks_off_a_large_file_and_says_what_was_archived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ormahd.ingest.bring_in.BATCH", 1)
    folder = tmp_path / ".claude" / "projects" / "-src-shop"
    folder.mkdir(parents=True)
    written(
        folder / "s.jsonl",
        *(line for at in range(1000) for line in (asked(at, f"Use cents {at}."), answered(at, f"Yes {at}."))),
    )
    with opened(tmp_path) as ormah:
        backfill = Intake(ormah).backfill
        backfill.answer("start", [])
        wait_until(lambda: archived(ormah), "the first turns")
        stopped = backfill.answer("stop", [])
        kept = len(archived(ormah))
        assert (stopped.running, stopped.done, stopped.total, stopped.added) == (False, 0, 1, kept)
        assert 0 < kept < 2000
        assert said_of(Intake(ormah), "backfill").turns == kept
        monkeypatch.undo()
        backfill.answer("start", [])
        state = wait_until(lambda: not backfill.state().running and backfill.state(), "its end")
        assert (state.done, state.added, len(archived(ormah))) == (1, 2000 - kept, 2000)


# ------------------------------------------------------------ the watcher


def test_the_watcher_reads_what_was_written_lately_and_what_grows(tmp_path: Path) -> None:
    folder = shelf(tmp_path, 2)
    os.utime(folder / "s0.jsonl", (time.time() - 100 * 3600,) * 2)
    with opened(tmp_path, watch="true", **QUIET) as ormah, sources(ormah) as intake:
        wait_until(lambda: len(archived(ormah)) == 4, "the newer one")
        assert {session for session, _ in archived(ormah)} == {"s1"}
        with (folder / "s1.jsonl").open("ab") as grows:
            grows.write(written(tmp_path / "more", asked(2, "And taxes?", session="s1")).read_bytes())
        wait_until(lambda: ("s1", "And taxes?") in archived(ormah), "what it grew by")
        later = folder.parent / "-src-later"
        later.mkdir()
        written(later / "new.jsonl", *SHOP)
        wait_until(lambda: len(archived(ormah)) == 9, "a session in a new folder")
        wait_until(lambda: said_of(intake, "watcher").turns == 9, "what is counted after it is archived")
        found = said_of(intake, "watcher")
        assert (found.on, found.state, found.turns, found.troubles) == (True, "watching", 9, [])


def test_the_watcher_is_off_until_it_is_configured(tmp_path: Path) -> None:
    shelf(tmp_path, 1)
    with opened(tmp_path) as ormah, sources(ormah) as intake:
        assert not intake.watcher.on
        assert [one.source for one in intake.health()] == ["hook"]
        assert archived(ormah) == []


def test_a_folder_that_comes_goes_and_comes_is_named_and_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ormahd.watch.watcher.HEARTBEAT_S", 0.1)
    place = tmp_path / "usb"
    with opened(tmp_path, watch="true", folders=str(place), **QUIET) as ormah, sources(ormah) as intake:

        def wrong() -> list[tuple[str, str]]:
            return [(one.path, one.why) for one in said_of(intake, "watcher").troubles]

        missing = [(str(place), "it is not there")]
        wait_until(lambda: wrong() == missing, "the missing folder")
        assert any("usb cannot be watched" in one.what for one in intake.findings())
        place.mkdir()
        written(place / "a.jsonl", *SHOP)
        wait_until(lambda: len(archived(ormah)) == 4, "its session")
        wait_until(lambda: wrong() == [], "no trouble")
        place.rename(tmp_path / "moved")
        wait_until(lambda: wrong() == missing, "that it was moved away")
        (tmp_path / "moved").rename(place)
        wait_until(lambda: wrong() == [], "that it is back")
        written(place / "b.jsonl", asked(5, "Anything else?", session="b"))
        wait_until(lambda: len(archived(ormah)) == 5, "what came after it was back")


def test_kinds_of_records_that_no_reader_knows_are_named(tmp_path: Path) -> None:
    with opened(tmp_path) as ormah:
        bring(ormah, written(tmp_path / "a.jsonl", *SHOP, *({"type": f"said-{number:02d}"} for number in range(300))))
        bring(ormah, written(tmp_path / "b.jsonl", *SHOP, {"type": "said-00"}, {"type": "told"}))
        (found,) = Intake(ormah).findings()
        assert found.what.startswith(
            "claude-code writes records of kinds that this version does not know: said-00, said-01,"
        )
        assert len(found.what) < 400
