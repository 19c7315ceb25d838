"""How many files and functions of ormahd one request passes through, in a real daemon with the default model.

    python -m tests.bench hops [--list remember]

Each request is made once before it is counted. What counts are the threads that answer: the server's, those of the pools, the
vault's writer. Lambdas and comprehensions belong to their function.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from tests.house import House, open_house, wait_until

ROOT = str(Path(__file__).parent.parent.parent / "ormahd") + os.sep
ANSWERING = ("server", "read-", "whisper-", "write-", "jobs-", "bulk-", "vault-writer")
LIMITS = {"remember": (40, 250), "recall": (30, None), "whisper": (60, None), "merge": (40, None)}
"""{request: greatest number of files, of functions}."""
TWINS = ("uses vite as its bundler", "uses vite as its bundler.")


def hops(house: House, act: Any) -> set[tuple[str, str]]:
    """Return the functions, as (file, qualified name), that the daemon's answering threads call while `act` runs."""
    file = house.home / "hops.json"
    file.unlink(missing_ok=True)
    house.signal(signal.SIGUSR1)
    wait_until(file.exists, "the daemon counts")
    act()
    house.signal(signal.SIGUSR2)
    wait_until(lambda: file.read_text().endswith("]"), "the daemon has counted")
    return {(one, other) for one, other in json.loads(file.read_text())}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="hops", description=__doc__)
    parser.add_argument("--list", choices=LIMITS, help="print also what this one passes through")
    chosen = parser.parse_args(arguments)
    with open_house(ORMAH_EMBEDDING_MODEL="all-MiniLM-L6-v2") as house:
        house.module = "tests.bench.hops"
        house.settings["HOPS"] = str(house.home / "hops.json")
        house.start()
        wait_until(lambda: house.call("admin.health").degraded == [], "the model is loaded", 600)

        def remember(content: str) -> Any:
            return lambda: house.call("agent.remember", content=content, space="harbour")

        def whisper(session: str) -> Any:
            prompt = "which bundler does the web shop of the harbour use, and why did we choose it?"
            said = {
                "session_id": session,
                "cwd": str(house.home),
                "prompt": prompt,
                "hook_event_name": "UserPromptSubmit",
            }
            body = b"claude-code\0UserPromptSubmit\0%s\0harbour\0%s" % (
                os.fsencode(house.home),
                json.dumps(said).encode(),
            )
            return lambda: house.connect().hook(body, 30.0)

        def merge() -> None:
            done = house.call("admin.run_task", name="duplicate_merger", force=True)
            assert done.applied, "nothing was merged"

        for words in ("ships its parcels by boat on Fridays", *TWINS):
            remember(f"The web shop of the harbour {words}")()
        merge()
        acts = {
            "remember": remember("The keeper of the lighthouse prefers tea to coffee"),
            "recall": lambda: house.call("agent.recall", query="which bundler does the shop use?", space="harbour"),
            "whisper": whisper("two"),
            "merge": merge,
        }
        remember("The pilots' boat is painted in orange every spring")()
        acts["recall"]()
        assert whisper("one")(), "nothing was whispered"
        for words in TWINS:
            remember(f"The customs office of the harbour {words}")()
        for name, act in acts.items():
            seen = hops(house, act)
            files = {file for file, _ in seen}
            limit = " and ".join(
                f"{most} {what}" for most, what in zip(LIMITS[name], ("files", "functions"), strict=True) if most
            )
            print(f"{name:9} {len(files):3} files, {len(seen):3} functions (limit {limit})", flush=True)
            for file in sorted(files) if chosen.list == name else ():
                print(f"    {file}: {', '.join(sorted(one for other, one in seen if other == file))}")


def _count() -> None:
    """Run the daemon. It counts from SIGUSR1 to SIGUSR2, and then writes what it has seen into the file `HOPS`."""
    file, seen, counting = Path(os.environ["HOPS"]), set[tuple[str, str]](), threading.Event()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        ours = event == "call" and counting.is_set() and code.co_filename.startswith(ROOT) and code.co_name[0] != "<"
        if ours and threading.current_thread().name.startswith(ANSWERING):
            seen.add((code.co_filename.removeprefix(ROOT), code.co_qualname))

    signal.signal(signal.SIGUSR1, lambda *_: (counting.set(), file.touch()))
    signal.signal(
        signal.SIGUSR2, lambda *_: (counting.clear(), file.write_text(json.dumps(sorted(seen))), seen.clear())
    )
    threading.setprofile(note)
    runpy.run_module("ormahd", run_name="__main__")


if __name__ == "__main__":
    _count()
