"""The process, its log, other machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ormahd.settings.base import Group


class SyncSettings(Group):
    interval_minutes: Annotated[float, Field(ge=0.0, le=10_080.0, allow_inf_nan=False)] = Field(
        default=0.0,
        description="How often the vault is synced with its git remote by itself; 0: only by `ormahctl sync`.",
    )
    remote: str = Field(
        default="origin",
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        max_length=100,
        description="The git remote to sync with, where the branch is not configured to follow another one.",
    )
    timeout_seconds: Annotated[float, Field(ge=1.0, le=3_600.0, allow_inf_nan=False)] = Field(
        default=60.0, description="How long a remote may say nothing before a sync gives up for this time."
    )


class DaemonSettings(Group):
    autostart: bool = Field(
        default=True,
        description="Commands that need the daemon, and sessions of agents that begin, start it where it is down; not after "
        "`ormahctl down`, nor at another socket. Off: only `ormahctl up`, or a service.",
    )
    threads: Annotated[int, Field(ge=2, le=256)] = Field(
        default=8, description="Questions answered at the same time. Writes have 32 threads of their own."
    )
    socket: Path | None = Field(
        default=None, description="The Unix socket. Unset: `ormah/ormahd.sock` in the runtime directory."
    )
    fixed_time: str | None = Field(
        default=None,
        description="ISO time at which the clock of ranking, of uses and of maintenance stands still, to reproduce an answer.",
    )


class LogSettings(Group):
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="What is logged. Only `debug` may hold texts of notes and queries."
    )
    format: Literal["text", "json"] = Field(default="text", description="A line for people, or a JSON object a line.")
    max_bytes: Annotated[int, Field(ge=10_000)] = Field(
        default=5_000_000, description="Size at which the log file is turned over."
    )
    keep: Annotated[int, Field(ge=1, le=100)] = Field(default=5, description="Older log files that are kept.")
