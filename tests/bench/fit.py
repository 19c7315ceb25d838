"""Fits the weights of `ormahd/search/blend.json` on the shared benchmarks' dev sets and on sets of `tests/quality`.

    python -m tests.bench fit [--shared DIR] [--evidence FILE] [--write]

The first run embeds the texts, searches each question, and keeps the evidence of all candidates in FILE (and the indexes
beside it); later runs only fit, which takes a minute and gives the same table. Without the shared directory
(`../shared/bench`) there is nothing to fit on, and it says so.

The fit is a conditional logistic regression: the weights make the right candidates of a question more likely than the
others that were found for it. It is regularised, each set has the same influence, and evidence that speaks for a note
cannot get a weight against it. The base is then set so that the chances to be right add up to what is right. The figures
printed are of held folds (a conversation, a vault, a project or a fifth of a set is ranked by weights fitted without it),
beside the best of four plain references: dense, words, their fusion by reciprocal ranks, and unweighted MaxSim over the
candidates.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

from ormahd.embedding.embedder import Embedder
from ormahd.embedding.model import load
from ormahd.index.index import Index
from ormahd.model.node import SearchQuery
from ormahd.search import blend
from ormahd.search.blend import PIECES
from ormahd.search.exact import exact_effect
from ormahd.search.fuse import RANK, fuse
from ormahd.search.gather import gather, parse_query
from ormahd.search.search import Rules, score_candidates
from ormahd.settings import EmbeddingSettings
from ormahd.text.words import query_terms
from tests.contract.index_notes import NOW, apply, note
from tests.quality.calibration import calibration_error, own_sets
from tests.quality.sets import long_notes, memory, sessions
from tests.quality.tasks import vaults

TABLE = Path(blend.__file__).with_name("blend.json")
AGAINST = ("other_named", "asks")
"""Evidence that may only lower a note's chance."""
EITHER = ("itself", "crowded")
"""Evidence of unknown direction; all other may only raise a note's chance."""
RIDGE = 5.0
"""Strength of the regularisation, of 1,000 questions a set."""
BLOCK = 8
"""Turns of a conversation that make one long note of the set `blocks`."""
FOLDS = 5
HELD = 10
"""Number of parts into which the conversations, vaults, projects and fifths of each set are put; one part is held at a time."""
K = 10
DOCUMENTS = 600
"""Number of pages of documentation; every second one is asked for."""
REFERENCES = ("dense", "words", "fusion", "maxsim")
SMALL = (14, 10, None)
"""Number of notes of the small vaults that a vault is cut into, each size once; None: it stays whole."""


@dataclass(frozen=True)
class Asked:
    text: str
    space: str | None
    gold: frozenset[str]
    fold: str


@dataclass(frozen=True)
class Stated:
    key: str
    space: str | None
    created: datetime
    title: str | None
    content: str


@dataclass
class Question:
    """A question's candidates: their evidence float64[n, pieces], which of them are right, and today's order.

    `plain`: the place of the first right note by each of `REFERENCES`; 0: beyond `K`.
    """

    name: str
    fold: str
    evidence: Any
    right: Any
    tie: Any
    plain: Sequence[int]


