"""The HTTP routes, one line each: a method and a path, and the daemon's method that answers it.

Paths, parameters and replies are those of the original Ormah. `routes.py` makes endpoints of these lines, `openapi.py` the
description.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, NoneType
from typing import Final, get_args

import msgspec
import msgspec.inspect

from ormahd.api import METHODS, Params, Result

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
SPACE: Final = MappingProxyType({"default_space": "space"})
FILTERS: Final = MappingProxyType({"space": "spaces", "type": "types", "tier": "tiers"})
SEARCH: Final = MappingProxyType({"q": "query", **FILTERS, "tag": "tags"})


class Route(msgspec.Struct, frozen=True):
    """One HTTP route, and the daemon's method that it calls. Names in `{}` in the path are parameters of that method.

    `query`: {name in the URL's query: parameter}, where they differ. `default`: {name in the query: parameter} for
    parameters that the body may leave out. `slow`: the call may take minutes, so it has no time limit.
    """

    verb: str
    path: str
    method: str
    summary: str
    query: Mapping[str, str] = _NONE
    default: Mapping[str, str] = _NONE
    slow: bool = False
    renamed: Mapping[str, str] = _NONE
    """`{name in the path: parameter}` where they differ."""

    @property
    def params(self) -> type[Params]:
        """The type of the method's parameters."""
        return METHODS[self.method][0]

    @property
    def result(self) -> type[Result]:
        """The type of the method's result."""
        return METHODS[self.method][1]

    @property
    def lists(self) -> set[str]:
        """The method's parameters that are lists. Their names may occur several times in the query."""
        found = set()
        for field in msgspec.structs.fields(self.params):
            info = msgspec.inspect.type_info(field.type)
            if any(isinstance(shape, msgspec.inspect.ListType) for shape in getattr(info, "types", (info,))):
                found.add(field.encode_name)
        return found

    @property
    def never_null(self) -> set[str]:
        """The method's parameters that may be left out, and cannot be null."""
        fields = msgspec.structs.fields(self.params)
        return {field.encode_name for field in fields if not field.required and NoneType not in get_args(field.type)}

    @property
    def in_path(self) -> list[str]:
        """The names in `{}` in the path."""
        return [part.split("}")[0] for part in self.path.split("{")[1:]]


_TASK: Final = MappingProxyType({"task_id": "name"})

ROUTES: Final = (
    Route("POST", "/agent/remember", "agent.remember", "Store a memory.", default=SPACE),
    Route("POST", "/agent/recall", "agent.recall", "Search the memories.", default=SPACE),
    Route("GET", "/agent/recall/{node_id}", "agent.get", "Return one memory in full."),
    Route("POST", "/agent/update/{node_id}", "agent.update", "Change a memory."),
    Route("DELETE", "/agent/recall/{node_id}", "agent.forget", "Forget a memory. It can be undone."),
    Route("POST", "/agent/connect", "agent.connect", "Connect two memories."),
    Route("POST", "/agent/whisper", "agent.whisper", "Return the few memories that matter for a prompt."),
    Route("POST", "/agent/feedback", "agent.feedback", "Judge whether a whispered memory was useful."),
    Route("POST", "/agent/outdated/{node_id}", "agent.outdated", "Mark a memory as outdated."),
    Route("GET", "/agent/merges", "agent.merges", "List merges of memories."),
    Route("POST", "/agent/merges/{merge_id}/undo", "agent.undo_merge", "Undo a merge."),
    Route("GET", "/agent/audit", "agent.audit", "List destructive changes."),
    Route("GET", "/agent/insights", "agent.insights", "List beliefs that changed, and contradictions."),
    Route("GET", "/agent/proposals", "agent.proposals", "List changes that wait for a decision."),
    Route("POST", "/agent/proposals/{proposal_id}", "agent.resolve_proposal", "Approve or reject a proposed change."),
    Route("POST", "/agent/maintenance", "agent.maintenance", "Ask for questions to judge, or answer them.", slow=True),
    Route("GET", "/admin/health", "admin.health", "Return the state of the daemon."),
    Route("GET", "/admin/stats", "admin.stats", "Count memories, connections and whispers."),
    Route("POST", "/admin/rebuild", "admin.rebuild", "Rebuild the index from the vault.", slow=True),
    Route("GET", "/admin/tasks", "admin.tasks", "List the jobs."),
    Route("POST", "/admin/tasks/run-all", "admin.run_all", "Run all jobs in their order.", slow=True),
    Route("POST", "/admin/tasks/pause-all", "admin.pause_all", "Pause all jobs."),
    Route("POST", "/admin/tasks/resume-all", "admin.resume_all", "Resume all jobs."),
    Route("POST", "/admin/tasks/{task_id}/run", "admin.run_task", "Run one job.", renamed=_TASK, slow=True),
    Route("POST", "/admin/tasks/{task_id}/pause", "admin.pause", "Pause one job.", renamed=_TASK),
    Route("POST", "/admin/tasks/{task_id}/resume", "admin.resume", "Resume one job.", renamed=_TASK),
    Route("GET", "/ui/graph", "ui.graph", "Return memories with positions, connected.", query=FILTERS, slow=True),
    Route("GET", "/ui/graph/node/{node_id}", "ui.node", "Return one memory with its neighbours."),
    Route("GET", "/ui/search", "ui.search", "Search, without counting as a use.", query=SEARCH),
    Route("GET", "/ui/insights", "ui.insights", "List beliefs that changed, and contradictions."),
)
