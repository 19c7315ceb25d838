"""Fits the weights of `ormahd/whisper/relevance.json` on the shared benchmarks' dev sets and on the dev halves of
`tests/quality`.

    python -m tests.bench fit-relevance [--shared DIR] [--evidence FILE] [--model NAME] [--write]

The first run asks the whisper each prompt and keeps the evidence of all candidates in FILE, which takes some minutes; later
runs only fit, which takes seconds and gives the same table. Without the shared directory (`../shared/bench`) there is
nothing to fit on, and it says so. `--write` writes the table; that of another model has its name at its end.

A candidate is right as the gate's benchmark counts: a dialogue's turn if it is of a session that holds a turn with the
answer, a fact if it is planted for the question, a memory if the set names it. Each set also has prompts for which
nothing is right: the same questions in another space, small talk, coding.

It has two steps, each a regularised logistic regression. The first learns from the vectors of prompts which prompts
need a memory (`asks.json`). Its value for a prompt, by weights fitted without the prompt's fold, is evidence in the
second, which learns which candidates are right. There each set has a base of its own, so that the evidence is weighed
within a set and is not used to tell the sets apart, and evidence that speaks for a memory cannot get a weight against
it. The weights are then stretched and one base is set, so that what is told is true over all sets. A set has the
influence of `INFLUENCE`. The figures printed are of held folds: a conversation, a domain, a vault, or a fifth of the
prompts, judged by weights that were fitted without it.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ormahd.embedding.model import load
from ormahd.embedding.model_files import DEFAULT_MODEL, MULTILINGUAL, weights_of
from ormahd.settings import EmbeddingSettings
from ormahd.whisper import relevance
from ormahd.whisper.relevance import MOST_ASKS, WITNESSES
from tests.bench import fit
from tests.bench.fit import least
from tests.contract.index_notes import NOW
from tests.quality import calibration
from tests.quality.calibration import Judged, Labelled, Stored

TABLES = Path(relevance.__file__).parent
AGAINST = ("far", "rank", "away")
"""Evidence that may only lower the chance."""
EITHER = ("asks", "lead")
"""Evidence of unknown direction; all other may only raise the chance."""
RIDGE = 5.0
"""Strength of the regularisation of the weights; each set counts for `WORTH` candidates."""
OWN_BASE = 200.0
"""Strength of the regularisation of a set's base: the weaker it is, the more the sets may differ in it."""
WORTH = 3_000.0
INFLUENCE: Mapping[str, float] = {"tasks": 6.0}
"""How much a set counts; every other counts 1."""
EVERY = {"locomo": 2, "proactive": 1}
"""Of the questions of a benchmark, each so many-th is asked: all of them take long."""
ASKS_RIDGE = 100.0
"""Strength of the regularisation of the weights of `asks`; each set counts for `ASKS_WORTH` prompts."""
ASKS_WORTH = 200.0
GROUPS = 8
"""Number of groups of folds of which each is left out once to compute `asks`."""


def sets(shared: Path) -> dict[str, tuple[list[Stored], list[Labelled], Any]]:
    """Return notes, prompts and the time of each set."""
    known = fit.sets(shared)
    prompts = importlib.import_module("prompts")
    silent = [*prompts.CHITCHAT, *prompts.CODING]
    session = {
        one.id: one.session
        for one in importlib.import_module("locomo").load(str(shared / "data/locomo-dev"), "dev").notes
    }
    of: dict[str, set[str]] = {}
    for turn, its in session.items():
        of.setdefault(its, set()).add(turn)
    found = {}
    for name in ("locomo", "proactive"):
        notes, asked = known[name]
        spaces = list(dict.fromkeys(one.space for one in notes))
        other = dict(zip(spaces, [*spaces[1:], spaces[0]], strict=True))
        labelled = []
        for one in asked[:: EVERY[name]]:
            right = one.gold
            if name == "locomo":
                right = frozenset().union(*(of[session[turn]] for turn in one.gold))
            labelled += [
                Labelled(one.text, one.space, right, one.fold),
                Labelled(one.text, other[one.space], frozenset(), one.fold, right, moved=True),
            ]
        for number, text in enumerate(silent):
            space = spaces[number % len(spaces)]
            labelled.append(Labelled(text, space, frozenset(), str(space)))
        stored = [Stored(one.key, one.content, {"space": one.space, "created": one.created}) for one in notes]
        found[name] = (stored, labelled, NOW)
    return {**found, "memory": calibration.memory_set(silent), **calibration.own_sets("dev")}


