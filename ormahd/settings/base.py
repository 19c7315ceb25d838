"""The base class and the common types of settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0.0, le=86_400.0, allow_inf_nan=False)]


def _listed(value: object) -> object:
    """Return a text as the list of its parts between commas. Return any other value unchanged."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_listed)]
"""A list in `config.toml`; in the environment, names separated by commas."""

PathOrText = TypeVar("PathOrText", Path, str)


def whole(path: PathOrText) -> PathOrText:
    """Return a path unchanged, or raise ValueError if it is relative: the daemon runs in another folder than the person
    who wrote it."""
    if not (str(path).startswith(("~", "/"))):
        raise ValueError(f"{path} is a relative path: write the whole one, from / or ~/ on")
    return path


WholePath = Annotated[Path, AfterValidator(whole)]
Folders = Annotated[list[Annotated[str, AfterValidator(whole)]], BeforeValidator(_listed)]
"""Like `Names`, of absolute paths."""


class Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
