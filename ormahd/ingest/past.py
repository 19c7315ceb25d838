"""Finds the past sessions of this machine, and estimates the cost of archiving them and reading them for memories."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ormahd import paths
from ormahd.api import IngestedFile, JudgeCost, PastFolder, PastResult
from ormahd.errors import BadRequest
from ormahd.ingest.bring_in import Progress, allowed, ours, refuse_ours, take
from ormahd.ingest.sources import state_of, walk

if TYPE_CHECKING:
    from ormahd.ormah import Ormah
    from ormahd.sessions.archive import SourceState

SAMPLE: Final = 40
"""Maximum number of files that are read for an estimate: a sample of old and new ones."""
SAMPLE_SECONDS: Final = 2.0
LARGE: Final = 32 << 20
"""Maximum size in bytes of a file in the sample."""
WRITING: Final = 1.5
"""Estimated time to archive a file, as a multiple of the time to read it."""
A_FILE: Final = 0.006
"""Estimated seconds to sync one file of the archive to the disk."""
BATCH: Final = 12_000
"""Characters of a session that a judge reads in one call."""
A_CALL: Final = 1_500
"""Estimated tokens of a call in addition to the turns: those of the instructions and of the answer."""
CHARACTERS_A_TOKEN: Final = 4


def past(ormah: Ormah, folders: Sequence[str], *, exact: bool, progress: Progress) -> PastResult:
    """Return the transcripts in these folders that are not archived yet, newest first, with an estimate of what
    archiving them takes. `folders` empty: the folders of all known agents. `exact`: read every transcript for the
    estimate, not only a sample.

    Raises:
        BadRequest: archiving is switched off, or a path is not absolute.
    """
    allowed(ormah)
    found, fresh = survey(ormah, folders, progress)
    chosen = fresh if exact else _sample(fresh)
    seen: set[str] = set()
    read: list[IngestedFile] = []
    size = 0
    begun = time.monotonic()
    for number, (file, state) in enumerate(chosen):
        if not exact and number and time.monotonic() - begun > SAMPLE_SECONDS:
            break
        progress(number, len(chosen), file.name)
        read.append(take(ormah, file, seen=seen))
        size += state.size
    took = time.monotonic() - begun
    whole = sum(state.size for _, state in fresh)
    share = 1.0 if exact or not size else whole / size
    sessions = round(sum(one.sessions for one in read) * share)
    characters = round(sum(one.characters for one in read) * share)
    return PastResult(
        found, [str(file) for file, _ in fresh], whole, sessions, round(sum(one.added for one in read) * share),
        round(took * share * WRITING + A_FILE * len(fresh), 1), exact or len(read) == len(fresh),
        cost(ormah, sessions, characters),
    )  # fmt: skip


def survey(
    ormah: Ormah, folders: Sequence[str], progress: Progress = lambda *_: None
) -> tuple[list[PastFolder], list[tuple[Path, SourceState]]]:
    """Return (a summary of each folder, (path, state) of the files in these folders that are not read yet, newest
    first). `folders` empty: those of all known agents."""
    for named in folders:
        if not Path(named).is_absolute():
            raise BadRequest(f"'{named[:200]}' is no absolute path")
        refuse_ours(ormah, Path(named))
    places = [("", Path(named)) for named in folders] or paths.transcript_folders()
    found: list[PastFolder] = []
    fresh: dict[Path, SourceState] = {}
    for number, (agent, folder) in enumerate(places):
        progress(number, len(places), str(folder))
        one = PastFolder(agent, str(folder), exists=folder.exists(), trouble=unreadable(folder))
        found.append(one)
        if one.trouble or not one.exists:
            continue
        for file in walk(folder, ours(ormah)):
            try:
                state = state_of(file)
            except OSError:
                continue  # the file was deleted in the meantime
            one.files += 1
            one.bytes += state.size
            if file not in fresh and not ormah.sessions.is_read(str(file), state):
                fresh[file] = state
                one.fresh += 1
                one.fresh_bytes += state.size
    return found, sorted(fresh.items(), key=lambda item: (-item[1].mtime_ns, str(item[0])))


def unreadable(folder: Path) -> str | None:
    """Return why a folder cannot be read; None if it can be read, or does not exist."""
    try:
        with os.scandir(folder) as entries:
            next(entries, None)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror or str(error)
    return None


def cost(ormah: Ormah, sessions: int, characters: int) -> JudgeCost:
    """Return the calls, tokens and days that the judge would need to read this many sessions and characters."""
    limits = ormah.settings.judge
    calls = max(sessions, ceil(characters / BATCH))
    tokens = characters // CHARACTERS_A_TOKEN + calls * A_CALL
    days = max(ceil(calls / limits.calls_a_day), ceil(tokens / limits.tokens_a_day))
    return JudgeCost(ormah.settings.jobs.judge, calls, tokens, days)


def _sample(fresh: Sequence[tuple[Path, SourceState]]) -> list[tuple[Path, SourceState]]:
    small = [one for one in fresh if one[1].size <= LARGE] or sorted(fresh, key=lambda one: one[1].size)[:1]
    step = max(1, len(small) // SAMPLE)
    return small[::step][:SAMPLE]
