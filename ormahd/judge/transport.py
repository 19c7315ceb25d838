"""What the ways to reach a judge have in common: a prompt goes in, a text comes out, or `Failed` says why not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct

from ormahd.text.quoting import one_line
from ormahd.text.secrets import redact

ANSWER_BYTES: Final = 1_000_000
"""Bytes of an answer that are read. The longest that any question asks for has some 30,000."""
POLL_S: Final = 0.05
"""Seconds between two looks whether the daemon stops, or the time is up."""
QUOTED: Final = 160
"""Characters of a judge's own error message that are shown."""


class Failed(Exception):
    """The judge gave no answer that could be read.

    `again`: whether asking at once may help, as when a server restarts. `wait`: seconds that the judge asked to be left alone.
    `rude`: it answered, but not as a judge does. `sent`: whether the prompt went out, so that the call may have cost something.
    """

    def __init__(
        self, reason: str, *, again: bool = False, wait: float | None = None, rude: bool = False, sent: bool = True
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.again = again
        self.wait = wait
        self.rude = rude
        self.sent = sent


class Stopping(Exception):
    """The daemon stops, so no job waits for the answer any more."""


class JudgeReply(Struct, frozen=True):
    """What a judge said. `tokens`: of prompt and answer, as the judge counts them; None: it does not say."""

    text: str
    tokens: int | None


class Transport(Protocol):
    """Sends one prompt. `name` is shown to people: a command's name, or a model's."""

    @property
    def name(self) -> str: ...

    def send(self, prompt: str, schema: Mapping[str, Any], seconds: float, stopping: Callable[[], bool]) -> JudgeReply:
        """Return the answer. It may be in any form, `schema` only helps a model to find the right one.

        Raises:
            Failed: no answer came within `seconds`, or none that could be read.
            Stopping: `stopping` became true.
        """
        ...


def quote(text: str) -> str:
    """Return the judge's own words about a failure as one short line, without secrets."""
    return one_line(redact(text[: 8 * QUOTED]).text, QUOTED)


_TRAILING = re.compile(r"\s+$")


def last_line(text: str) -> str:
    """Return the last line of what a program wrote on stderr that says anything; "" if none does."""
    lines = [line for line in _TRAILING.sub("", text).splitlines() if line.strip()]
    return quote(lines[-1]) if lines else ""
