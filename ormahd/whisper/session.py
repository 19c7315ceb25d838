"""Sessions: what was said before in the same conversation with an agent, and what its context holds already."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from ormahd.errors import BegunAnew
from ormahd.settings.whisper import WhisperSettings
from ormahd.state import sessions
from ormahd.state.state import State
from ormahd.text.secrets import redact
from ormahd.whisper.hear import clean, early
from ormahd.whisper.types import Before, Float, Said, Shown

log = logging.getLogger(__name__)

BUFFER_SIZE: Final = 5
"""Prompts of a session that are remembered, to understand the next one (the seeds')."""
MOST_CHARACTERS: Final = 2_000
"""Of a prompt that is remembered: what follows it up needs its gist."""
PRUNED_EVERY: Final = 50
"""New sessions after which old ones are looked for."""
CONTENT: Final = frozenset[Shown]({"full", "preference"})
"""Ways in which a memory's content stands in the context; in the others only its title does."""


class Sessions:
    """The buffer of each session's last prompts. All methods may be called from many threads and for one session at
    once; an id that is empty or None has no session. Where the state cannot be read or written, that is logged and the
    prompt counts as the first one: a whisper does not fail for it."""

    def __init__(
        self,
        state: State,
        settings: WhisperSettings,
        clock: Callable[[], datetime],
        *,
        model: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`model`: the fingerprint of the model that vectors are of; those of another one are not compared."""
        self._state = state
        self._settings = settings
        self._clock = clock
        self._model = model
        self._new = 0

    def before(self, session_id: str | None) -> Before:
        """What the session said within the gap, and what its context holds."""
        key = sessions.key_of(session_id)
        if key is None:
            return Before()
        try:
            found = sessions.find(self._state, key)
        except (sqlite3.Error, BegunAnew, ValueError) as exc:  # also a row whose values are garbled
            log.warning("a session could not be read: %s", exc)
            return Before()
        if found is None:
            return Before()
        earliest = self._clock() - timedelta(minutes=self._settings.session_gap_minutes)
        recent = tuple(self._said(one) for one in found.spoken if one.time > earliest)
        return Before(
            recent=recent[-BUFFER_SIZE:] or None,
            known=frozenset(memory for memory, how in found.holds.items() if how in CONTENT),
            named=frozenset(memory for memory, how in found.holds.items() if how not in CONTENT),
            prompts=found.prompts,
        )

    def heard(self, session_id: str | None, said: Said, *, shown: Mapping[str, Shown]) -> None:
        """A prompt was answered: remember it, redacted, and the memories that its whisper brought into the context.

        Prompts that say nothing (`hear.early`) are counted and not remembered, so that three times "ok" do not push out
        what the session is about.
        """
        key = sessions.key_of(session_id)
        if key is None:
            return
        spoken = None
        if early(said.text) is None:
            vector = None if said.vector is None else np.asarray(said.vector, np.float32).tobytes()
            text = redact(clean(said.text)[: 2 * MOST_CHARACTERS]).text[:MOST_CHARACTERS]
            spoken = sessions.Spoken(said.at, text, vector, self._model(), said.answered)
        try:
            self._add(key, spoken, shown)
        except (sqlite3.Error, BegunAnew) as exc:
            log.warning("a session could not be remembered: %s", exc)

    def told(self, session_id: str | None, shown: Mapping[str, Shown]) -> None:
        """Memories came into the context without a prompt: what a session is told when it begins."""
        key = sessions.key_of(session_id)
        if key is None or not shown:
            return
        try:
            self._add(key, None, shown, counted=False)
        except (sqlite3.Error, BegunAnew) as exc:
            log.warning("a session could not be remembered: %s", exc)

    def compacted(self, session_id: str | None) -> None:
        """The harness threw the context away: nothing in it is known any more; what was said still is."""
        self._forget(session_id, sessions.let_go)

    def ended(self, session_id: str | None) -> None:
        """The session is over: what was said tells nothing about what comes next. What its context holds is kept, since
        a session can be resumed with all of it."""
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
        except (sqlite3.Error, BegunAnew) as exc:
            log.warning("a session could not be forgotten: %s", exc)

    def _said(self, one: sessions.Spoken) -> Said:
        return Said(one.prompt, self._vector(one), one.time, one.answered)

    def _vector(self, one: sessions.Spoken) -> Float | None:
        if one.vector is None or one.model != self._model():
            return None
        return np.frombuffer(one.vector, np.float32)
