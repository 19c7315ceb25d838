"""Connect an agent that has hooks, remove the connection, and read how it is connected.

To connect is to read the settings file, plan edits, verify their result, write it, and record what was added.
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
from ormahctl.setup import file
from ormahctl.setup.change import ConfigChange, Record
from ormahctl.setup.edit import HandlerPlace, Json, Toml
from ormahctl.setup.file import FileRead, InvalidSettings, Splice, apply, reverse
from ormahctl.setup.harness import MATCHERS, Agent, Harness
from ormahd.rpc.wire import Conflict

Document = Json | Toml
Handlers = dict[str, list[Mapping[str, Any]]]
"""{event: the entries of Ormah's hooks for it (handlers)}."""
ServerState = Literal["added", "renewed", "there", "removed", "foreign"] | None
"""What a change does to the entry of our MCP server in a settings file.

`there`: nothing, it is up to date. `foreign`: nothing, another server has its name. None: the file is not the one for
servers, or has no entry and gets none.
"""


@dataclass(frozen=True)
class SettingsChange(ConfigChange):
    """A planned change of one settings file of a harness; `make` carries it out. `replaced`, `removed`: events whose
    hook is changed or removed."""

    harness: Harness
    added: list[str]
    """Events that get a hook."""
    replaced: list[str]
    removed: list[str]
    server: ServerState = None


@dataclass(frozen=True)
class WantedEntries:
    """The hooks and the MCP server of Ormah that a settings file is to have.

    `servers`: the key under which the file has MCP servers; None if they are in another file. `server`: the entry of
    our MCP server; None: there is to be none. `hooks`: `{event: handler}`.
    """

    servers: str | None
    server: Mapping[str, Any] | None = None
    hooks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    allows: Sequence[str] = ()
    """Tools of our MCP server that the agent may use without asking."""

    def has_any(self, document: Document) -> bool:
        """Whether `document` has a hook or MCP server of Ormah, which `uninstall` would have to remove."""
        return bool(our_hooks(document)) or our_server(document, self.servers) is not None


def read(agent: Agent, path: Path) -> tuple[FileRead, Document]:
    """Read and parse a settings file; a missing one counts as empty.

    Raises:
        InvalidSettings: it cannot be read, or does not have the expected structure for hooks.
    """
    seen = file.read(path)
    try:
        document = parse(path, seen.data or b"")
        hooks = document.value.get("hooks", {})
        if not isinstance(hooks, Mapping):
            raise InvalidSettings(f'"hooks" is no object, but {json.dumps(hooks, default=str)[:60]}')
    except InvalidSettings as exc:
        hint = exc.hint or f"nothing was changed; mend the file (is {agent.title} content with it?), then try again"
        raise InvalidSettings(f"{path}: {exc.message}", hint=hint) from None
    return seen, document


def parse(path: Path, data: bytes) -> Document:
    """Parse the settings file at `path`, as JSON or TOML by its suffix."""
    return Toml.parse(data) if path.suffix == ".toml" else Json.parse(data)


def plan(harness: Harness, *, socket: str | None, deadline: int, server: Sequence[str]) -> list[SettingsChange]:
    """Return the changes that connect `harness`: one for each of its files, first for the file of the hooks.

    `socket`: the value of `--socket` for the hooks; None: no such option. `deadline`: milliseconds after which a
    hook gives up. `server`: the words of the command of our MCP server.

    Raises:
        InvalidSettings: a file cannot be read or parsed.
        Conflict: a file cannot be edited.
    """
    target, servers = harness.target(), harness.server_file()
    events = harness.wanted()
    hooks = {event: harness.handler(event, socket=socket, deadline=deadline) for event in events}
    return [
        _connect_file(
            harness,
            path,
            WantedEntries(
                harness.servers if path == servers else None,
                harness.server(server),
                hooks if path == target else {},
                harness.allows if path == target else (),
            ),
        )
        for path in dict.fromkeys((target, servers))
    ]


def _connect_file(harness: Harness, path: Path, wanted: WantedEntries) -> SettingsChange:
    """Return the change of one settings file after which Ormah's entries in it are exactly `wanted`."""
    seen, document = read(harness, path)
    hooks, served = our_hooks(document), our_server(document, wanted.servers)
    was = Record.of(harness.name, seen.real)
    known = was if hooks or served is not None else None
    exact = known is not None and known.fits(seen.data)

    # plan from the file as it was before setup, if that is known: then its style holds
    start = parse(path, apply(document.data, reverse(known.edits))) if known and exact else document
    edits, result = _plan_edits(path, start, wanted)
    now = our_hooks(result)
    # older entries of ours are there, and the file before them is unknown: `uninstall` will only remove our entries
    back = exact or not (hooks or served is not None)
    place = {"agent": harness.name, "file": str(path), "real": str(seen.real)}
    existed = known.existed if known else seen.data is not None
    after, reversible = (entry.digest(result.data), tuple(edits)) if back else ("", ())
    remembered = Record(**place, existed=existed, after=after, edits=reversible)
    return SettingsChange(
        seen=seen,
        after=result.data if edits or seen.data is not None else None,
        record=remembered if wanted.has_any(result) else None,
        was=was,
        harness=harness,
        added=[event for event in wanted.hooks if event not in hooks],
        replaced=[event for event in wanted.hooks if event in hooks and hooks[event] != now[event]],
        removed=[event for event in hooks if event not in now],
        server=_server_state(served, result, wanted),
    )


def _server_state(before: Mapping[str, Any] | None, after: Document, wanted: WantedEntries) -> ServerState:
    """Return what a change does to the entry of our MCP server. `before`: that entry before the change; None: there
    was none. `after`: the document after the change."""
    if wanted.servers is None:
        return None
    now = our_server(after, wanted.servers)
    if now is None:
        return "foreign"
    return "added" if before is None else "there" if before == now else "renewed"


def disconnect(harness: Harness) -> list[SettingsChange]:
    """Return the changes that remove Ormah's hooks and MCP server from every file of `harness`. Files without an
    entry of Ormah are left out.

    Raises:
        InvalidSettings: a file that names Ormah cannot be parsed.
    """
    records = {record.real: record for record in Record.all(harness.name)}
    usual = {os.path.realpath(path): path for path in (harness.target(), harness.server_file())}
    places = usual | {real: Path(record.file) for real, record in records.items() if real not in usual}
    changes = [_disconnect_file(harness, path, records.get(real)) for real, path in places.items()]
    return [change for change in changes if change is not None]


def _disconnect_file(harness: Harness, path: Path, was: Record | None) -> SettingsChange | None:
    """Return the change that removes Ormah's entries from one file; None if it has none. `was`: the record of the
    file; if the file is still as setup wrote it, its old content is restored.

    Raises:
        InvalidSettings: the file names Ormah, and cannot be parsed.
    """
    try:
        seen, document = read(harness, path)
    except InvalidSettings:
        if entry.mentions_ormah(path):
            raise
        return None
    has_servers = os.path.realpath(path) == os.path.realpath(harness.server_file()) or path.suffix == ".toml"
    wanted = WantedEntries(harness.servers if has_servers else None)
    if not wanted.has_any(document):
        return None
    if was and was.fits(seen.data):
        result = parse(path, apply(document.data, reverse(was.edits)))
        _verify(document, result, wanted)
        after = result.data if was.existed else None
    else:
        _, result = _plan_edits(path, document, wanted)
        # the file was edited since: it is removed only if setup created it, and nothing else is in it
        is_empty = was is not None and not was.existed and result.data.strip() in {b"", b"{}"}
        after = None if is_empty else result.data
    state: ServerState = None if our_server(document, wanted.servers) is None else "removed"
    return SettingsChange(seen, after, None, was, harness, [], [], list(our_hooks(document)), state)


# ---------------------------------------------------------------- the plan


def our_hooks(document: Document) -> Handlers:
    """Return `{event: entries of Ormah's hooks for it}` for a settings file."""
    found: Handlers = {}
    for place, handler in _our_places(document):
        found.setdefault(place.event, []).append(handler)
    return found


def our_server(document: Document, servers: str | None) -> Mapping[str, Any] | None:
    """Return the entry of our MCP server under the key `servers`. None if there is no such entry, or if it starts
    another program."""
    found = server_entry(document, servers)
    return found if isinstance(found, Mapping) and entry.is_our_server(found) else None


def server_entry(document: Document, servers: str | None) -> Any:
    """Return the entry with the name of our MCP server under the key `servers`, whatever program it starts; None if
    there is none. `servers` may be None, for a file without servers."""
    table = document.value.get(servers) if servers is not None else None
    return table.get(entry.SERVER) if isinstance(table, Mapping) else None


def _our_places(document: Document) -> list[tuple[HandlerPlace, Mapping[str, Any]]]:
    """Return (place, handler) for each hook of Ormah in a settings file, in the file's order."""
    return [
        (HandlerPlace(event, group, number), handler)
        for event, groups in _events(document)
        for group, members in enumerate(groups)
        for number, handler in enumerate(_handlers(members))
        if entry.is_our_hook(handler)
    ]


ALLOW = ("permissions", "allow")
"""Where Claude Code's settings list what needs no question."""
OUR_TOOLS = f"mcp__{entry.SERVER}__"


def _allow_rules(value: Mapping[str, Any]) -> Any:
    """Return the value of `permissions.allow` in Claude Code's settings: a list of rules, unless the person wrote
    something else. Return [] if it is missing."""
    permissions = value.get(ALLOW[0])
    return permissions.get(ALLOW[1], []) if isinstance(permissions, Mapping) else []


def _our_allow_rules(document: Document) -> list[tuple[int, str]]:
    """Return (index in the list, rule) for each rule in `permissions.allow` that names a tool of our MCP server."""
    rules = _allow_rules(document.value) if isinstance(document, Json) else None
    found = enumerate(rules if isinstance(rules, list) else [])
    return [(number, rule) for number, rule in found if isinstance(rule, str) and rule.startswith(OUR_TOOLS)]


def _events(document: Document) -> Iterator[tuple[str, list[Any]]]:
    """Yield (event, its groups of handlers) for a JSON settings file. Members of `hooks` that are no lists, such as
    Gemini's `enabled`, are skipped."""
    hooks = document.value.get("hooks") if isinstance(document, Json) else None
    for event, groups in hooks.items() if isinstance(hooks, Mapping) else ():
        if isinstance(groups, list):
            yield event, groups


def _handlers(group: Any) -> list[Any]:
    """Return the list of handlers in a group of hooks; [] if `group` does not have the expected form."""
    found = group.get("hooks") if isinstance(group, Mapping) else None
    return found if isinstance(found, list) else []


def _plan_edits(path: Path, start: Document, wanted: WantedEntries) -> tuple[list[Splice], Document]:
    """Return (the edits after which Ormah's entries are exactly `wanted`, the document after these edits). `path`:
    the file, for errors.

    Raises:
        InvalidSettings: hooks or servers do not have the expected form.
        Conflict: the file cannot be edited without touching other entries.
    """
    edits: list[Splice] = []
    now = start
    if isinstance(now, Json):
        # remove hooks that are not wanted, and all but the first of each event; from the end, so that places hold
        places = [place for place, _ in _our_places(start)]
        for place in reversed(places):
            if place.event not in wanted.hooks or any(other.event == place.event and other < place for other in places):
                made = now.drop(place)
                edits, now = edits + made, now.after(made)

        # add or replace the wanted hooks
        for event, handler in wanted.hooks.items():
            groups = now.value.get("hooks", {}).get(event, [])
            if not isinstance(groups, list):
                raise InvalidSettings(
                    f'{path}: "hooks.{event}" is no list, but {json.dumps(groups, default=str)[:60]}',
                    hint="mend the file, then try again",
                )
            places = [place for place, _ in _our_places(now) if place.event == event]
            group = {**({"matcher": MATCHERS[event]} if event in MATCHERS else {}), "hooks": [handler]}
            made = now.change(places[0], handler) if places else now.append(("hooks", event), group)
            edits, now = edits + made, now.after(made)

        # the same for rules that allow tools
        for number, rule in reversed(_our_allow_rules(now)):
            made = [] if rule in wanted.allows else now.prune((*ALLOW, number))
            edits, now = edits + made, now.after(made)
        free = isinstance(now.value.get(ALLOW[0], {}), Mapping) and isinstance(_allow_rules(now.value), list)
        for rule in wanted.allows if free else ():
            made = [] if rule in _allow_rules(now.value) else now.append(ALLOW, rule)
            edits, now = edits + made, now.after(made)

    # the entry of the MCP server
    if wanted.servers is not None:
        made = _plan_server(path, now, wanted.servers, wanted.server)
        edits.extend(made)
        try:
            now = now.after(made)
        except InvalidSettings as exc:
            raise Conflict(
                f"{path}: {wanted.servers} is written in one line ({exc.message})",
                hint=f"write each server as a table of its own, [{wanted.servers}.NAME], then try again",
            ) from None
    _verify(start, now, wanted)
    return edits, now


def _plan_server(path: Path, now: Document, servers: str, wanted: Mapping[str, Any] | None) -> list[Splice]:
    """Return the edits after which the entry of our MCP server is `wanted`, or is removed if `wanted` is None. An
    entry of the same name that starts another program is left alone."""
    table = now.value.get(servers, {})
    if wanted is not None and not isinstance(table, Mapping):
        raise InvalidSettings(f'{path}: "{servers}" is no object, but {json.dumps(table, default=str)[:60]}')
    existing = our_server(now, servers)
    if existing is None:
        free = server_entry(now, servers) is None
        return now.put(servers, entry.SERVER, wanted) if wanted is not None and free else []
    if wanted is None:
        return now.take(servers, entry.SERVER)
    return now.renew(servers, entry.SERVER, wanted) if not wanted.items() <= existing.items() else []


def _verify(before: Document, after: Document, wanted: WantedEntries) -> None:
    """Check that `after` has exactly Ormah's entries in `wanted`, and apart from them the same content as `before`.

    Raises:
        Conflict: the check failed.
    """
    served = our_server(after, wanted.servers)
    right = our_hooks(after) == {event: [handler] for event, handler in wanted.hooks.items()}
    if served is not None and (wanted.server is None or not wanted.server.items() <= served.items()):
        right = False
    if not right or _content_of_others(before, wanted.servers) != _content_of_others(after, wanted.servers):
        raise Conflict(
            "the file is written in a way that we cannot edit without touching what others wrote; nothing was changed",
            hint="ormahctl setup AGENT --dry-run on an empty file shows what to add by hand",
        )


def _content_of_others(document: Document, servers: str | None) -> str:
    """Return the content of `document` without Ormah's entries, as JSON text, to be compared. Objects and lists that
    are empty without these entries are left out."""
    # a copy of what is changed below
    value = {
        key: copy.deepcopy(member) if key in {"hooks", servers, ALLOW[0]} else member
        for key, member in document.value.items()
    }

    # rules that allow tools of ours
    for number, _ in reversed(_our_allow_rules(document)):
        del value[ALLOW[0]][ALLOW[1]][number]
    if _allow_rules(value) == [] and isinstance(value.get(ALLOW[0]), dict):
        value[ALLOW[0]].pop(ALLOW[1], None)
        value = {key: member for key, member in value.items() if key != ALLOW[0] or member}

    # our MCP server
    if our_server(document, servers) is not None:
        del value[str(servers)][entry.SERVER]
    if value.get(str(servers)) == {}:
        del value[str(servers)]

    # our hooks, and groups that have no other
    for event, groups in list(_events(document)):
        others = [
            {**group, "hooks": [handler for handler in _handlers(group) if not entry.is_our_hook(handler)]}
            if _handlers(group)
            else group
            for group in groups
        ]
        value["hooks"][event] = [group for group in others if not isinstance(group, dict) or group.get("hooks") != []]
        if not value["hooks"][event]:
            del value["hooks"][event]
    if value.get("hooks") == {}:
        del value["hooks"]
    return json.dumps(value, default=repr)
