"""Strength: what use has made of each memory, how it fades, and its file `.ormah/strength.jsonl`.

The file has a line per node and machine, so that two machines never write the same line and their files merge by
taking all lines. A reader sums the counts, takes the latest dates and the larger stability, and the importance that
was computed last. A job folds events into the file now and then; reading a memory never writes.

    {"id": "<node>@<machine>", "node": …, "machine": …, "access_count": 3, "use_count": 1, "last_access": "2026-11-21T20:00:00Z",
     "last_use": …, "last_recall": …, "last_whisper": …, "stability": 13.612, "last_review": …, "importance": 0.61, "scored": …}

Every key but the first three may be absent. `access_count`, `last_access`: among the first of a recall, or used; `use_count`,
`last_use`: its use was confirmed; `last_review`: that use also strengthened it; `last_recall`, `last_whisper`: its last weak uses;
`scored`: when `importance` was computed. Keys that we do not know and lines that cannot be read stay as they are (at the end of the
file).

Fading (FSRS's forgetting curve in its simplest form): retrievability R = e^(-t/S) after t days with stability S.
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
"""Accesses that count as much as any number can; the scale below is logarithmic."""
EDGE_REFERENCE = 20
HALF_LIFE_DAYS = 14.0
WORTH_STORING = 0.01
"""A smaller change is not written: it would be a line in git that nobody reads."""


def importance(access_count: int, edges: int, days_since_access: float) -> float:
    """0 (never used, unconnected, long ago) to 1, rounded to 4 places.

    `edges` counts both directions; `days_since_access` counts from creation when there was no access, and a date in
    the future (a clock that was wrong) counts as now.
    """
    access = min(1.0, log1p(max(0, access_count)) / log(1 + ACCESS_REFERENCE))
    connected = min(1.0, log1p(max(0, edges)) / log(1 + EDGE_REFERENCE))
    recency: float = 2.0 ** (-max(0.0, days_since_access) / HALF_LIFE_DAYS)
    total = ACCESS_WEIGHT * access + EDGE_WEIGHT * connected + RECENCY_WEIGHT * recency
    return round(total / (ACCESS_WEIGHT + EDGE_WEIGHT + RECENCY_WEIGHT), 4)


STRENGTH_FILE = ".ormah/strength.jsonl"
"""Where it is, relative to the vault's root."""
DAYS_TO_ARCHIVE = 14.0
ARCHIVE_BELOW = 0.3
INITIAL_STABILITY_DAYS = DAYS_TO_ARCHIVE / log(1 / ARCHIVE_BELOW)
"""11.63 days, where e^(-14/S) = 0.3: the stability that a memory begins with, and the unit of `model.strength`. The documents of the
original promise 14 days; its code had S = 1 and archived after 1.2."""
MAX_STABILITY_DAYS = 365.0
"""A year without use is long enough for anything outside `core`."""
REVIEW_EVERY_DAYS = 1.0
"""Uses within a day are one review: fifteen recalls in a minute took the original's stability to its cap."""

WHISPER_EVERY_DAYS = 1.0
"""A whisper within a day of the last one that is noted is not noted."""

T = TypeVar("T")


class Pace(Protocol):
    """What a caller who has time does between two steps of many, so that others come in between."""

    def __call__(self, steps: Iterable[T], /) -> Iterator[T]: ...


_GROWTH = 0.5
_GROWTH_FADES = -0.5  # the stabler a memory is, the less one more use adds
_SPACING = -0.2  # a use that comes late (small R) strengthens more
_MAX_SPACING = 2.0


How = Literal["use", "recall", "whisper"]
"""How a memory was used. `use`: confirmed, because it was opened or judged useful. The others are weak uses: it stood among the
first of a recall, or in full in a whisper. Those renew a lease; ranking's access share does not see them."""

HOWS: tuple[How, ...] = ("use", "recall", "whisper")


class Access(Struct, frozen=True):
    """A memory was used, `times` times at once. Only a confirmed use strengthens it; a whisper does not even count as found."""

    node: str
    at: datetime
    how: How = "use"
    times: int = 1


class Score(Struct, frozen=True):
    """The scorer computed a node's importance."""

    node: str
    at: datetime
    importance: float


