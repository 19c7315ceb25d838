"""`ormahctl feedback`: teach what was of use, and what was not."""

from __future__ import annotations

from typing import Any

import click

from ormahctl import render
from ormahctl.complete import NodeId
from ormahctl.registry import Verb
from ormahctl.session import PERSON, Session, pass_session
from ormahd.api import FeedbackParams, FeedbackResult

_SIGNALS = {"+1": 1, "1": 1, "-1": -1, "\N{MINUS SIGN}1": -1}
_MINUS = "\N{MINUS SIGN}1"


class Signal(click.ParamType[int]):
    """`+1` or `-1`."""

    name = "+1|-1"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value not in _SIGNALS:
            self.fail(f"'{value}' is neither +1 (of use) nor -1 (not of use)", param, ctx)
        return _SIGNALS[value]


class Judge(Verb):
    """A command to which `-1` is a judgement, and no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_MINUS if arg == "-1" else arg for arg in args])


@click.command(
    cls=Judge,
    short_help="Say whether a whispered memory was of use.",
    example="ormahctl feedback 97acbe8e +1\normahctl feedback 97acbe8e -1 --event k3v9x2m7q4hd",
)
@click.argument("node_id", metavar="ID", type=NodeId())
@click.argument("signal", type=Signal(), metavar="+1|-1")
@click.option(
    "--explicit", "source", flag_value="explicit", default=None, help="A person says so (a person's default)."
)
@click.option(
    "--implicit",
    "source",
    flag_value="implicit",
    help="It is inferred from what happened: weighs a bit less (an agent's default).",
)
@click.option(
    "--event", metavar="EVENT", help="The whisper that is judged. Else the last one that considered the memory."
)
@pass_session
def feedback(session: Session, node_id: str, signal: int, source: str | None, event: str | None) -> None:
    """Say whether the memory ID was of use (+1) or not (-1) when it was whispered.

    For prompts like that one it comes up more easily from now on, or less. ID may be a beginning of the id, as whispers
    show it. The judgement is a commit: `ormahctl undo` takes it back.
    """
    source = source or ("explicit" if session.agent == PERSON else "implicit")
    params = FeedbackParams(node_id=node_id, signal=signal, source=source, event=event)
    done = session.client.call("agent.feedback", params, FeedbackResult)
    if session.json:
        render.emit(done)
        return
    word, name = "useful" if done.signal > 0 else "not useful", render.paint(done.short_id, "bold")
    if done.counted:
        render.out(f"noted as {word} {name}  for the whisper {done.event}")
    else:
        render.out(f"nothing to change: {name} was noted as {word} before, for the whisper {done.event}")
    if done.effect:
        render.out(f"  {done.effect}")
    if done.commit:
        render.out(f"  commit {done.commit[:8]}; to take it back: ormahctl undo {done.commit[:8]}")
    if done.replaced:
        render.note("it takes the place of the opposite, said of the same whisper")
    if done.review:
        render.note("the question about this memory is answered by it")
    if done.stored:
        render.note("another git operation is under way in the vault; the judgement is safe and its commit follows")
