"""Gather the memories that may fit a prompt. Read-only.

`gather` collects them: from the search, from the self node's edges, from the archive, and standing preferences. `renew`
puts the newer memory before each chosen one that it replaced.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from ormahd.index.reader import Reader
from ormahd.index.rows import CandidateRow, EdgeRow, Filter, NodeRow
from ormahd.model.node import EdgeType, NodeType, SearchQuery, Tier
from ormahd.note.values import short_name
from ormahd.search.gather import EmbedQuery
from ormahd.search.search import (
    BEHIND,
    LEVEL,
    Hit,
    Holds,
    Newer,
    Ranked,
    Reworded,
    Rules,
    never,
    newer_of,
    rank,
    rank_parts,
)
from ormahd.text.quoting import beginning
from ormahd.text.words import query_terms, stems, words
from ormahd.whisper.by_words import adjust_by_names, clause_weights, has_twin, relevance_by_words, unknown_names
from ormahd.whisper.relevance import FEW, RIVAL, TEXT_ALONE, asks, away, common_words, few_words, fitted, relevance
from ormahd.whisper.types import Analysis, Asked, Candidate, Intent

OVERLAP: Final = 20_000
"""Maximum number of characters of a memory whose words are compared with the prompt's."""
CACHED_WORDS: Final = 60_000
"""Total number of words in the cache of `stems_of_notes`."""

_known: dict[str, frozenset[str]] = {}
_counted = 0
_lock = threading.Lock()


def stems_of_notes(rows: Sequence[NodeRow]) -> dict[str, frozenset[str]]:
    """Return `{digest: stemmed words}` of these memories, cached. Of a huge memory, only the beginning is read."""
    global _counted  # noqa: PLW0603 - of the process, as `_known` is
    found = {row.digest: known for row in rows if (known := _known.get(row.digest)) is not None}
    new = {
        row.digest: list(words(f"{row.title or ''} {beginning(row.content, OVERLAP)}"))
        for row in rows
        if row.digest not in found
    }
    stems(itertools.chain.from_iterable(new.values()))  # all at once: each query to SQLite is slow
    learned = {digest: stems(terms) for digest, terms in new.items()}
    with _lock:
        for digest, stemmed_words in learned.items():
            _counted += len(stemmed_words) + 1 if digest not in _known else 0
            _known[digest] = stemmed_words
        while _counted > CACHED_WORDS:
            _counted -= len(_known.pop(next(iter(_known)))) + 1
    return found | learned


SPOKEN_OF = [Tier.CORE, Tier.WORKING]
"""Tiers of the main search. The archive is searched separately, so that archived memories do not displace others."""
WIDE_ARCHIVE = 8
"""Number of archived memories considered for one prompt."""
FAR_ARCHIVE = 0.3
"""Cosine of the nearest archived memory below which the archive is not searched: none could pass its gate."""
OTHER_SPACES: Final = 0.12
"""Factor on the relevance of a memory of another space that the prompt does not name. With it, none passes the
default gate."""
_REPLACES = (EdgeType.DERIVED_FROM, EdgeType.EVOLVED_FROM)
WIDE_PREFERENCES = 8
"""Number of preferences considered for one prompt."""
FAR_PREFERENCE = 0.2
"""Cosine of the nearest preference below which preferences are not searched: none would apply."""


class Pool(Struct, frozen=True):
    """All candidates found for a prompt, and what the searches found besides."""

    candidates: list[Candidate]
    preferences: list[Candidate] = field(default_factory=list)
    identity: frozenset[str] = frozenset()
    """Ids of memories that describe the user; empty for a prompt that is not about the user."""
    home: float = 0.0
    """The best late interaction of a memory in the caller's space or a global one."""
    elsewhere: float = 0.0
    """The best late interaction of a memory in another space."""
    better: str | None = None
    """The space of the memory that `elsewhere` belongs to."""
    degraded: tuple[str, ...] = ()
    rows: Mapping[str, CandidateRow] = field(default_factory=dict)
    """`{node id: row}` of all memories that the searches considered. `renew` looks for newer memories among them."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """The weight of each evidence on relevance."""


class PromptEvidence(Struct, frozen=True):
    """Values of the prompt and the vault from which the relevance of each candidate is computed."""

    notes: int
    """Number of notes in the vault."""
    stems: Mapping[str, float]
    """`{stem: rarity}` of the prompt's words, without stop words. The rarity is 0 for words that all memories have."""
    words: Sequence[Mapping[str, float]]
    """`{word: weight}` of each clause; empty if the model reads the prompt's language."""
    unknown: tuple[str, ...]
    """Exact names in the prompt that no memory contains."""
    asks: float
    """The log odds that the prompt needs a memory (`relevance.asks`)."""
    fitted: str | None
    """Which weights the relevance is computed with (`QueryVectors.fitted`)."""
    away: float
    """How clearly other projects fit the prompt better (`relevance.away`)."""


