"""Maintenance: when it runs, and how much it may change."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ormahd.settings.base import Group, Share

Hours = Annotated[float, Field(ge=0.0, le=10_000.0, allow_inf_nan=False)]


class JobSettings(Group):
    enabled: bool = Field(
        default=True, description="Whether jobs run by themselves; `ormahctl jobs run` works either way."
    )
    catch_up_seconds: Annotated[float, Field(ge=0.0, le=86_400.0, allow_inf_nan=False)] = Field(
        default=120.0,
        description="Seconds from being ready until a run that was missed while the machine was off is caught up, once.",
    )
    max_changes: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=200,
        description="Commits that one run of one job makes at most (merges, consolidations, conflicts, faded memories); more "
        "wait for the next run, or for `--force`.",
    )
    max_share: Share = Field(
        default=0.1,
        description="Share of the vault's memories that one run of one job changes at most; 20 are always allowed. More wait "
        "for the next run, or for `--force`: a fault that would cost 1 in 10 memories is seen before it has cost them all.",
    )
    judge: Literal["none"] = Field(
        default="none",
        description="Who answers what arithmetic cannot. Without one, agents may judge (`ormahctl maintenance`).",
    )
    judge_questions: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=200, description="Questions that one run of one job asks the judge at most."
    )
    importance_scorer_hours: Hours = Field(default=2.0, description="Hours between two runs; 0: never by itself.")
    index_updater_hours: Hours = Field(default=1.0, description="The same; it is the reconciling scan.")
    nightly_hours: Hours = Field(
        default=24.0,
        description="The same for the other jobs (merges, conflicts, links, clusters, consolidation, fading). To leave out one: "
        "`ormahctl jobs pause NAME`.",
    )


class MaintenanceSettings(Group):
    """What an agent that judges is handed at a time (`agent.maintenance`)."""

    interval_hours: Hours = Field(
        default=24.0,
        description="Hours from an agent's last results (at first from the vault's first day) until `maintenance_due` is whispered.",
    )
    pairs: Annotated[int, Field(ge=0, le=100)] = Field(
        default=8, description="Pairs of each kind (to link, to oppose, to merge) that are handed out at once, at most."
    )