def sets(shared: Path) -> dict[str, tuple[list[Stated], list[Asked]]]:
    """Return the notes and the questions of each set."""
    sys.path.insert(0, str(shared))
    locomo, proactive, longtalk = map(importlib.import_module, ("locomo", "proactive", "longtalk"))
    spoken = locomo.load(str(shared / "data/locomo-dev"), "dev")
    turns = [Stated(n.id, n.space, _utc(n.created), None, n.content) for n in spoken.notes]
    asked = [Asked(q.text, q.space, frozenset(q.gold), q.space) for q in spoken.recall_questions]
    planted, prompts = proactive.load(shared / "data/proactive-dev")
    texts, questions = memory()
    messages, asked_of_chats, _ = longtalk.load(shared / "data/longtalk-dev")
    pages, summaries = long_notes(DOCUMENTS)
    talk, asked_later = sessions()
    began = NOW - timedelta(days=100)
    return {
        "locomo": (turns, asked),
        "blocks": _blocks(spoken.notes, asked[::2]),
        "proactive": (
            [Stated(n.id, n.space, _utc(n.created), None, n.content) for n in planted],
            [Asked(q.text, q.space, q.gold, q.space) for q in prompts if q.gold],
        ),
        "memory": (
            [Stated(text.key, None, NOW, text.title, text.content) for text in texts],
            [Asked(q.text, None, frozenset([q.gold]), f"memory-{zlib.crc32(q.text.encode()) % FOLDS}") for q in questions],
        ),
        "longtalk": (
            [Stated(n.id, n.space, _utc(n.created), None, n.content) for n in messages],
            [Asked(q.text, q.space, frozenset(q.gold), q.space) for q in asked_of_chats],
        ),
        "docs": (
            [Stated(text.key, None, NOW, None, text.content) for text in pages],
            [Asked(q.text, None, frozenset([q.gold]), f"docs-{zlib.crc32(q.text.encode()) % FOLDS}") for q in summaries[::2]],
        ),
        "sessions": (
            [
                Stated(text.key, text.key.split("/")[0], began + timedelta(minutes=20 * at), None, text.content)
                for at, text in enumerate(talk)
            ],
            [Asked(q.text, q.gold.split("/")[0], frozenset([q.gold]), q.gold.split("/")[0]) for q in asked_later],
        ),
        "tasks": (
            [replace(one, space=name) for name, (stored, _) in of_tasks().items() for one in stored],
            [replace(one, space=name) for name, (_, prompts) in of_tasks().items() for one in prompts],
        ),
        **{
            name.split()[0]: (
                [
                    Stated(n.key, n.fields.get("space"), n.fields.get("created", now), n.fields.get("title"), n.content)
                    for n in stored
                ],
                [Asked(p.text, p.space, p.right, f"{name}-{p.fold}") for p in prompts if p.right],
            )
            for name, (stored, prompts, now) in own_sets("dev").items()
        },
    }  # fmt: skip


def of_tasks() -> dict[str, tuple[list[Stated], list[Asked]]]:
    """Return the notes and the prompts of each vault of `tasks`, asked in no space."""
    return {
        v.name: (
            [Stated(f"{v.name}/{m.key}", m.space, m.created, m.title, m.content) for m in v.memories],
            [Asked(p.text, None, frozenset(f"{v.name}/{key}" for key in p.must), v.name) for p in v.prompts if p.must],
        )
        for v in vaults("dev")
    }  # fmt: skip


def small_vaults(
    known: Mapping[str, tuple[list[Stated], list[Asked]]],
) -> Iterator[tuple[str, list[Stated], list[Asked]]]:
    """Return vaults as people begin with, by name of the set: short notes, every second without its title.

    `small`: each vault cut down to some notes (`SMALL`), once as if stored within minutes. `mixed`: the whole vault. The
    questions of `memory` are asked as questions, and as their words alone.
    """
    began = NOW - timedelta(hours=3)
    notes, questions = known["memory"]
    terms = [replace(q, text=" ".join(query_terms(q.text))) for q in questions]
    memories = [replace(one, space=(None, "shop", "app")[_number(one.key) % 3]) for one in notes]
    month = [replace(q, space=None) for q in known["month"][1]]
    every = [("memory", memories, [*questions, *terms]), ("month", known["month"][0], month)]
    every += [("tasks", *vault) for vault in of_tasks().values()]
    for name, stored, asked in every:
        for size in SMALL:
            some = sorted(stored, key=lambda one: _number(one.key, size))
            parts = max(1, round(len(some) / size)) if size else 1
            for part in (some[at::parts] for at in range(parts)):
                vault = [
                    replace(
                        one, title=one.title if _number(one.key, "title", size) % 2 else None,
                        created=began + timedelta(seconds=2 * at) if size == SMALL[0] else one.created,
                    )
                    for at, one in enumerate(part)
                ]  # fmt: skip
                keys = {one.key for one in vault}
                yield (
                    f"{'small' if size else 'mixed'}-{name}", vault,
                    [replace(q, gold=q.gold & keys) for q in asked if q.gold & keys],
                )  # fmt: skip


