"""Strength: how often and how recently each memory was used, how it fades, and the files that store this.

`.ormah/strength.jsonl` has a line per node and machine, so two machines never write the same line, and a merge keeps
the lines of both. A reader sums the counts and takes the latest dates, the larger stability and the importance that
was computed last.

    {"id": "<node>@<machine>", "node": …, "machine": …, "access_count": 3, "use_count": 1, "last_access": "2026-11-21T20:00:00Z",
     "last_use": …, "last_recall": …, "last_whisper": …, "stability": 13.612, "last_review": …, "importance": 0.61, "scored": …}

Only the first three keys are required. An access is a recall or a use; a use was confirmed by the caller; a review is
a use that also raised the stability; `scored` is the time when `importance` was computed. Unknown keys are kept;
unreadable lines move to the end.

Fading follows FSRS's forgetting curve in its simplest form: retrievability R = e^(-t/S) after t days with stability
S. `.ormah/active_days.jsonl` lists the days on which the vault was used. FORMAT.md specifies both files.
"""

from __future__ import annotations

import json
import sys
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from math import exp, log, log1p
from typing import Any, Final, Literal, Protocol, TypeVar

from msgspec import Struct

from ormahd.model.node import NodeType, Strength, read_time, write_time

ACCESS_WEIGHT = 0.34
EDGE_WEIGHT = 0.33
RECENCY_WEIGHT = 0.33
ACCESS_REFERENCE = 50
"""Accesses at which the access part of the importance reaches 1; the scale is logarithmic."""
EDGE_REFERENCE = 20
HALF_LIFE_DAYS = 14.0
WORTH_STORING = 0.01
"""Least change of importance that is written; smaller changes are not worth a commit."""


def importance(access_count: int, edges: int, days_since_access: float) -> float:
    """Return the importance of a memory, from 0 (never used, unconnected, old) to 1, rounded to 4 places.

    `edges` counts both directions. `days_since_access` counts from creation if there was no access; negative days
    count as 0. Importance decides which memories leave a full core tier and which do not fade; ranking does not use
    it.
    """
    access = min(1.0, log1p(max(0, access_count)) / log(1 + ACCESS_REFERENCE))
    connected = min(1.0, log1p(max(0, edges)) / log(1 + EDGE_REFERENCE))
    recency: float = 2.0 ** (-max(0.0, days_since_access) / HALF_LIFE_DAYS)
    total = ACCESS_WEIGHT * access + EDGE_WEIGHT * connected + RECENCY_WEIGHT * recency
    return round(total / (ACCESS_WEIGHT + EDGE_WEIGHT + RECENCY_WEIGHT), 4)


STRENGTH_FILE = ".ormah/strength.jsonl"
"""The file's path, relative to the vault's root."""
DAYS_TO_ARCHIVE = 14.0
ARCHIVE_BELOW = 0.3
INITIAL_STABILITY_DAYS = DAYS_TO_ARCHIVE / log(1 / ARCHIVE_BELOW)
"""11.63 days, where e^(-14/S) = 0.3: the stability of a memory that was never used, and the unit of a lease."""
MAX_STABILITY_DAYS = 365.0
"""Largest stability."""
REVIEW_EVERY_DAYS = 1.0
"""Minimum number of days between two reviews: further uses within that time raise no stability."""

WHISPER_EVERY_DAYS = 1.0
"""Minimum number of days between two stored whispers of a memory; whispers in between are not stored."""

T = TypeVar("T")


class Pace(Protocol):
    """What long tasks need from their caller: a function that yields the steps, and lets other threads run in
    between."""

    def __call__(self, steps: Iterable[T], /) -> Iterator[T]:
        """Yield `steps`, and let other threads run in between."""


_GROWTH = 0.5
_GROWTH_FADES = -0.5  # the stabler a memory is, the less one more use adds
_SPACING = -0.2  # a use after a long pause (small R) strengthens more
_MAX_SPACING = 2.0


How = Literal["use", "recall", "whisper"]
"""How a memory was used. `use`: opened or judged useful. `recall`: among the first results. `whisper`: quoted in full
in a whisper.

The last two only renew the lease.
"""