def reinforce(stability: float, days_since_review: float) -> float:
    """The stability (days) after a confirmed use. Within a day of the last review nothing is added.

    S' = min(S * (1 + 0.5 * S^-0.5 * min(R^-0.2, 2)), 365): daily use takes the first stability to a year in about three months,
    and rarely spaced use gains more each time.
    """
    current: float = stability if stability > 0 else INITIAL_STABILITY_DAYS
    if days_since_review < REVIEW_EVERY_DAYS:
        return current
    # R^-0.2 in logarithms: R itself is 0 after some years.
    spacing = min(exp(min(1.0, -_SPACING * days_since_review / current)), _MAX_SPACING)
    growth: float = _GROWTH * current**_GROWTH_FADES * spacing
    return max(current, min(current * (1 + growth), MAX_STABILITY_DAYS))


def read_strength(data: bytes, problems: list[str] | None = None, *, pace: Pace = iter) -> dict[str, Strength]:
    """Node id to strength. Lines that cannot be read are skipped; a sentence for each is added to `problems`."""
    rows, bad = _parse(data, pace)
    if problems is not None:
        problems.extend(f"line {number} of strength.jsonl cannot be read: {why}" for number, _, why in bad)
    return _by_node(rows.values(), pace)


class LastUses(Struct):
    """When a memory was used last, by how it was used; None: never so."""

    use: datetime | None = None
    recall: datetime | None = None
    whisper: datetime | None = None

    def take(self, how: How, at: datetime) -> None:
        known: datetime | None = getattr(self, how)
        if known is None or at > known:
            setattr(self, how, at)

    @property
    def last(self) -> datetime | None:
        """The last use of whatever kind: from then on its lease counts."""
        return max((at for at in (self.use, self.recall, self.whisper) if at is not None), default=None)


def last_uses(data: bytes) -> dict[str, LastUses]:
    """Node id to its last uses, of those that had one, of all machines together."""
    found: dict[str, LastUses] = {}
    for row in _parse(data)[0].values():
        dates = (row.get("last_use", row.get("last_review")), row.get("last_recall"), row.get("last_whisper"))
        for how, said in zip(HOWS, dates, strict=True):
            if (at := read_time(said)) is not None:
                found.setdefault(row["node"], LastUses()).take(how, at)
    return found


def fold(
    data: bytes, machine: str, events: Iterable[Access | Score], *, created: Mapping[str, datetime] | None = None,
    pace: Pace = iter,
) -> bytes:  # fmt: skip
    """The file with `events` folded into the lines of `machine`: one line a node, in the order of their ids.

    `created` (node id to creation) starts the first day of a memory that was never reviewed. The same events in any
    order give the same bytes; no events give a canonical file back byte for byte.
    """
    rows, bad = _parse(data, pace)
    of_node: dict[str, list[dict[str, Any]]] = {}
    for row in rows.values():
        of_node.setdefault(row["node"], []).append(row)
    for event in pace(sorted(events, key=_order)):
        line = f"{event.node}@{machine}"
        group = of_node.setdefault(event.node, [])
        before = _joined(group)
        row = rows.get(line, {"id": line, "node": event.node, "machine": machine})
        if isinstance(event, Access):
            if event.how == "whisper" and not _worth_noting(row.get("last_whisper"), event.at):
                continue
            _access(row, before, event, (created or {}).get(event.node))
        elif not _score(row, before, event):
            continue
        if line not in rows:
            rows[line] = row
            group.append(row)
    return _write(rows, bad, pace)


def _order(event: Access | Score) -> tuple[datetime, str, float]:
    return event.at, event.node, event.importance if isinstance(event, Score) else -1.0


