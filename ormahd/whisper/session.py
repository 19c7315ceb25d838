"""Sessions: earlier prompts of a conversation with an agent, and the memories that its context already contains."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import numpy as np

from ormahd.errors import OrmahError
from ormahd.settings import WhisperSettings
from ormahd.state import sessions
from ormahd.state.state import State
from ormahd.text.secrets import redact
from ormahd.whisper.analyse import early_silence, typed_text
from ormahd.whisper.types import Before, Display, EarlierPrompt

log = logging.getLogger(__name__)

BUFFER_SIZE: Final = 5
"""Maximum number of prompts of a session that are stored, the last ones."""
GAP: Final = timedelta(minutes=10)
"""Age from which an earlier prompt does not count as context of a new one."""
MAX_CHARACTERS: Final = 2_000
"""Maximum number of characters of a stored prompt."""
PRUNED_EVERY: Final = 50
"""Number of new sessions after which old ones are deleted."""
CONTENT: Final = frozenset[Display]({"full", "preference"})
"""Ways of showing a memory that put its content into the context; the others show only its title."""


class Sessions:
    """Stores in the state the last prompts of each session, and which memories its context contains. Thread-safe.

    Calls with an empty session id or None do nothing. If the state cannot be read, a warning is logged and the prompt
    counts as the first of its session; if it cannot be written, only the warning is logged.
    """

    def __init__(self, state: State, settings: WhisperSettings) -> None:
        self._state = state
        self._settings = settings
        self._new = 0

    def before(self, session_id: str | None, model: str | None = None) -> Before:
        """Return what is known about the session: its stored prompts younger than `GAP`, and the memories in its
        context.

        `model`: fingerprint of the embedding model; vectors of other models are left out.
        """
        key = sessions.key_of(session_id)
        if key is None:
            return Before()
        try:
            found = sessions.find(self._state, key)
        except (sqlite3.Error, OrmahError, ValueError) as exc:  # ValueError: a row with damaged values
            log.warning("a session could not be read: %s", exc)
            return Before()
        if found is None:
            return Before()
        earliest = self._state.clock() - GAP
        recent = []
        for row in (row for row in found.spoken if row.time > earliest):
            usable = row.vector is not None and row.model == model
            vector = np.frombuffer(row.vector, np.float32) if row.vector is not None and usable else None
            recent.append(EarlierPrompt(row.prompt, vector, row.time, row.answered))
        return Before(
            recent=tuple(recent[-BUFFER_SIZE:]) or None,
            known=frozenset(memory for memory, display in found.holds.items() if display in CONTENT),
            named=frozenset(memory for memory, display in found.holds.items() if display not in CONTENT),
            prompts=found.prompts,
        )

    def add_prompt(
        self,
        session_id: str | None,
        prompt: EarlierPrompt,
        displays: Mapping[str, Display],
        *,
        model: str | None,
        keep: bool = True,
    ) -> None:
        """Store a prompt, redacted, and the memories that its whisper showed (`{context key: how it was shown}`).

        If `keep` is False, or `analyse.early_silence` rejects the prompt, it is counted but not stored: several "ok" do
        not displace the prompts that have a topic. `model`: the fingerprint of the model that made its vector.
        """
        key = sessions.key_of(session_id)
        if key is None:
            return
        spoken = None
        if keep and early_silence(prompt.text) is None:
            vector = None if prompt.vector is None else np.asarray(prompt.vector, np.float32).tobytes()
            text = redact(typed_text(prompt.text)[: 2 * MAX_CHARACTERS]).text[:MAX_CHARACTERS]
            spoken = sessions.Spoken(prompt.at, text, vector, model, prompt.answered)
        self._add(key, spoken, displays, counted=True)

    def add_memories(self, session_id: str | None, displays: Mapping[str, Display]) -> None:
        """Record memories that were shown without a prompt, such as those in a greeting.

        `displays`: `{context key: how it was shown}`.
        """
        key = sessions.key_of(session_id)
        if key is not None and displays:
            self._add(key, None, displays, counted=False)

    def compacted(self, session_id: str | None) -> None:
        """Record that the harness discarded the session's context: it contains no memories any more.

        Stored prompts are kept.
        """
        if (key := sessions.key_of(session_id)) is not None:
            with _logged("forgotten"):
                sessions.clear_held(self._state, key)

    def ended(self, session_id: str | None) -> None:
        """Delete the stored prompts of a session that ended.

        The record of the memories in its context is kept, because the session can be resumed.
        """
        if (key := sessions.key_of(session_id)) is not None:
            with _logged("forgotten"):
                sessions.delete_prompts(self._state, key)

    def _add(self, key: str, spoken: sessions.Spoken | None, displays: Mapping[str, Display], *, counted: bool) -> None:
        """Store a prompt, if there is one, and the memories shown; every `PRUNED_EVERY` new sessions delete old
        sessions.

        `counted`: whether the number of the session's prompts rises.
        """
        state, now = self._state, self._state.clock()
        with _logged("remembered"):
            if sessions.add(
                state, key, spoken, now=now, holds=displays, lasting=CONTENT, keep=BUFFER_SIZE, counted=counted
            ):
                self._new += 1
                if self._new % PRUNED_EVERY == 1:
                    sessions.prune(state, now=now, days=self._settings.keep_days)


@contextmanager
def _logged(task: str) -> Iterator[None]:
    """Context manager: an error of the state becomes a warning that a session could not be `task`."""
    try:
        yield
    except (sqlite3.Error, OrmahError) as exc:
        log.warning("a session could not be %s: %s", task, exc)
