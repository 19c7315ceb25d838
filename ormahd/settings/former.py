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
    "whisper.full_nodes": "the first two memories are always quoted in full",
    "whisper.content_characters": "a memory's content is always cut at 600 characters",
    "whisper.pool": "30 candidates are always judged",
    "whisper.temporal_relevance": "prompts that ask for a time always need a relevance of 0.30",
    "whisper.crowding": "the gate always rises by 0.0125 for each memory that is in",
    "whisper.companions": "a memory is always left out that is 0.12 less relevant than the best",
    "whisper.preference_gate": "standing preferences always need a relevance of 0.42",
    "whisper.topic_cosine": "a memory without a word in common always needs a cosine of 0.55",
    "whisper.other_spaces": "the relevance of a memory of another space is always halved",
    "whisper.elsewhere_margin": "the best of this space may always be 0.02 behind that of another",
    "whisper.reranker_characters": "the cross-encoder always reads 512 characters of a memory",
    "whisper.buffer_size": "the last 5 prompts of a session are always remembered",
}
"""`group.name` -> what holds instead, as a sentence without its full stop."""
