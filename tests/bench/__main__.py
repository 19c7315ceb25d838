"""`make bench`: figures by name (`python -m tests.bench NAME [options]`), or all of them."""

from __future__ import annotations

import importlib
import sys

NAMES = {
    "foundation": "foundation",
    "writers": "writers",
    "hook": "hook_cost",
    "hops": "hops",
    "page": "page",
    "retrieval": "retrieval",
    "fit": "fit",
    "fit-relevance": "fit_relevance",
}
"""What is asked for: the module with its `main`."""

if __name__ == "__main__":
    chosen = sys.argv[1:2] or list(NAMES)
    for name in chosen:
        importlib.import_module(f"tests.bench.{NAMES[name]}").main(sys.argv[2:])
