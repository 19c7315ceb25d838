"""Answer the hooks of harnesses: from the body of an `h` frame to the text that the hook prints (DESIGN section 7, issue 4).

Hooks fail open: a frame that cannot be decoded gets an empty reply and one log line at debug level.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from ormahd.actions.older import replaced_today
from ormahd.actions.projects import home_of
from ormahd.errors import BadRequest
from ormahd.rpc import hook_reply
from ormahd.rpc.handler import request
from ormahd.rpc.hook_frame import Event, HookAct, read
from ormahd.state.sessions import begin, key_of
from ormahd.text.injected import Commands
from ormahd.whisper.greet import greet
from ormahd.whisper.pipeline import UNHEARD, Whisper
from ormahd.whisper.render import notice
from ormahd.whisper.types import Asked

log = logging.getLogger("ormahd.hooks")

RENEWED: Final = frozenset({"startup", "clear"})
"""Sources of a START event after which the context is empty, even if the session's id is known."""
LOST: Final = "compact"
STARTED: Final = "startup"
"""The source of a START event for a new session; its folder is the one where the session began."""


def nudge(commands: Commands) -> str:
    """Return the reminder to store memories, shown every `nudge_interval` prompts.

    It states facts, because harnesses treat commands in injected text as an attack (REFERENCE G).
    """
    return notice(
        "what this session has brought to light and a later one will want to know (decisions and why, corrections, preferences, "
        f"what took long to find out) is kept by `{commands.remember}`. `{commands.feedback}` records that a whispered memory "
        "helped, -1 in place of +1 that it did not; E stands in the last line of its whisper."
    )


class Transcript(Struct, frozen=True):
    """A notice to ingestion that a session's transcript has grown. `path`: the transcript's file, if the harness tells it."""

    harness: str
    event: str
    session_id: str | None
    path: str | None
    space: str | None


class Hooks:
    """Answers hooks, with whispers from one `Whisper`. Thread-safe."""

    def __init__(self, whisper: Whisper) -> None:
        self._whisper = whisper
        self._ormah = whisper.ormah
        self._settings = whisper.settings
        self.on_transcript: Callable[[Transcript], None] | None = None
        """Called with each Transcript while a harness waits, so it must return quickly. None: transcripts are not ingested."""

    def answer(self, body: bytes, gone: Callable[[], bool] = bool) -> bytes:
        """Return the bytes that the hook's process prints; b"" for nothing.

        `gone` tells whether that process has ended meanwhile. If so, the memories of the reply are not recorded as shown.
        """
        begun = time.perf_counter()
        try:
            event = read(body)
        except BadRequest as exc:
            log.debug("a hook was left without an answer: %s", exc.message)
            return b""
        said, outcome = b"", "sub_agent"
        if not event.of_sub_agent:  # an agent writes its prompts, and it shares the session id of its parent agent
            said, outcome = self._ormah.mended(lambda: self._act(event, gone))
        request(event.harness, f"hook {event.name}", (time.perf_counter() - begun) * 1000, outcome)
        return said

    def _act(self, event: Event, gone: Callable[[], bool]) -> tuple[bytes, str]:
        """Handle an event. Return the bytes to print, and the outcome in one word for the log."""
        if event.act is HookAct.PROMPT:
            return self._prompt(event, gone)
        if event.act is HookAct.START:
            return self._start(event, gone)
        if event.act is HookAct.COMPACTED:
            self._whisper.sessions.compacted(event.session_id)
        self._hand_over(event)
        return b"", "ok"

    def _prompt(self, event: Event, gone: Callable[[], bool]) -> tuple[bytes, str]:
        found = self._whisper.whisper(
            Asked(event.prompt, self._space(event), event.session_id, f"agent:{event.harness}", gone)
        )
        text = found.text
        if found.silence not in UNHEARD and event.session_id is not None:
            count = self._whisper.sessions.before(event.session_id).prompts
            if _every(self._settings.nudge_interval, count):
                text = hook_reply.joined(text, nudge(self._whisper.wiring.of(event.harness)))
            if _every(self._settings.store_interval, count):
                self._hand_over(event)
        return hook_reply.context(event.name, text), found.silence or "injected"

    def _start(self, event: Event, gone: Callable[[], bool]) -> tuple[bytes, str]:
        sessions, session_id = self._whisper.sessions, event.session_id
        if event.source in RENEWED:
            sessions.ended(session_id)
        if event.source in RENEWED or event.source == LOST:
            sessions.compacted(session_id)
        space = self._space(event)
        here = "global" if space is None else space
        if not self._settings.enabled or here in self._settings.silent_spaces:
            return b"", "off"
        before = sessions.before(session_id)
        said = greet(
            self._ormah.index, space=space, self_id=self._ormah.vault.self_id, known=before.known | before.named,
            now=self._ormah.ranking_clock(), settings=self._settings, commands=self._whisper.wiring.of(event.harness),
            replaced=lambda ids: replaced_today(self._ormah, ids),
        )  # fmt: skip
        if not gone():
            sessions.told(session_id, said.shown)
        return hook_reply.context(event.name, said.text), "injected" if said.text else "known"

    def _hand_over(self, event: Event) -> None:
        if self.on_transcript is not None:
            space = self._space(event)
            self.on_transcript(Transcript(event.harness, event.name, event.session_id, event.transcript, space))

    def _space(self, event: Event) -> str | None:
        """Return the space from `ORMAH_SPACE`, else that of the project in which the session began; None means global.

        The agent's current directory does not matter once the session's first directory is known.
        """
        if event.space is not None:
            return None if event.space.casefold() == "global" else event.space
        place = event.project or next(iter(event.cwds), None)
        session = key_of(event.session_id)
        if place is not None and session is not None:
            anew = event.act is HookAct.START and event.source == STARTED
            began = begin(self._ormah.state, session, place, self._ormah.clock(), anew=anew)
            place = event.project or began
        found = home_of(self._ormah, place)
        return None if found is None else found.space


def _every(interval: int, count: int) -> bool:
    return interval > 0 and count > 0 and count % interval == 0
