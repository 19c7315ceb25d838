"""Convert the parameters of calls to domain models, which validate the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict
from pydantic import BaseModel, ValidationError

from ormahd.actions.caller import Caller, check_space
from ormahd.actions.update import CLEARABLE, Update
from ormahd.api import Link, RememberParams, UpdateParams
from ormahd.errors import BadRequest
from ormahd.faults import fault
from ormahd.model.node import CreateNodeRequest, LinkRequest, MemoryNode

M = TypeVar("M", bound=BaseModel)
SET = ("content", "title", "type", "tier", "space", "tags", "confidence", "valid_until")
"""Fields that `agent.update` can set."""


def checked(model: type[M], given: Struct | Mapping[str, Any], **more: Any) -> M:
    """Validate the fields of `given`, overridden by `more`, as a `model`. Fields of a Struct that `model` lacks are ignored.

    Raises:
        BadRequest: a value is invalid; the message names the field, its value and what is allowed.
    """
    if isinstance(given, Struct):
        given = {
            name: value for name, value in asdict(given).items() if name in model.model_fields and value is not UNSET
        }
    try:
        return model.model_validate({**given, **more})
    except ValidationError as exc:
        found = fault(exc, model.model_fields)
        raise BadRequest(str(found), hint=found.hint, data={"field": found.key}) from None


def space_named(named: str | UnsetType | None, detect: Callable[[], str | None]) -> str | None:
    """Return the space that the caller named (None: global). If the caller named none, return what `detect` returns."""
    return detect() if isinstance(named, UnsetType) else check_space(named)


def new_memory(params: RememberParams, space: str | None, caller: Caller) -> CreateNodeRequest:
    """Return the request to store a memory in `space`. Raises BadRequest for invalid values."""
    links = [*(asdict(link) for link in params.connections), *({"target": target} for target in params.links)]
    # A space of null means "global on purpose"; a caller that works in no project leaves the space out
    everywhere = {"global": space is None and not isinstance(params.space, UnsetType)}
    source = params.source or caller.source
    return checked(CreateNodeRequest, params, source=source, space=space, connections=links, **everywhere)


def changes(params: UpdateParams) -> Update:
    """Return the update of a memory that the parameters describe. Raises BadRequest for values that a memory cannot have."""
    wished = {name: value for name in SET if (value := getattr(params, name)) is not UNSET}
    clear = [name for name, value in wished.items() if value is None and name in CLEARABLE]
    values = {name: value for name, value in wished.items() if name not in clear}
    if "space" in values:
        space = check_space(values.pop("space"))
        if space is None:
            clear.append("space")
        else:
            values["space"] = space
    # MemoryNode needs all fields: those that the caller did not name get placeholders, which the result omits
    stand_in = {"id": "-", "content": "-", "created": datetime.now(UTC), "updated": datetime.now(UTC)}
    node = checked(MemoryNode, stand_in | values)
    tags = checked(CreateNodeRequest, {"content": "-", "tags": [*params.add_tags, *params.remove_tags]}).tags
    return Update(
        {name: getattr(node, name) for name in values},
        clear,
        tuple(tags[: len(params.add_tags)]),
        tuple(tags[len(params.add_tags) :]),
        tuple(link(one) for one in params.add_connections),
        params.expect,
    )


def link(given: Link) -> LinkRequest:
    return checked(LinkRequest, given)
