"""Claude Code: hooks in `settings.json` of the person (code.claude.com/docs/en/hooks, /settings).

All projects get them: a memory is the person's, and `.claude/settings.json` of a project is other people's too. Timeouts
are seconds; SessionEnd has 1.5 s unless a hook's own timeout says more. The settings are strict JSON.
"""

from __future__ import annotations

from pathlib import Path

from ormahctl.setup.harness import Harness, place, settings


class ClaudeCode(Harness):
    name = "claude-code"
    title = "Claude Code"
    program = "claude"
    events = ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd")
    strict = True
    reads = "CLAUDE.md"
    after = "sessions that you start from now on have it"

    def home(self) -> Path:
        return place("CLAUDE_CONFIG_DIR", ".claude")

    def off(self) -> str | None:
        return "disableAllHooks" if settings(self.target()).get("disableAllHooks") is True else None
