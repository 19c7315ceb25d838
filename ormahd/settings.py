"""Every setting with its default, bounds and description. `config.py` loads them.

A number that a user may want to change is a setting; a number of an algorithm is a constant beside that algorithm. The
table in docs/configuration.md is generated from the descriptions (`python -m ormahd.config`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0.0, le=100.0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0.0, le=86_400.0, allow_inf_nan=False)]


def _listed(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_listed)]
"""A list in `config.toml`; in the environment, names separated by commas."""


class Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SyncSettings(Group):
    interval_minutes: Annotated[float, Field(ge=0.0, le=10_080.0, allow_inf_nan=False)] = Field(
        default=0.0,
        description="Minutes between two automatic syncs with the git remote; 0: only `ormahctl sync` syncs.",
    )
    remote: str = Field(
        default="origin",
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        max_length=100,
        description="The git remote to sync with, unless the branch is configured to follow another one.",
    )
    timeout_seconds: Annotated[float, Field(ge=1.0, le=3_600.0, allow_inf_nan=False)] = Field(
        default=60.0, description="Seconds without a sign of life from the remote after which a sync gives up."
    )


class DaemonSettings(Group):
    autostart: bool = Field(
        default=True,
        description="Start the daemon when a command or the session of an agent needs it. Not after `ormahctl "
        "down`, and not at another socket. Off: only `ormahctl up` or a service starts it.",
    )
    threads: Annotated[int, Field(ge=2, le=256)] = Field(
        default=8, description="Number of questions answered at the same time. Writes have 32 threads of their own."
    )
    socket: Path | None = Field(
        default=None, description="The path of the Unix socket. Unset: `ormah/ormahd.sock` in the runtime directory."
    )
    fixed_time: str | None = Field(
        default=None,
        description="ISO time that ranking, uses and maintenance take for the present, to reproduce an answer.",
    )


class LogSettings(Group):
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="The least level that is logged. Only `debug` may contain texts of notes and queries.",
    )
    format: Literal["text", "json"] = Field(
        default="text", description="The format of a log line: text for people, or a JSON object."
    )
    max_bytes: Annotated[int, Field(ge=10_000)] = Field(
        default=5_000_000, description="Size in bytes at which a new log file is begun."
    )
    keep: Annotated[int, Field(ge=1, le=100)] = Field(default=5, description="Number of older log files that are kept.")


class VaultSettings(Group):
    path: Path | None = Field(
        default=None, description="The folder of notes. Unset: `ormah/vault` in the user's data directory."
    )
    adopt: Literal["auto", "all", "index", "ours", "none"] = Field(
        default="auto",
        description="What happens to notes that Ormah did not write. `all`: they get an id, are committed, and jobs "
        "maintain them. `index`: they are found and whispered, but never written. `ours`: only notes "
        "below `ormah/` are memories. `none`: they are indexed as plain text only. `auto`: `all` in a "
        "vault that Ormah created, `index` in a folder that existed before. To choose for a single "
        "folder: `ormahctl vault adopt`.",
    )
    quiet_seconds: Seconds = Field(
        default=1.5,
        description="Seconds without a change to a file after which a person's edit is committed.",
    )
    scan_seconds: Annotated[float, Field(ge=5.0, le=86_400.0)] = Field(
        default=300.0,
        description="Seconds between two scans of the whole vault, which find changes whose file events were lost.",
    )
    busy_wait_seconds: Seconds = Field(
        default=5.0,
        description="Seconds that a write waits for another program's git operation before it answers `vault_busy`.",
    )
    max_note_bytes: Annotated[int, Field(ge=10_000, le=100_000_000)] = Field(
        default=10_000_000, description="Size in bytes above which a file is not read, but reported by `doctor`."
    )


class EmbeddingSettings(Group):
    model: str = Field(
        default="all-MiniLM-L6-v2",
        min_length=1,
        description="A sentence-transformers model: a name whose files are on this machine, or a path. The default "
        "is part of the package. `hashing` is a replacement without meaning, for tests.",
    )
    runtime: Literal["auto", "onnx", "torch"] = Field(
        default="auto",
        description="The library that runs the model. `auto`: ONNX Runtime for models of the BERT family, after a "
        "comparison with sentence-transformers, otherwise torch. Torch takes twice as long for a "
        "question, 6 s more at the start and 400 MB. `onnx`: never torch; if ONNX Runtime cannot run "
        "the model, there are no vectors.",
    )
    precision: Literal["auto", "fp32", "int8"] = Field(
        default="auto",
        description="Precision of the model on ONNX Runtime. `auto`: `int8` if its vectors are as good (compared "
        "once for each model) and it is at least a fifth faster on this processor (measured once), "
        "otherwise `fp32`. A change embeds all notes again.",
    )
    query_prefix: str = Field(
        default="",
        description="Text that the model expects before a query. Empty: what its files or its family say (bge, e5, arctic).",
    )
    document_prefix: str = Field(
        default="",
        description="Text that the model expects before a document. Empty: what its files or its family say (e5).",
    )
    threads: Annotated[int, Field(ge=0, le=256)] = Field(
        default=0, description="Threads of the model; 0: one for each core, at most 8."
    )


class VectorSettings(Group):
    url: str | None = Field(
        default=None,
        description="The address of a Chroma server (`http://host:port`) to use instead of the embedded Chroma, for "
        "very large vaults.",
    )
    exact_pieces: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=250_000,
        description="Number of vectors up to which a search compares all of them in memory (1.5 KB each). Beyond it "
        "Chroma proposes candidates. To compare 10,000 takes about 1 ms, 100,000 about 16 ms.",
    )


class LinkingSettings(Group):
    similarity: Share = Field(
        default=0.65,
        description="Cosine from which a new memory is linked to a neighbour at once, and an older memory by the "
        "job auto_linker.",
    )
    neighbours: Annotated[int, Field(ge=0, le=100)] = Field(
        default=6, description="Number of nearest neighbours considered for each memory."
    )


class TierSettings(Group):
    core_cap: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=50,
        description="Largest number of memories in core. If there are more, the least important one moves to working.",
    )


class SecretSettings(Group):
    redact: bool = Field(
        default=True, description="Replace what looks like a password or key before it is written to any file."
    )


class SessionSettings(Group):
    keep: bool = Field(
        default=True,
        description="Keep what you and your agents said in an archive below the data directory, without secrets.",
    )
    keep_days: Annotated[int, Field(ge=0, le=36_500)] = Field(
        default=365,
        description="Days that a session is kept after its last turn, and after it was archived; 0: for ever.",
    )
    exclude: Names = Field(
        default=[],
        description="Folders whose sessions are not archived, with all folders below them; `*` stands for any part of a path.",
    )


class SearchSettings(Group):
    fts_weight: Weight = Field(
        default=0.4, description="Weight of full-text search in rank fusion; vector search has 0.6."
    )
    similarity_threshold: Share = Field(
        default=0.1,
        description="Cosine below which a memory is no candidate. 0.1 and not 0.4, which was chosen for bge-base: "
        "with MiniLM right answers have cosines of 0.31 to 0.57.",
    )
    rrf_k: Annotated[int, Field(ge=1, le=10_000)] = Field(default=60, description="Constant of reciprocal rank fusion.")
    similarity_blend_weight: Share = Field(
        default=0.98,
        description="Share of the similarity in a score; the rest is the fused rank. 0.98 and not 0.5, because late "
        "interaction makes the similarity far better than the rank.",
    )
    length_penalty_threshold: Annotated[int, Field(ge=1)] = Field(
        default=600,
        description="Length in characters from which a note's late interaction is corrected for its length. 600 and "
        "not 300, because notes of a few sentences need no correction.",
    )
    question_fts_weight_scale: Weight = Field(
        default=1.0,
        description="Factor on `fts_weight` for questions. 1.0 and not 0.3, which loses right answers among the "
        "candidates.",
    )
    question_vector_weight_scale: Weight = Field(
        default=1.0,
        description="Factor on the weight of vector search for questions. 1.0 and not 1.5, for the same reason.",
    )
    question_similarity_blend_weight: Share = Field(
        default=1.0,
        description="`similarity_blend_weight` for questions. 1.0: the fused rank chooses the candidates, the "
        "similarity orders them.",
    )
    title_match_boost: Weight = Field(
        default=2.0,
        description="Largest boost for words of the query in the title, given if the title has all of its rare "
        "words. Questions get none. A boost moves a score towards 1, never beyond it.",
    )
    time_phrases: Literal["off", "favour", "filter"] = Field(
        default="favour",
        description='What "last week" in a query does if the caller gives no time. `favour`: memories of that '
        "period score a tenth more. `filter`: only these are found. `off`: nothing. A query that names "
        "only a time always filters.",
    )
    tier_boost_core: Annotated[float, Field(ge=-1.0, le=1.0)] = Field(
        default=0.10, description="Boost of memories in core: the factor is 1 plus this value."
    )
    tier_boost_archival: Annotated[float, Field(ge=-1.0, le=1.0)] = Field(
        default=-0.10, description="Boost of archived memories: the factor is 1 plus this value."
    )


class SpaceSettings(Group):
    boost_global: Weight = Field(
        default=1.0, description="Factor for memories without a space, if the caller works in a space."
    )
    boost_other: Weight = Field(default=0.6, description="Factor for memories of other spaces.")


class ActivationSettings(Group):
    decay: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=0.5, description="Share of the activation that is passed on along an edge."
    )
    seed_count: Annotated[int, Field(ge=0, le=100)] = Field(
        default=5, description="Number of best results from which activation spreads."
    )
    max_per_seed: Annotated[int, Field(ge=0, le=100)] = Field(
        default=3, description="Largest number of neighbours added for each of these results."
    )


Cosine = Annotated[float, Field(ge=-1.0, le=1.0, allow_inf_nan=False)]
Minutes = Annotated[float, Field(ge=0.0, le=10_080.0, allow_inf_nan=False)]
Days = Annotated[float, Field(gt=0.0, le=36_500.0, allow_inf_nan=False)]


class WhisperSettings(Group):
    enabled: bool = Field(default=True, description="Whether memories are whispered. Off: every whisper is silent.")
    silent_spaces: Names = Field(
        default=[], description="Spaces in which nothing is whispered (`global`: prompts without a space)."
    )
    max_nodes: Annotated[int, Field(ge=1, le=50)] = Field(
        default=6, description="Largest number of memories in one whisper."
    )
    total_characters: Annotated[int, Field(ge=500, le=9_000)] = Field(
        default=4_000, description="Largest number of characters in one whisper. Harnesses cut at 10,000."
    )
    min_relevance: Share = Field(default=0.45, description="Relevance below which a candidate is dropped early.")
    log_relevance: Share = Field(
        default=0.40,
        description="Relevance (after feedback) from which a candidate is logged, so that feedback can refer to it.",
    )
    injection_gate: Share = Field(
        default=0.50,
        description="Relevance from which a memory is whispered. If no memory reaches it, the whisper is silent. "
        "Relevance is absolute: it depends on the memory and the prompt, not on other candidates.",
    )
    archive_gate: Share = Field(
        default=0.60,
        description="The same for archived memories, which have to fit better. 1: none is whispered.",
    )
    reranker: Literal["auto", "off"] = Field(
        default="auto",
        description="`auto`: a cross-encoder scores candidates if its files are on this machine. `off`: never.",
    )
    reranker_model: str = Field(
        default="cross-encoder/ms-marco-MiniLM-L-6-v2",
        min_length=1,
        description="A sentence-transformers CrossEncoder: a name whose files are on this machine, or a path. "
        "Nothing is downloaded. Without it late interaction is used alone.",
    )
    reranker_blend: Share = Field(
        default=0.6,
        description="Share of the cross-encoder in a candidate's score; the rest is the score of the search.",
    )
    session_gap_minutes: Minutes = Field(
        default=10.0, description="Minutes after which an earlier prompt no longer counts as context of the next one."
    )
    intent_threshold: Share = Field(
        default=0.55,
        description="Cosine with an example from which a prompt is classified like it. 0.55 suits MiniLM; 0.65 "
        "suits bge, whose cosines are larger.",
    )
    topic_shift: bool = Field(
        default=True,
        description="Be silent while the topic stays the same and its memories were whispered in this session.",
    )
    topic_shift_threshold: Share = Field(
        default=0.75, description="Cosine with the last prompts from which the topic counts as the same."
    )
    exploration: bool = Field(
        default=True,
        description="Add at most one memory below the gate to a whisper that is not silent, labelled `[exploring]`, "
        "so that feedback can teach about it.",
    )
    preferences: Annotated[int, Field(ge=0, le=5)] = Field(
        default=2,
        description="Largest number of standing preferences that are added if they apply to the prompt's task; 0: "
        "none.",
    )
    review: bool = Field(
        default=True, description="With the first whisper of a session, ask about one memory that was held back."
    )
    maintenance: bool = Field(
        default=False,
        description="Add the line `maintenance_due` if the agent is the judge of maintenance and maintenance is due.",
    )
    greeting_characters: Annotated[int, Field(ge=0, le=6_000)] = Field(
        default=1_500,
        description="Largest number of characters of the text at the start of a session (the user's identity, core "
        "memories); 0: no text.",
    )
    nudge_interval: Annotated[int, Field(ge=0, le=1_000)] = Field(
        default=10,
        description="Number of prompts in a session after which the agent is reminded of `remember`; 0: never.",
    )
    store_interval: Annotated[int, Field(ge=0, le=1_000)] = Field(
        default=10,
        description="Number of prompts in a session after which its transcript is passed to ingestion; 0: never.",
    )
    deadline_ms: Annotated[int, Field(ge=50, le=10_000)] = Field(
        default=500,
        description="Milliseconds that a prompt's hook waits at most. `ormahctl setup` writes the value into the "
        "hook's command.",
    )
    keep_days: Days = Field(
        default=30.0,
        description="Days that prompts and candidates stay in the whisper log, which is in the state directory.",
    )


class AffinitySettings(Group):
    similarity_threshold: Cosine = Field(
        default=0.70, description="Cosine with an earlier prompt from which that prompt's feedback counts."
    )
    half_life_days: Days = Field(default=30.0, description="Days after which a judgement counts half.")
    max_boost: Share = Field(default=0.15, description="Largest change of a memory's relevance by feedback.")
    implicit_weight: Share = Field(
        default=0.8, description="Weight of a judgement that was inferred; an explicit one has 1."
    )


class FeedbackSettings(Group):
    commit_prompts: bool = Field(
        default=False,
        description="Write the text of a judged prompt into the vault, beside its vector. Off: the text stays in "
        "the state directory.",
    )


Hours = Annotated[float, Field(ge=0.0, le=10_000.0, allow_inf_nan=False)]


class JobSettings(Group):
    enabled: bool = Field(
        default=True, description="Whether jobs run automatically. `ormahctl jobs run` works in any case."
    )
    catch_up_seconds: Annotated[float, Field(ge=0.0, le=86_400.0, allow_inf_nan=False)] = Field(
        default=120.0,
        description="Seconds after the start until a run is made up for that was missed while the daemon was off.",
    )
    max_changes: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=200,
        description="Largest number of commits in one run of a job (merges, consolidations, conflicts, faded "
        "memories). More wait for the next run, or for `--force`.",
    )
    max_share: Share = Field(
        default=0.1,
        description="Largest share of the vault's memories that one run of a job changes, but at least 20. More "
        "wait for the next run, or for `--force`, so that a faulty job is noticed early.",
    )
    judge: Literal["none", "command", "openai"] = Field(
        default="none",
        description="What answers questions that arithmetic cannot decide: `none` (agents can, with `ormahctl "
        "maintenance`), `command` (a program, such as a coding agent) or `openai` (an OpenAI-compatible endpoint).",
    )
    judge_questions: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=200, description="Largest number of questions that one run of a job asks the judge."
    )
    importance_scorer_hours: Hours = Field(default=2.0, description="Hours between two runs; 0: no automatic runs.")
    index_updater_hours: Hours = Field(default=1.0, description="The same for the scan of the whole vault.")
    nightly_hours: Hours = Field(
        default=24.0,
        description="The same for the other jobs (merges, conflicts, links, clusters, consolidation, fading). To "
        "turn one off: `ormahctl jobs pause NAME`.",
    )


class JudgeSettings(Group):
    """Settings of the judge: how it is reached, how long it may take, and what it may cost a day."""

    command: str = Field(
        default="claude",
        min_length=1,
        description="The program for `jobs.judge = command`. `claude`, `codex` and `gemini` run that coding agent "
        "without tools. Anything else is a command line; it reads the prompt on stdin and prints the answer.",
    )
    url: str = Field(
        default="http://localhost:11434/v1",
        description="The address for `jobs.judge = openai`, without `/chat/completions`. The default is Ollama; LM "
        "Studio has port 1234, llama.cpp 8080.",
    )
    model: str = Field(
        default="",
        description="The model's name, as the endpoint or the coding agent knows it. An endpoint needs one; a coding "
        "agent has a default.",
    )
    key_variable: str = Field(
        default="",
        description="The environment variable of the daemon that holds the endpoint's key. The key is never in the "
        "configuration.",
    )
    key_file: Path | None = Field(
        default=None,
        description="The file that holds the endpoint's key, for a daemon that a service starts without your "
        "environment.",
    )
    timeout_seconds: Annotated[float, Field(ge=1.0, le=3_600.0, allow_inf_nan=False)] = Field(
        default=120.0,
        description="Longest time in seconds that one answer may take. A large model on a small machine needs more.",
    )
    calls_a_day: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=200,
        description="Largest number of calls in a day (UTC). It limits what a hosted model costs; more questions wait "
        "for the next day.",
    )
    tokens_a_day: Annotated[int, Field(ge=1_000, le=1_000_000_000)] = Field(
        default=500_000,
        description="The same for tokens of prompts and answers. They are estimated if the judge does not count them.",
    )

    @field_validator("url")
    @classmethod
    def _an_address(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
            parts = None
        if not usable or parts is None:
            raise ValueError("must be an address such as http://localhost:11434/v1")
        if parts.username or parts.password:
            raise ValueError(
                "must hold no user name and no key; judge.key_file or judge.key_variable says where the key is"
            )
        if parts.query or parts.fragment:
            raise ValueError("must end with a path, such as /v1: no ? and no #")
        return url.rstrip("/").removesuffix("/chat/completions")


class MaintenanceSettings(Group):
    """Settings of two-phase maintenance, in which an agent is the judge (`agent.maintenance`)."""

    interval_hours: Hours = Field(
        default=24.0,
        description="Hours after an agent's last results (or the vault's creation) until `maintenance_due` is "
        "whispered.",
    )
    pairs: Annotated[int, Field(ge=0, le=100)] = Field(
        default=8, description="Largest number of pairs of each kind (links, conflicts, merges) handed out at once."
    )


class MergingSettings(Group):
    by_itself: bool = Field(
        default=True,
        description="Merge memories that say the same in the same words (except for case, punctuation, articles, "
        "spelling) without asking. Off: such merges are proposed.",
    )
    merge_likeness: Share = Field(
        default=0.85,
        description="Similarity score from which a judge's yes merges at once; below it, the merge is proposed.",
    )
    max_proposals: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=50, description="Largest number of new merge proposals of one run."
    )


Lease = Annotated[float, Field(ge=0.01, le=36_500.0, allow_inf_nan=False)]


class DecaySettings(Group):
    event_days: Lease = Field(
        default=28.0,
        description="Days without use after which an event or observation may leave working, counted from its "
        "creation or its arrival in the vault. Up to half as many are added by its id, so that memories "
        "of one day do not leave together. Each confirmed use makes the time longer.",
    )
    fact_days: Lease = Field(default=90.0, description="The same for facts, concepts and goals.")
    decision_days: Lease = Field(
        default=180.0,
        description="The same for decisions, procedures, persons, projects, and preferences that no longer hold.",
    )
    idle_share: Share = Field(
        default=0.1,
        description="How much of a day counts on which nothing was asked (no prompt, no recall), so that holidays "
        "cause no forgetting. 1: all of it; 0: nothing.",
    )
    archive_below: Annotated[float, Field(ge=0.01, le=0.99, allow_inf_nan=False)] = Field(
        default=0.3,
        description="Retrievability e^(-days/stability) below which a used memory moves to the archive. A lower "
        "value keeps it longer.",
    )


class Settings(Group):
    """The whole configuration. Frozen: a change takes effect after a restart."""

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
    judge: JudgeSettings = JudgeSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    merging: MergingSettings = MergingSettings()
    secrets: SecretSettings = SecretSettings()
    sessions: SessionSettings = SessionSettings()
    sync: SyncSettings = SyncSettings()
    daemon: DaemonSettings = DaemonSettings()
    log: LogSettings = LogSettings()
