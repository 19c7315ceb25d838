"""Connect an agent, remove the connection, and report how an agent is connected.

To connect is to read the settings file, plan edits, verify their result, write it, and record what was added. The
report says whether the agent is installed, whether its hooks answer, and whether versions agree.
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ormahctl.setup import change as entry
from ormahctl.setup import change as record
from ormahctl.setup import file
from ormahctl.setup import harness as agents
from ormahctl.setup.change import FileChange, Record
from ormahctl.setup.file import Document, FileRead, HandlerPlace, InvalidSettings, Splice, apply, reverse
from ormahctl.setup.harness import Harness, parse, peek
from ormahd import __version__
from ormahd.api import Finding
from ormahd.rpc.wire import Conflict, OrmahError

Handlers = dict[str, list[Mapping[str, Any]]]
"""{event: Ormah's handlers for it}."""


@dataclass(frozen=True)
class SettingsChange(FileChange):
    """A planned change of one settings file of a harness."""

    harness: Harness
    added: list[str]
    """Events that get a hook."""
    replaced: list[str]
    removed: list[str]
    comment: int | None = None
    """The line of a comment that prevents the harness from reading the file, or None."""


def read(harness: Harness, path: Path) -> tuple[FileRead, Document]:
    """Read and parse a settings file; a missing one counts as empty.

    Raises:
        InvalidSettings: it cannot be read, or does not have the expected structure for hooks.
    """
    seen = file.read(path)
    try:
        document = parse(path, seen.data or b"")
        _check(document)
    except InvalidSettings as exc:
        hint = exc.hint or f"nothing was changed; mend the file (is {harness.title} content with it?), then try again"
        raise InvalidSettings(f"{path}: {exc.message}", hint=hint) from None
    return seen, document


def connect(harness: Harness, *, socket: str | None, deadline: int) -> SettingsChange:
    """Plan the hooks for every event of `harness`, in the file where the person keeps theirs.

    Raises:
        InvalidSettings: that file cannot be read.
        Conflict: two of its files have hooks of Ormah.
    """
    target = harness.target()
    for other in harness.files():
        document = peek(other) if other != target else None
        if document is not None and ours(document):
            hint = f"ormahctl uninstall {harness.name}, then set it up again"
            raise Conflict(f"{target} and {other} both have our hooks", hint=hint)
    seen, document = read(harness, target)
    wanted = {event: harness.handler(event, socket=socket, deadline=deadline) for event in harness.events}
    there = ours(document)
    was = Record.of(harness.name, seen.real)
    known = was if there else None
    exact = known is not None and known.fits(seen.data)
    start = parse(target, apply(document.data, reverse(known.edits))) if known and exact else document
    kept = known.keep if known else _containers(document)
    edits, result = _plan(start, wanted, kept)
    added, replaced, removed = _told(there, ours(result), harness.events)
    existed = known.existed if known else seen.data is not None
    # in place of older ones of ours there is no way back to the byte: `uninstall` takes our hooks out of what is there
    back = exact or not there
    remembered = Record(
        agent=harness.name, file=str(target), real=str(seen.real), existed=existed, keep=kept,
        after=record.digest(result.data) if back else "", edits=tuple(edits) if back else (),
    )  # fmt: skip
    after = result.data if edits or seen.data is not None else seen.data
    comment = result.comment if harness.strict else None
    return SettingsChange(seen, after, remembered, was, harness, added, replaced, removed, comment)


def disconnect(harness: Harness) -> list[SettingsChange]:
    """Plan the removal of Ormah's hooks from every file of `harness`.

    Raises:
        InvalidSettings: a file that names the shim cannot be parsed.
    """
    records = {one.real: one for one in Record.all(harness.name)}
    seen = {str(file.FileRead(path, None).real): path for path in harness.files()}
    changes = []
    for real, path in ({real: Path(one.file) for real, one in records.items()} | seen).items():
        change = _without(harness, path, records.get(real))
        if change is not None:
            changes.append(change)
    return changes


def _without(harness: Harness, path: Path, was: Record | None) -> SettingsChange | None:
    try:
        seen, document = read(harness, path)
    except InvalidSettings:
        if entry.named(path):
            raise
        return None
    there = ours(document)
    if not there:
        return None
    keep = was.keep if was else frozenset()
    after: bytes | None
    if was and was.fits(seen.data):
        result = parse(path, apply(document.data, reverse(was.edits)))
        _verify(document, result, {})
        after = result.data if was.existed else None
    else:
        _, result = _plan(document, {}, keep)
        nothing = was is not None and not was.existed and result.data.strip() in {b"", b"{}"}
        after = None if nothing else result.data
    return SettingsChange(seen, after, None, was, harness, [], [], list(there))


# ---------------------------------------------------------------- the plan


def ours(document: Document) -> Handlers:
    """Return Ormah's handlers by event."""
    found: Handlers = {}
    for place, handler in _places(document):
        found.setdefault(place.event, []).append(handler)
    return found


def _places(document: Document) -> list[tuple[HandlerPlace, Mapping[str, Any]]]:
    return [
        (HandlerPlace(event, group, number), handler)
        for event, groups in _events(document.value)
        for group, one in enumerate(groups)
        for number, handler in enumerate(_handlers(one))
        if entry.ours(handler)
    ]


def _events(value: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the events with their hooks. Other members of `hooks` are skipped (Gemini's `enabled`, Codex's `state`)."""
    hooks = value.get("hooks")
    for event, groups in hooks.items() if isinstance(hooks, Mapping) else ():
        if isinstance(groups, list):
            yield event, groups


def _handlers(group: Any) -> list[Any]:
    found = group.get("hooks") if isinstance(group, Mapping) else None
    return found if isinstance(found, list) else []


def _check(document: Document) -> None:
    hooks = document.value.get("hooks", {})
    if not isinstance(hooks, Mapping):
        raise InvalidSettings(f'"hooks" is no object, but {json.dumps(hooks, default=str)[:60]}')


def _plan(
    start: Document, wanted: Mapping[str, Mapping[str, Any]], keep: frozenset[str]
) -> tuple[list[Splice], Document]:
    """Return the edits after which Ormah's hooks are exactly `wanted`, and the resulting document."""
    edits: list[Splice] = []
    now = start

    def step(made: list[Splice]) -> None:
        nonlocal now
        edits.extend(made)
        now = now.parse(apply(now.data, made))

    first: dict[str, HandlerPlace] = {}
    for place, _ in _places(start):
        first.setdefault(place.event, place)
    for place, _ in reversed(_places(start)):
        if place.event not in wanted or place != first[place.event]:
            step(now.drop(place, keep))
    for event, handler in wanted.items():
        hooks = now.value.get("hooks", {})
        if not isinstance(hooks.get(event, []), list):
            raise InvalidSettings(f'"hooks.{event}" is no list, but {json.dumps(hooks[event], default=str)[:60]}')
        there = [(place, found) for place, found in _places(now) if place.event == event]
        if not there:
            step(now.add(event, handler))
            continue
        place, found = there[0]
        gone = [key for key in entry.OBSOLETE if key in found and key not in handler]
        if gone or any(found.get(key) != value for key, value in handler.items()):
            step(now.change(place, handler, gone))
    _verify(start, now, wanted)
    return edits, now


def _verify(before: Document, after: Document, wanted: Mapping[str, Mapping[str, Any]]) -> None:
    """Check that the edits changed nothing but Ormah's hooks.

    Raises:
        Conflict: they changed something else.
    """
    found = ours(after)
    right = set(found) == set(wanted) and all(
        len(handlers) == 1 and wanted[event].items() <= handlers[0].items() for event, handlers in found.items()
    )
    if not right or _theirs(before) != _theirs(after):
        raise Conflict(
            "the file is written in a way that we cannot edit without touching what others wrote; nothing was changed",
            hint="ormahctl setup AGENT --dry-run on an empty file shows what to add by hand",
        )


def _theirs(document: Document) -> str:
    """Return everything except Ormah's hooks as JSON, in order; empty containers of hooks are left out."""
    value = copy.deepcopy(dict(document.value))
    hooks = value.get("hooks")
    if isinstance(hooks, dict):
        for event, groups in list(_events(value)):
            for group in groups:
                if _handlers(group):
                    group["hooks"] = [one for one in group["hooks"] if not entry.ours(one)]
            left = [group for group in groups if not isinstance(group, dict) or group.get("hooks") != []]
            hooks[event] = left
            if not left:
                del hooks[event]
        if not hooks:
            del value["hooks"]
    return json.dumps(value, default=repr)


def _containers(document: Document) -> frozenset[str]:
    """Return the existing containers of hooks; none if they contain Ormah's hooks, because then it is unknown who
    created them."""
    if ours(document) or "hooks" not in document.value:
        return frozenset()
    return frozenset({"hooks", *(f"hooks.{event}" for event, _ in _events(document.value))})


def _told(before: Handlers, after: Handlers, events: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the events that are added, changed and removed."""
    added = [event for event in events if event not in before]
    replaced = [event for event in events if event in before and before[event] != after[event]]
    return added, replaced, [event for event in before if event not in after]


PROMPTS = ("UserPromptSubmit", "BeforeAgent")
"""The names of the event for a prompt."""


@dataclass(frozen=True)
class HookAnswer:
    """The result of running the hook with an empty prompt. The correct answer is silence."""

    ok: bool
    ms: float
    trouble: str | None
    """What failed, in words for people, or None."""


@dataclass(frozen=True)
class Standing:
    harness: Harness
    found: str | None
    state: Literal["yes", "no", "outdated", "unreadable"]
    file: Path
    events: list[str]
    """Events that have a hook of Ormah."""
    answer: HookAnswer | None
    trouble: str | None
    """Why the hooks would not work, or what is wrong with the file; None if nothing is."""
    mend: str | None


def connected() -> dict[str, list[Mapping[str, Any]]]:
    """Return the connected agents with their handlers. An agent whose settings file cannot be read is left out."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for harness in agents.AGENTS.values():
        try:
            _, document = read(harness, harness.target())
        except OrmahError:
            continue  # `doctor` and `setup` name it
        handlers = [handler for some in ours(document).values() for handler in some]
        if handlers:
            found[harness.name] = handlers
    return found


def standing(harness: Harness, *, socket: str | None) -> Standing:
    """Return how one agent is connected. `socket`: the value that setup would write for `--socket` now."""
    path = harness.target()
    try:
        _, document = read(harness, path)
    except OrmahError as exc:
        return Standing(harness, harness.found(), "unreadable", path, [], None, exc.message, exc.hint)
    there = ours(document)
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


def _ask(handler: Mapping[str, Any], deadline: int) -> HookAnswer:
    """Run the command as a harness does: by a shell, with JSON on stdin. Unlike a harness, read its stderr."""
    command = str(handler["command"]).removesuffix(entry.GUARD)
    text = json.dumps({"hook_event_name": "UserPromptSubmit", "prompt": "", "cwd": os.getcwd()}).encode()
    limit = deadline / 1000 + entry.SPARE_SECONDS
    began = time.monotonic()
    try:
        done = subprocess.run(["/bin/sh", "-c", command], input=text, capture_output=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return HookAnswer(False, limit * 1000, f"did not end within {limit:.1f} s")
    ms = (time.monotonic() - began) * 1000
    said = done.stderr.decode("utf-8", "backslashreplace").strip()
    if said or done.returncode:
        return HookAnswer(False, ms, said.splitlines()[-1] if said else f"ended with status {done.returncode}")
    if done.stdout:
        return HookAnswer(False, ms, "said something to an empty prompt")
    if ms > deadline:
        return HookAnswer(False, ms, f"took longer than its deadline of {deadline} ms")
    return HookAnswer(True, ms, None)


_VERSION = re.compile(r"""^__version__\s*=\s*["']([^"']+)["']""", re.MULTILINE)


def findings(daemon: str | None) -> list[Finding]:
    """Return findings on hooks of another version, or whose program is missing. `daemon`: the version of the running
    daemon."""
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
    """Yield what is wrong with the command of one hook, as the end of a sentence."""
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
    """Return the version of the package to which a shim belongs, or None if unknown."""
    try:
        text = (shim.parents[1] / "ormahd" / "__init__.py").read_text("utf-8")
    except (OSError, ValueError):
        return None
    found = _VERSION.search(text)
    return found[1] if found else None
