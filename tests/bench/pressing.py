"""Readers and writers who press on a daemon until their standard input ends. In a process of their own, as agents are: who measures
beside them is not to wait for their interpreter.

    python -m tests.bench.pressing SOCKET READERS WRITERS
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ormahd.rpc.wire import connect
from tests.bench import corpus
from tests.house import House

READY = "ready"
TIMEOUT_S = 120.0


def ask(socket: Path, method: str, calls: Iterator[dict[str, Any]], enough: threading.Event) -> int:
    """One client, call after call; how many there were."""
    done = 0
    with connect(socket) as connection:
        while not enough.is_set():
            connection.call(method, next(calls), timeout=TIMEOUT_S)
            done += 1
    return done


def words(queries: list[str], reader: int) -> Iterator[dict[str, Any]]:
    """The same questions for all, each reader beginning at another one."""
    return ({"query": query} for query in itertools.islice(itertools.cycle(queries), reader * 997, None))


def sayings(writer: int) -> Iterator[dict[str, Any]]:
    return (
        {"content": f"Writer {writer} says in turn {turn} that all is well.", "space": f"writer-{writer}"}
        for turn in itertools.count()
    )


def main(arguments: list[str]) -> None:
    socket, readers, writers = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    queries = corpus.queries(20_000, seed=77)
    enough = threading.Event()
    with ThreadPoolExecutor(readers + writers) as pool:
        asked = [pool.submit(ask, socket, "agent.recall", words(queries, one), enough) for one in range(readers)]
        stored = [pool.submit(ask, socket, "agent.remember", sayings(one), enough) for one in range(writers)]
        print(READY, flush=True)
        sys.stdin.read()
        enough.set()
        print(
            f"meanwhile: {sum(one.result() for one in asked)} recalls, {sum(one.result() for one in stored)} memories"
        )


@contextmanager
def pressed(house: House, readers: int, writers: int) -> Iterator[None]:
    """While the block runs that many clients are at work. Their failure is ours."""
    command = [sys.executable, "-m", "tests.bench.pressing", str(house.socket), str(readers), str(writers)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            assert child.stdout.readline().strip() == READY
            yield
        finally:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()
            print(child.stdout.read(), end="")
        assert child.wait() == 0


if __name__ == "__main__":
    main(sys.argv[1:])
