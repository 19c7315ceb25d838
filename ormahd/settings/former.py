"""Settings of earlier versions: `config check` names them and says what became of each. They are never an error."""

from __future__ import annotations

FORMER: dict[str, str] = {
    "search.min_pool": "at least 100 candidates of each kind are gathered, always",
    "search.rerank_pool": "100 candidates are compared token by token, always",
    "search.late_weight": "late interaction always weighs 0.6 in the similarity",
    "search.cosine_weight": "the cosine always weighs 0.25 in the similarity",
    "search.words_weight": "words in common always weigh 0.15 in the similarity",
    "search.words_half": "a bm25 value of 20 always counts half",
    "search.moment_weight": "the best of a conversation always vouches for the others with 0.2",
    "search.moment_minutes": "a conversation is what was stored within 30 minutes, always",
    "search.brevity_tokens": "a note of n tokens always counts n / (n + 3)",
    "search.length_chance": "the correction for a note's length is always 0.1 for each factor e",
    "search.fts_only_dampening": "a candidate without any similarity always counts half",
    "search.rrf_min_spread_ratio": "fused scores are spread out from a spread of 0.05 on, always",
    "search.period_boost": "a memory of the period that a query names always gets 0.1 more",
    "search.recency_boost": "recent access always adds at most 0.05",
    "search.recency_half_life_days": "what recent access adds always halves in 7 days",
    "search.access_boost": "frequent use always adds at most 0.05",
}
"""`group.name` -> what holds instead, as a sentence without its full stop."""
