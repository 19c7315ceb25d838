"""Sessions: earlier prompts of a conversation with an agent, and the memories that its context already contains."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from ormahd.errors import OrmahError
from ormahd.settings import WhisperSettings
from ormahd.state import sessions
from ormahd.state.state import State
from ormahd.text.secrets import redact
from ormahd.whisper.hear import clean, early
from ormahd.whisper.types import Before, Float, Said, Shown

log = logging.getLogger(__name__)

BUFFER_SIZE: Final = 5
"""Maximum number of prompts of a session that are stored, the last ones."""
GAP: Final = timedelta(minutes=10)
"""Age from which an earlier prompt does not count as context of a new one."""
MOST_CHARACTERS: Final = 2_000
"""Maximum number of characters of a stored prompt."""
PRUNED_EVERY: Final = 50
"""Number of new sessions after which old ones are deleted."""
CONTENT: Final = frozenset[Shown]({"full", "preference"})
"""Ways of showing a memory that put its content into the context; the others show only its title."""


class Sessions:
    """Stores in the state the last prompts of each session, and which memories its context contains. Thread-safe.

    Calls with an empty session id or None do nothing. If the state cannot be read, a warning is logged and the prompt
    counts as the first of its session; if it cannot be written, only the warning is logged.
    """

    def __init__(
        self,
        state: State,
        settings: WhisperSettings,
        clock: Callable[[], datetime],
        *,
        model: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`model`: returns the fingerprint of the embedding model. Stored vectors of another model are ignored."""
        self._state = state
        self._settings = settings
        self._clock = clock
        self._model = model
        self._new = 0

    def before(self, session_id: str | None) -> Before:
        """Return the session's stored prompts that are younger than `GAP`, and the memories that its context
        contains."""
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
        earliest = self._clock() - GAP
        recent = tuple(self._said(one) for one in found.spoken if one.time > earliest)
        return Before(
            recent=recent[-BUFFER_SIZE:] or None,
            known=frozenset(memory for memory, how in found.holds.items() if how in CONTENT),
            named=frozenset(memory for memory, how in found.holds.items() if how not in CONTENT),
            prompts=found.prompts,
        )

    def heard(self, session_id: str | None, said: Said, *, shown: Mapping[str, Shown], keep: bool = True) -> None:
        """Store a prompt, redacted, and the memories that its whisper showed (`{context key: how it was shown}`).

        If `keep` is False, or `hear.early` rejects the prompt, it is counted but not stored: several "ok" do not
        displace the prompts that have a topic.
        """
        key = sessions.key_of(session_id)
        if key is None:
            return
        spoken = None
        if keep and early(said.text) is None:
            vector = None if said.vector is None else np.asarray(said.vector, np.float32).tobytes()
            text = redact(clean(said.text)[: 2 * MOST_CHARACTERS]).text[:MOST_CHARACTERS]
            spoken = sessions.Spoken(said.at, text, vector, self._model(), said.answered)
        try:
            self._add(key, spoken, shown)
        except (sqlite3.Error, OrmahError) as exc:
            log.warning("a session could not be remembered: %s", exc)

    def told(self, session_id: str | None, shown: Mapping[str, Shown]) -> None:
        """Record memories that were shown without a prompt, such as those in a greeting.

        `shown`: `{context key: how it was shown}`.
        """
        key = sessions.key_of(session_id)
        if key is None or not shown:
            return
        try:
            self._add(key, None, shown, counted=False)
        except (sqlite3.Error, OrmahError) as exc:
            log.warning("a session could not be remembered: %s", exc)

    def compacted(self, session_id: str | None) -> None:
        """Record that the harness discarded the session's context: it contains no memories any more.

        Stored prompts are kept.
        """
        self._forget(session_id, sessions.let_go)

    def ended(self, session_id: str | None) -> None:
        """Delete the stored prompts of a session that ended.

        The record of the memories in its context is kept, because the session can be resumed.
        """
        self._forget(session_id, sessions.hush)

    def _add(
        self, key: str, spoken: sessions.Spoken | None, shown: Mapping[str, Shown], *, counted: bool = True
    ) -> None:
        now, settings = self._clock(), self._settings
        new = sessions.add(
            self._state, key, spoken, now=now, holds=shown, lasting=CONTENT, keep=BUFFER_SIZE, counted=counted
        )
        if new:
            self._new += 1
            if self._new % PRUNED_EVERY == 1:
                sessions.prune(self._state, now=now, days=settings.keep_days)

    def _forget(self, session_id: str | None, how: Callable[[State, str], None]) -> None:
        key = sessions.key_of(session_id)
        if key is None:
            return
        try:
            how(self._state, key)
        except (sqlite3.Error, OrmahError) as exc:
            log.warning("a session could not be forgotten: %s", exc)

    def _said(self, one: sessions.Spoken) -> Said:
        return Said(one.prompt, self._vector(one), one.time, one.answered)

    def _vector(self, one: sessions.Spoken) -> Float | None:
        if one.vector is None or one.model != self._model():
            return None
        return np.frombuffer(one.vector, np.float32)
