"""What a whisper pays for what was judged and logged: boosts among 10,000 judgements, the log's row, the review's question.

    python -m tests.bench feedback [judgements] [prompts]

Prints medians and maxima in milliseconds. Nothing else should run.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from ormahd.model.judgement import FILES, FOLDER, Int8Vector, Judgement, encode
from ormahd.settings import AffinitySettings
from ormahd.state import whispers
from ormahd.state.feedback import Judgements, LineFiles
from ormahd.state.state import State
from ormahd.state.whispers import Considered
from ormahd.text.secrets import redact
from ormahd.whisper.affinity import boosts

CANDIDATES = 30
_CHANCE = np.random.default_rng(1)
_BASE = _CHANCE.standard_normal(384)


def vector() -> np.ndarray:
    """Unit, like enough to all others of them that feedback counts."""
    drawn = _BASE / np.linalg.norm(_BASE) + 0.6 * _CHANCE.standard_normal(384) / np.sqrt(384)
    return np.asarray(drawn / np.linalg.norm(drawn), np.float32)


def node(number: int) -> str:
    return str(uuid.UUID(int=number << 96 | 1))


def cost(what: str, work: Callable[[], object], turns: int) -> None:
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1000)
    times.sort()
    print(f"{what}: {times[turns // 2]:.2f} ms, at most {times[-1]:.2f}")


def main(arguments: list[str]) -> None:
    count, prompts = (int(text) for text in [*arguments, "10000", "3000"][:2])
    now = datetime.now(UTC)
    rows: list[Judgement] = []
    for nodes in (1_000, 300, CANDIDATES):
        rows = [
            Judgement(node(i % nodes), 1 if i % 3 else -1, "explicit", now - timedelta(hours=i % 900), f"e{i:011}", "m",
                      Int8Vector.of(vector()), "0" * 32)
            for i in range(count)
        ]  # fmt: skip
        known, asked = Judgements.of(rows, "m"), vector()
        ids = [node(i) for i in range(CANDIDATES)]
        cost(
            f"boosts of {CANDIDATES} candidates, {count:,} judgements on {nodes:,} memories",
            lambda: boosts(asked, ids, known, now=now, settings=AffinitySettings()),  # noqa: B023 - called here
            200,
        )
    cost("taking in all of them", lambda: Judgements.of(rows, "m"), 5)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / FOLDER).mkdir(parents=True)
        for month in range(12):
            part = sorted(encode(one) + b"\n" for one in rows[month::12])
            (root / FOLDER / f"2026-{month + 1:02}.jsonl").write_bytes(b"".join(part))
        files = LineFiles(root, FILES, lambda path: (root / path).read_bytes())
        cost("reading their files", files.look, 1)
        cost("finding twelve files unchanged", files.look, 200)
        one = (root / FOLDER / "2026-01.jsonl").read_bytes()
        cost(f"putting one more among {count // 12:,} of its month", lambda: FILES.put(one, rows[1]), 5)
        redact("")
        state = State(root, clock=lambda: datetime.now(UTC))

        def record(text: str = "how did we decide to deploy the payment service to production last month? ") -> None:
            shown = [None, None, None, None, "full"]
            candidates = [
                Considered(node(int(_CHANCE.integers(2_000))), 0.45, 0.45, shown[int(_CHANCE.integers(5))])
                for _ in range(5)
            ]
            whispers.record(
                state, prompt=text, outcome="gate", milliseconds=12.0, vector=vector(), model="m",
                space=f"p{int(_CHANCE.integers(4))}", session_id="s", candidates=candidates,
            )  # fmt: skip

        cost("logging a prompt with five candidates", record, 500)
        cost("the same, a prompt of 50,000 characters", lambda: record("lorem ipsum dolor " * 2_800), 50)
        for _ in range(prompts):
            record()
        week = datetime.now(UTC) - timedelta(days=7)
        cost(
            f"what was held back among {prompts:,} prompts",
            lambda: whispers.held_back(state, week, "p1", 200, least=0.45),
            9,
        )
        cost("figures for stats", lambda: whispers.figures(state), 9)
        state.close()
