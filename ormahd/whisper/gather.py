"""Gather: the memories that may belong to a prompt, by search, by identity, and as standing preferences. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct, field

from ormahd.core.node import EdgeType, NodeType, SearchQuery, Tier
from ormahd.core.stems import stems
from ormahd.core.words import query_terms
from ormahd.index.rows import Edge, Filter, NodeRow
from ormahd.ranking.gather import EmbedQuery, Searchable
from ormahd.ranking.search import Hit, Rules, rank
from ormahd.whisper.relevance import FEW, common_words, few_words, relevance
from ormahd.whisper.stemmed import stemmed
from ormahd.whisper.steps import Asked, Candidate, Heard, Intent

SPOKEN_OF = [Tier.CORE, Tier.WORKING]
"""What has faded into the archive is found by recall, and not whispered (seeds)."""
WIDE_PREFERENCES = 8
"""Preferences looked at for one prompt; they are few, and the nearest ones are what counts."""
FAR_PREFERENCE = 0.2
"""Cosine below which no preference applies."""


class Readable(Searchable, Protocol):
    """What gathering asks of the index."""

    def count(self) -> int: ...
    def notes(self, ids: Sequence[str], *, connections: bool = True) -> dict[str, NodeRow]: ...


class Pool(Struct, frozen=True):
    """Everything that was found. `here` and `elsewhere`: the best late interaction in the caller's space (or global) and
    in any other one."""

    candidates: list[Candidate]
    preferences: list[Candidate] = field(default_factory=list)
    identity: frozenset[str] = frozenset()
    here: float = 0.0
    elsewhere: float = 0.0
    degraded: tuple[str, ...] = ()


def gather(
    index: Readable, heard: Heard, asked: Asked, *, self_id: str, embed: EmbedQuery, now: datetime, rules: Rules,
    limit: int, preferences: bool,
) -> Pool:  # fmt: skip
    """Candidates, best first by the search's order. `preferences`: look for standing ones too."""
    query = SearchQuery(
        query=heard.query, limit=limit, tiers=SPOKEN_OF,
        created_after=heard.after, created_before=heard.before,
    )  # fmt: skip
    ranked = rank(index, query, embed=embed, space=asked.space, now=now, rules=rules, explain=False)
    identity = neighbours(index.edges_of([self_id]), self_id) if Intent.IDENTITY in heard.intents else frozenset()
    standing = _preferences(index, heard, asked, embed=embed, now=now, rules=rules) if preferences else []
    ids = dict.fromkeys([hit.node_id for hit in ranked.results])
    rows = index.notes([*ids, *(one.node_id for one in standing), *(identity - ids.keys())], connections=False)
    notes = index.count()
    said = stems(query_terms(heard.query))
    candidates = list(_candidates(ranked.results, rows, self_id, notes, said))
    for node_id in sorted(identity - ids.keys()):
        row = rows.get(node_id)
        if row is not None and row.tier in SPOKEN_OF and not row.expired(now):
            candidates.append(Candidate(row, 0.0, "search"))
    here = [best for space, best in ranked.spaces.items() if asked.at_home(space)]
    elsewhere = [best for space, best in ranked.spaces.items() if not asked.at_home(space)]
    return Pool(
        candidates,
        list(_candidates(standing, rows, self_id, notes, said)),
        identity,
        max(here, default=0.0),
        max(elsewhere, default=0.0),
        tuple(ranked.degraded),
    )


def neighbours(edges: Iterable[Edge], self_id: str) -> frozenset[str]:
    """What defines the user: linked with the self node by `defines`."""
    linked = (edge for edge in edges if edge.edge is EdgeType.DEFINES)
    return frozenset(end for edge in linked for end in (edge.source, edge.target)) - {self_id}


def _candidates(
    hits: Sequence[Hit], rows: Mapping[str, NodeRow], self_id: str, notes: int, said: frozenset[str]
) -> Iterable[Candidate]:
    for hit in hits:
        row = rows.get(hit.node_id)
        if row is None or row.id == self_id:
            continue  # forgotten a moment ago; or the user's own node, whose title says nothing
        numbers = dict(hit.numbers)
        if "words" in numbers:
            numbers["common"] = common_words(numbers["words"], notes)
            if notes < FEW:
                numbers["common"] = max(numbers["common"], few_words(len(said & stemmed([row])[row.digest])))
        # what came by an edge has no numbers of its own text, and so no relevance
        yield Candidate(row, hit.score, hit.source, relevance(numbers) or 0.0, numbers=numbers)


def _preferences(
    index: Readable, heard: Heard, asked: Asked, *, embed: EmbedQuery, now: datetime, rules: Rules
) -> list[Hit]:
    spaces = ["global"] if asked.space is None else ["global", asked.space]
    query_vectors = embed(heard.query)
    chosen = Filter(types=(NodeType.PREFERENCE,), tiers=tuple(SPOKEN_OF), spaces=tuple(spaces), alive_at=now)
    near = index.search_vectors(query_vectors.vector, 1, chosen) if query_vectors is not None else []
    if not near or near[0][1] < FAR_PREFERENCE:
        return []  # most prompts touch none, and the rest takes some milliseconds
    query = SearchQuery(
        query=heard.query, limit=WIDE_PREFERENCES, tiers=SPOKEN_OF, types=[NodeType.PREFERENCE], spaces=spaces
    )
    few = rules.search.model_copy(update={"min_pool": WIDE_PREFERENCES, "rerank_pool": WIDE_PREFERENCES})
    still = rules.activation.model_copy(update={"seed_count": 0})
    few_rules = Rules(few, rules.spaces, still)
    return rank(index, query, embed=embed, space=None, now=now, explain=False, rules=few_rules).results