def gather_all(shared: Path, keep: Path, settings: EmbeddingSettings) -> None:
    """Judge the candidates of all sets with the model of `settings`, and keep them in `keep`."""
    held: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        model = load(settings, Path(place, "models"))

        def judged(name: str, asked: tuple[list[Stored], list[Labelled], Any]) -> Judged:
            notes, prompts, now = asked
            found = calibration.judge(notes, prompts, now, model, Path(place, name))
            print(f"{name}: {len(notes)} notes, {len(prompts)} prompts, {len(found.right)} candidates", flush=True)
            return found

        some = {name: judged(name, asked) for name, asked in sets(shared).items()}
        vaults = calibration.task_sets("dev")
        some["tasks"] = calibration.together(judged(name, asked) for name, asked in vaults.items())
    for at, one in enumerate(some.values()):
        held |= {f"{at} {name}": column for name, column in vars(one).items()}
    np.savez_compressed(keep, names=json.dumps(list(some)), pieces=json.dumps(WITNESSES), **held)


def kept(file: Path) -> dict[str, Judged]:
    """Return the candidates that `gather_all` kept."""
    data = np.load(file)
    if json.loads(str(data["pieces"])) != list(WITNESSES):
        raise SystemExit(
            f"{file} holds other evidence than relevance.WITNESSES; delete it, so that it is gathered again"
        )
    columns = Judged.__dataclass_fields__
    return {
        name: Judged(**{column: data[f"{at} {column}"] for column in columns})
        for at, name in enumerate(json.loads(str(data["names"])))
    }


def fitted_asks(some: Mapping[str, Judged], leave_out: int | None = None) -> tuple[Any, float]:
    """Return the weights and the base of `asks`, fitted without the folds of group `leave_out`."""
    vectors, needs, worth = [], [], []
    for name, one in some.items():
        known = ~np.isnan(one.needs) & (_groups(name, one.folds) != leave_out)
        vectors.append(one.vectors[known])
        needs.append(one.needs[known])
        worth.append(np.full(known.sum(), ASKS_WORTH * INFLUENCE.get(name, 1.0) / max(1, known.sum())))
    columns, right, weight = np.concatenate(vectors), np.concatenate(needs), np.concatenate(worth)
    middle = columns.mean(axis=0)
    spread = columns.std()  # one of all: some dimensions never vary, and would get huge weights
    scaled = np.c_[(columns - middle) / spread, np.ones(len(right))]
    ridge = np.r_[np.full(columns.shape[1], ASKS_RIDGE), 0.0]
    found = least(
        lambda weights: _loss(scaled @ weights, right, weight, scaled, ridge * weights, weights),
        np.zeros(scaled.shape[1]), [(None, None)] * scaled.shape[1],
    )  # fmt: skip
    weights = found[:-1] / spread
    return weights, float(found[-1] - middle @ weights)


def with_asks(some: Mapping[str, Judged]) -> dict[str, Judged]:
    """Return the sets with the evidence `asks` by weights that were fitted without the prompt's group of folds."""
    tables = [fitted_asks(some, group) for group in range(GROUPS)]
    found = {}
    for name, one in some.items():
        groups = _groups(name, one.folds)
        values = np.array(
            [vector @ tables[at][0] + tables[at][1] for vector, at in zip(one.vectors, groups, strict=True)]
        )
        evidence = one.evidence.copy()
        evidence[:, WITNESSES.index("asks")] = values.clip(-MOST_ASKS, MOST_ASKS)[one.prompt]
        found[name] = replace(one, evidence=evidence)
    return found


def _groups(name: str, folds: Any) -> Any:
    return np.array([zlib.crc32(f"{name} {fold}".encode()) % GROUPS for fold in folds])


def fitted(some: Mapping[str, Judged]) -> tuple[Any, float]:
    """Return the weights and the base."""
    evidence = np.concatenate([one.evidence for one in some.values()])
    right = np.concatenate([one.right for one in some.values()])
    worth = np.concatenate(
        [np.full(len(one.right), INFLUENCE.get(name, 1.0) * WORTH / len(one.right)) for name, one in some.items()]
    )
    of = np.repeat(np.arange(len(some)), [len(one.right) for one in some.values()])
    middle, spread = evidence.mean(axis=0), evidence.std(axis=0) + 1e-9
    columns = np.c_[(evidence - middle) / spread, of[:, None] == np.arange(len(some)), np.ones(len(right))]
    ridge = np.r_[np.full(len(WITNESSES), RIDGE), np.full(len(some), OWN_BASE), 0.0]
    free = (None, None)
    bounds = [(None, 0.0) if one in AGAINST else free if one in EITHER else (0.0, None) for one in WITNESSES]
    found = least(
        lambda weights: _loss(columns @ weights, right, worth, columns, ridge * weights, weights),
        np.zeros(columns.shape[1]), [*bounds, *[free] * (len(some) + 1)],
    )  # fmt: skip
    weights = found[: len(WITNESSES)] / spread
    score = np.c_[evidence @ weights, np.ones(len(right))]
    stretch, base = least(
        lambda two: _loss(score @ two, right, worth, score, 0.0 * two, two), np.array([1.0, -score[:, 0].mean()]),
        [free, free],
    )  # fmt: skip
    return weights * stretch, float(base)


