"""Memories of sessions by a scripted judge: once, batch by batch; and what happens when it is down, rude, slow or too expensive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from ormahd.ingest.bring_in import archive
from ormahd.ingest.extraction import Extraction
from ormahd.jobs.judging import Judging
from ormahd.ormah import Ormah
from tests.extraction_house import ID, NOW, contents, opened, transcript
from tests.scripted_judge import DATA, Served, prompts, served

FACTS = (
    "The blue valve in the boiler house sticks below ten degrees.",
    "Payments above 5,000 francs need the signature of Rosa Lind.",
    "The crane on pier seven was sold to the harbour of Esbjerg.",
    "Ship manifests are kept for eleven years in the cold store.",
)
TOKEN = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


def keeping(facts: tuple[str, ...] = FACTS, between: int = 25) -> list[str]:
    """Return what a person says in a session with these facts and small talk between them."""
    said: list[str] = []
    for fact in facts:
        said += [f"Could you look at file number {len(said) + at} again?" for at in range(between)]
        said.append(f"Keep in mind: {fact}")
    return said


@contextmanager
def court(home: Path, **environ: str) -> Iterator[tuple[Ormah, Extraction, Served]]:
    (home / "judge").mkdir(parents=True, exist_ok=True)
    with served(home / "judge") as server:
        variables = {"ORMAH_JOBS_JUDGE": "openai", "ORMAH_JUDGE_URL": server.url, "ORMAH_JUDGE_MODEL": "m", **environ}  # fmt: skip
        with opened(home, environ=variables) as ormah:
            yield ormah, Extraction(ormah, asker=Judging(ormah).asker), server


def test_each_fact_once_in_commits_that_one_undo_takes_back(tmp_path: Path) -> None:
    with court(tmp_path) as (ormah, extraction, server):
        archive(ormah, transcript(tmp_path / "t" / f"{ID}.jsonl", keeping()))
        assert extraction.settle() == len(FACTS)
        assert contents(ormah) == sorted(FACTS)
        asked = prompts(server.folder)
        assert len(asked) >= 2, "the session is longer than one batch"
        assert all(len(found[1]) < 20_000 for one in asked if (found := DATA.search(one)))
        assert len({one.run for one in ormah.history.ops(kinds=["ingest"])}) == 1
        assert extraction.settle() == 0
        assert len(prompts(server.folder)) == len(asked), "nothing is asked again"


def test_a_judge_that_comes_after_the_rules_reads_everything(tmp_path: Path) -> None:
    with opened(tmp_path) as ormah:
        said = ["Remember that staging runs on port 8443.", f"Keep in mind: {FACTS[0]}"]
        archive(ormah, transcript(tmp_path / "t" / f"{ID}.jsonl", [f"Keep in mind: {FACTS[1]}", *said]))
        made = Extraction(ormah).settle()
        assert made
    with court(tmp_path) as (ormah, extraction, server):
        extraction.settle()
        assert FACTS[1] in contents(ormah)
        assert len(prompts(server.folder)) == 1


@pytest.mark.parametrize("mode", ["broken", "limited", "hang", "half", "prose"])
def test_nothing_is_lost_while_the_judge_is_no_use(tmp_path: Path, mode: str) -> None:
    with court(tmp_path, ORMAH_JUDGE_TIMEOUT_SECONDS="1" if mode == "hang" else "120") as (
        ormah,
        extraction,
        server,
    ):
        (server.folder / "mode").write_text(mode)
        archive(ormah, transcript(tmp_path / "t" / f"{ID}.jsonl", keeping(between=1)))
        assert extraction.settle() == 0
        source = extraction.health()
        assert source.waiting == 1
        assert source.errors, "it says why"
    (server.folder / "mode").write_text("honest")
    with court(tmp_path) as (ormah, extraction, _), pytest.MonkeyPatch.context() as patch:
        patch.setattr(ormah, "clock", lambda: NOW + timedelta(hours=7))
        assert extraction.settle() == len(FACTS)
        assert contents(ormah) == sorted(FACTS)
        assert extraction.health().errors == []


def test_the_budget_leaves_something_for_the_jobs(tmp_path: Path) -> None:
    with court(tmp_path, ORMAH_JUDGE_CALLS_A_DAY="2") as (ormah, extraction, server):
        archive(ormah, transcript(tmp_path / "t" / f"{ID}.jsonl", keeping()))
        extraction.settle()
        made = len(contents(ormah))
        assert 0 < made < len(FACTS)
        assert len(prompts(server.folder)) == 2
        assert "budget" in extraction.health().errors[0]
    with court(tmp_path) as (ormah, extraction, _):
        assert made + extraction.settle() == len(FACTS)
        assert contents(ormah) == sorted(FACTS)


def test_a_session_that_goes_on_waits_until_it_rests(tmp_path: Path) -> None:
    at = NOW - timedelta(minutes=5)
    with court(tmp_path) as (ormah, extraction, _):
        archive(ormah, transcript(tmp_path / "t" / f"{ID}.jsonl", keeping(FACTS[:1], between=0), at=at))
        assert extraction.settle() == 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ormah, "clock", lambda: NOW + timedelta(minutes=10))
            assert extraction.settle() == 1


def test_no_secret_reaches_the_judge_or_the_vault(tmp_path: Path) -> None:
    with court(tmp_path) as (ormah, extraction, server):
        fact = f"The deploy script of the harbour uses the token {TOKEN} for its uploads."
        archive(ormah, transcript(tmp_path / "t" / f"{ID}.jsonl", keeping((fact,), between=0)))
        extraction.settle()
        assert not any(TOKEN in one for one in prompts(server.folder))
        assert not any(TOKEN in one for one in contents(ormah))
