"""Pairs of memories of which the later may make the earlier false, asked of a real daemon (README, "Changed facts").

`dev.tsv` may be tuned on, `held.tsv` may not. In which half a pair stands its id decides (`half_of`), so that nobody chooses.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, cast

from tests.house import House, open_house
from tests.quality.sets import rows

FOLDER = Path(__file__).parent
HALVES: Final = ("dev", "held")
NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)
Label = Literal["replaced", "both", "same"]
LABELS: Final = ("replaced", "both", "same")
FIRST = 10
"""As many results of a recall count as shown."""


@dataclass(frozen=True)
class Memory:
    id: str
    space: str | None
    created: datetime
    type: str
    title: str | None
    content: str

    def line(self) -> str:
        """As `import` takes it."""
        when = self.created.isoformat()
        return json.dumps(
            {
                "id": self.id, "type": self.type, "space": self.space, "title": self.title, "content": self.content,
                "created": when, "updated": when, "source": "agent:facts",
            },
            ensure_ascii=False,
        )  # fmt: skip


@dataclass(frozen=True)
class Pair:
    id: str
    label: Label
    kind: str
    language: str
    older: Memory
    newer: Memory
    questions: tuple[str, ...]
    """One, which either memory answers; of two that both hold one for each."""

    @property
    def ids(self) -> frozenset[str]:
        return frozenset((self.older.id, self.newer.id))


@dataclass(frozen=True)
class Asked:
    """What was answered to one question: ids in their order, and those of them that were marked as older."""

    recalled: tuple[str, ...]
    recall_marked: frozenset[str]
    whispered: tuple[str, ...]
    whisper_marked: frozenset[str]
    silence: str | None


@dataclass(frozen=True)
class Figures:
    """Everything that the daemon said of these pairs; the definitions stand in README.md."""

    pairs: tuple[Pair, ...]
    answers: dict[str, tuple[Asked, ...]]
    """Of each pair, a question each."""
    conflicts: frozenset[frozenset[str]]
    merges: frozenset[frozenset[str]]
    """Proposed, or merged by itself."""

    def of(self, *labels: Label) -> list[Pair]:
        return [pair for pair in self.pairs if pair.label in labels]

    # ---------------------------------------------------------------- jobs

    @property
    def found(self) -> float:
        replaced = self.of("replaced")
        return share(sum(pair.ids in self.conflicts for pair in replaced), len(replaced))

    @property
    def precision(self) -> float:
        right = sum(pair.ids in self.conflicts for pair in self.of("replaced"))
        return share(right, len(self.conflicts))

    def merged(self, label: Label) -> int:
        return sum(pair.ids in self.merges for pair in self.of(label))

    @property
    def strange_merges(self) -> int:
        """Of two memories that are no pair."""
        return len(self.merges - {pair.ids for pair in self.pairs})

    # ---------------------------------------------------------------- what replaced another

    def replaced(self, what: str) -> list[Pair]:
        return [pair for pair in self.of("replaced") if what in self.faults(pair)]

    def faults(self, pair: Pair) -> set[str]:
        """What is wrong with the answer to the question of a pair of which the newer memory replaced the older."""
        said, old, new = self.answers[pair.id][0], pair.older.id, pair.newer.id
        wrong: set[str] = set()
        if old in said.recalled and (new not in said.recalled or said.recalled.index(old) < said.recalled.index(new)):
            wrong.add("older first")
        if old in said.recalled[:FIRST] and old not in said.recall_marked:
            wrong.add("older unmarked")
        if new in said.recall_marked:
            wrong.add("newer marked")
        if new not in said.recalled[:3]:
            wrong.add("newer not among 3")
        if old in said.whispered:
            if old not in said.whisper_marked:
                wrong.add("whispered unmarked")
            if new not in said.whispered:
                wrong.add("whispered without the newer")
            elif said.whispered.index(old) < said.whispered.index(new):
                wrong.add("whispered above the newer")
            if "whispered unmarked" in wrong and new not in said.whispered[: said.whispered.index(old)]:
                wrong.add("whispered as if it held")
        if new in said.whisper_marked:
            wrong.add("newer marked in a whisper")
        if not said.whispered:
            wrong.add("silence")
        return wrong

    # ---------------------------------------------------------------- what holds beside another

    def holds(self, pair: Pair) -> bool:
        """Each of two that both hold is among the first three for its question, and nothing marks either."""
        both = zip((pair.older.id, pair.newer.id), self.answers[pair.id], strict=True)
        return all(
            mine in said.recalled[:3] and not pair.ids & (said.recall_marked | said.whisper_marked)
            for mine, said in both
        )

    @property
    def both_hold(self) -> float:
        both = self.of("both")
        return share(sum(map(self.holds, both)), len(both))

    @property
    def both_marked(self) -> list[Pair]:
        return [
            pair for pair in self.of("both")
            if any(pair.ids & (said.recall_marked | said.whisper_marked) for said in self.answers[pair.id])
        ]  # fmt: skip

    # ---------------------------------------------------------------- words

    def table(self) -> str:
        replaced = len(self.of("replaced"))

        def part(what: str) -> str:
            return f"{share(len(self.replaced(what)), replaced):.3f}"

        strange = self.conflicts - {pair.ids for pair in self.of("replaced")}
        return "\n".join(
            [
                f"{len(self.pairs)} pairs: " + ", ".join(f"{len(self.of(label))} {label}" for label in LABELS),
                f"conflicts: found {self.found:.3f}, precision {self.precision:.3f} ({len(strange)} wrong)",
                (
                    f"merges: of replaced {self.merged('replaced')}, of both-hold {self.merged('both')}, of same "
                    f"{self.merged('same')} of {len(self.of('same'))}, of no pair {self.strange_merges}"
                ),
                (
                    f"recall: older first {part('older first')}, older unmarked {part('older unmarked')}, "
                    f"newer marked {part('newer marked')}, newer not among 3 {part('newer not among 3')}"
                ),
                (
                    f"whisper: older as if it held {part('whispered as if it held')}, unmarked {part('whispered unmarked')}, above the newer "
                    f"{part('whispered above the newer')}, without it {part('whispered without the newer')}, "
                    f"newer marked {part('newer marked in a whisper')}, silent {part('silence')}"
                ),
                f"both hold: {self.both_hold:.3f} among 3 and unmarked, {len(self.both_marked)} marked",
            ]
        )

    def misses(self) -> str:
        lines = []
        known = {pair.ids: pair for pair in self.pairs}
        texts = {one.id: one for pair in self.pairs for one in (pair.older, pair.newer)}
        for pair in self.pairs:
            wrong = [] if pair.ids in self.conflicts or pair.label != "replaced" else ["no conflict"]
            if pair.ids in self.conflicts and pair.label != "replaced":
                wrong.append("A CONFLICT")
            if pair.ids in self.merges and pair.label != "same":
                wrong.append("A MERGE")
            if pair.label == "replaced":
                wrong += sorted(self.faults(pair))
            elif pair.label == "both" and not self.holds(pair):
                wrong.append("MARKED" if pair in self.both_marked else "not among 3")
            if wrong:
                lines.append(f"{pair.id} {pair.label} {pair.kind} {pair.language}: {', '.join(wrong)}")
                lines += [f"    {_said(one)}" for one in (pair.older, pair.newer)]
        for what, two in [("CONFLICT", two) for two in self.conflicts] + [("MERGE", two) for two in self.merges]:
            if two not in known:
                lines.append(f"a {what} of no pair")
                lines += [f"    {_said(texts[one])}" if one in texts else f"    {one}" for one in sorted(two)]
        return "\n".join(lines)


def share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def half_of(pair_id: str) -> str:
    return HALVES[hashlib.sha256(pair_id.encode()).digest()[0] % 2]


def pairs(half: str) -> list[Pair]:
    found = []
    for row in rows(FOLDER / f"{half}.tsv", 16):
        key, label, kind, language = row[:4]
        assert label in LABELS, row
        older, newer = _memory(key, "older", row[4:9]), _memory(key, "newer", row[9:14])
        questions = tuple(filter(None, row[14:]))
        found.append(Pair(key, cast("Label", label), kind, language, older, newer, questions))
    return found


def _memory(key: str, which: str, row: Sequence[str]) -> Memory:
    space, days, kind, title, content = row
    number = zlib.crc32(f"{key} {which}".encode())
    name = f"{number:08x}-0000-4000-8000-{number:012x}"
    created = NOW - timedelta(days=int(days), minutes=number % 500)
    return Memory(name, None if space == "." else space, created, kind, title or None, content)


def _said(one: Memory) -> str:
    return f"{one.created:%m-%d} {one.space or '.'} {one.type}: {one.title + ': ' if one.title else ''}{one.content}"


# -------------------------------------------------------------------- through the daemon


@contextlib.contextmanager
def daemon(half: str, **settings: str) -> Iterator[House]:
    """A daemon that keeps the half's memories, warm. `settings`: `ORMAH_*` variables."""
    ours = {
        "ORMAH_EMBEDDING_MODEL": "all-MiniLM-L6-v2", "ORMAH_DAEMON_FIXED_TIME": NOW.isoformat()
    }  # fmt: skip
    with open_house(**(ours | settings)) as house:
        house.start()
        kept = sorted((one for pair in pairs(half) for one in (pair.older, pair.newer)), key=lambda one: one.created)
        done = house.call("admin.import", lines=[one.line() for one in kept])
        assert not done.failed, done.failed
        yield house


