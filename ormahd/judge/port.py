"""The interfaces of a judge: what a question is, the verdicts that answer it, and the transport of a prompt
(DESIGN section 6; REFERENCE C).

A question is about a group of memories: a pair (the first is called a, the second b), or a cluster. A judge is asked in
batches, while the caller holds no lock. It answers each question or leaves it open (None). An open question is asked
again another day. A text that a judge wrote is only a proposal: the job that applies it must validate it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from threading import Event
from typing import Any, Final, Literal, Protocol

from msgspec import Struct

from ormahd.model.node import NodeType
from ormahd.text.quoting import one_line
from ormahd.text.secrets import redact

NONE: Literal["none"] = "none"
"""The verdict that two memories have no edge, or no conflict."""


class JudgeGone(Exception):
    """Raised if the judge did not answer: it is missing or too slow, or the budget is used up.

    All questions that it was asked remain open.
    """


class Unusable(JudgeGone):
    """Raised if the judge answered, but neither the answer nor its second try fits the schema.

    Only the questions of this batch remain open.
    """


class ShownMemory(Struct, frozen=True):
    """The part of a memory that a judge is shown."""

    id: str
    type: NodeType
    space: str | None
    title: str | None
    content: str
    created: datetime


Group = Sequence[ShownMemory]


class JudgeVerdict(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The answer to one question. `q`: the number of the question in its batch.

    Its fields are the schema of the judge's answer. `reason` is one short sentence.
    """

    q: int = 0


class Duplicate(JudgeVerdict, frozen=True):
    """Whether two memories say the same.

    `title`, `content`: the merged text; each is None if the memory that is kept should keep its own.
    """

    same: bool
    title: str | None
    content: str | None
    reason: str


class Linked(JudgeVerdict, frozen=True):
    """How memory a of a pair relates to memory b. `yes`: it does."""

    edge: Literal["supports", "part_of", "depends_on", "related_to", "none"]
    reason: str

    @property
    def yes(self) -> bool:
        """Whether there is an edge."""
        return self.edge != NONE


class Contrast(JudgeVerdict, frozen=True):
    """Whether two memories contradict each other, and how.

    `evolution`: the later memory replaced the earlier belief. `tension`: the person holds both, and they contradict
    each other.
    """

    kind: Literal["evolution", "tension", "none"]
    reason: str

    @property
    def yes(self) -> bool:
        """Whether they contradict each other, in one way or the other."""
        return self.kind != NONE


class Summary(JudgeVerdict, frozen=True):
    """The text of one memory that summarises a cluster. `content` None: the memories do not belong together."""

    title: str | None
    content: str | None
    type: NodeType
    reason: str


AnyVerdict = Duplicate | Linked | Contrast | Summary


class Task(Struct, frozen=True):
    """A kind of question. `name`: its name in the log and in the state. `answer`: the type of its verdicts.

    `characters`: the maximum number of characters of a memory that a model is shown. `rewrites`: the verdict has a text
    that replaces the memories, so no question is asked about a longer memory. `must_write`: without that text there is
    no verdict, so no question is asked about a memory that cannot be shown unchanged.
    """

    name: str
    answer: type[AnyVerdict]
    instructions: str
    characters: int
    rewrites: bool = False
    must_write: bool = False


class Judge(Protocol):
    """What the jobs need from a judge."""

    @property
    def name(self) -> str:
        """The name shown in commit messages and in `status`: the name of the command or of the model."""
        ...

    def answer(self, task: Task, groups: Sequence[Group]) -> Sequence[AnyVerdict | None]:
        """Return a verdict for each group, in order; None for a question that remains open. It may take minutes.

        Raises:
            JudgeGone: the judge cannot answer.
        """
        ...


# ---------------------------------------------------------------- the transport of a prompt


ANSWER_BYTES: Final = 1_000_000
"""Maximum size of an answer in bytes. The longest answer that any question asks for has about 30,000."""
POLL_S: Final = 0.05
"""Seconds between two checks whether the daemon stops or the time is up."""
LATE: Final = "no answer came in time (judge.timeout_seconds)"
QUOTED: Final = 160
"""Maximum number of characters of a judge's own error message that are shown."""


class Failed(Exception):
    """Raised if the judge gave no answer that could be read.

    `wait`: seconds for which the judge asked not to be called. `unusable`: whether it replied with something that is no
    answer, such as HTML. `sent`: whether the prompt was sent, so that the call may have cost something.
    """

    def __init__(self, reason: str, *, wait: float | None = None, unusable: bool = False, sent: bool = True) -> None:
        """`reason`: what went wrong, as a sentence for people; the others: see the class."""
        super().__init__(reason)
        self.reason = reason
        self.wait = wait
        self.unusable = unusable
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

    def send(self, prompt: str, schema: Mapping[str, Any], seconds: float, stopping: Event) -> JudgeReply:
        """Send a prompt and return the answer. The answer need not fit `schema`, which is only a help for the model.

        Raises:
            Failed: no answer that could be read came within `seconds`.
            Stopping: `stopping` was set.
        """
        ...


def quote(text: str) -> str:
    """Return an error message of a judge as one short line, with secrets redacted."""
    return one_line(redact(text[: 8 * QUOTED]).text, QUOTED)


def token_sum(counts: Iterable[Any]) -> int | None:
    """Return the sum of the token counts that a judge states, without those that are no numbers; None if none is a
    number."""
    valid = [count for count in counts if type(count) is int and count >= 0]  # not a bool, which is an int too
    return sum(valid) if valid else None
