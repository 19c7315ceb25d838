"""What embedding costs, beside ONNX Runtime alone and beside torch, in turns.

    python -m tests.bench embedding [--notes 600] [--rounds 40]

`alone`: the session that serves, with the words looked up: for a question on one thread, for notes on as many threads as there are
cores, those of the same length together. `alone in full`: a session over the graph in full, for notes on all cores in batches of similar length.
`ours`: the embedder as the daemon has it, tokenizing and token vectors included. Loading and memory are measured in processes of their own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.bench import corpus
from tests.bench.embed_alone import alike

QUESTIONS = {
    "short": "tea?",
    "usual": "what did we decide about the connection pool size for staging?",
    "long": "Can you fix the failing test in the billing module? It worked yesterday, before I upgraded the database "
    "driver, and I want to know which of the two changes broke it. Start with the log.",
}
LOADING = """
import sys, time
begun = time.perf_counter()
from pathlib import Path
from ormahd.embedding import model as embed
from ormahd.settings import EmbeddingSettings
from tests.bench.index_figures import rss
made = embed.load(EmbeddingSettings.model_validate({"runtime": sys.argv[1]}), Path(sys.argv[2]))
made.embed_query("what?")
seconds = time.perf_counter() - begun
loaded = rss()
from tests.bench import corpus
made.embed_documents([one["content"] for one in corpus.memories(600)])
made.give_back()
print(f"{seconds:.2f} {loaded:.0f} {rss():.0f}")
"""


def in_turns(rounds: int, doers: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Milliseconds (p50) of each, one after another in every round: other work on the machine hits all alike."""
    taken: dict[str, list[float]] = {name: [] for name in doers}
    for _ in range(rounds):
        for name, do in doers.items():
            begun = time.perf_counter()
            do()
            taken[name].append((time.perf_counter() - begun) * 1e3)
    return {name: statistics.median(some) for name, some in taken.items()}


def say(what: str, found: dict[str, float], unit: str, ratio: str) -> None:
    print(f"{what:24}", "  ".join(f"{name} {value:.1f}" for name, value in found.items()), f"{unit}   {ratio}")


def main(arguments: Sequence[str]) -> None:
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as in the daemon, and before numpy is there
    parser = argparse.ArgumentParser()
    parser.add_argument("--notes", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args(arguments)
    import numpy as np
    import onnxruntime

    from ormahd.embedding import model as choose
    from ormahd.embedding import model_files, onnx, onnx_graph
    from ormahd.embedding.onnx import WordTable
    from ormahd.settings import EmbeddingSettings

    folder = model_files.find_model(model_files.DEFAULT_MODEL)
    assert isinstance(folder, Path)
    shape, weights, file = onnx.parts(folder)
    table = WordTable(file, weights[onnx_graph.TABLE])

    def session(threads: int) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(file.parent))
        return onnxruntime.InferenceSession(onnx_graph.graph(shape, file.name, weights), options)

    def fed(texts: Sequence[Sequence[int]]) -> dict[str, Any]:
        longest = max(map(len, texts))
        ids = np.zeros((len(texts), longest), np.int64)
        bias = np.zeros((len(texts), 1, 1, longest), np.float32)
        for row, one in enumerate(texts):
            ids[row, : len(one)] = one
            bias[row, ..., len(one) :] = onnx.FAR
        places = np.arange(longest)[None]
        return {onnx_graph.WORDS: table.rows(ids), onnx_graph.POSITIONS: places, onnx_graph.BIAS: bias}

    def unpadded(ready: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in ready.items() if name != onnx_graph.BIAS}

    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(os.cpu_count()) as pool:
        ours = choose.load(EmbeddingSettings(), Path(place))
        torch = choose.load(EmbeddingSettings(runtime="torch"), Path(place))
        tokenizer, eight = ours._tokenizer, ours._runtime._session  # type: ignore[attr-defined]
        print(ours.served)
        assert ours.served.precision == "int8", "there is nothing to compare with"
        one, all_cores = session(1), session(os.cpu_count() or 1)
        for name, question in QUESTIONS.items():
            ready = fed([tokenizer.encode(question).ids])
            alone = unpadded(ready)
            found = in_turns(given.rounds, {
                "alone in full": lambda ready=ready: one.run(None, ready),
                "alone": lambda alone=alone: eight.run(None, alone), "ours": lambda q=question: ours.embed_query(q),
                "torch": lambda q=question: torch.embed_query(q),
            })  # fmt: skip
            tokens = ready[onnx_graph.WORDS].shape[1]
            say(f"{name} question, {tokens} tokens", found, "ms", f"ours / alone {found['ours'] / found['alone']:.2f}")
            found = in_turns(given.rounds, {"all cores": lambda ready=ready: all_cores.run(None, ready)})
            say("", found, "ms", "by itself: its threads wait spinning, and would take time from the others")
        texts = [str(one["content"]) for one in corpus.memories(given.notes)]
        encoded = sorted((tokenizer.encode(text).ids for text in texts), key=len)
        batches = [fed(encoded[at : at + 32]) for at in range(0, len(encoded), 32)]
        even = [unpadded(fed(some)) for some in alike(encoded)]
        found = in_turns(max(3, given.rounds // 10), {
            "alone": lambda: list(pool.map(lambda given: eight.run(None, given), even)),
            "alone in full": lambda: [all_cores.run(None, batch) for batch in batches],
            "ours": lambda: ours.embed_documents(texts, urgent=True), "torch": lambda: torch.embed_documents(texts, urgent=True),
        })  # fmt: skip
        rates = {name: len(texts) / value * 1e3 for name, value in found.items()}
        say(f"{len(texts)} notes", rates, "notes/s", f"ours / alone {rates['ours'] / rates['alone']:.2f}")
        for runtime in ("onnx", "torch"):
            done = subprocess.run(
                [sys.executable, "-c", LOADING, runtime, place], capture_output=True, text=True, check=True
            )
            seconds, loaded, after = done.stdout.split()
            print(f"{runtime:24} loaded in {seconds} s, resident {loaded} MB, after 600 notes {after} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