def _number(*of: object) -> int:
    return zlib.crc32(repr(of).encode())


def _blocks(turns: Sequence[Any], asked: Sequence[Asked]) -> tuple[list[Stated], list[Asked]]:
    """Return long notes, each of `BLOCK` turns of one session, and the questions with the notes that hold their gold turns."""
    sessions: dict[str, list[Any]] = {}
    for turn in turns:
        sessions.setdefault(turn.session, []).append(turn)
    notes, home = [], {}
    for session, some in sessions.items():
        for at in range(0, len(some), BLOCK):
            key, part = f"{session}+{at}", some[at : at + BLOCK]
            content = "\n".join(turn.content for turn in part)
            notes.append(Stated(key, part[0].space, _utc(part[0].created), None, content))
            home |= {turn.id: key for turn in part}
    return notes, [Asked(q.text, q.space, frozenset(home[one] for one in q.gold), q.fold) for q in asked]


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def gather_all(shared: Path, keep: Path) -> None:
    """Search every question in an index of its set, its own space alone and all spaces, and keep the evidence in `keep`."""
    held: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    place = keep.with_suffix("")
    embedder = load(EmbeddingSettings(), place / "models")
    known = sets(shared)
    every = [*((name, *one) for name, one in known.items()), *small_vaults(known)]
    for number, (name, notes, questions) in enumerate(every):
        index = Index.open(place / (name if name in known else f"{name}-{number}"), clock=lambda: NOW)
        index.attach(embedder)
        key_of = {str(uuid.uuid5(uuid.NAMESPACE_URL, one.key)): one.key for one in notes}
        apply(index, {
            f"{at}/n_{node_id[:8]}.md": note(node_id, one.content, title=one.title, space=one.space, created=one.created)
            for at, (node_id, one) in enumerate(zip(key_of, notes, strict=True))
        })  # fmt: skip
        index.wait_filled(3600.0)
        for asked in questions:
            for spaces in ([asked.space], None) if asked.space else (None,):
                found = evidence_of(index, SearchQuery(query=asked.text, limit=K, spaces=spaces), embedder)
                if found is None:
                    continue
                ids, pieces, orders = found
                at = len(rows)
                held[f"e{at}"] = np.stack([pieces[piece] for piece in PIECES], axis=1)
                held[f"r{at}"] = np.array([key_of[one] in asked.gold for one in ids])
                held[f"t{at}"] = np.argsort(np.argsort(ids))
                hits = [[key_of[one] in asked.gold for one in order[:K]] for order in orders]
                places = [hit.index(True) + 1 if any(hit) else 0 for hit in hits]
                rows.append({"name": f"{name}/{'own' if spaces else 'all'}", "fold": asked.fold, "plain": places})
        index.close()
        print(f"{name}: {len(notes)} notes, {len(questions)} questions", flush=True)
    np.savez_compressed(keep, rows=json.dumps(rows), pieces=json.dumps(PIECES), **held)


def evidence_of(
    index: Index, query: SearchQuery, embedder: Embedder
) -> tuple[list[str], Mapping[str, Any], list[list[str]]] | None:
    """Return the candidates that ranking finds for a query, the evidence that the blend weighs, and the order of each
    of `REFERENCES`; None if the model does not read the query."""
    rules = Rules()
    heard = parse_query(query, space=None, now=NOW)
    gathered = gather(index, heard, embedder.embed_query, rules.min_pool)
    exact = exact_effect(index, heard)
    fused = fuse(gathered, keep=rules.compared, exact=exact.boost.keys())
    _, rows, evidence, shaped = score_candidates(index, fused, gathered, heard, exact)
    if gathered.meaning is None or evidence is None:
        return None
    ids = [row.id for row in rows]
    dense = [one for one, _ in index.search_vectors(gathered.meaning.vector, rules.min_pool, heard.chosen)]
    worded = [one for one, _ in index.search_text(query.query, rules.min_pool, heard.chosen)]
    votes: Counter[str] = Counter()
    for order in (dense, worded):
        votes.update({one: 1 / (RANK + at) for at, one in enumerate(order, 1)})  # type: ignore[misc]
    fusion = sorted(votes, key=lambda one: (-votes[one], one))
    plain = evidence.late.plain
    return ids, shaped.evidence, [dense, worded, fusion, [ids[at] for at in np.lexsort((ids, -plain))]]


