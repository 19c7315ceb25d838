"""Every setting: its default, unit, bounds and reason. Loading and layering: `config.py`.

A number that users may wish to move lives here; a number that belongs to an algorithm lives beside it.
The table in docs/configuration.md is generated from these descriptions (`ormahd config default`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0.0, le=100.0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0.0, le=86_400.0, allow_inf_nan=False)]


def _listed(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_listed)]
"""A list in `config.toml`; in the environment, names with commas between them."""


class Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


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
    autostart: bool = Field(
        default=True,
        description="Commands that need the daemon, and sessions of agents that begin, start it where it is down; not after "
        "`ormahctl down`, nor at another socket. Off: only `ormahctl up`, or a service.",
    )
    threads: Annotated[int, Field(ge=2, le=256)] = Field(
        default=8, description="Questions answered at the same time. Writes have 32 threads of their own."
    )
    socket: Path | None = Field(
        default=None, description="The Unix socket. Unset: `ormah/ormahd.sock` in the runtime directory."
    )
    fixed_time: str | None = Field(
        default=None,
        description="ISO time at which the clock of ranking, of uses and of maintenance stands still, to reproduce an answer.",
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


class VaultSettings(Group):
    path: Path | None = Field(
        default=None, description="The folder of notes. Unset: `ormah/vault` in the user's data directory."
    )
    adopt: Literal["auto", "all", "index", "ours", "none"] = Field(
        default="auto",
        description="What becomes of notes that Ormah did not write. `all`: they get an id, are committed, and jobs keep them tidy. "
        "`index`: they are found and whispered, and nothing is written into them. `ours`: only what lies below `ormah/` is a memory; `none`. "
        "`auto`: `all` in a vault that Ormah made, `index` in a folder that was there before. `ormahctl vault adopt` chooses by folder.",
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
        description="How long a write waits for a git operation of another program before it answers `vault_busy`.",
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
    runtime: Literal["auto", "onnx", "torch"] = Field(
        default="auto",
        description="What runs the model. `auto`: ONNX Runtime for models of the BERT family (once compared with "
        "sentence-transformers), torch for others. A question takes half as long as on torch, and torch another 6 s at the start "
        "and 400 MB. `onnx`: no vectors rather than torch.",
    )
    precision: Literal["auto", "fp32", "int8"] = Field(
        default="auto",
        description="How texts are embedded on ONNX Runtime. `auto`: in eight bits where they are as good (compared once per "
        "model) and at least a fifth quicker on this processor (timed once, and remembered): half to two thirds of the "
        "time, with a cosine of .999 to the vector in full. A change embeds all notes anew.",
    )
    query_prefix: str = Field(default="", description="Text that the model wants before a query (bge, e5).")
    document_prefix: str = Field(default="", description="Text that the model wants before a document (e5).")
    threads: Annotated[int, Field(ge=0, le=256)] = Field(
        default=0, description="Threads of the model; 0: one for each core, at most 8."
    )


class VectorSettings(Group):
    url: str | None = Field(
        default=None,
        description="A Chroma server (`http://host:port`) instead of the embedded one, for vaults that outgrow a machine.",
    )
    exact_pieces: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=250_000,
        description="Vectors up to which every one is compared, from memory (1.5 KB each); beyond that Chroma proposes. "
        "Comparing 10,000 takes about 1 ms, 100,000 about 16 ms.",
    )


class LinkingSettings(Group):
    similarity: Share = Field(
        default=0.65,
        description="Cosine from which a new memory is linked to a neighbour on the spot, and an older one by the job auto_linker.",
    )
    neighbours: Annotated[int, Field(ge=0, le=100)] = Field(
        default=6, description="Nearest neighbours looked at for each memory."
    )


class TierSettings(Group):
    core_cap: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=50, description="Memories in core; beyond it the least important moves to working."
    )


class SecretSettings(Group):
    redact: bool = Field(
        default=True, description="Replace what looks like a password or key before it reaches any file."
    )


class SearchSettings(Group):
    fts_weight: Weight = Field(default=0.4, description="Weight of words in rank fusion, where meaning has 0.6.")
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
    length_penalty_threshold: Annotated[int, Field(ge=1)] = Field(
        default=600,
        description="Characters from which a note's late interaction is corrected for its length. From 300: notes of a few "
        "sentences tell as much as notes of one (half a point of mean reciprocal rank on dialogue of that length).",
    )
    question_fts_weight_scale: Weight = Field(
        default=1.0,
        description="Factor on `fts_weight` for questions. From 0.3: of 100 candidates for a question 90 instead of 94 per "
        "cent held the answer.",
    )
    question_vector_weight_scale: Weight = Field(
        default=1.0, description="Factor on the weight of meaning for questions. From 1.5, for the same reason."
    )
    question_similarity_blend_weight: Share = Field(
        default=1.0,
        description="`similarity_blend_weight` for questions. From 0.85: a point of any@10 on dialogue. The fused rank "
        "chooses the candidates, the similarity orders them.",
    )
    title_match_boost: Weight = Field(
        default=2.0,
        description="Largest boost for words of the query in the title, where all of its rare words stand there; none for "
        "questions. A score nears 1 by it, never passes it.",
    )
    time_phrases: Literal["off", "favour", "filter"] = Field(
        default="favour",
        description='What "last week" in a query does when the caller gives no time: `favour` memories of that period '
        "(a tenth more), `filter` out all others, or nothing. A query that asks for a time and nothing else always filters. "
        "Measured: `filter` empties questions about what happened long ago.",
    )
    tier_boost_core: Annotated[float, Field(ge=-1.0, le=1.0)] = Field(
        default=0.10, description="Factor 1 + this for core."
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


Cosine = Annotated[float, Field(ge=-1.0, le=1.0, allow_inf_nan=False)]
Minutes = Annotated[float, Field(ge=0.0, le=10_080.0, allow_inf_nan=False)]
Days = Annotated[float, Field(gt=0.0, le=36_500.0, allow_inf_nan=False)]


class WhisperSettings(Group):
    enabled: bool = Field(default=True, description="Whether memories are whispered at all. Off: always silent.")
    silent_spaces: Names = Field(
        default=[], description="Spaces in which nothing is whispered (`global`: where no space is detected)."
    )
    max_nodes: Annotated[int, Field(ge=1, le=50)] = Field(default=6, description="Most memories in one whisper.")
    total_characters: Annotated[int, Field(ge=500, le=9_000)] = Field(
        default=4_000, description="Characters of a whole whisper. Harnesses cut at 10,000."
    )
    min_relevance: Share = Field(
        default=0.45, description="Relevance below which a candidate is not looked at further."
    )
    log_relevance: Share = Field(
        default=0.40,
        description="Relevance (after feedback) from which a candidate is logged, so that it can be learned from.",
    )
    injection_gate: Share = Field(
        default=0.50,
        description="Relevance from which a memory is whispered; where the best has less, nothing is. Relevance is absolute: how "
        "sure the texts alone make us that the memory belongs to the prompt, whatever else was found.",
    )
    archive_gate: Share = Field(
        default=0.60,
        description="The same for a memory in the archive: nobody needed it for long, so that it has to fit better. 1: the archive is "
        "never whispered.",
    )
    reranker: Literal["auto", "off"] = Field(
        default="auto", description="`auto`: a cross-encoder judges where its files are on this machine; `off`: never."
    )
    reranker_model: str = Field(
        default="cross-encoder/ms-marco-MiniLM-L-6-v2",
        min_length=1,
        description="A sentence-transformers CrossEncoder: a name whose files are on this machine, or a path. Nothing is "
        "downloaded; without it late interaction takes its place.",
    )
    reranker_blend: Share = Field(
        default=0.6, description="Share of the cross-encoder in a candidate's score; the rest is the search's."
    )
    session_gap_minutes: Minutes = Field(
        default=10.0, description="Minutes after which an earlier prompt no longer tells what the next one is about."
    )
    intent_threshold: Share = Field(
        default=0.55,
        description="Cosine with an example from which a prompt is taken for one of its kind. From 0.65, which suits bge, for which "
        "any two sentences are alike; with MiniLM 0.55 knows 80 of 104 such prompts instead of 49, and takes 1 of 1,413 others for one.",
    )
    topic_shift: bool = Field(
        default=True,
        description="Keep silent while the topic stays and memories for it were whispered in this session.",
    )
    topic_shift_threshold: Share = Field(
        default=0.75, description="Cosine with the last prompts from which the topic counts as the same."
    )
    exploration: bool = Field(
        default=True,
        description="Add at most one memory below the gate to a whisper that is there anyway, labelled `[exploring]`, "
        "so that feedback can teach about it.",
    )
    preferences: Annotated[int, Field(ge=0, le=5)] = Field(
        default=2, description="Standing preferences that may join where they apply to what the prompt does; 0: none."
    )
    review: bool = Field(
        default=True, description="Ask about one memory that was held back, beside the first whisper of a session."
    )
    maintenance: bool = Field(
        default=False,
        description="Add the line `maintenance_due` when the agent is the judge of maintenance and it is due.",
    )
    greeting_characters: Annotated[int, Field(ge=0, le=6_000)] = Field(
        default=1_500,
        description="Characters of what a session is told when it begins (who the user is, core memories); 0: nothing.",
    )
    nudge_interval: Annotated[int, Field(ge=0, le=1_000)] = Field(
        default=10, description="Prompts of a session after which the agent is reminded of `remember`; 0: never."
    )
    store_interval: Annotated[int, Field(ge=0, le=1_000)] = Field(
        default=10, description="Prompts of a session after which its transcript is handed to ingestion; 0: never."
    )
    deadline_ms: Annotated[int, Field(ge=50, le=10_000)] = Field(
        default=500,
        description="Milliseconds that a prompt's hook waits in all, written into the hook's command by `ormahctl setup`.",
    )
    keep_days: Days = Field(
        default=30.0,
        description="Days that prompts and candidates stay in the whisper log (in the state directory only).",
    )


class AffinitySettings(Group):
    similarity_threshold: Cosine = Field(
        default=0.70, description="Cosine with an earlier prompt from which its feedback counts for this one."
    )
    half_life_days: Days = Field(default=30.0, description="Days after which a judgement counts half.")
    max_boost: Share = Field(default=0.15, description="Most that feedback adds to or takes from a memory's relevance.")
    implicit_weight: Share = Field(default=0.8, description="Weight of a judgement that an agent inferred.")


class FeedbackSettings(Group):
    commit_prompts: bool = Field(
        default=False,
        description="Write a judged prompt's text into the vault, beside its vector. Off: the text stays in the state directory.",
    )


Hours = Annotated[float, Field(ge=0.0, le=10_000.0, allow_inf_nan=False)]


class JobSettings(Group):
    enabled: bool = Field(
        default=True, description="Whether jobs run by themselves; `ormahctl jobs run` works either way."
    )
    catch_up_seconds: Annotated[float, Field(ge=0.0, le=86_400.0, allow_inf_nan=False)] = Field(
        default=120.0,
        description="Seconds from being ready until a run that was missed while the machine was off is caught up, once.",
    )
    max_changes: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=200,
        description="Commits that one run of one job makes at most (merges, consolidations, conflicts, faded memories); more "
        "wait for the next run, or for `--force`.",
    )
    max_share: Share = Field(
        default=0.1,
        description="Share of the vault's memories that one run of one job changes at most; 20 are always allowed. More wait "
        "for the next run, or for `--force`: a fault that would cost 1 in 10 memories is seen before it has cost them all.",
    )
    judge: Literal["none"] = Field(
        default="none",
        description="Who answers what arithmetic cannot. Without one, agents may judge (`ormahctl maintenance`).",
    )
    judge_questions: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=200, description="Questions that one run of one job asks the judge at most."
    )
    importance_scorer_hours: Hours = Field(default=2.0, description="Hours between two runs; 0: never by itself.")
    index_updater_hours: Hours = Field(default=1.0, description="The same; it is the reconciling scan.")
    nightly_hours: Hours = Field(
        default=24.0,
        description="The same for the other jobs (merges, conflicts, links, clusters, consolidation, fading). To leave out one: "
        "`ormahctl jobs pause NAME`.",
    )


class MaintenanceSettings(Group):
    """What an agent that judges is handed at a time (`agent.maintenance`)."""

    interval_hours: Hours = Field(
        default=24.0,
        description="Hours from an agent's last results (at first from the vault's first day) until `maintenance_due` is whispered.",
    )
    pairs: Annotated[int, Field(ge=0, le=100)] = Field(
        default=8, description="Pairs of each kind (to link, to oppose, to merge) that are handed out at once, at most."
    )


class MergingSettings(Group):
    by_itself: bool = Field(
        default=True,
        description="Whether memories that say the same in the same words (but for case, punctuation, articles, spelling) are "
        "merged without a person or a judge; else they are proposed. Measured on 15,900 pairs that differ in a number, a "
        "name, a negation or the like: none merged; of retellings in the same words 99 % are (tests/quality).",
    )
    merge_likeness: Share = Field(
        default=0.85, description="Composite from which a judge's yes merges at once; below, it becomes a proposal."
    )
    max_proposals: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=50, description="New proposals of merges that one run makes at most."
    )


Lease = Annotated[float, Field(ge=0.01, le=36_500.0, allow_inf_nan=False)]


class DecaySettings(Group):
    event_days: Lease = Field(
        default=28.0,
        description="Days that an event or an observation stays in working unused, at least, from when it was made or came into the "
        "vault; up to half as many more by its id, so that what came together does not leave together. Each confirmed use makes them more.",
    )
    fact_days: Lease = Field(default=90.0, description="The same for facts, concepts and goals.")
    decision_days: Lease = Field(
        default=180.0,
        description="The same for decisions, procedures, persons and projects, and for preferences that hold no more: they are needed "
        "rarely, and long after.",
    )
    idle_share: Share = Field(
        default=0.1,
        description="What a day counts on which nothing was asked (no prompt, no recall): a holiday is no reason to forget. 1: like "
        "any other day; 0: not at all.",
    )
    archive_below: Annotated[float, Field(ge=0.01, le=0.99, allow_inf_nan=False)] = Field(
        default=0.3,
        description="Retrievability e^(-days/stability) below which a memory that was used goes to the archive. Lower: use lasts longer.",
    )


class Settings(Group):
    """The whole configuration. Frozen; a change needs a restart."""

    vault: VaultSettings = VaultSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    vectors: VectorSettings = VectorSettings()
    search: SearchSettings = SearchSettings()
    space: SpaceSettings = SpaceSettings()
    activation: ActivationSettings = ActivationSettings()
    whisper: WhisperSettings = WhisperSettings()
    affinity: AffinitySettings = AffinitySettings()
    feedback: FeedbackSettings = FeedbackSettings()
    linking: LinkingSettings = LinkingSettings()
    tiers: TierSettings = TierSettings()
    decay: DecaySettings = DecaySettings()
    jobs: JobSettings = JobSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    merging: MergingSettings = MergingSettings()
    secrets: SecretSettings = SecretSettings()
    sync: SyncSettings = SyncSettings()
    daemon: DaemonSettings = DaemonSettings()
    log: LogSettings = LogSettings()
