"""Makes the judge that the settings name. Also holds the question that `ormahctl doctor --judge` asks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from ormahd.judge.asking import Asker, JudgeQuestion, Ledger
from ormahd.judge.command import Command
from ormahd.judge.endpoint import Endpoint
from ormahd.judge.model_judge import DUPLICATES
from ormahd.judge.own_sessions import FOLDER
from ormahd.settings.learning import JudgeSettings

_BACKUP, _AGAIN, _GATE = (
    {"title": "", "text": text}
    for text in (
        "The backup runs every night at two.",
        "Every night at two the backup runs.",
        "The garden gate needs a new hinge.",
    )
)
_QUESTIONS = [{"q": 1, "a": _BACKUP, "b": _AGAIN}, {"q": 2, "a": _BACKUP, "b": _GATE}]
TRIAL: Final = JudgeQuestion("trial", DUPLICATES.instructions, _QUESTIONS, DUPLICATES.answer, (1, 2))
"""The batch of two questions that `ormahctl doctor --judge` asks. It has no data of the person. `RIGHT` has the answers."""
RIGHT: Final = {1: True, 2: False}


def asker(
    kind: str, settings: JudgeSettings, state: Path, ledger: Ledger, *, clock: Callable[[], datetime], stopping: Callable[[], bool]
) -> Asker | None:  # fmt: skip
    """Return an asker for the judge that the settings name; None if they name none. `kind`: the value of
    `jobs.judge`; `state`: the state directory; `stopping`: returns whether the daemon stops."""
    if kind == "command":
        return Asker(Command(settings.command, settings.model, state / FOLDER), ledger, settings, clock, stopping)
    return Asker(Endpoint(settings), ledger, settings, clock, stopping) if kind == "openai" else None