def gather(
    index: Reader,
    analysis: Analysis,
    asked: Asked,
    *,
    self_id: str,
    embed: EmbedQuery,
    now: datetime,
    rules: Rules,
    limit: int,
    preferences: bool,
) -> Pool:
    """Return all candidates that the index has for the prompt.

    `self_id`: id of the self node; `limit`: maximum number of search results; `preferences`: whether standing
    preferences are searched too.
    """
    # the searches: in the main tiers, in the archive, for what describes the user, for preferences
    after, before = analysis.after, analysis.before
    query = SearchQuery(query=analysis.query, limit=limit, tiers=SPOKEN_OF, created_after=after, created_before=before)
    ranked = rank_parts(
        index, query, embed=embed, space=asked.space, now=now, rules=rules, renewed=False, explain=False
    )
    archive = _archive(index, query, asked, embed=embed, now=now, rules=rules)
    identity = about_user(index.edges_of([self_id]), self_id) if Intent.IDENTITY in analysis.intents else frozenset()
    standing = Ranked([])
    if preferences:
        standing = _preferences(index, analysis, asked, embed=embed, now=now, rules=rules)
    results = [*ranked.results, *archive.results]
    ids = dict.fromkeys([hit.node_id for hit in results])
    rows = index.notes([*ids, *(hit.node_id for hit in standing.results), *(identity - ids.keys())])

    # the best late interaction at home, and in the other spaces
    named = frozenset(words(analysis.prompt))
    best = [*ranked.spaces.items(), *archive.spaces.items()]
    spaces = {*(space for space, _ in best), *(row.space for row in rows.values())}
    factors = {space: place_factor(space, asked, named) for space in spaces}
    home = max((late for space, late in best if factors[space] > OTHER_SPACES), default=0.0)
    others = ((late, space) for space, late in best if factors[space] == OTHER_SPACES)
    elsewhere, better = max(others, key=lambda pair: pair[0], default=(0.0, None))

    # what the prompt and the vault say of every candidate
    vectors = embed(analysis.query)
    terms = query_terms(analysis.query)
    stems(terms)  # all at once: each query to SQLite is slow
    counts, notes = index.frequencies(terms)
    prompt = PromptEvidence(
        notes=index.count(),
        stems={
            stem: max(0.0, math.log((notes + 1) / (counts[term] + 0.5))) for term in terms for stem in stems((term,))
        },
        words=clause_weights(index, analysis.query, embed),
        unknown=tuple(unknown_names(index, analysis.query)),
        asks=asks(vectors),
        fitted=None if vectors is None else vectors.fitted,
        away=-1.0 if asked.space is None else away(home, elsewhere),
    )

    # the similarities of the hits at home, and each hit's place among them
    at_home = [
        "similarity" in hit.numbers and hit.node_id in rows and factors[rows[hit.node_id].space] > OTHER_SPACES
        for hit in results
    ]
    rivals = [hit.numbers["similarity"] for hit, is_at_home in zip(results, at_home, strict=True) if is_at_home]
    ranks = list(itertools.accumulate(at_home, initial=1))
    rank_of = {hit.node_id: rank for hit, rank in zip(results, ranks, strict=False)}

    candidates = list(_candidates(results, ranks, rivals, rows, self_id, prompt))
    for node_id in sorted(identity - ids.keys()):
        row = rows.get(node_id)
        if row is not None and row.tier in SPOKEN_OF and not row.expired(now):
            candidates.append(Candidate(row, 0.0, "search"))
    standing_ranks = [rank_of.get(hit.node_id, ranks[-1]) for hit in standing.results]
    applying = _candidates(standing.results, standing_ranks, rivals, rows, self_id, prompt)
    applying_preferences = [candidate for candidate in applying if not candidate.row.rejected]  # no recommendation
    for candidate in (*candidates, *applying_preferences):
        candidate.numbers["place"] = factors[candidate.row.space]
    return Pool(
        candidates=candidates,
        preferences=applying_preferences,
        identity=identity,
        home=home,
        elsewhere=elsewhere,
        better=better,
        degraded=tuple(ranked.degraded),
        rows={**standing.pool, **archive.pool, **ranked.pool},
        weights=fitted(prompt.fitted).weights,
    )


def about_user(edges: Iterable[EdgeRow], self_id: str) -> frozenset[str]:
    """Return the ids of memories that describe the user: those connected to the self node by `defines`."""
    linked = (edge for edge in edges if edge.edge is EdgeType.DEFINES)
    return frozenset(end for edge in linked for end in (edge.source, edge.target)) - {self_id}


