"""A file system of its own in memory, for tests of disks that are small, full or others; where this user may mount one."""

from __future__ import annotations

import subprocess
from pathlib import Path


def mount(at: Path, *options: str) -> str:
    """Mount one on the folder `at`, with options of tmpfs (`size=32m`). Return what is against it; empty: it is mounted."""
    more = ["-o", ",".join(options)] if options else []
    done = subprocess.run(["mount", "-t", "tmpfs", *more, "none", at], capture_output=True, text=True, check=False)
    return (done.stderr.strip() or f"status {done.returncode}") if done.returncode else ""


def unmount(at: Path) -> None:
    """Take it away again, also while something in it is open."""
    subprocess.run(["umount", "-l", at], check=True)
