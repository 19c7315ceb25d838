"""The environment of processes under test: nothing of the person who runs the tests is seen or touched."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_THEIRS = (
    "ORMAH_", "XDG_", "LC_", "LANG", "GIT_", "PYTHONIO", "PYTHONUTF8", "NO_COLOR", "FORCE_COLOR", "VISUAL", "EDITOR",
    "NOTIFY_", "LISTEN_", "JOURNAL_", "CLAUDE", "CODEX_", "GEMINI_", "OPENBLAS_", "ORT_", "PYDANTIC_",
)  # fmt: skip


def surroundings(home: Path) -> dict[str, str]:
    """Variables with which every directory of ours lies in `home` (an existing directory, its path short)."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_THEIRS)}
    names = ("CONFIG_HOME", "DATA_HOME", "CACHE_HOME", "STATE_HOME", "RUNTIME_DIR")
    places = {f"XDG_{name}": str(home / name.lower()) for name in names}
    (home / "runtime_dir").mkdir(mode=0o700, exist_ok=True)
    ours = {"HOME": str(home), "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8", "TERM": "dumb"}
    # A test that means a daemon starts one: else a command would, and leave it behind.
    return kept | places | ours | {"ORMAH_DAEMON_AUTOSTART": "false"}
