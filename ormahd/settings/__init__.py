"""Every setting with its default, bounds and description. `config.py` loads them.

A number that a user may want to change is a setting; a number of an algorithm is a constant beside that algorithm. The
table in docs/configuration.md is generated from the descriptions (`python -m ormahd.config`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ormahd.settings.base import Group, Names, Seconds, Share, WholePath
from ormahd.settings.learning import ExtractionSettings, JudgeSettings, SessionSettings, SourceFolder


class SyncSettings(Group):
    interval_minutes: Annotated[float, Field(ge=0.0, le=10_080.0, allow_inf_nan=False)] = Field(
        default=0.0,
        description="Minutes between two automatic syncs; 0: only `ormahctl sync` syncs.",
    )
    timeout_seconds: Annotated[float, Field(ge=1.0, le=3_600.0, allow_inf_nan=False)] = Field(
        default=60.0, description="Seconds without a sign of life from the remote after which a sync gives up."
    )


class DaemonSettings(Group):
    autostart: bool = Field(
        default=True,
        description="Start the daemon when a command or a session needs it, but not after `ormahctl down`. Off: only "
        "`ormahctl up` or a service starts it.",
    )
    socket: Path | None = Field(
        default=None, description="The path of the Unix socket. Unset: `ormah/ormahd.sock` in the runtime directory."
    )
    fixed_time: str | None = Field(
        default=None,
        description="ISO time that counts as the present, to reproduce an answer.",
    )


class LogSettings(Group):
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="The lowest level that is logged. Only `debug` may contain texts of notes and queries.",
    )


class VaultSettings(Group):
    path: WholePath | None = Field(
        default=None,
        description="The folder of notes, a path from / or ~/ on. Unset: `ormah/vault` in the data directory.",
    )
    quiet_seconds: Seconds = Field(
        default=1.5,
        description="Seconds without a change to a file after which your edit is committed.",
    )
    busy_wait_seconds: Seconds = Field(
        default=5.0,
        description="Seconds that a write waits for another git operation before it is refused with `vault_busy`.",
    )


class EmbeddingSettings(Group):
    model: str = Field(
        default="all-MiniLM-L6-v2",
        min_length=1,
        description="The embedding model: the default, a folder with `model.onnx` and `tokenizer.json`, or, with the "
        "extra `torch`, a sentence-transformers model whose files are on this machine. `hashing` knows no "
        "meaning, and is for tests.",
    )


class VectorSettings(Group):
    url: str | None = Field(
        default=None,
        description="The address of a Chroma server (`http://host:port`) for very large vaults. Unset: the embedded "
        "Chroma.",
    )
    exact_pieces: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=250_000,
        description="Number of vectors up to which a search compares all of them in memory (1.5 KB each). Beyond it, or "
        "with `vectors.url`, Chroma proposes candidates.",
    )


class LinkingSettings(Group):
    similarity: Share = Field(
        default=0.65,
        description="Cosine from which a memory is linked to its nearest neighbours (at most 6). 1: none is.",
    )

    def near(self, similarity: float) -> bool:
        """Whether memories of this similarity are linked without a judge."""
        return self.similarity <= similarity and self.similarity < 1.0


class TierSettings(Group):
    core_cap: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=50,
        description="Largest number of memories in core. Beyond it the least important one moves to working.",
    )


class SecretSettings(Group):
    redact: bool = Field(
        default=True, description="Replace what looks like a password or key before it is written to any file."
    )


Cosine = Annotated[float, Field(ge=-1.0, le=1.0, allow_inf_nan=False)]
Days = Annotated[float, Field(gt=0.0, le=36_500.0, allow_inf_nan=False)]


class WhisperSettings(Group):
    enabled: bool = Field(default=True, description="Whether memories are whispered. Off: every whisper is silent.")
    silent_spaces: Names = Field(
        default=[], description="Spaces in which nothing is whispered (`global`: prompts without a space)."
    )
    tools: bool = Field(
        default=True,
        description="Tell an agent what is known about a file or command when it is about to edit or run it, heed guards, and "
        "tell what fixed an error before. After a change run `ormahctl setup AGENT`, which adds or removes the hooks.",
    )
    receipt: bool = Field(
        default=True,
        description="Show you a line with the titles of the memories that an agent was told, where its program shows such lines.",
    )
    max_nodes: Annotated[int, Field(ge=1, le=50)] = Field(
        default=6, description="Largest number of memories in one whisper."
    )
    injection_gate: Share = Field(
        default=0.35,
        description="Relevance from which a memory is whispered: the chance that it belongs to the prompt. A gate below "
        "0.10 also lowers the relevance from which candidates are considered.",
    )
    archive_gate: Share = Field(
        default=0.5,
        description="The same for archived memories. 1: none is whispered.",
    )
    exploration: bool = Field(
        default=True,
        description="Add at most one memory below the gate to a whisper, labelled `[exploring]`, so that feedback can "
        "teach about it.",
    )
    review: bool = Field(
        default=True, description="With the first whisper of a session, ask about one memory that was held back."
    )
    maintenance: bool = Field(
        default=False,
        description="Tell the agent `maintenance_due`, if questions wait for an agent as the judge.",
    )
    nudge_interval: Annotated[int, Field(ge=0, le=1_000)] = Field(
        default=10,
        description="Number of prompts after which the agent is reminded of `remember`; 0: never.",
    )
    deadline_ms: Annotated[int, Field(ge=50, le=10_000)] = Field(
        default=500,
        description="Milliseconds that a prompt's hook waits at most. `ormahctl setup` writes it into the hook's command.",
    )
    keep_days: Days = Field(
        default=30.0,
        description="Days that prompts stay in the whisper log.",
    )


class FeedbackSettings(Group):
    commit_prompts: bool = Field(
        default=False,
        description="Write the text of a judged prompt into the vault. Off: it stays in the state directory.",
    )


Hours = Annotated[float, Field(ge=0.0, le=10_000.0, allow_inf_nan=False)]


class JobSettings(Group):
    enabled: bool = Field(
        default=True, description="Whether jobs run automatically. `ormahctl jobs run` works in any case."
    )
    max_changes: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=200,
        description="Largest number of commits in one run of a job. A run also changes at most a tenth of the memories, "
        "but at least 20. More wait for the next run, or for `--force`.",
    )
    judge: Literal["none", "command", "openai"] = Field(
        default="none",
        description="Who answers questions that arithmetic cannot decide: `none` (an agent can, by `ormahctl "
        "maintenance`), `command` (a program, such as a coding agent) or `openai` (an OpenAI-compatible "
        "endpoint).",
    )
    nightly_hours: Hours = Field(
        default=24.0,
        description="Hours between two runs of the daily jobs; 0: none runs by itself.",
    )


class MergingSettings(Group):
    by_itself: bool = Field(
        default=True,
        description="Merge memories that say the same in the same words without asking. Off: such merges are proposed.",
    )


Lease = Annotated[float, Field(ge=0.01, le=36_500.0, allow_inf_nan=False)]


class DecaySettings(Group):
    days: Annotated[float, Field(ge=0.01, le=36_500.0, allow_inf_nan=False)] = Field(
        default=90.0,
        description="Days without use after which a fact, concept or goal may leave working; a third of it for events and "
        "observations, twice for other types.",
    )
    idle_share: Share = Field(
        default=0.1,
        description="How much of a day counts on which nothing was asked. 1: all of it; 0: nothing.",
    )


class Settings(Group):
    """The whole configuration. Frozen: a change takes effect after a restart."""

    vault: VaultSettings = VaultSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    vectors: VectorSettings = VectorSettings()
    whisper: WhisperSettings = WhisperSettings()
    feedback: FeedbackSettings = FeedbackSettings()
    linking: LinkingSettings = LinkingSettings()
    tiers: TierSettings = TierSettings()
    decay: DecaySettings = DecaySettings()
    jobs: JobSettings = JobSettings()
    judge: JudgeSettings = JudgeSettings()
    merging: MergingSettings = MergingSettings()
    secrets: SecretSettings = SecretSettings()
    sessions: SessionSettings = SessionSettings()
    extraction: ExtractionSettings = ExtractionSettings()
    sync: SyncSettings = SyncSettings()
    daemon: DaemonSettings = DaemonSettings()
    log: LogSettings = LogSettings()
    sources: list[SourceFolder] = []
