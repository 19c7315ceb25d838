"""Our own corpus for the whisper, asked of a real daemon: `python -m tests.quality.whisper [dev|held] [--misses]`.

Two people's memories and what they typed (`corpus/`, README beside this): `dev` is what the gate was tuned on, `held` is
not looked at while tuning. Prompts with a session go in their order through one session.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import tomllib
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from tests.house import House, open_house
from tests.quality.sets import rows

CORPUS = Path(__file__).with_name("corpus")
HALVES: Final = ("dev", "held")
NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)
"""A Saturday; what is asked about yesterday or last week is dated from here."""


@dataclass(frozen=True)
class Memory:
    key: str
    number: int
    created: datetime
    type: str
    tier: str
    outdated: bool
    space: str | None
    tags: tuple[str, ...]
    title: str
    content: str

    @property
    def id(self) -> str:
        return f"{self.number:08x}-0000-4000-8000-{self.number:012x}"

    def line(self) -> str:
        """As `import` takes it."""
        said: dict[str, Any] = {
            "id": self.id, "type": self.type, "tier": self.tier, "space": self.space, "tags": list(self.tags), "title": self.title,
            "content": self.content, "created": self.created.isoformat(), "updated": self.created.isoformat(),
            "source": "agent:corpus",
        }  # fmt: skip
        if self.outdated:
            said |= {"valid_until": (NOW - timedelta(days=30)).isoformat(), "outdated_reason": "replaced"}
        return json.dumps(said, ensure_ascii=False)


@dataclass(frozen=True)
class Prompt:
    category: str
    kind: str
    session: str | None
    space: str | None
    must: frozenset[str]
    may: tuple[str, ...]
    text: str

    @property
    def silent(self) -> bool:
        """Nothing but what `may` allows is to be injected."""
        return not self.must

    def allows(self, key: str) -> bool:
        return any(fnmatch.fnmatchcase(key, pattern) for pattern in self.may)


@dataclass(frozen=True)
class Answer:
    """What was injected (keys, without exploration and review), and what the daemon said of it."""

    prompt: Prompt
    injected: tuple[str, ...]
    silence: str | None
    scores: Mapping[str, float] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    """What was injected earlier in the session, be it by its title: it is there, and cannot be missed."""
    held: frozenset[str] = frozenset()
    """What was injected with its content: once more would be a repetition, and wrong."""

    @property
    def wanted(self) -> frozenset[str]:
        return self.prompt.must - self.named

    @property
    def right(self) -> set[str]:
        return self.wanted & set(self.injected)

    @property
    def wrong(self) -> list[str]:
        return [
            key for key in self.injected
            if key in self.held or not (key in self.prompt.must or self.prompt.allows(key))
        ]  # fmt: skip

    @property
    def missed(self) -> frozenset[str]:
        return self.wanted - set(self.injected)


@dataclass(frozen=True)
class Figures:
    """The definitions stand in README.md."""

    answers: tuple[Answer, ...]

    @cached_property
    def recall(self) -> float:
        return share(sum(len(one.right) for one in self.answers), sum(len(one.wanted) for one in self.answers))

    @cached_property
    def precision(self) -> float:
        right = sum(len(one.right) for one in self.answers)
        return share(right, right + sum(len(one.wrong) for one in self.answers))

    @property
    def f1(self) -> float:
        return (
            2 * self.precision * self.recall / (self.precision + self.recall) if self.precision + self.recall else 0.0
        )

    @property
    def false_injection(self) -> float:
        """Share of the prompts of category `silent` in which something was injected."""
        silent = [one for one in self.answers if one.prompt.category == "silent"]
        return 1 - share(sum(not one.wrong for one in silent), len(silent))

    @property
    def suppression(self) -> float:
        """Share of all prompts to be answered by silence (repeats in a session too) in which nothing wrong was injected."""
        silent = [one for one in self.answers if one.prompt.silent]
        return share(sum(not one.wrong for one in silent), len(silent))

    def of(self, category: str) -> Figures:
        return Figures(tuple(one for one in self.answers if one.prompt.category == category))

    def categories(self) -> list[str]:
        return list(dict.fromkeys(one.prompt.category for one in self.answers))

    def table(self) -> str:
        lines = ["category     prompts  silent  recall  precision    F1  suppressed"]
        for name in [*self.categories(), "all"]:
            part = self if name == "all" else self.of(name)
            silent = sum(one.prompt.silent for one in part.answers)
            spoken = silent < len(part.answers)
            numbers = f"{part.recall:6.3f}  {part.precision:9.3f}  {part.f1:.3f}" if spoken else " " * 24
            suppressed = f"{part.suppression:10.3f}" if silent else ""
            lines.append(f"{name:<12} {len(part.answers):>7}  {silent:>6}  {numbers}  {suppressed}".rstrip())
        return "\n".join([*lines, f"false injection {self.false_injection:.3f}, suppression {self.suppression:.3f}"])

    def misses(self) -> str:
        lines = []
        for one in self.answers:
            if one.missed or one.wrong:
                found = " ".join(f"{key}={one.scores[key]:.2f}" for key in one.injected) or f"silence: {one.silence}"
                what = " ".join([*(f"-{key}" for key in sorted(one.missed)), *(f"+{key}" for key in one.wrong)])
                where = (
                    f"{one.prompt.category}{'/' + one.prompt.kind if one.prompt.kind else ''} {one.prompt.space or '.'}"
                )
                lines.append(f"{what:<24} {where:<24} {one.prompt.text[:80]!r}\n{'':<25}{found}")
        return "\n".join(lines)


def share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def memories(half: str) -> list[Memory]:
    found = []
    for number, row in enumerate(rows(CORPUS / f"{half}-memories.tsv", 7), 1):
        key, days, kind, space, tags, title, content = row
        type_, _, more = kind.partition("/")
        age = float(days) if days else 65 + zlib.crc32(key.encode()) % 300
        tier = more if more in {"core", "archival"} else "working"
        found.append(Memory(
            key, number, NOW - timedelta(days=age), type_, tier, more == "outdated", None if space == "." else space,
            tuple(tags.split(",")), title, content,
        ))  # fmt: skip
    return found


def prompts(half: str) -> list[Prompt]:
    found = []
    for category, kind, session, space, must, may, text in rows(CORPUS / f"{half}-prompts.tsv", 7):
        wanted = frozenset() if must == "-" else frozenset(must.split(","))
        found.append(Prompt(
            category, kind, session or None, None if space == "." else space, wanted, tuple(filter(None, may.split(","))), text,
        ))  # fmt: skip
    return found


@contextlib.contextmanager
def daemon(half: str, **settings: str) -> Iterator[House]:
    """A daemon that keeps the half's memories, warm. `settings`: `ORMAH_*` variables."""
    ours = {"ORMAH_EMBEDDING_MODEL": "all-MiniLM-L6-v2", "ORMAH_DAEMON_FIXED_TIME": NOW.isoformat()}
    with open_house(**(ours | settings)) as house:
        house.start()
        kept = memories(half)
        done = house.call("admin.import", lines=[one.line() for one in kept])
        assert not done.failed, done.failed
        self_id = tomllib.loads((house.vault / ".ormah" / "vault.toml").read_text())["self"]
        for one in kept:
            if "about_self" in one.tags:
                house.call("agent.connect", source_id=self_id, target_id=one.id, edge="defines")
        yield house


