"""Fading: when a memory that nobody uses leaves working for the archive."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ormahd.settings.base import Group, Share

Lease = Annotated[float, Field(ge=0.01, le=36_500.0, allow_inf_nan=False)]


class DecaySettings(Group):
    event_days: Lease = Field(
        default=28.0,
        description="Days that an event or an observation stays in working unused, at least, from when it was made or came into the "
        "vault; up to half as many more by its id, so that what came together does not leave together. Each confirmed use makes them more.",
    )
    fact_days: Lease = Field(default=90.0, description="The same for facts, concepts and goals.")
    decision_days: Lease = Field(
        default=180.0,
        description="The same for decisions, procedures, persons and projects, and for preferences that hold no more: they are needed "
        "rarely, and long after.",
    )
    idle_share: Share = Field(
        default=0.1,
        description="What a day counts on which nothing was asked (no prompt, no recall): a holiday is no reason to forget. 1: like "
        "any other day; 0: not at all.",
    )
    archive_below: Annotated[float, Field(ge=0.01, le=0.99, allow_inf_nan=False)] = Field(
        default=0.3,
        description="Retrievability e^(-days/stability) below which a memory that was used goes to the archive. Lower: use lasts longer.",
    )
