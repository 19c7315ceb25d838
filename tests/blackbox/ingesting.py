"""A daemon that is killed while it takes in files of sessions, again and again."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from pathlib import Path

from ormahd.rpc import wire
from tests.house import House


def killed_while_ingesting(house: House, files: Sequence[Path], kills: int, chance: random.Random, most: float) -> None:
    """Start the daemon, have it take in the files, and kill it at most so many seconds later, so many times; then start it."""

    def ingest() -> None:
        try:
            with house.connect() as connection:
                for file in files:
                    connection.call("ingest.sessions", {"path": str(file)}, timeout=300.0)
        except (wire.OrmahError, OSError):
            return

    for _ in range(kills):
        house.start()
        one = threading.Thread(target=ingest)
        one.start()
        one.join(chance.uniform(0.01, most))
        house.kill()
        one.join()
    house.start()
