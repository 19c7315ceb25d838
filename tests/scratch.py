"""Where tests put their files: in memory, where the system offers it. On a disk the suite spends a third of its time on flushes."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

IN_MEMORY = Path("/dev/shm")
ON_DISK = Path("/var/tmp")
"""For tests that need a disk."""
ROOM = 4 << 30
"""Bytes that have to be free: many times what the suite has there at once."""


def in_memory() -> None:
    """Let this process and its children make temporary files in memory; unless `TMPDIR` says where, or programs may not be run there."""
    if "TMPDIR" in os.environ or not os.access(IN_MEMORY, os.W_OK | os.X_OK):
        return
    if os.statvfs(IN_MEMORY).f_flag & os.ST_NOEXEC or shutil.disk_usage(IN_MEMORY).free < ROOM:
        return
    os.environ["TMPDIR"] = str(IN_MEMORY)
    tempfile.tempdir = None  # it is asked for anew