def measure(house: House, some: Iterable[Pair]) -> Figures:
    """Ask every question, by recall and by whisper, and then run the two jobs."""
    asked = tuple(some)
    answers: dict[str, tuple[Asked, ...]] = {}
    with house.connect() as connection:
        for pair in asked:
            spaces = (pair.older.space, pair.newer.space)
            answers[pair.id] = tuple(
                _ask(connection, question, space) for question, space in zip(pair.questions, spaces, strict=False)
            )
    conflicts = _proposed(house, "conflict_detector", "conflict")
    merges = _proposed(house, "duplicate_merger", "merge")
    done = house.call("agent.merges", limit=1_000).merges
    merges |= {frozenset((one.removed, one.kept)) for one in done}
    return Figures(asked, answers, frozenset(conflicts), frozenset(merges))


def _ask(connection: Any, question: str, space: str | None) -> Asked:
    recalled = connection.call(
        "agent.recall", {"query": question, "space": space, "limit": FIRST}, agent="facts", timeout=120
    )
    whispered = connection.call("agent.whisper", {"prompt": question, "space": space}, agent="facts", timeout=120)
    assert "vectors" not in [*recalled.degraded, *whispered.degraded], "without the model the figures mean nothing"
    hits = recalled.results
    shown = [node for node in whispered.nodes if node.shown != "exploring"]
    return Asked(
        tuple(hit.id for hit in hits),
        frozenset(hit.id for hit in hits if getattr(hit, "older_than", None)),
        tuple(node.id for node in shown),
        frozenset(node.id for node in shown if getattr(node, "older_than", None)),
        whispered.silence,
    )


def _proposed(house: House, job: str, kind: str) -> set[frozenset[str]]:
    """What the job puts before a person, run until it has nothing more."""
    for _ in range(40):
        done = house.call("admin.run_task", name=job, force=True)
        assert done.error is None, done.error
        if not done.more:
            break
    found = house.call("agent.proposals", status="all", type=kind, limit=1_000).proposals
    return {frozenset(row.source_nodes) for row in found}
