"""Report how an agent is connected: found, hooked up, whether its hook answers, and whether versions agree."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ormahctl.setup import connect, entry
from ormahctl.setup import harness as agents
from ormahctl.setup.harness import Harness
from ormahd import __version__
from ormahd.api import Finding
from ormahd.rpc.wire import OrmahError

PROMPTS = ("UserPromptSubmit", "BeforeAgent")
"""The event with which a harness hands us a prompt."""


@dataclass(frozen=True)
class Answer:
    """One real run of the hook with an empty prompt, to which the right answer is silence."""

    ok: bool
    ms: float
    trouble: str | None
    """What went wrong, for people."""


@dataclass(frozen=True)
class Standing:
    harness: Harness
    found: str | None
    state: Literal["yes", "no", "outdated", "unreadable"]
    file: Path
    events: list[str]
    """Events with a hook of ours."""
    answer: Answer | None
    trouble: str | None
    """Why it would not work, or what is wrong with the file."""
    mend: str | None


def connected() -> dict[str, list[Mapping[str, Any]]]:
    """The agents that have a hook of ours, each with its handlers; a settings file that cannot be read counts as none."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for harness in agents.AGENTS.values():
        try:
            _, document = connect.read(harness, harness.target())
        except OrmahError:
            continue  # `doctor` and `setup` name it
        handlers = [handler for some in connect.ours(document).values() for handler in some]
        if handlers:
            found[harness.name] = handlers
    return found


def standing(harness: Harness, *, socket: str | None) -> Standing:
    """Look at one agent. `socket`: what setup would write as `--socket` today."""
    path = harness.target()
    try:
        _, document = connect.read(harness, path)
    except OrmahError as exc:
        return Standing(harness, harness.found(), "unreadable", path, [], None, exc.message, exc.hint)
    there = connect.ours(document)
    if not there:
        return Standing(harness, harness.found(), "no", path, [], None, None, None)
    handler = next((there[event][0] for event in PROMPTS if event in there), None)
    given = entry.option(handler, "--deadline") or ""
    deadline = int(given) if given.isdecimal() else entry.DEADLINE_MS
    wanted = {event: [harness.handler(event, socket=socket, deadline=deadline)] for event in harness.events}
    right = set(there) == set(wanted) and all(
        len(there[event]) == 1 and wanted[event][0].items() <= there[event][0].items() for event in wanted
    )
    answer = _ask(handler, deadline) if handler is not None else None
    off = harness.off()
    trouble = f"hooks are switched off: {off}" if off else None
    mend = None if right else f"ormahctl setup {harness.name}"
    return Standing(harness, harness.found(), "yes" if right else "outdated", path, list(there), answer, trouble, mend)


def _ask(handler: Mapping[str, Any], deadline: int) -> Answer:
    """Run the command as a harness does: by a shell, with JSON on stdin; but here what it says on stderr is heard."""
    command = str(handler["command"]).removesuffix(entry.GUARD)
    text = json.dumps({"hook_event_name": "UserPromptSubmit", "prompt": "", "cwd": os.getcwd()}).encode()
    limit = deadline / 1000 + entry.SPARE_SECONDS
    began = time.monotonic()
    try:
        done = subprocess.run(["/bin/sh", "-c", command], input=text, capture_output=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return Answer(False, limit * 1000, f"did not end within {limit:.1f} s")
    ms = (time.monotonic() - began) * 1000
    said = done.stderr.decode("utf-8", "backslashreplace").strip()
    if said or done.returncode:
        return Answer(False, ms, said.splitlines()[-1] if said else f"ended with status {done.returncode}")
    if done.stdout:
        return Answer(False, ms, "said something to an empty prompt")
    if ms > deadline:
        return Answer(False, ms, f"took longer than its deadline of {deadline} ms")
    return Answer(True, ms, None)


_VERSION = re.compile(r"""^__version__\s*=\s*["']([^"']+)["']""", re.MULTILINE)


def findings(daemon: str | None) -> list[Finding]:
    """What is of another version than this package, or is not there any more. `daemon`: the version that runs, if one does."""
    found = []
    if daemon is not None and daemon != __version__:
        what = f"the daemon that runs is version {daemon}, and {__version__} is installed"
        found.append(Finding(level="warning", what=what, mend="ormahctl restart"))
    for agent, handlers in connected().items():
        troubles = dict.fromkeys(trouble for handler in handlers for trouble in _troubles(handler))
        for trouble in troubles:
            what = f"the hooks of {agent} {trouble}"
            found.append(Finding(level="warning", what=what, mend=f"ormahctl setup {agent}"))
    return found


def _troubles(handler: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the command of one hook, as the end of a sentence."""
    words = entry.words(handler)
    shim = next((word for word in words if word.endswith(entry.SHIM_END)), None)
    if shim is None:
        return
    if not os.access(words[0], os.X_OK):
        yield f"run {words[0]}, which is not there"
    if not Path(shim).is_file():
        yield f"run {shim}, which is not there"
        return
    version = _version(Path(shim))
    if version is not None and version != __version__:
        yield f"are of version {version}, and {__version__} is installed"


def _version(shim: Path) -> str | None:
    """The version of the package that a shim belongs to; None where it does not say."""
    try:
        text = (shim.parents[1] / "ormahd" / "__init__.py").read_text("utf-8")
    except (OSError, ValueError):
        return None
    found = _VERSION.search(text)
    return found[1] if found else None
