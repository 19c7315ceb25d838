"""Types of arguments that several commands share, and their completion in a shell.

Completions of memories, spaces, ops and proposals come from the daemon. The person who types waits for them, so there
are none if the daemon does not answer within `SECONDS`.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from ormahctl import render
from ormahctl.session import PERSON
from ormahd.api import (
    HistoryParams,
    HistoryResult,
    Link,
    ListParams,
    ListResult,
    Params,
    ProposalsParams,
    ProposalsResult,
    Result,
)
from ormahd.rpc.wire import OrmahError, TooLarge

TYPES: Final = (
    "fact", "decision", "preference", "event", "person", "project", "concept", "procedure", "goal", "observation",
)  # fmt: skip
TIERS: Final = ("core", "working", "archival")
EDGES: Final = (
    "supports", "part_of", "depends_on", "defines", "derived_from", "evolved_from", "related_to", "contradicts",
)  # fmt: skip

JOBS: Final = (
    "importance_scorer", "index_updater", "duplicate_merger", "conflict_detector", "auto_linker", "auto_cluster",
    "consolidator", "decay_manager",
)  # fmt: skip


class Unknown(click.BadParameter):
    """The error for a word that is not allowed. `meant`: the most similar allowed words."""

    def __init__(
        self, word: str, known: Iterable[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> None:
        words = list(known)
        self.meant = near(word, words)
        super().__init__(f"'{word}' is not one of {', '.join(words)}", ctx, param)


def near(word: str, known: Iterable[str]) -> list[str]:
    """Return at most two words of `known`: those that are similar to `word`, or if there are none, those that begin
    with it."""
    by_fold = {one.casefold(): one for one in known}
    folded = word.strip().casefold()[:200]
    found = difflib.get_close_matches(folded, by_fold, n=2)
    found = found or [one for one in by_fold if len(folded) > 2 and one.startswith(folded)][:2]
    return [by_fold[one] for one in found]


class OneOf(click.Choice[str]):
    """Type of a parameter: one of several words. The error for another word names the most similar one."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            raise Unknown(value, self.choices, param, ctx)
        return value


class JobName(OneOf):
    """Type of an option that filters by job: the name of a job."""

    def __init__(self) -> None:
        super().__init__(JOBS)


TYPE = OneOf(TYPES)
TIER = OneOf(TIERS)
EDGE = OneOf(EDGES)
SHARE = click.FloatRange(0.0, 1.0)

STDIN_BYTES: Final = 8_000_000
"""Largest number of bytes read from stdin: more than the largest memory has (1,000,000 characters), less than a frame
holds."""


