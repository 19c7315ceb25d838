"""The agents by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ormahctl.setup.claude_code import ClaudeCode
from ormahctl.setup.codex import Codex
from ormahctl.setup.gemini import Gemini
from ormahctl.setup.harness import Harness

AGENTS: Final[Mapping[str, Harness]] = {one.name: one for one in (ClaudeCode(), Codex(), Gemini())}
