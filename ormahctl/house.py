"""Asking the daemon's program directly, as a child, for what works while no daemon runs: doctor, config."""

from __future__ import annotations

import subprocess
import sys


def ask(*arguments: str) -> int:
    """Run `ormahd ARGUMENTS` on our own stdin, stdout and stderr and return its exit status."""
    sys.stdout.flush()
    sys.stderr.flush()
    return subprocess.run([sys.executable, "-m", "ormahd", *arguments], check=False).returncode