def place_factor(space: str | None, asked: Asked, named: frozenset[str]) -> float:
    """Return the factor on the relevance of a memory of `space`: 1 at home, else `OTHER_SPACES`.

    At home are the caller's project, global memories, and a project that the prompt names. `named`: the prompt's words.
    """
    if asked.at_home(space):
        return 1.0
    name = frozenset(words(space or ""))
    if short_name(space or "") == short_name(asked.space or ""):
        # if two projects share a name, the name means the caller's project
        name -= frozenset(words(asked.space or ""))
    return 1.0 if name and name <= named else OTHER_SPACES


def _candidates(
    hits: Sequence[Hit],
    ranks: Sequence[int],
    rivals: Sequence[float],
    rows: Mapping[str, NodeRow],
    self_id: str,
    prompt: PromptEvidence,
) -> Iterable[Candidate]:
    """Yield a candidate for each hit; none for a memory that was forgotten meanwhile, and none for the self node.

    `ranks`: the place of each hit among the hits at home, from 1; `rivals`: the similarities of the hits at home.
    """
    stems_of = stems_of_notes([rows[hit.node_id] for hit in hits if hit.node_id in rows])
    first, second = [*sorted(rivals, reverse=True), RIVAL, RIVAL][:2]
    total = sum(prompt.stems.values())
    for hit, found_at in zip(hits, ranks, strict=False):
        row = rows.get(hit.node_id)
        if row is None or row.id == self_id:
            continue  # forgotten meanwhile; or the self node, whose title says nothing
        numbers = dict(hit.numbers)
        shared = prompt.stems.keys() & stems_of[row.digest]
        if "words" in numbers:
            numbers["common"] = common_words(numbers["words"], prompt.notes)
            if prompt.notes < FEW:
                numbers["common"] = max(numbers["common"], few_words(len(shared)))
        if "similarity" in numbers:
            rival = second if numbers["similarity"] >= first else first
            numbers["lead"] = numbers["similarity"] - max(rival, RIVAL)
            numbers["rare"] = sum(prompt.stems[stem] for stem in shared) / total if total else 0.0
            numbers |= {"place_found": float(found_at), "asks": prompt.asks, "away": prompt.away}
        # a memory found by an edge has no numbers of its own text, and so no relevance
        numbers |= relevance(numbers, prompt.fitted)
        fits = numbers.get(TEXT_ALONE, 0.0)
        if prompt.words and hit.source == "search":
            fits = numbers["by_words"] = relevance_by_words(row, prompt.words)
        twin = has_twin(prompt.unknown, row)
        numbers["twin"] = float(twin)
        yield Candidate(row, hit.score, hit.source, adjust_by_names(fits, numbers, twin=twin), numbers=numbers)


def _archive(
    index: Reader, query: SearchQuery, asked: Asked, *, embed: EmbedQuery, now: datetime, rules: Rules
) -> Ranked:
    """Return the archived memories found for the prompt; none if the nearest one is too far from it (`FAR_ARCHIVE`).

    A memory is left out if one outside of the archive was derived or evolved from it.
    """
    # a quick test: the nearest archived memory
    chosen = Filter(
        tiers=(Tier.ARCHIVAL,), created_after=query.created_after, created_before=query.created_before, alive_at=now
    )
    vectors = embed(query.query)
    near = index.search_vectors(vectors.vector, 1, chosen) if vectors is not None else []
    if not near or near[0][1] < FAR_ARCHIVE:
        return Ranked([])
    wish = query.model_copy(update={"tiers": [Tier.ARCHIVAL], "limit": WIDE_ARCHIVE})
    few = _small_rules(rules, 2 * WIDE_ARCHIVE)
    found = rank(index, wish, embed=embed, space=asked.space, now=now, renewed=False, explain=False, rules=few)

    # memories outside of the archive that were made from these
    ids = {hit.node_id for hit in found.results}
    edges = index.edges_of(list(ids))
    ends = [(edge.target, edge.source) for edge in edges if edge.edge in _REPLACES and edge.target in ids]
    sources = index.notes([source for _, source in ends])
    alive = {row.id for row in sources.values() if row.tier is not Tier.ARCHIVAL and not row.expired(now)}
    replaced = {target for target, source in ends if source in alive}
    hits = [hit for hit in found.results if hit.source == "search" and hit.node_id not in replaced]
    return replace(found, results=hits)