HOWS: tuple[How, ...] = ("use", "recall", "whisper")


class Access(Struct, frozen=True):
    """`times` uses of a memory at one moment, all of the kind `how`. Only the kind "use" raises the memory's
    stability."""

    node: str
    at: datetime
    how: How = "use"
    times: int = 1


class Score(Struct, frozen=True):
    """The importance that the job `importance_scorer` computed for a node at the time `at`."""

    node: str
    at: datetime
    importance: float


def reinforce(stability: float, days_since_review: float) -> float:
    """Return the stability in days after a confirmed use. A use within a day of the last review adds nothing.

    S' = min(S * (1 + 0.5 * S^-0.5 * min(R^-0.2, 2)), 365). Daily use reaches a year in about three months; a use
    after a longer pause adds more.
    """
    current: float = stability if stability > 0 else INITIAL_STABILITY_DAYS
    if days_since_review < REVIEW_EVERY_DAYS:
        return current
    # R^-0.2 in logarithms: R itself is 0 after some years.
    spacing = min(exp(min(1.0, -_SPACING * days_since_review / current)), _MAX_SPACING)
    growth: float = _GROWTH * current**_GROWTH_FADES * spacing
    return max(current, min(current * (1 + growth), MAX_STABILITY_DAYS))


def read_strength(data: bytes, problems: list[str] | None = None, *, pace: Pace = iter) -> dict[str, Strength]:
    """Return `{node id: strength}`. An unreadable line is skipped and described in `problems`."""
    rows, bad = _parse_lines(data, pace)
    if problems is not None:
        problems.extend(f"line {number} of strength.jsonl cannot be read: {why}" for number, _, why in bad)
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for row in pace(rows.values()):
        grouped.setdefault(sys.intern(row["node"]), []).append(row)  # each id occurs in many structures: keep one copy
    return {node: _total_strength(of_node) for node, of_node in pace(grouped.items())}


class LastUses(Struct):
    """The dates of the last use of each kind; None where there was none."""

    use: datetime | None = None
    recall: datetime | None = None
    whisper: datetime | None = None

    def take(self, how: How, at: datetime) -> None:
        """Set the date of the kind `how` to `at`, unless the date there is later."""
        known: datetime | None = getattr(self, how)
        if known is None or at > known:
            setattr(self, how, at)

    @property
    def last(self) -> datetime | None:
        """The latest use of any kind; the lease counts from it."""
        return max((at for at in (self.use, self.recall, self.whisper) if at is not None), default=None)


def last_uses(data: bytes) -> dict[str, LastUses]:
    """Return `{node id: last uses}`, over all machines."""
    found: dict[str, LastUses] = {}
    for row in _parse_lines(data)[0].values():
        dates = (row.get("last_use", row.get("last_review")), row.get("last_recall"), row.get("last_whisper"))
        for how, written in zip(HOWS, dates, strict=True):
            if (at := read_time(written)) is not None:
                found.setdefault(row["node"], LastUses()).take(how, at)
    return found


def fold(
    data: bytes,
    machine: str,
    events: Iterable[Access | Score],
    *,
    created: Mapping[str, datetime] = {},
    pace: Pace = iter,
) -> bytes:
    """Return the file's bytes with `events` added to the lines of `machine`, sorted by id.

    `created`: node id -> time of its creation, from which days count for a memory without a review. The order of events
    does not matter. Without events a canonical file is returned byte for byte.
    """
    rows, bad = _parse_lines(data, pace)
    of_node: dict[str, list[dict[str, Any]]] = {}
    for row in rows.values():
        of_node.setdefault(row["node"], []).append(row)

    # Add the events, oldest first, so that each sees the strength before it.
    for event in pace(sorted(events, key=_event_order)):
        line = f"{event.node}@{machine}"
        group = of_node.setdefault(event.node, [])
        before = _total_strength(group)
        row = rows.get(line, {"id": line, "node": event.node, "machine": machine})
        if isinstance(event, Access):
            last = read_time(row.get("last_whisper")) if event.how == "whisper" else None
            if last is not None and event.at - last < timedelta(days=WHISPER_EVERY_DAYS):
                continue  # storing every whisper would add a git blob each time
            _add_access(row, before, event, created.get(event.node))
        elif not _store_score(row, before, event):
            continue
        if line not in rows:
            rows[line] = row
            group.append(row)

    # Write the lines of all machines, then the unreadable ones.
    lines = [strength_line(rows[line]).encode("utf-8", "surrogatepass") for line in pace(sorted(rows))]
    return b"".join(line + b"\n" for line in [*lines, *(line for _, line, _ in bad)])


