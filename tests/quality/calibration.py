"""Whether the whisper's relevance is a chance: of the memories with 0.7, are 70 % right (README, "A relevance is a chance")?

    python -m tests.quality.calibration [dev|held]

prints this for the sets of this folder. A memory of the prompt's own space, or a global one, is right if the set says that
it belongs to the prompt. What a set neither wants nor forbids is left out.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from ormahd.embedding.embedder import Embedder
from ormahd.embedding.model import load
from ormahd.index.index import Index
from ormahd.model.node import NodeType, Tier
from ormahd.search.search import Rules
from ormahd.settings import EmbeddingSettings
from ormahd.whisper import analyse
from ormahd.whisper.analyse import Archetypes
from ormahd.whisper.gather import gather
from ormahd.whisper.pipeline import POOL
from ormahd.whisper.relevance import WITNESSES, evidence_of
from ormahd.whisper.types import Asked, Before
from tests.contract.index_notes import NOW, apply, note
from tests.quality import month, tasks, whisper
from tests.quality.sets import memory

BINS = 10
FOLDS = 5


@dataclass(frozen=True)
class Stored:
    key: str
    content: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Labelled:
    """A prompt; the keys that are `right`, and those that are neither right nor wrong. `fold`: left out together."""

    text: str
    space: str | None
    right: frozenset[str]
    fold: str
    left_out: frozenset[str] = frozenset()
    moved: bool = False
    """Whether it is asked in another space than where its answer is. It is not used to learn which prompts need one."""


@dataclass(frozen=True)
class Judged:
    """Candidates: their evidence float64[n, WITNESSES], relevance, whether each is right, the fold and prompt of each.

    Prompts: their vectors float32[m, d], folds, and whether each needs a memory (1, 0; nan: not known).
    """

    evidence: Any
    relevance: Any
    right: Any
    fold: Any
    prompt: Any
    vectors: Any
    folds: Any
    needs: Any


def fold_of(text: str) -> str:
    return f"f{zlib.crc32(text.encode()) % FOLDS}"


def own_sets(*halves: str) -> dict[str, tuple[list[Stored], list[Labelled], datetime]]:
    """Return the sets of this folder: notes, prompts, and the time at which they are asked."""
    found: dict[str, tuple[list[Stored], list[Labelled], datetime]] = {}
    for half in halves:
        found[f"month {half}"] = (_month_notes(), _month_prompts(half), month.BEGIN + timedelta(days=month.MONTH + 1))
        found[f"corpus {half}"] = (_corpus_notes(half), _corpus_prompts(half), whisper.NOW)
    return found


def memory_set(silent: Iterable[str] = ()) -> tuple[list[Stored], list[Labelled], datetime]:
    """Return `memory.tsv`, with prompts besides for which nothing is right."""
    texts, questions = memory()
    prompts = [Labelled(one.text, None, frozenset([one.gold]), fold_of(one.text)) for one in questions]
    prompts += [Labelled(text, None, frozenset(), fold_of(text)) for text in silent]
    return [Stored(one.key, one.content, {"title": one.title}) for one in texts], prompts, NOW


def task_sets(half: str) -> dict[str, tuple[list[Stored], list[Labelled], datetime]]:
    """Return the vaults of `tasks`, each left out together. What a prompt may be told is neither right nor wrong."""
    return {
        one.name: (
            [
                Stored(memory.key, memory.content, {
                    "type": NodeType(memory.type), "space": memory.space, "title": memory.title,
                    "created": memory.created, "updated": memory.created,
                })
                for memory in one.memories
            ],
            [Labelled(prompt.text, prompt.space, prompt.must, one.name, prompt.may) for prompt in one.prompts],
            tasks.NOW,
        )
        for one in tasks.vaults(half)
    }  # fmt: skip


def together(some: Iterable[Judged]) -> Judged:
    """Return the candidates and prompts of several sets as one."""
    every = list(some)
    starts = np.cumsum([0, *(len(one.folds) for one in every[:-1])])
    columns = {
        name: np.concatenate([getattr(one, name) for one in every])
        for name in Judged.__dataclass_fields__
        if name != "prompt"
    }
    return Judged(**columns, prompt=np.concatenate([one.prompt + at for one, at in zip(every, starts, strict=True)]))


def _month_notes() -> list[Stored]:
    found = []
    for one in month.memories():
        when = month.BEGIN + timedelta(days=one.day, minutes=zlib.crc32(one.content.encode()) % 600)
        found.append(Stored(one.key, one.content, {
            "type": NodeType(one.type), "tier": Tier(one.tier), "space": one.space, "tags": list(one.tags), "title": one.title,
            "created": when, "updated": when,
        }))  # fmt: skip
    return found


def _month_prompts(half: str) -> list[Labelled]:
    """What a right memory replaced is left out: it is shown behind that one, and marked."""
    found = []
    for one in [*month.asked(half), *month.more(half)]:
        right = one.must | one.also
        stale = frozenset(old for old, new in month.replaced().items() if new in right)
        found.append(Labelled(one.text, one.space, right, fold_of(one.text), stale))
    return found


def _corpus_notes(half: str) -> list[Stored]:
    found = []
    for one in whisper.memories(half):
        gone = {"valid_until": whisper.NOW - timedelta(days=30), "outdated_reason": "replaced"} if one.outdated else {}
        found.append(Stored(one.key, one.content, {
            "type": NodeType(one.type), "tier": Tier(one.tier), "space": one.space, "tags": list(one.tags), "title": one.title,
            "created": one.created, "updated": one.created, **gone,
        }))  # fmt: skip
    return found


def _corpus_prompts(half: str) -> list[Labelled]:
    """Only prompts that stand for themselves: what the session holds already is no matter of relevance."""
    keys = [one.key for one in whisper.memories(half)]
    return [
        Labelled(one.text, one.space, one.must, fold_of(one.text), frozenset(key for key in keys if one.allows(key)))
        for one in whisper.prompts(half) if one.session is None
    ]  # fmt: skip


def judge(notes: Sequence[Stored], prompts: Sequence[Labelled], now: datetime, model: Embedder, place: Path) -> Judged:
    """Gather each prompt's candidates as the whisper does. Prompts that are answered before anything is searched, and those
    about a time or about the user, for which other rules decide, are left out."""
    index = Index.open(place, clock=lambda: now)
    index.attach(model)
    key_of = {str(uuid.uuid5(uuid.NAMESPACE_URL, one.key)): one.key for one in notes}
    apply(index, {
        f"{at}/n_{node_id[:8]}.md": note(node_id, one.content, **one.fields)
        for at, (node_id, one) in enumerate(zip(key_of, notes, strict=True))
    })  # fmt: skip
    index.wait_filled(3600.0)
    archetypes = Archetypes(model.embed_query)
    rows: list[tuple[list[float], float, bool, str, int]] = []
    asked_of: list[tuple[Any, str, float]] = []
    for prompt in prompts:
        if analyse.early_silence(prompt.text, None) is not None:
            continue
        asked = Asked(prompt.text, prompt.space)
        heard = analyse.analyse(asked, Before(), embed=model.embed_query, archetypes=archetypes, now=now)
        if heard.temporal or heard.identity_only:
            continue
        pool = gather(
            index,
            heard,
            asked,
            self_id="",
            embed=model.embed_query,
            now=now,
            rules=Rules(),
            limit=POOL,
            preferences=False,
        )
        vectors = model.embed_query(heard.query)
        asked_of.append((vectors.vector, prompt.fold, math.nan if prompt.moved else float(bool(prompt.right))))
        for one in pool.candidates:
            key, evidence = key_of[one.id], evidence_of(one.numbers)
            if evidence is None or one.source != "search" or not asked.at_home(one.row.space) or key in prompt.left_out:
                continue
            values = [evidence[name] for name in WITNESSES]
            rows.append((values, one.relevance, key in prompt.right, prompt.fold, len(asked_of) - 1))
    index.close()
    witnesses, relevance, right, fold, prompt_of = zip(*rows, strict=True)
    prompt_vectors, folds, needs = zip(*asked_of, strict=True)
    return Judged(
        evidence=np.array(witnesses),
        relevance=np.array(relevance),
        right=np.array(right, np.float64),
        fold=np.array(fold),
        prompt=np.array(prompt_of),
        vectors=np.stack(prompt_vectors),
        folds=np.array(folds),
        needs=np.array(needs),
    )


def bins(chance: Any, right: Any, weight: Any = None, count: int = BINS) -> list[tuple[float, float, float, int]]:
    """Return (chance told, share that is right, share of the candidates, number) for equal intervals of chance."""
    weight = np.ones(len(chance)) if weight is None else weight
    of = np.minimum((chance * count).astype(int), count - 1)
    found = []
    for at in range(count):
        there = of == at
        mass = weight[there].sum()
        if mass > 0.0:
            told, true = (chance[there] * weight[there]).sum() / mass, (right[there] * weight[there]).sum() / mass
            found.append((float(told), float(true), float(mass / weight.sum()), int(there.sum())))
    return found


def calibration_error(chance: Any, right: Any, weight: Any = None, count: int = BINS) -> float:
    """Return the mean distance between the chance told and the share that is right, over equal intervals of chance."""
    return sum(abs(told - true) * mass for told, true, mass, _ in bins(chance, right, weight, count))


def table(name: str, chance: Any, right: Any, weight: Any = None) -> str:
    """Return a set's calibration as a line: the error, and for each interval told → right (number)."""
    cells = "  ".join(f"{told:.2f}→{true:.2f} ({number})" for told, true, _, number in bins(chance, right, weight))
    return f"{name:12} error {calibration_error(chance, right, weight):.4f}  {cells}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("halves", nargs="*", default=["held"], choices=month.HALVES)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        model = load(EmbeddingSettings(), Path(place, "models"))
        for name, (notes, prompts, now) in {**own_sets(*chosen.halves), "memory": memory_set()}.items():
            found = judge(notes, prompts, now, model, Path(place, name))
            print(table(name, found.relevance, found.right), flush=True)


if __name__ == "__main__":
    main()
