"""Arguments that a shell completes from what there is: memories, spaces, ops, proposals, jobs, and the words before them.

A shell waits for the answer while somebody types, so a daemon that does not answer at once is not waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from ormahctl.options import JOBS
from ormahctl.session import PERSON
from ormahd.api import (
    HistoryParams,
    HistoryResult,
    ListParams,
    ListResult,
    Params,
    ProposalsParams,
    ProposalsResult,
    Result,
)
from ormahd.rpc.wire import OrmahError

R = TypeVar("R", bound=Result)

SECONDS: Final = 1.0
MOST: Final = 50
"""Memories and ops that are offered: the newest."""


def _ask(ctx: click.Context, method: str, params: Params, result: type[R]) -> R | None:
    """What the daemon answers; None where it does not, or not in time."""
    from ormahctl.client import Client
    from ormahd import paths

    try:
        client = Client.open(paths.find_socket(ctx.find_root().params.get("socket")), agent=PERSON, timeout=SECONDS)
        try:
            return client.call(method, params, result, timeout=SECONDS)
        finally:
            client.close()
    except (OrmahError, OSError):
        return None


class _Offered(click.ParamType[str]):
    """Any text; some are offered."""

    def offers(self, ctx: click.Context) -> Iterable[tuple[str, str | None]]:
        """What may stand there, with a word on each."""
        raise NotImplementedError

    def shell_complete(self, ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(value, help=help_) for value, help_ in self.offers(ctx) if value.startswith(incomplete)]


class NodeId(_Offered):
    """A memory."""

    name = "id"

    def offers(self, ctx: click.Context) -> Iterable[tuple[str, str | None]]:
        found = _ask(ctx, "agent.list", ListParams(limit=MOST), ListResult)
        return [] if found is None else [(one.short_id, " ".join(one.title.split())) for one in found.memories]


class SpaceName(_Offered):
    """A space that there is."""

    name = "name"

    def offers(self, ctx: click.Context) -> Iterable[tuple[str, str | None]]:
        found = _ask(ctx, "agent.list", ListParams(limit=1), ListResult)
        return [] if found is None else [(name, f"{count:,} memories") for name, count in found.spaces.items()]


class Op(_Offered):
    """A change of the history."""

    name = "op"

    def offers(self, ctx: click.Context) -> Iterable[tuple[str, str | None]]:
        found = _ask(ctx, "history.list", HistoryParams(limit=MOST), HistoryResult)
        return [] if found is None else [(op.commit[:8], " ".join(op.subject.split())) for op in found.ops]


class ProposalId(_Offered):
    """A proposal that waits."""

    name = "id"

    def offers(self, ctx: click.Context) -> Iterable[tuple[str, str | None]]:
        found = _ask(ctx, "agent.proposals", ProposalsParams(limit=MOST), ProposalsResult)
        return (
            [] if found is None else [(row.short_id, " ".join(row.proposed_action.split())) for row in found.proposals]
        )


class JobOrAll(_Offered):
    """A job, or all of them."""

    name = "name"

    def offers(self, _: click.Context) -> Iterable[tuple[str, str | None]]:
        return [(name, None) for name in ("all", *JOBS)]


class Words(click.ParamType[str]):
    """The words behind a command that has several uses: the first names the use, and says what the others are.

    `uses`: the first word to the type of those behind it, None where they are not known; `else_`: the type of a first word
    that names no use.
    """

    name = "words"

    def __init__(
        self, uses: Mapping[str, click.ParamType[Any] | None], else_: click.ParamType[Any] | None = None
    ) -> None:
        self.uses = uses
        self.else_ = else_

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before = ctx.params.get(param.name or "") or ()
        if before:
            behind = self.uses.get(before[0])
            taken = set(before[1:])
            return [
                one
                for one in (behind.shell_complete(ctx, param, incomplete) if behind else [])
                if one.value not in taken
            ]
        others = self.else_.shell_complete(ctx, param, incomplete) if self.else_ else []
        return [*(CompletionItem(use) for use in self.uses if use.startswith(incomplete)), *others]
