"""Settings of what Ormah learns by itself, and reads in place: sessions, folders of the person, and the judge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator

from ormahd.settings.base import Folders, Group, Names, whole


class SessionSettings(Group):
    keep: bool = Field(
        default=True,
        description="Archive what you and your agents said, without secrets.",
    )
    work: bool = Field(
        default=True,
        description="Archive also what your agents did: commands with their exit status and first line of error, and names "
        "of edited files. Never outputs, nor what files contain.",
    )
    keep_days: Annotated[int, Field(ge=0, le=36_500)] = Field(
        default=365,
        description="Days that a session is kept after its last turn and after it was archived; 0: for ever.",
    )
    exclude: Names = Field(
        default=[],
        description="Folders whose sessions are neither archived nor logged, with all folders below; `*` stands for any "
        "part of a path.",
    )

    watch: bool = Field(
        default=False,
        description="Archive sessions that no hook reports, by watching the folders of transcripts.",
    )
    folders: Folders = Field(
        default=[],
        description="The folders that are watched. Empty: those of Claude Code, Codex and Gemini CLI.",
    )
    quiet_seconds: Annotated[float, Field(ge=0.05, le=86_400.0, allow_inf_nan=False)] = Field(
        default=60.0,
        description="Seconds without a change after which a watched transcript is read.",
    )


class ExtractionSettings(Group):
    by: Literal["auto", "rules", "judge", "agent", "off"] = Field(
        default="auto",
        description="Who makes memories of sessions. `rules`: from what you ask outright to be kept. `judge`: that of `jobs.judge`, "
        "which is sent what was said. `agent`: your agent, by `ormahctl maintenance`. `auto`: the judge if "
        "there is one, else rules. `off`: nobody.",
    )


class SourceFolder(Group):
    """A folder of the person whose files are found in place (a table `[[sources]]`)."""

    path: Annotated[str, AfterValidator(whole)]
    space: Annotated[str, Field(max_length=100)] = ""
    """The space of its notes; `global`: none; empty: the folder's name."""
    include: list[str] = []
    exclude: list[str] = []
    """`include`, `exclude`: patterns as in `.gitignore`, relative to the folder."""

    @property
    def folder(self) -> Path:
        """Return the absolute path of the folder."""
        return Path(self.path).expanduser().absolute()

    @property
    def belongs_to(self) -> str | None:
        """The space of its notes; None: they are global."""
        name = " ".join((self.space or self.folder.name).split())
        return None if name.casefold() == "global" else name


class JudgeSettings(Group):
    """Settings of the judge: how it is reached, how long it may take, and what it may cost a day."""

    command: str = Field(
        default="claude",
        min_length=1,
        description="The program for `jobs.judge = command`: `claude`, `codex` or `gemini`, which run without tools, or "
        "any command line that reads the prompt on stdin and prints the answer.",
    )
    url: str = Field(
        default="http://localhost:11434/v1",
        description="The address for `jobs.judge = openai`, without `/chat/completions`. The default is that of Ollama.",
    )
    model: str = Field(
        default="",
        description="The model's name. An endpoint needs one; a coding agent has a default.",
    )
    key_file: Path | None = Field(
        default=None,
        description="The file that holds the endpoint's key.",
    )
    timeout_seconds: Annotated[float, Field(ge=1.0, le=3_600.0, allow_inf_nan=False)] = Field(
        default=120.0,
        description="Seconds that one answer may take. A large model on a small machine needs more.",
    )
    calls_a_day: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=200,
        description="Largest number of calls in a day (UTC). More questions wait for the next day.",
    )
    tokens_a_day: Annotated[int, Field(ge=1_000, le=1_000_000_000)] = Field(
        default=500_000,
        description="The same for tokens of prompts and answers.",
    )

    @field_validator("url")
    @classmethod
    def _an_address(cls, url: str) -> str:
        """Return the address without a slash at its end, and without `/chat/completions`.

        Raises:
            ValueError: it is no http address, or has a user name, a password or a query.
        """
        try:
            parts = urlsplit(url)
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
            parts = None
        if not usable or parts is None:
            raise ValueError("must be an address such as http://localhost:11434/v1")
        if parts.username or parts.password:
            raise ValueError("must hold no user name and no key; judge.key_file says where the key is")
        if parts.query or parts.fragment:
            raise ValueError("must end with a path, such as /v1: no ? and no #")
        return url.rstrip("/").removesuffix("/chat/completions")
