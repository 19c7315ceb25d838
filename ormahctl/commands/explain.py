"""`recall --explain`: every number behind every result, what was heard and gathered, and what was dropped where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ormahctl import render
from ormahd.api import RecallHit, RecallResult

DROPPED = 20
"""Dropped candidates shown to people; --json has them all."""
_TWICE = {"node_id", "dropped"}
"""Of a result's trace: said by its column's heading, or empty because it is a result."""


def explain(found: RecallResult) -> None:
    """Print the traces below the results. Names are those of the daemon; this knows only their shape."""
    traces = [hit.trace if isinstance(hit.trace, dict) else {} for hit in found.results]
    if any(traces):
        render.out()
        _numbers(found.results, traces)
    told = found.trace if isinstance(found.trace, dict) else {}
    facts = {name: value for name, value in told.items() if not _is_table(value)}
    if facts:
        render.out()
        for name, value in flat(facts).items():
            render.out(f"{render.line(name)}: {shown(value)}")
    for name, value in told.items():
        if _is_table(value):
            _table(name, value)


def _numbers(results: Sequence[RecallHit], traces: Sequence[Mapping[str, Any]]) -> None:
    """A row a number, a column a result: a score is read from top to bottom."""
    columns = [flat(trace) for trace in traces]
    names = [name for name in dict.fromkeys(name for column in columns for name in column) if name not in _TWICE]
    heads = [f"{number}. {hit.short_id}" for number, hit in enumerate(results, 1)]
    rows = [[name, *(shown(column.get(name)) for column in columns)] for name in names]
    if render.fits(["", *heads], rows):
        render.table(["", *heads], rows, right=range(1, len(heads) + 1))
    else:
        turned = zip(heads, *(row[1:] for row in rows), strict=True)
        render.table(["", *names], [list(cells) for cells in turned])


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """A list of the trace: the id, the score and the reason, as far as its rows have them; else all they have."""
    render.out()
    render.out(render.paint(f"{render.line(name)} ({len(rows)})", "bold"))
    wanted = [
        key for key in ("node_id", "score", "words_rank", "meaning_rank", "dropped") if any(key in row for row in rows)
    ]
    names = wanted if "dropped" in wanted else list(dict.fromkeys(key for row in rows for key in row))
    cells = [[shown(row.get(key))[:8] if key == "node_id" else shown(row.get(key)) for key in names] for row in rows]
    render.table(names, cells[:DROPPED])
    if len(rows) > DROPPED:
        render.out(f"and {len(rows) - DROPPED} more (--json)")


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def flat(trace: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"period": {"after": x}}` as `{"period.after": x}`."""
    found: dict[str, Any] = {}
    for key, value in trace.items():
        if isinstance(value, dict):
            found.update(flat(value, f"{prefix}{key}."))
        else:
            found[prefix + key] = value
    return found


def shown(value: Any) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".") or "0"
    if isinstance(value, list):
        return ", ".join(shown(item) for item in value)
    if isinstance(value, dict):
        return " ".join(f"{key}={shown(item)}" for key, item in value.items())
    return render.line(str(value))
