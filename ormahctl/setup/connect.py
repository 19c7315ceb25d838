"""Connect an agent, remove the connection, and report how an agent is connected.

To connect is to read the settings file, plan edits, verify their result, write it, and record what was added. The
report says whether the agent is installed, whether its hooks answer, and whether versions agree.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ormahctl.setup import change as entry
from ormahctl.setup import change as record
from ormahctl.setup import file
from ormahctl.setup.change import FileChange, Record
from ormahctl.setup.file import Document, FileRead, HandlerPlace, InvalidSettings, Splice, apply, reverse
from ormahctl.setup.harness import Harness, parse, peek
from ormahd.rpc.wire import Conflict

Handlers = dict[str, list[Mapping[str, Any]]]
"""{event: the entries of Ormah's hooks for it (handlers)}."""


ServerState = Literal["added", "renewed", "there", "removed", "foreign"] | None
"""What a change does to the entry of our MCP server in a settings file.

`there`: nothing, it is up to date. `foreign`: nothing, another server has its name. None: the file is not the one for
servers, or has no entry and gets none.
"""


@dataclass(frozen=True)
class SettingsChange(FileChange):
    """A planned change of one settings file of a harness; `make` carries it out. `replaced`, `removed`: events whose
    hook is changed or removed."""

    harness: Harness
    added: list[str]
    """Events that get a hook."""
    replaced: list[str]
    removed: list[str]
    server: ServerState = None
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


def plans(harness: Harness, *, socket: str | None, deadline: int, server: Sequence[str] | None) -> list[SettingsChange]:
    """Plan the hooks and the MCP server of `harness`: one change for each of its files, first the file of the hooks.

    `server`: the words that start our MCP server; None: the harness should have none. Raises as `connect` does.
    """
    files = dict.fromkeys((harness.target(), harness.server_file()))
    return [connect(harness, socket=socket, deadline=deadline, path=path, server=server) for path in files]


def connect(
    harness: Harness,
    *,
    socket: str | None,
    deadline: int,
    path: Path | None = None,
    server: Sequence[str] | None = None,
) -> SettingsChange:
    """Plan the change of one file of `harness` that adds or renews the hooks for every event, the MCP server, or both.

    `path`: the file; None: `harness.target()`.

    Raises:
        InvalidSettings: the file cannot be read.
        Conflict: two files of `harness` have hooks of Ormah.
    """
    target = harness.target()
    path = target if path is None else path
    for other in harness.files():
        document = peek(other) if other != target else None
        if document is not None and ours(document):
            hint = f"ormahctl uninstall {harness.name}, then set it up again"
            raise Conflict(f"{target} and {other} both have our hooks", hint=hint)
    seen, document = read(harness, path)
    events = harness.wanted() if path == target else ()
    wanted = WantedEntries(
        {event: harness.handler(event, socket=socket, deadline=deadline) for event in events},
        harness.servers if path == harness.server_file() else None,
        None if server is None else harness.server(server),
        {event: tools for event in events if (tools := harness.matcher(event)) is not None},
    )
    there, served = ours(document), our_server(document, wanted.servers)
    was = Record.of(harness.name, seen.real)
    known = was if there or served is not None else None
    exact = known is not None and known.fits(seen.data)
    start = parse(path, apply(document.data, reverse(known.edits))) if known and exact else document
    kept = known.keep if known and not exact else _containers(start, wanted.servers)
    edits, result = _plan(start, wanted, kept)
    added, replaced, removed = _told(there, ours(result), events)
    existed = known.existed if known else seen.data is not None
    # older entries of ours are there, and the file before them is unknown: `uninstall` will only remove our entries
    back = exact or not (there or served is not None)
    remembered = Record(
        agent=harness.name, file=str(path), real=str(seen.real), existed=existed, keep=kept,
        after=record.digest(result.data) if back else "", edits=tuple(edits) if back else (),
    )  # fmt: skip
    after: bytes | None = result.data if edits or seen.data is not None else seen.data
    ours_there = wanted.anything(result)
    if not ours_there and not existed and result.data.strip() in {b"", b"{}"}:
        after = None
    comment = result.comment if harness.strict else None
    state = _served(served, document, result, wanted)
    kept_record = remembered if ours_there else None
    return SettingsChange(seen, after, kept_record, was, harness, added, replaced, removed, state, comment)


@dataclass(frozen=True)
class WantedEntries:
    """The hooks and the MCP server of Ormah that a settings file should have.

    `hooks`: {event: handler}. `servers`: the key in the file's root under which MCP servers are; None if they are in
    another file. `server`: the entry of our MCP server; None: the file should have none.
    """

    hooks: Mapping[str, Mapping[str, Any]]
    servers: str | None = None
    server: Mapping[str, Any] | None = None
    matchers: Mapping[str, str] = field(default_factory=dict)
    """{event: the tools to which its hook is limited}."""

    def anything(self, document: Document) -> bool:
        """Whether `document` has a hook or MCP server of Ormah, which `uninstall` would remove."""
        return bool(ours(document)) or our_server(document, self.servers) is not None


def _served(
    before: Mapping[str, Any] | None, document: Document, after: Document, wanted: WantedEntries
) -> ServerState:
    now = our_server(after, wanted.servers)
    if now is None:
        if before is not None:
            return "removed"
        foreign = wanted.server is not None and server_entry(document, wanted.servers) is not None
        return "foreign" if foreign else None
    return "added" if before is None else "there" if before == now else "renewed"


def disconnect(harness: Harness) -> list[SettingsChange]:
    """Plan the removal of Ormah's hooks and MCP server from every file of `harness`.

    Raises:
        InvalidSettings: a file that names the shim cannot be parsed.
    """
    records = {one.real: one for one in Record.all(harness.name)}
    seen = {str(file.FileRead(path, None).real): path for path in (*harness.files(), harness.server_file())}
    first = os.path.realpath(harness.target())
    places = {real: Path(one.file) for real, one in records.items()} | seen
    changes = []
    for real, path in sorted(places.items(), key=lambda one: one[0] != first):
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
    wanted = WantedEntries({}, harness.servers if _same(path, harness.server_file()) else None)
    served = our_server(document, wanted.servers)
    if not there and served is None:
        return None
    keep = was.keep if was else frozenset()
    after: bytes | None
    if was and was.fits(seen.data):
        result = parse(path, apply(document.data, reverse(was.edits)))
        _verify(document, result, wanted)
        after = result.data if was.existed else None
    else:
        _, result = _plan(document, wanted, keep)
        nothing = was is not None and not was.existed and result.data.strip() in {b"", b"{}"}
        after = None if nothing else result.data
    state: ServerState = None if served is None else "removed"
    return SettingsChange(seen, after, None, was, harness, [], [], list(there), state)


def _same(path: Path, other: Path) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


# ---------------------------------------------------------------- the plan


def ours(document: Document) -> Handlers:
    """Return {event: Ormah's handlers for it} for a settings file."""
    found: Handlers = {}
    for place, handler in _places(document):
        found.setdefault(place.event, []).append(handler)
    return found


def our_server(document: Document, servers: str | None) -> Mapping[str, Any] | None:
    """Return the entry of our MCP server in the root's object `servers`; None if there is no such object or entry, or
    if the entry of that name starts another program."""
    found = server_entry(document, servers)
    return found if isinstance(found, Mapping) and entry.our_server(found) else None


def server_entry(document: Document, servers: str | None) -> Any:
    """Return the entry that has the name of our MCP server in the root's object `servers`, whatever program it
    starts; None if there is none."""
    table = document.value.get(servers) if servers is not None else None
    return table.get(entry.SERVER) if isinstance(table, Mapping) else None


def _places(document: Document) -> list[tuple[HandlerPlace, Mapping[str, Any]]]:
    return [
        (HandlerPlace(event, group, number), handler)
        for event, groups in _events(document.value)
        for group, one in enumerate(groups)
        for number, handler in enumerate(_handlers(one))
        if entry.ours(handler)
    ]


def _events(value: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield (event, its groups of handlers) from the parsed settings `value`. Members of `hooks` that are no events
    are skipped (Gemini's `enabled`, Codex's `state`)."""
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


def _plan(start: Document, wanted: WantedEntries, keep: frozenset[str]) -> tuple[list[Splice], Document]:
    """Return the edits after which Ormah's entries are exactly `wanted`, and the resulting document. `keep`:
    containers that stay when they become empty (`Record.keep`)."""
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
        if place.event not in wanted.hooks or place != first[place.event]:
            step(now.drop(place, keep))
    for event, handler in wanted.hooks.items():
        hooks = now.value.get("hooks", {})
        if not isinstance(hooks.get(event, []), list):
            raise InvalidSettings(f'"hooks.{event}" is no list, but {json.dumps(hooks[event], default=str)[:60]}')
        there = [(place, found) for place, found in _places(now) if place.event == event]
        if not there:
            step(now.add(event, handler, wanted.matchers.get(event)))
            continue
        place, found = there[0]
        gone = [key for key in entry.OBSOLETE if key in found and key not in handler]
        if gone or any(found.get(key) != value for key, value in handler.items()):
            step(now.change(place, handler, gone))
    if wanted.servers is not None:
        step(_plan_server(now, wanted.servers, wanted.server, keep))
    _verify(start, now, wanted)
    return edits, now


def _plan_server(now: Document, servers: str, wanted: Mapping[str, Any] | None, keep: frozenset[str]) -> list[Splice]:
    """Return the edits after which our MCP server's entry in the object `servers` is `wanted`, or is gone if `wanted`
    is None.

    An entry of that name that starts another program is left alone. `keep`: containers that stay when they become
    empty.
    """
    table = now.value.get(servers, {})
    if wanted is not None and not isinstance(table, Mapping):
        raise InvalidSettings(f'"{servers}" is no object, but {json.dumps(table, default=str)[:60]}')
    there = our_server(now, servers)
    if there is None:
        free = server_entry(now, servers) is None
        return now.put(servers, entry.SERVER, wanted) if wanted is not None and free else []
    if wanted is None:
        return now.take(servers, entry.SERVER, keep=servers in keep)
    return now.renew(servers, entry.SERVER, wanted) if not wanted.items() <= there.items() else []


def _verify(before: Document, after: Document, wanted: WantedEntries) -> None:
    """Check that `after` has exactly the entries of Ormah in `wanted`, and otherwise the same content as `before`.

    Raises:
        Conflict: the check failed.
    """
    found, hooks = ours(after), wanted.hooks
    right = set(found) == set(hooks) and all(
        len(handlers) == 1 and hooks[event].items() <= handlers[0].items() for event, handlers in found.items()
    )
    served = our_server(after, wanted.servers)
    if served is not None and (wanted.server is None or not wanted.server.items() <= served.items()):
        right = False
    if not right or _theirs(before, wanted.servers) != _theirs(after, wanted.servers):
        raise Conflict(
            "the file is written in a way that we cannot edit without touching what others wrote; nothing was changed",
            hint="ormahctl setup AGENT --dry-run on an empty file shows what to add by hand",
        )


def _theirs(document: Document, servers: str | None) -> str:
    """Return the content of `document` without Ormah's entries, as JSON, in order. Containers of hooks or MCP servers
    that are then empty are left out."""
    ours_in = {"hooks", servers}
    value = {key: copy.deepcopy(one) if key in ours_in else one for key, one in document.value.items()}
    if our_server(document, servers) is not None:
        assert servers is not None
        del value[servers][entry.SERVER]
    if servers is not None and value.get(servers) == {}:
        del value[servers]
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


def _containers(document: Document, servers: str | None) -> frozenset[str]:
    """Return the containers of hooks and MCP servers in `document`: `hooks`, each `hooks.EVENT`, and `servers`. Those
    of hooks are left out if a hook is Ormah's, and `servers` if our MCP server is in it, because Ormah may have
    created them."""
    found = set()
    if "hooks" in document.value and not ours(document):
        found |= {"hooks", *(f"hooks.{event}" for event, _ in _events(document.value))}
    if servers is not None and servers in document.value and our_server(document, servers) is None:
        found.add(servers)
    return frozenset(found)


def _told(before: Handlers, after: Handlers, events: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Return (events whose hook is added, events whose hook is changed, events whose hook is removed)."""
    added = [event for event in events if event not in before]
    replaced = [event for event in events if event in before and before[event] != after[event]]
    return added, replaced, [event for event in before if event not in after]