def kept(file: Path) -> list[Question]:
    """Return the questions that `gather_all` kept."""
    data = np.load(file)
    if json.loads(str(data["pieces"])) != list(PIECES):
        raise SystemExit(f"{file} holds other evidence than blend.PIECES; delete it, so that it is gathered again")
    rows = json.loads(str(data["rows"]))
    folds: dict[str, set[str]] = {}
    for row in rows:
        folds.setdefault(row["name"].split("/")[0], set()).add(row["fold"])
    part = {(name, fold): f"{at % HELD}" for name, some in folds.items() for at, fold in enumerate(sorted(some))}
    return [
        Question(
            row["name"],
            part[row["name"].split("/")[0], row["fold"]],
            data[f"e{at}"],
            data[f"r{at}"],
            data[f"t{at}"],
            row["plain"],
        )
        for at, row in enumerate(rows)
    ]


def fit(questions: Sequence[Question]) -> tuple[Any, float]:
    """Return the weights and the base."""
    some = [one for one in questions if one.right.any()]
    counts = Counter(_set(one) for one in some)
    worth = np.array([1000 / counts[_set(one)] for one in some])
    evidence = np.concatenate([one.evidence for one in some])
    right = np.concatenate([one.right for one in some]).astype(np.float64)
    sizes = np.array([len(one.right) for one in some])
    first, owner = np.r_[0, np.cumsum(sizes)[:-1]], np.repeat(np.arange(len(some)), sizes)
    spread = evidence.std(axis=0) + 1e-9
    scaled = (evidence - evidence.mean(axis=0)) / spread

    def loss(weights: Any) -> tuple[float, Any]:
        score = scaled @ weights
        share = np.exp(score - np.maximum.reduceat(score, first)[owner])
        every = np.add.reduceat(share, first)
        good = np.maximum(np.add.reduceat(share * right, first), 1e-300)
        slope = scaled.T @ (worth[owner] * (share / every[owner] - share * right / good[owner])) + RIDGE * weights
        return float((worth * (np.log(every) - np.log(good))).sum() + RIDGE / 2 * weights @ weights), slope

    says = [piece.partition("_")[2] for piece in PIECES]
    bounds = [(None, None) if one in EITHER else (None, 0.0) if one in AGAINST else (0.0, None) for one in says]
    weights = least(loss, np.zeros(len(PIECES)), bounds) / spread
    return weights, _base(evidence @ weights, right, worth[owner] / sizes[owner])


def _base(score: Any, right: Any, worth: Any) -> float:
    """Return the base with which the scores, as logits, tell as much chance to be right in all as there is."""

    def loss(base: Any) -> tuple[float, Any]:
        logit = score + base[0]
        off = worth * (1 / (1 + np.exp(-logit)) - right)
        return float((worth * (np.logaddexp(0, logit) - right * logit)).sum()), np.array([off.sum()])

    return float(least(loss, np.array([-float(score.mean())]), [(None, None)])[0])


def least(loss: Any, start: Any, bounds: Sequence[Any]) -> Any:
    """Return where a loss with its slope is least, within bounds."""
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-8}
    )
    return found.x


def _set(one: Question) -> str:
    """Return the set that a question counts in: all small vaults are one, all mixed ones another."""
    return one.name.split("/")[0].split("-")[0]


def figures(
    questions: Sequence[Question], weights: Mapping[str, tuple[Any, float]]
) -> dict[str, tuple[float, float, float]]:
    """Return (any@10, mean reciprocal rank, calibration error) of each set; `weights`: by fold."""
    ranks: dict[str, list[int]] = {}
    chances: dict[str, list[Any]] = {}
    for one in questions:
        by, base = weights[one.fold]
        logit = one.evidence @ by + base
        order = np.lexsort((one.tie, -logit))
        hits = np.flatnonzero(one.right[order][:K])
        ranks.setdefault(one.name, []).append(int(hits[0]) + 1 if len(hits) else 0)
        chances.setdefault(one.name, []).append(np.stack([1 / (1 + np.exp(-logit)), one.right]))
    return {
        name: (
            sum(rank > 0 for rank in places) / len(places),
            sum(1 / rank for rank in places if rank) / len(places),
            calibration_error(*np.concatenate(chances[name], axis=1)),
        )
        for name, places in sorted(ranks.items())
    }