def ask(house: House, half: str, only: Iterable[Prompt] | None = None) -> Figures:
    """Ask everything, each session in its order."""
    keys = {one.id: one.key for one in memories(half)}
    answers = []
    told: dict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    with house.connect() as connection:
        for prompt in prompts(half) if only is None else only:
            session = None if prompt.session is None else f"{half}-{prompt.session}"
            params = {"prompt": prompt.text, "space": prompt.space, "session_id": session}
            said: Any = connection.call("agent.whisper", params, agent="corpus", timeout=120)
            assert "vectors" not in said.degraded, f"without the model the figures mean nothing:\n{house.said()}"
            shown = {keys.get(node.id, node.id): node for node in said.nodes if node.shown != "exploring"}
            scores = {key: node.score for key, node in shown.items()}
            named, held = told[session or f"alone {len(answers)}"]
            answers.append(Answer(prompt, tuple(shown), said.silence, scores, frozenset(named), frozenset(held)))
            named.update(shown)
            held.update(key for key, node in shown.items() if node.shown != "title")
    return Figures(tuple(answers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("halves", nargs="*", default=["dev"], choices=HALVES)
    parser.add_argument("--misses", action="store_true", help="also print each prompt that went wrong")
    asked = parser.parse_args()
    for half in asked.halves:
        with daemon(half) as house:
            figures = ask(house, half)
        print(f"{half}: {len(memories(half))} memories\n{figures.table()}")
        if asked.misses:
            print(figures.misses())


if __name__ == "__main__":
    main()
