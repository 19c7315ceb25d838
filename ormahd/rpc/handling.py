"""What the families of methods share: the wire's values into the domain's requests, and the actions' results back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError

from ormahd import api
from ormahd.actions.caller import Caller
from ormahd.errors import BadRequest
from ormahd.faults import fault
from ormahd.rpc.codec import resolved

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R", bound=api.Result)
ProgressFn = Callable[[api.Progress], None]
Handler = Callable[[Any, Caller, ProgressFn], api.Result]
"""Answers one method: its Struct of parameters, who asks, and where words of progress go."""


def result(value: Any, kind: type[R]) -> R:
    """An action's struct (or mapping) as the Struct of the wire; fields are matched by name."""
    return msgspec.convert(value, resolved(kind), from_attributes=True, strict=False)


def checked(model: type[M], values: Mapping[str, Any]) -> M:
    """A domain request from the wire's values.

    Raises:
        BadRequest: naming the field, what it was and what is allowed.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as exc:
        found = fault(exc, model.model_fields)
        raise BadRequest(str(found), hint=found.hint, data={"field": found.key}) from None


def steps(progress: ProgressFn) -> Callable[[int, int, str], None]:
    """`progress` as the actions call it: (done, total, stage)."""
    return lambda done, total, stage: progress(api.Progress(done=done, total=total, stage=stage))