def _loss(logit: Any, right: Any, worth: Any, columns: Any, pull: Any, weights: Any) -> tuple[float, Any]:
    """Return the weighted logistic loss and its slope; `pull`: the slope of the regularisation."""
    chance = 1.0 / (1.0 + np.exp(-logit))
    loss = (worth * (np.logaddexp(0.0, logit) - right * logit)).sum() + (pull * weights).sum() / 2
    return float(loss), columns.T @ (worth * (chance - right)) + pull


def _chance(one: Judged, weights: Any, base: float) -> Any:
    return 1.0 / (1.0 + np.exp(-(one.evidence @ weights + base)))


def held_folds(some: Mapping[str, Judged]) -> tuple[dict[str, Any], list[Any]]:
    """Return the chances of each set's candidates by weights fitted without their fold, and these weights."""
    chances = {name: np.zeros(len(one.right)) for name, one in some.items()}
    every = []
    for name, one in some.items():
        for fold in sorted(set(one.fold)):
            rest = {other: its if other != name else _of(its, its.fold != fold) for other, its in some.items()}
            weights, base = fitted(rest)
            every.append(weights)
            chances[name][one.fold == fold] = _chance(_of(one, one.fold == fold), weights, base)
    return chances, every


def _of(one: Judged, there: Any) -> Judged:
    columns = ("evidence", "relevance", "right", "fold", "prompt")
    return replace(one, **{name: getattr(one, name)[there] for name in columns})


def report(title: str, some: Mapping[str, Judged], chances: Mapping[str, Any]) -> None:
    """Print the calibration of each set and of all together."""
    print(title)
    for name, one in some.items():
        print(" ", calibration.table(name, chances[name], one.right))
    pooled = (
        np.concatenate([chances[name] for name in some]), np.concatenate([one.right for one in some.values()]),
        np.concatenate([np.full(len(one.right), 1.0 / len(one.right)) for one in some.values()]),
    )  # fmt: skip
    print(" ", calibration.table("all", *pooled))


def main(args: list[str]) -> None:
    parser = fit.options(__doc__, evidence="ormah-relevance-evidence{}.npz", written="the tables of weights")
    parser.add_argument("--model", default=DEFAULT_MODEL, choices=(DEFAULT_MODEL, MULTILINGUAL))
    chosen = parser.parse_args(args)
    model = weights_of(chosen.model) or ""
    chosen.evidence = Path(str(chosen.evidence).format(model))  # each model has evidence of its own
    if not fit.gathered(chosen, partial(gather_all, settings=EmbeddingSettings(model=chosen.model)), "the relevance"):
        return
    gathered = kept(chosen.evidence)
    some = with_asks(gathered)
    chances, every = held_folds(some)
    report("held folds", some, chances)
    now = relevance.fitted(model)
    shipped = np.array([now.weights[one] for one in WITNESSES])
    report("shipped table", some, {name: _chance(one, shipped, now.base) for name, one in some.items()})
    weights, base = fitted(some)
    for at, name in enumerate(WITNESSES):
        low, high = min(one[at] for one in every), max(one[at] for one in every)
        print(f"  {name:8} {weights[at]:+8.3f}  over the folds {low:+8.3f} to {high:+8.3f}")
    print(f"  base     {base:+8.3f}")
    if chosen.write:
        counts = {name: len(one.right) for name, one in some.items()}
        fit.write_table(
            TABLES / f"relevance{model}.json", counts, base, dict(zip(WITNESSES, weights.tolist(), strict=True))
        )
        slopes, constant = fitted_asks(gathered)
        known = {name: int((~np.isnan(one.needs)).sum()) for name, one in gathered.items()}
        each = {str(at): slope for at, slope in enumerate(slopes.tolist())}
        fit.write_table(TABLES / f"asks{model}.json", known, constant, each)


if __name__ == "__main__":
    main(sys.argv[1:])
