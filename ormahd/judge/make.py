"""Makes the judge that the settings name. Also holds the question that `ormahctl doctor --judge` asks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from ormahd.judge.asking import Asker, JudgeLimits, JudgeQuestion, Ledger
from ormahd.judge.command import Command
from ormahd.judge.endpoint import Endpoint
from ormahd.judge.model_judge import SAME, SameAnswer
from ormahd.judge.own_sessions import FOLDER
from ormahd.judge.transport import Transport
from ormahd.settings.learning import JudgeSettings

TRIAL: Final = JudgeQuestion(
    "trial", SAME,
    [
        {"q": 1, "a": {"title": "", "text": "The backup runs every night at two."},
         "b": {"title": "", "text": "Every night at two the backup runs."}},
        {"q": 2, "a": {"title": "", "text": "The backup runs every night at two."},
         "b": {"title": "", "text": "The garden gate needs a new hinge."}},
    ],
    SameAnswer, (1, 2),
)  # fmt: skip
"""The batch of two questions that `ormahctl doctor --judge` asks. It has no data of the person. `RIGHT` has the answers."""
RIGHT: Final = (True, False)


def asker(
    kind: str,
    settings: JudgeSettings,
    state: Path,
    ledger: Ledger,
    *,
    clock: Callable[[], datetime],
    stopping: Callable[[], bool],
) -> Asker | None:
    """Return an asker for the judge that the settings name; None if they name none. `kind`: the value of
    `jobs.judge`; `state`: the state directory; `stopping`: returns whether the daemon stops."""
    transport: Transport
    if kind == "command":
        transport = Command(settings.command, settings.model, state / FOLDER)
    elif kind == "openai":
        transport = Endpoint(settings)
    else:
        return None
    limits = JudgeLimits(settings.timeout_seconds, settings.calls_a_day, settings.tokens_a_day)
    return Asker(transport, ledger, limits, clock=clock, stopping=stopping)
