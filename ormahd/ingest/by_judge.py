"""Asks the judge which memories a batch of turns contains."""

from __future__ import annotations

from typing import Final

import msgspec

from ormahd.ingest.batches import MemoryCandidate, Remembered, TurnBatch, candidates
from ormahd.judge.asking import Asker, JudgeQuestion

TASK: Final = "extraction"
SHARE: Final = 0.7
"""The share of the judge's budget of a day that may be spent on sessions. The rest is for the questions of the jobs."""
CRITERIA: Final = (
    "Take what will still matter in a month, in another session: decisions with their reason and what was rejected; corrections of the "
    "agent; what the person prefers, in particular; who the person is; goals; how things are built, and where they are; procedures that "
    "were hard to find out; surprises, and their cause.\n"
    "Leave out what is vague or generally known; what anyone sees who reads the code; what was only planned, asked, tried or supposed; "
    "requests and the steps of today's work; greetings and thanks; secrets; what the agent says that the person did not confirm; and "
    "whatever the agent says that it remembers. Usually there is nothing, and then the list is empty.\n"
    "One memory for one fact, in the language in which it was said. `content`: one to five sentences that stand by themselves: names in "
    'the place of "it" and "this project", dates in the place of "tomorrow" (each turn has its time), "the user" in the place of '
    '"I". `title`: 5 to 12 words. `tags`: two to five. `about_self`: whether it is about the person and not about a project. `turns`: the numbers '
    "of the turns that say it, first the one where it was said; at least one of them must have `read` false. `confidence`: how sure it is, "
    "from 0 to 1. `corrects`: words of the earlier fact that this one makes wrong, or an empty text."
)
INSTRUCTIONS: Final = (
    "You look after a person's long-term memory. The data is a part of a conversation between the person and an agent. Find what is worth "
    "remembering. Turns with `read` true were read before; they only help to understand the others.\n" + CRITERIA
)


def read(asker: Asker, batch: TurnBatch, *, whole: bool) -> list[MemoryCandidate]:
    """Return the memories that the judge proposes from a batch. `whole`: raise Unusable if any part of the judge's
    answer is unusable, instead of returning the rest. Raises JudgeGone, Unusable."""
    data = msgspec.to_builtins(batch.turns)
    return candidates(batch, asker.ask(JudgeQuestion(TASK, INSTRUCTIONS, list(data), Remembered, whole=whole)))
