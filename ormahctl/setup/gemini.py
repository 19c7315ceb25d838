"""Gemini CLI: hooks in `settings.json` (google-gemini/gemini-cli, docs/hooks/reference.md).

Timeouts are milliseconds. Comments are read (stripped before parsing); trailing commas are not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ormahctl.setup.harness import Harness, settings


class Gemini(Harness):
    name = "gemini"
    title = "Gemini CLI"
    program = "gemini"
    events = ("SessionStart", "BeforeAgent", "AfterAgent", "PreCompress", "SessionEnd")
    strict = False
    after = "sessions that you start from now on have it"

    def home(self) -> Path:
        """`GEMINI_CLI_HOME` stands for the home directory, not for the one of the settings."""
        return Path(os.environ.get("GEMINI_CLI_HOME") or Path.home()).absolute() / ".gemini"

    def handler(self, event: str, *, socket: str | None, deadline: int) -> dict[str, Any]:
        made = super().handler(event, socket=socket, deadline=deadline)
        return {"name": "ormah", **made, "timeout": made["timeout"] * 1000}

    def off(self) -> str | None:
        for table in ("hooksConfig", "hooks"):
            group = settings(self.target()).get(table)
            if not isinstance(group, Mapping):
                continue
            if group.get("enabled") is False:
                return f"{table}.enabled = false"
            disabled = group.get("disabled")
            if isinstance(disabled, list) and "ormah" in disabled:
                return f"ormah in {table}.disabled"
        return None
