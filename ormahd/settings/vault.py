"""The vault, and what is derived from each note."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ormahd.settings.base import Group, Seconds, Share


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