def merged_row(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Two versions of the same line (a machine's counters only grow): the larger number and the later date of each.

    Symmetric. Importance goes with the later `scored`.
    """
    row: dict[str, Any] = {}
    for key in dict.fromkeys([*one, *other]):
        if key not in one or key not in other:
            row[key] = one.get(key, other.get(key))
        elif key in ("importance", "scored"):
            row[key] = max(one, other, key=_scored).get(key)
        else:
            row[key] = max(one[key], other[key], key=lambda value: (isinstance(value, str), _rank(value)))
    return row


def row_problem(row: Any) -> str | None:
    """Why a decoded line is no line of this file, or None."""
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
    for key, most in (("stability", 1e6), ("importance", 1.0)):
        number = row.get(key, 0.0)
        if not isinstance(number, (int, float)) or isinstance(number, bool) or not 0 <= number <= most:
            return f"`{key}` is no number from 0 to {most:g}"
    return None


def strength_line(row: Mapping[str, Any]) -> str:
    """One line, without its end: known keys in their order, then the others by name."""
    order = {key: place for place, key in enumerate(_KEYS)}
    ordered = {key: row[key] for key in sorted(row, key=lambda key: (order.get(key, len(order)), key))}
    return json.dumps(ordered, ensure_ascii=False, allow_nan=False)


_KEYS = (
    "id", "node", "machine", "access_count", "use_count", "last_access", "last_use", "last_recall", "last_whisper",
    "stability", "last_review", "importance", "scored",
)  # fmt: skip


def _access(row: dict[str, Any], before: Strength, event: Access, created: datetime | None) -> None:
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
        row["last_review"] = _text(event.at)


def _worth_noting(written: str | None, at: datetime) -> bool:
    """Whether a whisper is news. Leases are weeks long, and a file that changes with each prompt would be a blob of git each time."""
    known = read_time(written)
    return known is None or at - known >= timedelta(days=WHISPER_EVERY_DAYS)


def _score(row: dict[str, Any], before: Strength, event: Score) -> bool:
    value = round(min(1.0, max(0.0, event.importance)), 4)
    if abs(value - before.importance) < WORTH_STORING or _later(row.get("scored"), event.at) != _text(event.at):
        return False
    row["importance"], row["scored"] = value, _text(event.at)
    return True


def _by_node(rows: Iterable[Mapping[str, Any]], pace: Pace) -> dict[str, Strength]:
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for row in pace(rows):
        grouped.setdefault(sys.intern(row["node"]), []).append(row)  # every room has each id: one copy of it
    return {node: _joined(of_node) for node, of_node in pace(grouped.items())}


def _joined(rows: Sequence[Mapping[str, Any]]) -> Strength:
    if not rows:
        return Strength()
    latest = max(rows, key=_scored)
    return Strength(
        importance=latest.get("importance", 0.5),
        access_count=sum(row.get("access_count", 0) for row in rows),
        use_count=sum(row.get("use_count", 0) for row in rows),
        last_accessed=max((d for row in rows if (d := read_time(row.get("last_access")))), default=None),
        last_review=max((d for row in rows if (d := read_time(row.get("last_review")))), default=None),
        stability=max(row.get("stability", 0.0) for row in rows),
    )


def _scored(row: Mapping[str, Any]) -> tuple[bool, datetime, float]:
    return (
        "importance" in row,
        read_time(row.get("scored")) or datetime.min.replace(tzinfo=UTC),
        row.get("importance", 0.0),
    )


def _rank(value: Any) -> Any:
    """Dates by their time, numbers by size, anything else by its JSON text: an order for any two values."""
    if isinstance(value, str):
        date = read_time(value)
        return (date is not None, date.timestamp() if date else 0.0, value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (True, float(value), "")
    return (False, 0.0, json.dumps(value, sort_keys=True))


def _parse(data: bytes, pace: Pace = iter) -> tuple[dict[str, dict[str, Any]], list[tuple[int, bytes, str]]]:
    rows: dict[str, dict[str, Any]] = {}
    bad: list[tuple[int, bytes, str]] = []
    for number, line in enumerate(pace(data.splitlines()), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_constant=_no_number)
        except (ValueError, RecursionError) as exc:
            bad.append((number, line, f"it is no JSON ({exc})"))
            continue
        if why := row_problem(row):
            bad.append((number, line, why))
        else:
            rows[row["id"]] = merged_row(rows[row["id"]], row) if row["id"] in rows else row
    return rows, bad


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _write(rows: Mapping[str, Mapping[str, Any]], bad: list[tuple[int, bytes, str]], pace: Pace = iter) -> bytes:
    lines = [strength_line(rows[line]).encode("utf-8", "surrogatepass") for line in pace(sorted(rows))]
    return b"".join(line + b"\n" for line in [*lines, *(line for _, line, _ in bad)])


def _text(date: datetime) -> str:
    return write_time(date, "seconds")


def _later(written: str | None, date: datetime) -> str:
    """Of a date as written and a new one the later, as text; one second is as fine as the file is."""
    before = read_time(written)
    return written if written is not None and before is not None and _text(before) > _text(date) else _text(date)


Lasting = Literal["event", "fact", "decision"]
"""The classes of types, each named after one of them."""

CLASSES: Final[Mapping[NodeType, Lasting]] = {
    NodeType.EVENT: "event", NodeType.OBSERVATION: "event",
    NodeType.FACT: "fact", NodeType.CONCEPT: "fact", NodeType.GOAL: "fact",
    NodeType.DECISION: "decision", NodeType.PROCEDURE: "decision", NodeType.PREFERENCE: "decision",
    NodeType.PERSON: "decision", NodeType.PROJECT: "decision",
}  # fmt: skip
"""What happened is soon past; what is so holds for a while; what was decided, how a thing is done and who somebody is are needed
rarely and long after."""
SPREAD: Final = 0.5
"""Share by which the longest lease of equal memories exceeds the shortest: a batch leaves over weeks, and what of it is needed
after all is noticed before the rest has gone."""


class Leases(Struct, frozen=True):
    """The rule, with a person's settings. `event`, `fact` and `decision`: days of a memory of that class that was never used.
    `below`: retrievability at which a lease ends."""

    event: float
    fact: float
    decision: float
    below: float = ARCHIVE_BELOW

    def days(self, node_type: NodeType, stability: float, node_id: str) -> float:
        """The lease of one memory, in days. `stability`: in days, as confirmed use made it; 0: never used.

        Its class says how long it lasts unused. Confirmed use lengthens that in proportion to the stability, at most to what the
        largest stability gives; a lease that is longer to begin with stays as it is.
        """
        return self.unused(node_type, stability) * (1.0 + SPREAD * share_of(node_id))

    def unused(self, node_type: NodeType, stability: float = 0.0) -> float:
        """The same before it is spread: the least that memories of this type and stability have."""
        days: float = getattr(self, CLASSES[node_type])
        until = log(1 / self.below)
        used = days * (stability / INITIAL_STABILITY_DAYS) * until / log(1 / ARCHIVE_BELOW)
        return max(days, min(used, MAX_STABILITY_DAYS * until))


def share_of(node_id: str) -> float:
    """A number from 0 to below 1 that an id always has: evenly spread over ids, whoever drew them."""
    return zlib.crc32(node_id.encode()) / 2**32


ACTIVE_DAYS_FILE: Final = ".ormah/active_days.jsonl"
"""Where it is, relative to the vault's root."""
_DAY: Final = timedelta(days=1)
_HALVINGS: Final = 60
"""Steps of the search in `ActiveDays.back`: of a thousand years nothing is left."""


class ActiveDays(Struct, frozen=True):
    """Time as memories count it. `ordinals`: the days on which something was asked, ascending (`date.toordinal`). `idle_share`:
    what any other day counts, 0 to 1."""

    ordinals: tuple[int, ...]
    idle_share: float

    @classmethod
    def of(cls, days: Iterable[date], idle_share: float) -> ActiveDays:
        return cls(tuple(sorted({day.toordinal() for day in days})), idle_share)

    def between(self, since: datetime, now: datetime) -> float:
        """Days from `since` to `now`, each day with what it counts. Negative never."""
        if now <= since:
            return 0.0
        active = self._until(now) - self._until(since)
        return active + self.idle_share * ((now - since) / _DAY - active)

    def back(self, now: datetime, days: float) -> datetime:
        """The latest time from which until `now` so many days have counted; the beginning of time where it never were that many."""
        first = datetime.min.replace(tzinfo=UTC)
        if self.between(first, now) < days:
            return first
        low, high = first, now
        for _ in range(_HALVINGS):
            middle = low + (high - low) / 2
            if self.between(middle, now) >= days:
                low = middle
            else:
                high = middle
        return low

    def _until(self, time: datetime) -> float:
        """Active days before `time`; the one it lies in by the part that is over."""
        utc = time.astimezone(UTC)
        today = utc.date().toordinal()
        at = bisect_left(self.ordinals, today)
        if at == len(self.ordinals) or self.ordinals[at] != today:
            return float(at)
        return at + (utc - datetime.combine(utc.date(), datetime.min.time(), UTC)) / _DAY


def read_active_days(data: bytes) -> set[date]:
    """The days of a file. A line that holds none is passed over."""
    return {day for line in data.splitlines() if (day := _day(line)) is not None}


def with_active_days(data: bytes, days: Iterable[date]) -> bytes:
    """The file with these days added, in order. What cannot be read stays, at the end; a file that has them stays as it is."""
    found, new = read_active_days(data), set(days)
    if new <= found:
        return data
    foreign = [line for line in data.splitlines() if line.strip() and _day(line) is None]
    lines = [json.dumps({"id": day.isoformat()}).encode() for day in sorted(found | new)]
    return b"".join(line + b"\n" for line in [*lines, *foreign])


def _day(line: bytes) -> date | None:
    try:
        row = json.loads(line)
        return date.fromisoformat(row["id"])
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
