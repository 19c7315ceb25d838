"""What was whispered does not come back as a memory, what contradicts becomes a question, and no secret gets through."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from ormahd import paths
from ormahd.actions.amend import Caller
from ormahd.actions.remember import store_memory
from ormahd.api import ProposalsResult
from ormahd.ingest.bring_in import archive
from ormahd.ingest.extraction import Extraction
from ormahd.jobs.judging import Judging
from ormahd.jobs.runner import JOBS, Runner
from ormahd.model.node import CreateNodeRequest
from ormahd.ormah import Ormah
from ormahd.state import whispers
from ormahd.state.whispers import Considered
from ormahd.text.secrets import redact
from tests.extraction_house import ID, NOW, contents, opened, transcript
from tests.quality.secrets import planted_cases
from tests.scripted_judge import prompts, served

PERSON = Caller(agent="person")
KNOWN = (
    "The ferry to Hvar leaves from pier nine at quarter past six.",
    "Rosa Lind signs every payment above 5,000 francs.",
    "The payment service is deployed on Tuesday mornings after the backup.",
    "Ship manifests are kept for eleven years in the cold store in Esbjerg.",
    "The blue valve in the boiler house sticks below ten degrees.",
)
DAYS = 15
SHORT = 8
"""Characters of a secret from which it is looked for: the digits of a PIN stand in any database."""


def whisper(ormah: Ormah, session: str, node_ids: list[str]) -> None:
    """Log a whisper of these memories in a session."""
    shown = [Considered(one, 0.9, 0.9, "full") for one in node_ids]
    whispers.record(ormah.state, prompt="what do we know?", outcome="injected", milliseconds=1.0,
                    vector=np.ones(4, np.float32), model="m", candidates=shown, session_id=session)  # fmt: skip


@pytest.mark.parametrize("by", ["rules", "judge"])
def test_fifteen_days_of_whispers_and_sessions(tmp_path: Path, by: str) -> None:
    (tmp_path / "judge").mkdir()
    (tmp_path / "judge" / "mode").write_text("parrot")
    with served(tmp_path / "judge") as server:
        settings = (
            {"ORMAH_JOBS_JUDGE": "openai", "ORMAH_JUDGE_URL": server.url, "ORMAH_JUDGE_MODEL": "m"}
            if by == "judge"
            else {}
        )
        with opened(tmp_path, environ=settings) as ormah:
            known = [store_memory(ormah, CreateNodeRequest(content=one), PERSON).node_id for one in KNOWN]
            extraction = Extraction(ormah, asker=Judging(ormah).asker)
            new = []
            for day in range(DAYS):
                session = f"6f1d2c3b-aaaa-4bbb-8ccc-{day:012d}"
                told = [day % len(KNOWN), (day + 1) % len(KNOWN)]
                whisper(ormah, session, [known[one] for one in told])
                fact = f"crate number {100 + day} went to the {('north', 'south', 'east')[day % 3]} yard on a Monday."
                new.append(f"The {fact}")
                first, second = (KNOWN[one] for one in told)
                said = [f"Remember that {first[0].lower()}{first[1:]}", f"Remember that, as you say, {second[0].lower()}{second[1:]}",
                        f"Remember that the {fact}"]  # fmt: skip
                answers = [f"As I remember: {first}", f"I recall that {second}", "Noted."]
                transcript(tmp_path / "t" / f"{session}.jsonl", said, answers=answers, session=session,
                           at=NOW - timedelta(days=DAYS - day))  # fmt: skip
                archive(ormah, tmp_path / "t" / f"{session}.jsonl")
                extraction.settle()
            stored = contents(ormah)
            derived = [one for one in stored if not any(fact.removeprefix("The ") in one for fact in new)]
            assert len(stored) >= DAYS * 0.9
            assert len(derived) < 0.01 * len(stored), derived


def test_a_whisper_may_be_contradicted(tmp_path: Path) -> None:
    with opened(tmp_path) as ormah:
        known = [
            store_memory(ormah, CreateNodeRequest(content=one, space="shop"), PERSON).node_id
            for one in ("We use Redis for the cart cache of the shop.", "The nightly backup of the shop runs at 02:30.")
        ]
        whisper(ormah, ID, known)
        said = [
            "Remember that we do not use Redis for the cart cache of the shop.",
            "Remember that the nightly backup of the shop runs at 03:15.",
        ]
        archive(ormah, transcript(tmp_path / "t" / f"{ID}.jsonl", said))
        assert Extraction(ormah).settle() == 2


def test_what_replaces_an_older_memory_is_asked_about(tmp_path: Path) -> None:
    with opened(tmp_path) as ormah:
        old = CreateNodeRequest(
            content="The payment gateway listens on port 8080.", space="shop", created=NOW - timedelta(days=90)
        )
        older = store_memory(ormah, old, PERSON).node_id
        called: list[int] = []
        extraction = Extraction(ormah, conflicts=lambda: called.append(1))
        archive(
            ormah,
            transcript(tmp_path / "t" / f"{ID}.jsonl", ["Remember that the payment gateway now listens on port 9090."]),
        )
        assert extraction.settle() == 1
        assert called, "the conflict detector is to run soon"
        runner = Runner(ormah, JOBS)
        runner.run(["conflict_detector"])
        found: ProposalsResult = runner.proposals.list(type="conflict")
        assert any(older in one.source_nodes for one in found.proposals)


@pytest.fixture
def leaky(tmp_path: Path) -> Iterator[tuple[Ormah, Extraction, Path]]:
    (tmp_path / "judge").mkdir()
    (tmp_path / "judge" / "mode").write_text("parrot")
    with served(tmp_path / "judge") as server:
        settings = {"ORMAH_JOBS_JUDGE": "openai", "ORMAH_JUDGE_URL": server.url, "ORMAH_JUDGE_MODEL": "m"}
        with opened(tmp_path, environ=settings) as ormah:
            yield ormah, Extraction(ormah, asker=Judging(ormah).asker), tmp_path


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.soak)])
def test_planted_secrets_reach_nothing(leaky: tuple[Ormah, Extraction, Path], every: int) -> None:
    ormah, extraction, home = leaky
    cases = [(f"Remember that {text}", found) for text, found in planted_cases()]
    known = [(text, found) for text, found in cases if not any(one in redact(text).text for one in found)]
    assert len(known) > 0.9 * len(cases), "what patterns know"
    known = known[::every]
    said = [text for text, _ in known]
    archive(ormah, transcript(home / "t" / f"{ID}.jsonl", said))
    extraction.settle()
    assert len(contents(ormah)) > 0
    secrets = {secret.encode() for _, found in known for secret in found if len(secret) >= SHORT}
    root = ormah.vault.root
    objects = subprocess.run(
        ["git", "-C", str(root), "cat-file", "--batch-all-objects", "--batch"], capture_output=True, check=True
    ).stdout
    places = [root, ormah.index.directory, ormah.state.path.parent, paths.sessions_dir(ormah.vault.id)]
    files = [file for place in places for file in place.rglob("*") if file.is_file() and ".git" not in file.parts]
    held = {str(file): file.read_bytes() for file in files} | {
        "git": objects, "judge": "\n".join(prompts(home / "judge")).encode(),
    }  # fmt: skip
    leaks = {(name, secret) for name, data in held.items() for secret in secrets if secret in data}
    assert not leaks