def _preferences(
    index: Reader, analysis: Analysis, asked: Asked, *, embed: EmbedQuery, now: datetime, rules: Rules
) -> Ranked:
    """Return the standing preferences found for the prompt; none if the nearest one is too far from it
    (`FAR_PREFERENCE`)."""
    spaces = ["global"] if asked.space is None else ["global", asked.space]
    query_vectors = embed(analysis.query)
    chosen = Filter(types=(NodeType.PREFERENCE,), tiers=tuple(SPOKEN_OF), spaces=tuple(spaces), alive_at=now)
    near = index.search_vectors(query_vectors.vector, 1, chosen) if query_vectors is not None else []
    if not near or near[0][1] < FAR_PREFERENCE:
        return Ranked([])  # for most prompts no preference is near; this saves the full search
    query = SearchQuery(
        query=analysis.query, limit=WIDE_PREFERENCES, tiers=SPOKEN_OF, types=[NodeType.PREFERENCE], spaces=spaces
    )
    few = _small_rules(rules, WIDE_PREFERENCES)
    return rank(index, query, embed=embed, space=None, now=now, renewed=False, explain=False, rules=few)


def _small_rules(rules: Rules, many: int) -> Rules:
    """Return `rules` for a small search: `many` candidates, no spreading activation."""
    return replace(rules, seeds=0, min_pool=many, compared=many)


NOT_RENEWED = ("session: ", "feedback: ")
"""Beginnings of `dropped` reasons of newer memories that `renew` does not show."""


def renew(
    index: Reader,
    chosen: Sequence[Candidate],
    preferences: Sequence[Candidate],
    pool: Pool,
    *,
    now: datetime,
    holds: Holds,
    reworded: Reworded = never,
) -> tuple[list[Candidate], list[Candidate], frozenset[str]]:
    """Return (chosen memories, standing preferences, ids of replaced memories). Newer memories are added to the first
    two.

    A newer memory on the matter of a chosen one or a preference is placed before it. If it replaced the older one, the
    older one is marked with `older_than`. If the newer one must not be shown (`NOT_RENEWED`), the older one is dropped
    instead. The ids are those of all replaced memories among the best candidates.
    """
    everyone = [*pool.candidates, *pool.preferences]
    by_id = {candidate.id: candidate for candidate in reversed(everyone)}  # of two with one id, the first counts
    if not chosen and not preferences:
        return [], [], frozenset()
    near = sorted(everyone, key=lambda candidate: -candidate.order)[:10]
    ids = list(dict.fromkeys(candidate.id for candidate in (*chosen, *preferences, *near)))
    considered = {**pool.rows, **index.candidates([node_id for node_id in by_id if node_id not in pool.rows])}
    marks = newer_of(index, ids, considered, Filter(alive_at=now), holds, reworded)
    found = _in_order(index, chosen, marks, by_id, pool)
    placed = {candidate.id for candidate in found}
    standing = _in_order(
        index, [preference for preference in preferences if preference.id not in placed], marks, by_id, pool
    )
    return found, standing, frozenset(node_id for node_id, newer in marks.items() if newer.replaces)


def _in_order(
    index: Reader,
    chosen: Sequence[Candidate],
    marks: Mapping[str, Newer],
    by_id: Mapping[str, Candidate],
    pool: Pool,
) -> list[Candidate]:
    """Return the chosen candidates. The newer memory on the matter of a candidate comes before it, see `renew`.

    `marks`: `{older id: newer memory}`; `by_id`: all candidates by their ids.
    """
    found: dict[str, Candidate] = {}
    listed = {candidate.id: candidate for candidate in chosen}
    for older in chosen:
        mark = marks.get(older.id)
        if mark is not None and mark.replaces:
            older.older_than = mark.node_id
        if mark is None or mark.node_id in found:
            found.setdefault(older.id, older)
            continue
        newer = listed.get(mark.node_id) or by_id.get(mark.node_id)
        if newer is None and (row := index.notes([mark.node_id]).get(mark.node_id)) is not None:
            # the search did not find it
            newer = Candidate(row, older.score, "activated", older.relevance, older.order)
            pool.candidates.append(newer)
        barred = newer is None or (newer.dropped is not None and newer.dropped.startswith(NOT_RENEWED))
        if newer is None or barred or (not mark.replaces and newer.score < LEVEL * older.score):
            if mark.replaces:
                older.dropped = f"older: replaced by {mark.node_id}, which is not said again"
            else:
                found.setdefault(older.id, older)
            continue
        newer.dropped = None
        newer.relevance = newer.numbers["renewed"] = max(older.relevance, newer.relevance)
        newer.order = max(older.order, newer.order)
        older.order = min(older.order, newer.order * BEHIND)
        found[newer.id] = newer
        found[older.id] = older
    return list(found.values())
