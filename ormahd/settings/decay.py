"""Fading: when a memory that nobody uses leaves working for the archive."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ormahd.settings.base import Group, Share

Days = Annotated[float, Field(ge=0.0, le=36_500.0, allow_inf_nan=False)]


class DecaySettings(Group):
    days: Annotated[float, Field(ge=0.01, le=36_500.0, allow_inf_nan=False)] = Field(
        default=14.0,
        description="Days that a memory stays in working unused, at least, from when it was made or came into the vault; each "
        "confirmed use makes them more. The seeds say 14 in words; their initial stability of 1.0 would have been 1.2 days.",
    )
    archive_below: Annotated[float, Field(ge=0.01, le=0.99, allow_inf_nan=False)] = Field(
        default=0.3,
        description="Retrievability e^(-days/stability) below which a memory goes to the archive. Lower: use lasts longer.",
    )
    important: Share = Field(default=0.5, description="Importance from which a memory is spared for a while.")
    important_days: Days = Field(
        default=90.0,
        description="Days since it was last found or opened until which importance spares a memory; 0: not at all. Without an end "
        "50 uses and 20 connections kept one for ever (the original's issue 222); with a quarter, what is needed once a quarter stays.",
    )
