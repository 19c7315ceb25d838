"""What ONNX Runtime alone does with the notes of a vault: the session that serves, texts of the same length together, on all cores, words
looked up.

    python -m tests.bench.embed_alone VAULT MODELS        (prints notes a second; MODELS: where the daemon keeps what it made of models)

The limit of filling an index. In a process of its own, because it loads the model.
"""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

NOTES = 1500
TURNS = 5
TOGETHER = 256
"""Tokens in one pass: more are no quicker."""


def alike(texts: Iterable[Sequence[int]]) -> list[list[Sequence[int]]]:
    """Token ids of texts, the longest first: those of the same length together, up to `TOGETHER` tokens."""
    found = []
    for length, some in itertools.groupby(sorted(texts, key=len, reverse=True), key=len):
        same = list(some)
        size = max(1, TOGETHER // length)
        found += [same[at : at + size] for at in range(0, len(same), size)]
    return found


def notes_per_second(vault: Path, models: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.embed_alone", str(vault), str(models)],
        capture_output=True, text=True, check=True, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    return float(done.stdout)


def main(vault: Path, models: Path) -> None:
    import numpy as np

    from ormahd.embedding import model as choose
    from ormahd.embedding.model import Model
    from ormahd.index import embedding_cache
    from ormahd.note.read import parse
    from ormahd.settings import EmbeddingSettings

    files = sorted(path for path in vault.glob("[!.]*/**/*.md"))
    model = choose.load(EmbeddingSettings(), models)
    assert isinstance(model, Model)
    windows = []
    for file in files[:: max(1, len(files) // NOTES)][:NOTES]:
        note = parse(file.read_bytes(), file.name)
        source = embedding_cache.source(note.title, file.name, note.content)
        windows += model._windows([source.content], [source.heading])
    runtime = model._runtime
    batches = alike(one.ids for some in windows for one in some)
    given = [runtime._given(np.array(some)) for some in batches]  # type: ignore[attr-defined]
    rates = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in range(TURNS):
            begun = time.perf_counter()
            list(pool.map(lambda one: runtime._session.run(None, one), given))  # type: ignore[attr-defined]
            rates.append(len(windows) / (time.perf_counter() - begun))
    print(statistics.median(rates))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
