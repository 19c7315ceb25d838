"""Prints counts of memories and whispers, for `ormahctl status --verbose`."""

from __future__ import annotations

from ormahctl import render
from ormahd.api import StatsResult, WhisperStats


def print_stats(found: StatsResult) -> None:
    """Print the numbers of memories by tier, type and space, and of whispers and silences by reason."""
    render.out()
    render.out(
        f"{render.count(found.total_nodes, 'memory', 'memories')}, {render.count(found.total_edges, 'connection')}"
    )
    if found.plain_files:
        render.out(f"{render.count(found.plain_files, 'file')} beside them that are no memories (see: ormahctl doctor)")
    for heading, counts in (
        ("tier", found.by_tier),
        ("type", found.by_type),
        ("space", found.by_space),
        ("edge", found.by_edge),
    ):
        rows = [[name or "global", f"{number:,}"] for name, number in sorted(counts.items(), key=lambda item: -item[1])]
        if rows:
            render.out()
            render.table([heading, "count"], rows, right=[1])
    if found.sources:
        render.out()
        names = ("sessions", "turns", "memories", "failed")
        rows = [
            [
                source,
                *(f"{numbers.get(name, 0):,}" for name in names),
                f"{sum(number for what, number in numbers.items() if what.startswith('refused')):,}",
            ]
            for source, numbers in found.sources.items()
        ]
        render.table(["came in 30 days from", *names, "refused"], rows, right=[1, 2, 3, 4, 5])
    if found.whisper is not None:
        _whispers(found.whisper)


def _whispers(found: WhisperStats) -> None:
    if found.prompts:
        render.out()
        since = f" since {render.moment(found.since, day=True)}, median {found.median_ms:g} ms"
        render.out(f"{render.count(found.prompts, 'prompt')}{since}")
        rows = [["whispered", f"{found.spoken:,}", f"{found.spoken / found.prompts:.0%}"]]
        rows += [
            [f"silent: {why}", f"{number:,}", f"{number / found.prompts:.0%}"] for why, number in found.silent.items()
        ]
        render.table(["outcome", "count", "share"], rows, right=[1, 2])
    if found.useful or found.not_useful or found.asked:
        idle = f", {found.idle:,} of another embedding model" if found.idle else ""
        render.out()
        render.out(f"judged useful {found.useful:,}, not useful {found.not_useful:,}{idle}")
        render.out(f"asked about what was held back {found.asked:,}, answered {found.answered:,}")
