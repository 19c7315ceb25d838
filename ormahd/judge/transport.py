"""The interface of a transport, which sends a prompt to a judge: it returns the answer as text, or raises `Failed`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct

from ormahd.text.quoting import one_line
from ormahd.text.secrets import redact

ANSWER_BYTES: Final = 1_000_000
"""Maximum size of an answer in bytes. The longest answer that any question asks for has about 30,000."""
POLL_S: Final = 0.05
"""Seconds between two checks whether the daemon stops or the time is up."""
LATE: Final = "no answer came in time (judge.timeout_seconds)"
QUOTED: Final = 160
"""Maximum number of characters of a judge's own error message that are shown."""


class Failed(Exception):
    """Raised if the judge gave no answer that could be read.

    `wait`: seconds for which the judge asked not to be called. `rude`: whether it replied with something that is no answer, such as HTML. `sent`: whether the
    prompt was sent, so that the call may have cost something.
    """

    def __init__(self, reason: str, *, wait: float | None = None, rude: bool = False, sent: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait = wait
        self.rude = rude
        self.sent = sent


class Stopping(Exception):
    """Raised if the daemon is stopping, so that no job waits for the answer any more."""


class JudgeReply(Struct, frozen=True):
    """The answer of a judge. `tokens`: the tokens of prompt and answer together, as stated by the judge; None if it
    did not."""

    text: str
    tokens: int | None


class Transport(Protocol):
    """What `Asker` needs from a way to send prompts to a judge. `name`: the name of the command or the model, to show
    to people."""

    @property
    def name(self) -> str: ...

    def send(self, prompt: str, schema: Mapping[str, Any], seconds: float, stopping: Callable[[], bool]) -> JudgeReply:
        """Send a prompt and return the answer. The answer need not fit `schema`, which is only a help for the model.

        Raises:
            Failed: no answer that could be read came within `seconds`.
            Stopping: `stopping` returned True.
        """
        ...


def quote(text: str) -> str:
    """Return an error message of a judge as one short line, with secrets redacted."""
    return one_line(redact(text[: 8 * QUOTED]).text, QUOTED)


def sum_of(counts: Iterable[Any]) -> int | None:
    """Return the sum of the numbers of tokens that a judge states; None if none is a number."""
    whole = [count for count in counts if type(count) is int and count >= 0]
    return sum(whole) if whole else None
