"""Fits all that is fitted, one program after the other: `python -m tests.quality.fit [--shared DIR] [--keep DIR]`.

It writes the order of results (`search/blend.json`), how two memories stand to each other
(`text/standing_weights.json`), and, from that order, the relevance (`whisper/relevance.json`, `whisper/asks.json`, and the
same for the multilingual model). The evidence is kept in `--keep`: with an empty folder it takes two hours, and then
seconds. The same data give the same tables.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAMS = (
    ("tests.bench", "fit", "--write", "--evidence", "{keep}/order.npz"),
    ("tests.quality.standing", "--fit"),
    ("tests.bench", "fit-relevance", "--write", "--evidence", "{keep}/relevance.npz"),
    ("tests.bench", "fit-relevance", "--write", "--evidence", "{keep}/multilingual.npz", "--model", "multilingual"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--shared", type=Path, default=Path("../shared/bench"), help="the directory of the shared benchmarks"
    )
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir(), "ormah-fit"))
    chosen = parser.parse_args()
    chosen.keep.mkdir(parents=True, exist_ok=True)
    for module, *options in PROGRAMS:
        print(f"== {module} {options[0]}", flush=True)
        filled = [option.format(keep=chosen.keep) for option in options]
        subprocess.run([sys.executable, "-m", module, *filled, "--shared", str(chosen.shared)], check=True)


if __name__ == "__main__":
    main()
