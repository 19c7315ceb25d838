"""The judge of the daemon: create it from the settings, ask it a trial question, and report its state for `status` and
`doctor`."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ormahd.actions.views import iso, of_row
from ormahd.api import Finding, JudgeHealth, JudgeTestResult, JudgeTrouble
from ormahd.errors import BadRequest
from ormahd.judge.asking import Asker, JudgeCall, transport_of
from ormahd.judge.model_judge import RIGHT, TRIAL, ModelJudge
from ormahd.judge.port import Judge, JudgeGone
from ormahd.ormah import Ormah
from ormahd.state.judge_log import JudgeLog

BUDGET = "budget"
SAYS = {
    "down": "the judge ({name}) does not answer",
    "rude": "the judge ({name}) does not answer as it should",
    BUDGET: "the judge ({name}) is not asked any more today",
}
MENDS = {
    "down": "ormahctl doctor --judge asks it once; the questions wait, and nothing is lost",
    "rude": "ormahctl doctor --judge shows what it answers; perhaps another model does better",
    BUDGET: "the questions wait for tomorrow; judge.calls_a_day and judge.tokens_a_day are the limits",
}


class Judging:
    """Holds the judge that `jobs.judge` names (None if it is `none`), tells its health, and tests it. Thread-safe."""

    def __init__(self, ormah: Ormah) -> None:
        self._ormah = ormah
        self._kind = ormah.settings.jobs.judge
        self._log = JudgeLog(ormah.state)
        self.asker: Asker | None = None
        chosen = ormah.settings.judge
        if (transport := transport_of(self._kind, chosen, ormah.state.path.parent)) is not None:
            self.asker = Asker(transport, self._log, chosen, ormah.clock, ormah.syncing.stopping)
            place = chosen.url if self._kind == "openai" else chosen.command
            self._log.set_judge(f"{self._kind} {place} {chosen.model}")
        self.judge: Judge | None = None if self.asker is None else ModelJudge(self.asker)

    def health(self) -> JudgeHealth | None:
        """Return the state of the judge, or None if there is none."""
        if self.asker is None:
            return None
        now, limits = self._ormah.clock(), self._ormah.settings.judge
        calls, tokens = self._log.spent(now.date().isoformat())
        # A budget that ran out on another day is a new one today
        troubles = [one for one in self._log.troubles() if one.kind != BUDGET or one.last.date() == now.date()]
        return of_row(
            JudgeHealth,
            limits,
            kind=self._kind,
            name=self.asker.name,
            answered=iso(self._log.answered()),
            troubles=[of_row(JudgeTrouble, trouble) for trouble in troubles],
            left_alone_until=iso(self.asker.left_alone_until),
            calls=calls,
            tokens=tokens,
        )

    def findings(self) -> Iterator[Finding]:
        """Yield a `Finding` of `doctor` for each problem of the judge."""
        health = self.health()
        for trouble in health.troubles if health is not None else ():
            assert health is not None
            what = f"{SAYS[trouble.kind].format(name=health.name)}, since {trouble.since[:16].replace('T', ' ')}: {trouble.reason}"
            yield Finding("info" if trouble.kind == BUDGET else "warning", what, mend=MENDS[trouble.kind])

    def test(self) -> JudgeTestResult:
        """Ask the judge a trial question, which contains no data of the person.

        Raises:
            BadRequest: there is no judge.
        """
        if self.asker is None:
            raise BadRequest(
                "there is no judge: jobs.judge is none",
                hint="set jobs.judge to command or openai in config.toml, then: ormahctl restart",
            )
        begun, limits = time.monotonic(), self._ormah.settings.judge
        try:
            call = self.asker.attempt(TRIAL)
        except JudgeGone as exc:
            call = JudgeCall({}, why=str(exc), counted=False)
        usable = call.usable and call.why is None
        calls, tokens = self._log.spent(self._ormah.clock().date().isoformat())
        return of_row(
            JudgeTestResult,
            call,
            kind=self._kind,
            name=self.asker.name,
            usable=usable,
            right=usable and {q: item.same for q, item in call.items.items()} == RIGHT,
            seconds=round(time.monotonic() - begun, 3),
            calls_left=max(0, limits.calls_a_day - calls),
            tokens_left=max(0, limits.tokens_a_day - tokens),
        )
