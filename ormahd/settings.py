"""Every setting: its default, unit, bounds and reason. Loading and layering: `config.py`.

A number that users may wish to move lives here; a number that belongs to an algorithm lives beside it.
The README's table is generated from these descriptions (`ormahd config default`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0.0, le=100.0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0.0, le=86_400.0, allow_inf_nan=False)]


class Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class VaultSettings(Group):
    path: Path | None = Field(
        default=None, description="The folder of notes. Unset: `ormah/vault` in the user's data directory."
    )
    adopt: Literal["auto", "all", "ours", "none"] = Field(
        default="auto",
        description="Which files that we did not write become memories: `all` notes in the folder; `ours`, only what "
        "lies below `ormah/`; `none`. `auto`: `all` in a vault that we made, `ours` in a folder that was there before.",
    )
    quiet_seconds: Seconds = Field(
        default=1.5,
        description="How long a file must rest before a person's edit is taken in, so that nobody is interrupted.",
    )
    scan_seconds: Annotated[float, Field(ge=5.0, le=86_400.0)] = Field(
        default=300.0,
        description="How often the whole vault is compared with what is known, because watchers lose events.",
    )
    busy_wait_seconds: Seconds = Field(
        default=5.0,
        description="How long a write waits for a git operation of somebody else before it answers `vault_busy`.",
    )
    max_note_bytes: Annotated[int, Field(ge=10_000, le=100_000_000)] = Field(
        default=10_000_000, description="A file larger than this many bytes is named by `doctor` and not read."
    )


class EmbeddingSettings(Group):
    model: str = Field(
        default="all-MiniLM-L6-v2",
        min_length=1,
        description="A sentence-transformers model: a name whose files are on this machine, or a path. The default comes with "
        "the package. `hashing` is a stand-in without meaning, for tests of everything else.",
    )
    query_prefix: str = Field(default="", description="Text that the model wants before a query (bge, e5).")
    document_prefix: str = Field(default="", description="Text that the model wants before a document (e5).")
    threads: Annotated[int, Field(ge=0, le=256)] = Field(
        default=0, description="Threads of the model; 0: one for each core, at most 8."
    )
    batch_size: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=32, description="Texts in one forward pass; more is no faster on a CPU and takes memory."
    )
    max_pieces: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=64,
        description="Pieces of at most the model's window in which one long note is embedded; the rest is found by words.",
    )
    late_dimensions: Annotated[int, Field(ge=16, le=1024, multiple_of=2)] = Field(
        default=256,
        description="Dimensions of the projected token vectors, in 4 bits each: 128 bytes a token. Measured through the daemon "
        "against 128 in 8 bits, any@10 / MRR: planted facts .874 / .580 (.868 / .572), short dialogue in its own space .827 / "
        ".561 (.829 / .564), pooled .795 / .539 (.794 / .542).",
    )


class VectorSettings(Group):
    url: str | None = Field(
        default=None,
        description="A Chroma server (`http://host:port`) instead of the embedded one, for vaults that outgrow a machine.",
    )
    exact_pieces: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=20_000,
        description="Vectors up to which every one is compared, from memory (1.5 KB each); beyond that Chroma proposes. Measured "
        "for 100 neighbours of 10,000: 0.6 ms against 2.3 ms.",
    )
    search_ef: Annotated[int, Field(ge=10, le=10_000)] = Field(
        default=200,
        description="Candidates that the nearest-neighbour graph keeps while searching; more finds more and takes longer.",
    )


class SearchSettings(Group):
    fts_weight: Weight = Field(default=0.4, description="Weight of words in rank fusion.")
    vector_weight: Weight = Field(default=0.6, description="Weight of meaning in rank fusion.")
    min_pool: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=100,
        description="Least number of candidates by words and by meaning each; 3 × limit (10 × with a time) where that is more.",
    )
    rerank_pool: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=100,
        description="Fused candidates whose texts are compared token by token; 2 × limit where that is more. Measured: 200 "
        "hold 2 points more of the right ones and rank none of them higher.",
    )
    similarity_threshold: Share = Field(
        default=0.1,
        description="Cosine below which a neighbour is no candidate. From 0.4 (chosen for bge-base): right answers have a "
        "cosine of 0.31 to 0.57 with MiniLM, and of 100 candidates 89 instead of 94 per cent held one.",
    )
    rrf_k: Annotated[int, Field(ge=1, le=10_000)] = Field(default=60, description="Constant of reciprocal rank fusion.")
    similarity_blend_weight: Share = Field(
        default=0.98,
        description="Share of similarity in the blend with the fused rank. From 0.5: with late interaction in it the "
        "similarity is far better than the rank (0.8: 6 points less any@10 on short dialogue, nothing gained elsewhere).",
    )
    late_weight: Weight = Field(
        default=0.6,
        description="Weight in the similarity of late interaction: the mean of MaxSim weighted by rarity (best on short "
        "dialogue) and unweighted (best on long notes).",
    )
    cosine_weight: Weight = Field(
        default=0.25,
        description="Weight in the similarity of the cosine. More helps long notes and short facts by a point (0.6), and "
        "costs three points on dialogue.",
    )
    words_weight: Weight = Field(
        default=0.15, description="Weight in the similarity of the words in common (bm25, see `words_half`)."
    )
    words_half: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = Field(
        default=20.0,
        description="The bm25 value that counts half: two to three rare words in common, whatever else the query says.",
    )
    moment_weight: Weight = Field(
        default=0.2,
        description="How much the best candidate vouches for others of the same conversation, that is of its space and "
        "created within `moment_minutes`. Measured: 2 to 3 points of any@10 on dialogue (0.4: another one there, one less on "
        "prompts that are no questions); notes that were not stored together keep their order.",
    )
    moment_minutes: Annotated[float, Field(ge=0.0, le=10_080.0, allow_inf_nan=False)] = Field(
        default=30.0, description="See `moment_weight`; from 5 minutes to a day the same was measured."
    )
    brevity_tokens: Annotated[float, Field(ge=0.0, le=1000.0, allow_inf_nan=False)] = Field(
        default=3.0,
        description='A note of n tokens counts n / (n + this): "Thanks, Ana!" looks like every question about Ana. '
        "Measured: 2 points of mean reciprocal rank on dialogue.",
    )
    length_penalty_threshold: Annotated[int, Field(ge=1)] = Field(
        default=600,
        description="Characters from which a note's late interaction is corrected for its length. From 300: notes of a few "
        "sentences tell as much as notes of one (half a point of mean reciprocal rank on dialogue of that length).",
    )
    length_chance: Share = Field(
        default=0.1,
        description="What a note e (2.7) times longer than that reaches by chance in late interaction. Instead of the seeds' "
        "threshold / length, which buries long notes: the best of many tokens is high in any long text (0.05 to 0.06 for "
        "each factor e, measured on unrelated texts), and short facts drown among documents without the correction.",
    )
    fts_only_dampening: Share = Field(default=0.5, description="Factor for a candidate without any similarity.")
    min_result_score: Share = Field(default=0.1, description="Score below which a result is dropped.")
    rrf_min_spread_ratio: Share = Field(
        default=0.05,
        description="Spread of fused scores, as a share of the largest, below which min-max would blow up noise.",
    )
    question_fts_weight_scale: Weight = Field(
        default=1.0,
        description="Factor on `fts_weight` for questions. From 0.3: of 100 candidates for a question 90 instead of 94 per "
        "cent held the answer.",
    )
    question_vector_weight_scale: Weight = Field(
        default=1.0, description="Factor on `vector_weight` for questions. From 1.5, for the same reason."
    )
    question_similarity_blend_weight: Share = Field(
        default=1.0,
        description="`similarity_blend_weight` for questions. From 0.85: a point of any@10 on dialogue. The fused rank "
        "chooses the candidates, the similarity orders them.",
    )
    title_match_boost: Weight = Field(
        default=2.0,
        description="Largest boost for words of the query in the title; none for questions. A score nears 1 by it, never "
        "passes it.",
    )
    time_phrases: Literal["off", "favour", "filter"] = Field(
        default="favour",
        description='What "last week" in a query does when the caller gives no time: `favour` memories of that period '
        "(`period_boost`), `filter` out all others, or nothing. A query that asks for a time and nothing else always filters. "
        "Measured: `filter` empties questions about what happened long ago.",
    )
    period_boost: Share = Field(default=0.1, description="Share added for a memory of the period that the query names.")
    recency_boost: Share = Field(default=0.05, description="Largest share added for recent access.")
    recency_half_life_days: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = Field(
        default=7.0, description="Days after which the recency share has halved."
    )
    access_boost: Share = Field(
        default=0.05, description="Largest share added for frequent access (full at 20 accesses)."
    )
    tier_boost_core: Annotated[float, Field(ge=-1.0, le=1.0)] = Field(
        default=0.10, description="Factor 1 + this for core."
    )
    tier_boost_working: Annotated[float, Field(ge=-1.0, le=1.0)] = Field(
        default=0.0, description="Factor 1 + this for working."
    )
    tier_boost_archival: Annotated[float, Field(ge=-1.0, le=1.0)] = Field(
        default=-0.10, description="Factor 1 + this for archival."
    )


class SpaceSettings(Group):
    boost_global: Weight = Field(default=1.0, description="Factor for memories without a space while working in one.")
    boost_other: Weight = Field(default=0.6, description="Factor for memories of other spaces.")


class ActivationSettings(Group):
    decay: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=0.5, description="What one step along an edge keeps."
    )
    seed_count: Annotated[int, Field(ge=0, le=100)] = Field(
        default=5, description="Top results from which activation spreads."
    )
    max_per_seed: Annotated[int, Field(ge=0, le=100)] = Field(default=3, description="Neighbours added for each seed.")


class LinkingSettings(Group):
    similarity: Share = Field(
        default=0.65, description="Cosine from which a new memory is linked to a neighbour on the spot."
    )
    cross_space_penalty: Share = Field(default=0.1, description="Taken off the cosine when the two spaces differ.")
    neighbours: Annotated[int, Field(ge=0, le=100)] = Field(
        default=6, description="Nearest neighbours looked at for each new memory."
    )


class TierSettings(Group):
    core_cap: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=50, description="Memories in core; beyond it the least important moves to working."
    )


class SecretSettings(Group):
    redact: bool = Field(
        default=True, description="Replace what looks like a password or key before it reaches any file."
    )


class SyncSettings(Group):
    interval_minutes: Annotated[float, Field(ge=0.0, le=10_080.0, allow_inf_nan=False)] = Field(
        default=0.0,
        description="How often the vault is synced with its git remote by itself; 0: only by `ormahctl sync`.",
    )
    remote: str = Field(
        default="origin",
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        max_length=100,
        description="The git remote to sync with, where the branch is not configured to follow another one.",
    )
    timeout_seconds: Annotated[float, Field(ge=1.0, le=3_600.0, allow_inf_nan=False)] = Field(
        default=60.0, description="How long a remote may say nothing before a sync gives up for this time."
    )


class DaemonSettings(Group):
    threads: Annotated[int, Field(ge=2, le=256)] = Field(default=8, description="Requests answered at the same time.")
    max_clients: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=128, description="Open connections; one more is refused."
    )
    frame_bytes: Annotated[int, Field(ge=65_536, le=1_073_741_824)] = Field(
        default=16_777_216, description="Largest body of one frame."
    )
    idle_seconds: Seconds = Field(default=0.0, description="Close a connection that rests this long; 0: never.")
    slow_seconds: Seconds = Field(
        default=30.0,
        description="Close a connection that takes this long to send or to take one frame; 0: never.",
    )
    drain_seconds: Seconds = Field(
        default=10.0, description="How long running requests may finish when the daemon stops."
    )
    socket: Path | None = Field(
        default=None, description="The Unix socket. Unset: `ormah/ormahd.sock` in the runtime directory."
    )
    fixed_time: str | None = Field(
        default=None, description="ISO time at which ranking's clock stands still, to reproduce an answer."
    )


class LogSettings(Group):
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="What is logged. Only `debug` may hold texts of notes and queries."
    )
    format: Literal["text", "json"] = Field(default="text", description="A line for people, or a JSON object a line.")
    max_bytes: Annotated[int, Field(ge=10_000)] = Field(
        default=5_000_000, description="Size at which the log file is turned over."
    )
    keep: Annotated[int, Field(ge=1, le=100)] = Field(default=5, description="Older log files that are kept.")


class Settings(Group):
    """The whole configuration. Frozen; a change needs a restart."""

    vault: VaultSettings = VaultSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    vectors: VectorSettings = VectorSettings()
    search: SearchSettings = SearchSettings()
    space: SpaceSettings = SpaceSettings()
    activation: ActivationSettings = ActivationSettings()
    linking: LinkingSettings = LinkingSettings()
    tiers: TierSettings = TierSettings()
    secrets: SecretSettings = SecretSettings()
    sync: SyncSettings = SyncSettings()
    daemon: DaemonSettings = DaemonSettings()
    log: LogSettings = LogSettings()
