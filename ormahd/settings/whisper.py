"""Whisper, what it learns from, and the hooks that carry it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ormahd.settings.base import Group, Names, Share

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
