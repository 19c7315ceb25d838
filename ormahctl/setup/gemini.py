"""Gemini CLI: hooks in `settings.json` (google-gemini/gemini-cli, docs/hooks/reference.md).

Timeouts are milliseconds. Comments are read (stripped before parsing); trailing commas are not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ormahctl.setup.harness import Harness, settings
from ormahd import paths


class Gemini(Harness):
    name = "gemini"
    title = "Gemini CLI"
    program = "gemini"
    events = ("SessionStart", "BeforeAgent", "AfterAgent", "PreCompress", "SessionEnd")
    strict = False
    reads = "GEMINI.md"
    after = "sessions that you start from now on have it"

    def home(self) -> Path:
        """`GEMINI_CLI_HOME` stands for the home directory, not for the one of the settings."""
        return Path(os.environ.get("GEMINI_CLI_HOME") or paths.home()).absolute() / ".gemini"

    def instructions(self, project: Path | None = None) -> Path:
        """By the name that the person gave it (`context.fileName`, a name or several); else `GEMINI.md`."""
        said = settings(self.target())
        context = said.get("context")
        named = context.get("fileName") if isinstance(context, Mapping) else said.get("contextFileName")
        names = [named] if isinstance(named, str) else named if isinstance(named, list) else []
        plain = [name for name in names if isinstance(name, str) and name and "/" not in name]
        return (project or self.home()) / (self.reads if not plain or self.reads in plain else plain[0])

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