def references(questions: Sequence[Question]) -> dict[str, str]:
    """Return for each set the largest any@10 and mean reciprocal rank of `REFERENCES`, in words."""
    places: dict[str, list[Sequence[int]]] = {}
    for one in questions:
        places.setdefault(one.name, []).append(one.plain)
    found = {}
    for name, some in places.items():
        ranks = np.array(some, np.float64)
        any10, mrr = (ranks > 0).mean(axis=0), np.divide(1, ranks, where=ranks > 0, out=0 * ranks).mean(axis=0)
        found[name] = " ".join(
            f"{what} {values.max():.3f} ({REFERENCES[values.argmax()]})"
            for what, values in (("best", any10), ("", mrr))
        )
    return found


def options(description: str | None, *, evidence: str, written: str) -> argparse.ArgumentParser:
    """Return the parser of the options of a program that fits. `evidence`: the usual file's name; `written`: what `--write` writes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--shared", type=Path, default=Path("../shared/bench"), help="the directory of the shared benchmarks"
    )
    parser.add_argument("--evidence", type=Path, default=Path(tempfile.gettempdir(), evidence))
    parser.add_argument("--write", action="store_true", help=f"write {written}")
    return parser


def gathered(chosen: argparse.Namespace, gather_all: Callable[[Path, Path], None], what: str) -> bool:
    """Gather the evidence unless it is kept. Return False, and say why, where there is nothing to gather it from."""
    if not chosen.evidence.exists():
        if not (chosen.shared / "locomo.py").exists():
            print(f"{chosen.shared} is missing: the shared benchmarks are needed to fit {what}")
            return False
        gather_all(chosen.shared.resolve(), chosen.evidence)
    return True


def write_table(file: Path, sets: Mapping[str, int], base: float, weights: Mapping[str, float]) -> None:
    """Write the fitted numbers as `model.chance.FittedWeights` reads them."""
    table = {
        "made": date.today().isoformat(), "sets": dict(sets), "base": round(base, 4),
        "weights": {name: round(weight, 4) for name, weight in weights.items()},
    }  # fmt: skip
    file.write_text(json.dumps(table, indent=1) + "\n")
    print(f"written: {file}")


def main(args: list[str]) -> None:
    chosen = options(__doc__, evidence="ormah-evidence.npz", written=f"the table to {TABLE.name}").parse_args(args)
    if not gathered(chosen, gather_all, "the blend"):
        return
    questions = kept(chosen.evidence)
    folds = sorted({one.fold for one in questions})
    held = {fold: fit([one for one in questions if one.fold != fold]) for fold in folds}
    weights, base = fit(questions)
    now = blend.fitted()
    best = references(questions)
    shipped = (np.array([now.weights[piece] for piece in PIECES]), now.base)
    for title, by in (("held folds", held), ("shipped table", dict.fromkeys(folds, shipped))):
        print(title)
        for name, (any10, mrr, error) in figures(questions, by).items():
            print(f"  {name:15} any@10 {any10:.3f}  MRR {mrr:.3f}  calibration error {error:.4f}  {best[name]}")
    for at, piece in enumerate(PIECES):
        print(
            f"  {piece:12} {weights[at]:+8.3f}  over the folds {min(w[at] for w, _ in held.values()):+8.3f} to {max(w[at] for w, _ in held.values()):+8.3f}"
        )
    print(f"  base         {base:+8.3f}")
    if chosen.write:
        counts = sorted(Counter(one.name for one in questions).items())
        write_table(TABLE, dict(counts), base, dict(zip(PIECES, weights.tolist(), strict=True)))


if __name__ == "__main__":
    main(sys.argv[1:])
