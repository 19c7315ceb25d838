"""How many files and functions of the daemon one `remember`, one `recall` and one job's merge run through.

    python -m tests.bench.hops

A real daemon with a profile hook on every thread. A function counts that runs in each of the turns, so that what a timer does beside
one of them does not. Functions of other libraries, comprehensions and lambdas are left out.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.house import House, open_house, wait_until
from tests.surroundings import ROOT

TURNS = 4
PRODUCT = str(ROOT / "ormahd") + os.sep
MERGED = (
    ("The staging database runs on the port 5433 of kestrel.", "Staging database runs on port 5433 of kestrel."),
    ("The build cache lives in the bucket ember-cache.", "Build cache lives in bucket ember-cache."),
    ("Releases are signed with the key of the release team.", "Releases are signed with key of release team."),
    ("The linter runs before the commit on all the changed files.", "Linter runs before commit on all changed files."),
)
"""Pairs of memories that say the same."""


def main(_: Sequence[str] = ()) -> None:
    with open_house(ORMAH_DAEMON_AUTOSTART="false") as house:
        house.module, house.plainly = "tests.bench.hops", True
        house.start()
        for number in range(50):
            house.call("agent.remember", content=f"Service {number} listens on port {8000 + number} of its host.")
        turns = range(TURNS)
        show(
            "remember",
            [seen(house, lambda n=n: house.call("agent.remember", content=f"Note {n}: a door is red.")) for n in turns],
        )
        show(
            "recall",
            [seen(house, lambda n=n: house.call("agent.recall", query=f"which port has service {n}")) for n in turns],
        )
        merges = []
        for one, other in MERGED:
            for text in (one, other):
                house.call("agent.remember", content=text)
            merges.append(seen(house, lambda: merge(house)))
        show("a job's merge", merges)


def merge(house: House) -> None:
    ran = house.call("admin.run_task", name="duplicate_merger")
    assert ran.commits, "nothing was merged"


def seen(house: House, act: Callable[[], Any]) -> set[str]:
    """`file:line:name` of each function of the daemon that ran while `act` did."""
    assert house.process is not None
    out = house.home / "hops"
    house.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: out.exists() and not out.read_text(), "the count begins")
    act()
    house.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: out.read_text().endswith("\n.\n"), "the count")
    found = set(out.read_text().splitlines()[:-1])
    out.unlink()
    return found


def show(name: str, turns: list[set[str]]) -> None:
    always = set.intersection(*turns)
    files = {line.partition(":")[0] for line in always}
    print(f"{name:14} {len(files):4} files {len(always):5} functions")
    if "ORMAH_HOPS_FILES" in os.environ:
        print("".join(f"    {file}\n" for file in sorted(files)), end="")


def profiled() -> None:
    """The daemon, with a hook that notes each function. SIGUSR1 begins a count, SIGUSR2 writes it to the file `hops`."""
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    out = Path.home() / "hops"

    def begin(*_: Any) -> None:
        codes.clear()
        out.write_text("")

    def end(*_: Any) -> None:
        found = {
            f"{code.co_filename.removeprefix(PRODUCT)}:{code.co_firstlineno}:{code.co_name}"
            for code in list(codes)
            if code.co_filename.startswith(PRODUCT) and not code.co_name.startswith("<")
        }
        out.write_text("\n".join([*sorted(found), ".\n"]))

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)
    threading.setprofile(note)
    sys.setprofile(note)
    from ormahd.__main__ import main as daemon

    daemon(sys.argv[1:])


if __name__ == "__main__":
    profiled() if sys.argv[1:2] == ["run"] else main()
