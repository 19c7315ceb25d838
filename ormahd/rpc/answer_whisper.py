"""`agent.whisper` and `agent.feedback`."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from ormahd import api
from ormahd.actions.caller import Caller, check_space
from ormahd.actions.feedback import feedback
from ormahd.actions.projects import space_of
from ormahd.rpc.handling import Handler, ProgressFn, result
from ormahd.whisper.pipeline import Whisper
from ormahd.whisper.types import Asked, Candidate


class WhisperMethods:
    """One method here answers one method of the wire; nothing is decided."""

    def __init__(self, whisper: Whisper) -> None:
        self._whisper = whisper

    def table(self) -> dict[str, Handler]:
        return {"agent.whisper": self.whisper, "agent.feedback": self.feedback}

    def whisper(self, params: api.WhisperParams, caller: Caller, _: ProgressFn) -> api.Result:
        named = params.space
        space = space_of(self._whisper.ormah, caller) if isinstance(named, UnsetType) else check_space(named)
        asked = Asked(params.prompt, space, params.session_id, caller.source)
        said = self._whisper.whisper(asked, explain=params.explain)
        return api.WhisperResult(
            text=said.text,
            nodes=[_node(one) for one in said.nodes if one.shown != "exploring"],
            exploring=next((_node(one) for one in said.nodes if one.shown == "exploring"), None),
            silence=None if said.silence is None else said.silence.value,
            better_space=said.better,
            event=said.event,
            review=said.review,
            resting=None if said.resting is None else _node(said.resting),
            archived=said.archived,
            degraded=list(said.degraded),
            trace=said.trace if params.explain else UNSET,
        )  # fmt: skip

    def feedback(self, params: api.FeedbackParams, caller: Caller, _: ProgressFn) -> api.Result:
        done = feedback(
            self._whisper.ormah, params.node_id, params.signal, caller, source=params.source, event=params.event
        )
        return result(done, api.FeedbackResult)


def _node(one: Candidate) -> api.WhisperNode:
    return api.WhisperNode(
        id=one.id, short_id=one.row.short_id, type=one.row.type.value, title=one.row.title,
        score=round(one.relevance, 6), shown=one.shown or "title", older_than=one.older_than,
    )  # fmt: skip