class NamedFolder(click.Path):
    """Type of a parameter: a folder. Empty text, as from a shell variable that is not set, is refused: it would mean
    the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty; `.` is the folder here", param, ctx)
        return super().convert(value, param, ctx)


class LinkType(click.ParamType[Link]):
    """Type of an argument `EDGE:ID`, such as `supports:1a2b3c4d`: converts it to a `Link`."""

    name = "EDGE:ID"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Link:
        edge, colon, target = value.partition(":")
        if not colon or not target.strip():
            self.fail(f"'{value}' is not EDGE:ID, such as supports:1a2b3c4d", param, ctx)
        if edge not in EDGES:
            raise Unknown(edge, EDGES, param, ctx)
        return Link(target=target.strip(), edge=edge)

    def shell_complete(self, _: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(f"{edge}:") for edge in EDGES if edge.startswith(incomplete)]


def limit_option(most: int, *, default: int, what: str = "results") -> Callable[[F], F]:
    """Return the decorator for the option `-n`, `--limit`: how many of `what` are listed, from 1 to `most`."""
    return click.option(
        "-n", "--limit", type=click.IntRange(1, most), metavar="N", default=default, show_default=True,
        help=f"Largest number of {what}.",
    )  # fmt: skip


def typed(name: str) -> bool:
    """Whether the parameter `name` was given on the command line, and does not just have its default."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def text_or_stdin(value: str, what: str) -> str:
    """Return `value`, or the text on stdin (UTF-8) if `value` is `-`. `what`: the name of the text, for messages."""
    if value != "-":
        return value
    if sys.stdin is None or sys.stdin.closed:
        raise click.UsageError(f"'-' reads {what} from stdin, and stdin is closed")
    if sys.stdin.isatty():
        sys.stderr.write(f"reading {what} from the terminal; end with Ctrl-D\n")
    data = sys.stdin.buffer.read(STDIN_BYTES + 1)
    if len(data) > STDIN_BYTES:
        raise TooLarge(
            f"{what} on stdin is longer than {STDIN_BYTES:,} bytes",
            hint="a document is no memory: put the file into the vault, and it is found by its words",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise click.UsageError(f"{what} on stdin is not valid UTF-8 (byte {exc.start + 1})") from exc


R = TypeVar("R", bound=Result)
F = TypeVar("F", bound=Callable[..., Any])

SECONDS: Final = 1.0
MOST: Final = 50
"""Number of memories and ops offered for completion: the newest."""


def _ask(ctx: click.Context, method: str, params: Params, result: type[R]) -> R | None:
    """Call the daemon for a completion. Return its result, or None if the call fails or takes too long."""
    from ormahctl.session import Client
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
    """Type of an argument that accepts any text, and offers completions."""

    def offers(self, ctx: click.Context) -> Iterable[tuple[str, str | None]]:
        """Return the completions as (text, short description or None)."""
        raise NotImplementedError

    def shell_complete(self, ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(value, help=help_) for value, help_ in self.offers(ctx) if value.startswith(incomplete)]


class NodeId(_Offered):
    """Type of an argument: the id of a memory. Completion offers the newest ones."""

    name = "id"

    def offers(self, ctx: click.Context) -> Iterable[tuple[str, str | None]]:
        found = _ask(ctx, "agent.list", ListParams(limit=MOST), ListResult)
        return [] if found is None else [(one.short_id, " ".join(one.title.split())) for one in found.memories]


class SpaceName(_Offered):
    """Type of an argument: the name of a space. Completion offers the existing ones."""

    name = "name"

    def offers(self, ctx: click.Context) -> Iterable[tuple[str, str | None]]:
        found = _ask(ctx, "agent.list", ListParams(limit=1), ListResult)
        return (
            []
            if found is None
            else [(name, render.count(count, "memory", "memories")) for name, count in found.spaces.items()]
        )


class OpName(_Offered):
    """Type of an argument: an op, by its id or commit. Completion offers the newest ones."""

    name = "op"

    def offers(self, ctx: click.Context) -> Iterable[tuple[str, str | None]]:
        found = _ask(ctx, "history.list", HistoryParams(limit=MOST), HistoryResult)
        return [] if found is None else [(op.commit[:8], " ".join(op.subject.split())) for op in found.ops]


class ProposalId(_Offered):
    """Type of an argument: the id of a pending proposal."""

    name = "id"

    def offers(self, ctx: click.Context) -> Iterable[tuple[str, str | None]]:
        found = _ask(ctx, "agent.proposals", ProposalsParams(limit=MOST), ProposalsResult)
        return (
            [] if found is None else [(row.short_id, " ".join(row.proposed_action.split())) for row in found.proposals]
        )


class JobOrAll(_Offered):
    """Type of an argument: the name of a job, or `all`."""

    name = "name"

    def offers(self, _: click.Context) -> Iterable[tuple[str, str | None]]:
        return [(name, None) for name in ("all", *JOBS)]


class Words(click.ParamType[str]):
    """Type of the arguments of a command with several uses: the first word names the use.

    `uses`: {first word: type that completes the words after it, or None}. `else_`: the type that completes the first
    word, besides the words in `uses`.
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
