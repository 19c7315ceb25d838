"""Prints how the judge of the jobs is doing, for `ormahctl status` and `ormahctl doctor --judge`."""

from __future__ import annotations

from ormahctl import render
from ormahctl.session import Session
from ormahd.api import JudgeHealth, JudgeTestResult, NoParams

TEST_SECONDS = 3_600.0
"""Seconds that one answer may take at most: `judge.timeout_seconds` has the same bound."""
SAYS = {"down": "does not answer", "rude": "answers what cannot be used", "budget": "is not asked any more today"}
ANSWER_LINES = 12
"""Lines of an answer that are printed; `--json` has up to 2,000 characters."""


def judge_lines(judge: JudgeHealth) -> list[tuple[str, str]]:
    """Return (heading, text) for each line about the judge: first its name and today's cost, then what is wrong with
    it."""
    last = f"last answer {render.moment(judge.answered)}" if judge.answered else "no answer yet"
    cost = f"today {judge.calls:,} of {judge.calls_a_day:,} calls, {judge.tokens:,} of {judge.tokens_a_day:,} tokens"
    found = [("judge", f"{render.line(judge.name)} ({judge.kind}), {last}; {cost}")]
    for trouble in judge.troubles:
        often = f" ({trouble.times} times)" if trouble.times > 1 else ""
        text = f"{SAYS[trouble.kind]}, since {render.moment(trouble.since)}{often}: {render.line(trouble.reason)}"
        found.append(("judge", render.paint(text, "yellow")))
    if judge.left_alone_until is not None:
        found.append(
            ("judge", f"asked again from {render.moment(judge.left_alone_until)}: ormahctl doctor --judge asks now")
        )
    return found


def test_judge(session: Session) -> int:
    """Ask the judge one question, and print its answer. Return the exit status: 1 if the answer cannot be used."""
    done = session.client.call("admin.judge_test", NoParams(), JudgeTestResult, timeout=TEST_SECONDS)
    if session.json:
        render.emit(done)
    else:
        _print_trial(done)
    return 0 if done.usable else 1


def _print_trial(done: JudgeTestResult) -> None:
    """Print the judge's answer to the test question, whether it can be used, and what the question cost."""
    who = f"{render.line(done.name)} ({done.kind})"
    if not done.answer:
        render.out(render.paint(f"{who} gave no answer: {render.line(done.why or '?')}", "red"))
    else:
        render.out(f"{who} answered:")
        lines = done.answer.strip().splitlines()
        for line in lines[:ANSWER_LINES]:
            render.out(f"  {render.line(line)}")
        if len(lines) > ANSWER_LINES:
            render.out(f"  … and {render.count(len(lines) - ANSWER_LINES, 'more line')}")
        render.out(_verdict_line(done))
    tokens = f"{done.tokens:,} tokens" + ("" if done.counted else " (estimated)")
    if done.calls:
        render.out(f"took {done.seconds:.1f} s, {render.count(done.calls, 'call')}, {tokens}")
    render.out(f"left today: {render.count(done.calls_left, 'call')}, {done.tokens_left:,} tokens")


def _verdict_line(done: JudgeTestResult) -> str:
    """Return a sentence that says whether the judge's answer has the right form and the right verdict."""
    if not done.usable:
        return render.paint(f"this cannot be used: {render.line(done.why or '?')}", "red")
    repaired = " after one repair" if done.calls > 1 else ""
    if not done.right:
        return render.paint(
            f"the form is right{repaired}, but the verdict is wrong: this model is too weak to judge", "yellow"
        )
    return render.paint(f"the form and the verdict are right{repaired}", "green")
