"""A daemon of which a test sees the first answers: `python -m tests.crash.first_answers COMMAND…`, in a house's environment.

It ends with the answers as JSON lines on stdout, before it has begun to compare its index with the vault.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

from ormahd import daemon
from ormahd.__main__ import load, status_of
from tests.house import House


def told(_socket: Path) -> None:
    """Run each of the commands, given as JSON lists of arguments, and end."""
    for given in sys.argv[1:]:
        done = subprocess.run(
            [sys.executable, "-m", "ormahctl", *json.loads(given)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        print(json.dumps({"status": done.returncode, "out": done.stdout, "err": done.stderr}))
    daemon.end(0)


def first_answers(house: House, *commands: list[str]) -> list[dict[str, Any]]:
    """What the commands say, {status, out, err}, while a daemon begins and has compared nothing yet."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, *map(json.dumps, commands)], env=house.env, cwd=house.home, capture_output=True,
        text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> NoReturn:
    sys.exit(status_of(lambda: daemon.run(load(), foreground=True, on_listening=told)))


if __name__ == "__main__":
    main()
