"""What every group of settings is made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0.0, le=100.0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0.0, le=86_400.0, allow_inf_nan=False)]


def _listed(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_listed)]
"""A list in `config.toml`; in the environment, names with commas between them."""


class Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