def _event_order(event: Access | Score) -> tuple[datetime, str, float]:
    """Return the sort key of an event: by time, then by node; an access before a score."""
    return event.at, event.node, event.importance if isinstance(event, Score) else -1.0


def merged_row(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge of two versions of one line. Each key gets the larger number or the later date; `importance` and
    `scored` are both taken from the version with the later `scored`.

    The order of the versions does not matter. The larger number is the newer one, because a machine's counters only
    grow.
    """
    row: dict[str, Any] = {}
    for key in dict.fromkeys([*ours, *theirs]):
        if key not in ours or key not in theirs:
            row[key] = ours.get(key, theirs.get(key))
        elif key in ("importance", "scored"):
            row[key] = max(ours, theirs, key=_score_order).get(key)
        else:
            row[key] = max(ours[key], theirs[key], key=lambda value: (isinstance(value, str), _rank(value)))
    return row


def row_problem(row: Any) -> str | None:
    """Return a sentence that says why a decoded line is invalid; None if it is valid."""
    if not isinstance(row, dict):
        return "it is no JSON object"
    for key in ("id", "node", "machine"):
        if not isinstance(row.get(key), str) or not row[key]:
            return f"`{key}` is missing"
    for key in ("last_access", "last_use", "last_recall", "last_whisper", "last_review", "scored"):
        if key in row and read_time(row[key]) is None:
            return f"`{key}` is no date with a time zone"
    for key in ("access_count", "use_count"):
        count = row.get(key, 0)
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            return f"`{key}` is no whole number from 0"
    for key, limit in (("stability", 1e6), ("importance", 1.0)):
        number = row.get(key, 0.0)
        if not isinstance(number, (int, float)) or isinstance(number, bool) or not 0 <= number <= limit:
            return f"`{key}` is no number from 0 to {limit:g}"
    return None


def strength_line(row: Mapping[str, Any]) -> str:
    """Return the JSON of one line without its newline: the keys in the order of `_KEYS`, then unknown keys by
    name."""
    order = {key: place for place, key in enumerate(_KEYS)}
    ordered = {key: row[key] for key in sorted(row, key=lambda key: (order.get(key, len(order)), key))}
    return json.dumps(ordered, ensure_ascii=False, allow_nan=False)


_KEYS = [
    "id",
    "node",
    "machine",
    "access_count",
    "use_count",
    "last_access",
    "last_use",
    "last_recall",
    "last_whisper",
    "stability",
    "last_review",
    "importance",
    "scored",
]


def _add_access(row: dict[str, Any], before: Strength, event: Access, created: datetime | None) -> None:
    """Add an access to `row`, the line of this machine. `before`: the node's strength over all machines; `created`:
    when the node was created."""
    if event.how == "whisper":
        row["last_whisper"] = _later(row.get("last_whisper"), event.at)
        return
    row["access_count"] = row.get("access_count", 0) + event.times
    row["last_access"] = _later(row.get("last_access"), event.at)
    if event.how == "recall":
        row["last_recall"] = _later(row.get("last_recall"), event.at)
        return
    row["use_count"] = row.get("use_count", 0) + event.times
    row["last_use"] = _later(row.get("last_use"), event.at)
    since = before.last_review or created
    days = (event.at - since).total_seconds() / 86_400 if since else 0.0
    if before.last_review is None or days >= REVIEW_EVERY_DAYS:
        row["stability"] = round(reinforce(before.stability, days), 3)
        row["last_review"] = _iso(event.at)


def _store_score(row: dict[str, Any], before: Strength, event: Score) -> bool:
    """Store a computed importance in `row`, the line of this machine. Return False if it is not stored: it changes too
    little, or a later one is known. `before`: the node's strength over all machines."""
    value = round(min(1.0, max(0.0, event.importance)), 4)
    if abs(value - before.importance) < WORTH_STORING or _later(row.get("scored"), event.at) != _iso(event.at):
        return False
    row["importance"], row["scored"] = value, _iso(event.at)
    return True


def _total_strength(rows: Sequence[Mapping[str, Any]]) -> Strength:
    """Return the strength of one node from its lines, one of each machine."""
    if not rows:
        return Strength()
    latest = max(rows, key=_score_order)
    return Strength(
        importance=latest.get("importance", 0.5),
        access_count=sum(row.get("access_count", 0) for row in rows),
        use_count=sum(row.get("use_count", 0) for row in rows),
        last_accessed=max((d for row in rows if (d := read_time(row.get("last_access")))), default=None),
        last_review=max((d for row in rows if (d := read_time(row.get("last_review")))), default=None),
        stability=max(row.get("stability", 0.0) for row in rows),
    )


def _score_order(row: Mapping[str, Any]) -> tuple[bool, datetime, float]:
    """Return the sort key that puts the line with the latest computed importance last."""
    return (
        "importance" in row,
        read_time(row.get("scored")) or datetime.min.replace(tzinfo=UTC),
        row.get("importance", 0.0),
    )


def _rank(value: Any) -> Any:
    """Return a sort key for any value: dates by time, numbers by size, everything else by its JSON."""
    if isinstance(value, str):
        date = read_time(value)
        return (date is not None, date.timestamp() if date else 0.0, value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (True, float(value), "")
    return (False, 0.0, json.dumps(value, sort_keys=True))


def _parse_lines(data: bytes, pace: Pace = iter) -> tuple[dict[str, dict[str, Any]], list[tuple[int, bytes, str]]]:
    """Return ({line id: line as a JSON object}, [(line number, line, reason)] for the unreadable lines)."""
    rows: dict[str, dict[str, Any]] = {}
    bad: list[tuple[int, bytes, str]] = []
    for number, line in enumerate(pace(data.splitlines()), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as exc:
            bad.append((number, line, f"it is no JSON ({exc})"))
            continue
        if why := row_problem(row):
            bad.append((number, line, why))
        else:
            rows[row["id"]] = merged_row(rows[row["id"]], row) if row["id"] in rows else row
    return rows, bad


def _refuse_constant(name: str) -> Any:
    """Raise ValueError: JSON has no number of this name, such as `NaN`."""
    raise ValueError(f"{name} is no number of JSON")


def _iso(date: datetime) -> str:
    """Return the time as it is written in the file."""
    return write_time(date, "seconds")


def _later(written: str | None, date: datetime) -> str:
    """Return the later of a stored date and a new one, as text with seconds."""
    before = read_time(written)
    return written if written is not None and before is not None and _iso(before) > _iso(date) else _iso(date)


Lasting = Literal["event", "fact", "decision"]
"""Classes of memory types with one lease each, named after one of the types."""

_TYPES: Final[Mapping[Lasting, Sequence[NodeType]]] = {
    "event": (NodeType.EVENT, NodeType.OBSERVATION),
    "fact": (NodeType.FACT, NodeType.CONCEPT, NodeType.GOAL),
    "decision": (NodeType.DECISION, NodeType.PROCEDURE, NodeType.PREFERENCE, NodeType.PERSON, NodeType.PROJECT),
}
CLASSES: Final[Mapping[NodeType, Lasting]] = {kind: lasting for lasting, kinds in _TYPES.items() for kind in kinds}
"""Memory type -> its class. Events soon become irrelevant, facts hold for a while, decisions and people stay
relevant for long."""
SPREAD: Final = 0.5
"""Largest share by which a lease is lengthened, different for each id, so that memories stored on one day are
not all archived on one day."""


class Leases(Struct, frozen=True):
    """Computes leases: the number of unused days after which a memory moves from `working` to the archive.

    `event`, `fact` and `decision`: days for an unused memory of that class. A lease ends when retrievability falls to
    `ARCHIVE_BELOW`.
    """

    event: float
    fact: float
    decision: float

    def days(self, node_type: NodeType, stability: float, node_id: str) -> float:
        """Return the lease of one memory in days. `stability`: in days, 0 for a memory that was never used.

        Confirmed uses lengthen the lease in proportion to the stability, up to the lease of the largest stability.
        """
        return self.unused(node_type, stability) * (1.0 + SPREAD * share_of(node_id))

    def unused(self, node_type: NodeType, stability: float = 0.0) -> float:
        """Return the lease in days without the part that depends on the id: the shortest for this type and
        stability."""
        days: float = getattr(self, CLASSES[node_type])
        used = days * stability / INITIAL_STABILITY_DAYS
        return max(days, min(used, MAX_STABILITY_DAYS * log(1 / ARCHIVE_BELOW)))


def share_of(node_id: str) -> float:
    """Return a number in [0, 1), always the same for one id and uniformly distributed over ids."""
    return zlib.crc32(node_id.encode()) / 2**32


ACTIVE_DAYS_FILE: Final = ".ormah/active_days.jsonl"
"""The file's path, relative to the vault's root."""
_DAY: Final = timedelta(days=1)
_HALVINGS: Final = 60
"""Steps of the bisection in `ActiveDays.back`, enough for a thousand years."""


class ActiveDays(Struct, frozen=True):
    """Counts days for fading: days on which the vault got requests count fully, others with `idle_share` (0 to 1).

    `ordinals`: the active days, ascending (`date.toordinal`). Days are in UTC, so that machines agree.
    """

    ordinals: tuple[int, ...]
    idle_share: float

    @classmethod
    def of(cls, days: Iterable[date], idle_share: float) -> ActiveDays:
        """Return the `ActiveDays` with these active days."""
        return cls(tuple(sorted({day.toordinal() for day in days})), idle_share)

    def between(self, since: datetime, now: datetime) -> float:
        """Return the weighted days from `since` to `now`, never negative."""
        if now <= since:
            return 0.0
        active = self._active_before(now) - self._active_before(since)
        return active + self.idle_share * ((now - since) / _DAY - active)

    def back(self, now: datetime, days: float) -> datetime:
        """Return the latest time such that at least `days` weighted days lie between it and `now`; the minimum
        datetime if there is none."""
        first = datetime.min.replace(tzinfo=UTC)
        if self.between(first, now) < days:
            return first

        # Bisect: `low` is early enough, `high` is not.
        low, high = first, now
        for _ in range(_HALVINGS):
            middle = low + (high - low) / 2
            if self.between(middle, now) >= days:
                low = middle
            else:
                high = middle
        return low

    def _active_before(self, time: datetime) -> float:
        """Return the number of active days before `time`. If the day of `time` is active, the part of it that has
        passed is added."""
        utc = time.astimezone(UTC)
        today = utc.date().toordinal()
        at = bisect_left(self.ordinals, today)  # number of active days before this one
        if at == len(self.ordinals) or self.ordinals[at] != today:
            return float(at)
        return at + (utc - datetime.combine(utc.date(), datetime.min.time(), UTC)) / _DAY


def read_active_days(data: bytes) -> set[date]:
    """Return the active days in `data`, the bytes of their file. Unreadable lines are skipped."""
    return {day for line in data.splitlines() if (day := _day(line)) is not None}


def with_active_days(data: bytes, days: Iterable[date]) -> bytes:
    """Return the file's bytes with `days` added, sorted. If the file contains all of them, it is returned unchanged.
    Unreadable lines move to the end."""
    found, new = read_active_days(data), set(days)
    if new <= found:
        return data
    foreign = [line for line in data.splitlines() if line.strip() and _day(line) is None]
    lines = [json.dumps({"id": day.isoformat()}).encode() for day in sorted(found | new)]
    return b"".join(line + b"\n" for line in [*lines, *foreign])


def _day(line: bytes) -> date | None:
    """Return the day that a line names; None if the line cannot be read."""
    try:
        row = json.loads(line)
        return date.fromisoformat(row["id"])
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
