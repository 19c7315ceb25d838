"""Codex: hooks in `hooks.json`, or in `config.toml` for those who keep theirs there (developers.openai.com/codex/hooks).

Timeouts are seconds. Both files count; with hooks in both Codex warns at each start, so ours join those that are there.
`hooks.json` is strict JSON. Hooks are on unless `features.hooks` says otherwise, and each waits until the person trusts it:
that trust Codex keeps itself (`hooks.state`), by the place and the hash of the hook, so an unchanged one is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ormahctl.setup import entry
from ormahctl.setup.edits import InvalidSettings, apply
from ormahctl.setup.harness import Harness, peek, place, settings


class Codex(Harness):
    name = "codex"
    title = "Codex"
    program = "codex"
    events = ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact")
    strict = True
    reads = "AGENTS.md"
    after = "Codex asks you to trust new hooks before it runs them: start it and type /hooks"

    def home(self) -> Path:
        return place("CODEX_HOME", ".codex")

    def files(self) -> tuple[Path, ...]:
        return (self.home() / "hooks.json", self.home() / "config.toml")

    def target(self) -> Path:
        """The file that has ours; else `config.toml` where it alone has hooks, in a form that can be added to."""
        apart, config = self.files()
        hooks = {path: _events(path) for path in (apart, config)}
        for path, events in hooks.items():
            if any(entry.ours(one) for groups in events.values() for one in _handlers(groups)):
                return path
        theirs = hooks[config] and not hooks[apart]
        return config if theirs and all(_takes_tables(config, event) for event in self.events) else apart

    def instructions(self, project: Path | None = None) -> Path:
        """`AGENTS.override.md` where it is there: then Codex does not read the other one."""
        usual = super().instructions(project)
        instead = usual.with_name("AGENTS.override.md")
        return instead if instead.is_file() else usual

    def off(self) -> str | None:
        features = settings(self.files()[1]).get("features")
        for key in ("hooks", "codex_hooks"):
            if isinstance(features, Mapping) and features.get(key) is False:
                return f"features.{key} = false in config.toml"
        return None


def _events(path: Path) -> dict[str, list[Any]]:
    """The events with hooks; `hooks.state`, where Codex keeps whom the person trusts, is none."""
    hooks = settings(path).get("hooks")
    found = hooks if isinstance(hooks, Mapping) else {}
    return {name: groups for name, groups in found.items() if isinstance(groups, list) and groups}


def _handlers(groups: list[Any]) -> list[Any]:
    return [
        one
        for group in groups
        if isinstance(group, Mapping) and isinstance(group.get("hooks"), list)
        for one in group["hooks"]
    ]


def _takes_tables(config: Path, event: str) -> bool:
    """Whether a table can be added for `event`: not where it is written as `[{...}]`, or `hooks` as `{...}`."""
    document = peek(config)
    if document is None:
        return False
    try:
        document.parse(apply(document.data, document.add(event, {})))
    except InvalidSettings:
        return False
    return True
