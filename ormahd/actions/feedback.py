"""Record whether a whispered memory was useful: a judgement, stored in the vault, that affects later whispers.

A judgement is about one memory, for the prompt of one whisper: the whisper that is named, otherwise the last one that
considered the memory. It takes effect through that prompt's vector (`whisper.affinity`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ormahd.actions.amend import amending, commit
from ormahd.actions.views import headline
from ormahd.api import FeedbackResult
from ormahd.errors import BadRequest, NotFound
from ormahd.index.reader import clean_prefix
from ormahd.model import judgement
from ormahd.model.change import Kind
from ormahd.model.judgement import Int8Vector, Judgement, Source
from ormahd.model.node import short_id
from ormahd.note.read import digest
from ormahd.state import whispers

if TYPE_CHECKING:
    from ormahd.actions.amend import Caller
    from ormahd.index.rows import NodeRow
    from ormahd.ormah import Ormah
    from ormahd.state.whispers import Logged

_SOURCES: dict[str, Source] = {"explicit": "explicit", "implicit": "implicit"}


def feedback(
    ormah: Ormah, node_id: str, signal: int, caller: Caller, *, source: str = "explicit", event: str | None = None
) -> FeedbackResult:
    """Judge the memory that `node_id` names (full id, or a prefix unique among logged memories). `signal`: 1 for
    useful, -1 for not useful.

    There is one judgement per whisper, memory and source: to repeat it changes nothing, the opposite signal replaces
    it. A memory judged useful counts as used, once per whisper.

    Raises:
        BadRequest: the signal, the source, the id. NotFound: no recent whisper considered the memory, the event does
        not exist, or the memory has been forgotten. Ambiguous: the prefix matches several logged memories.
    """
    if signal not in (1, -1) or isinstance(signal, bool):
        raise BadRequest(f"signal is {signal!r}", hint="1: the memory was of use; -1: it was not")
    said = _SOURCES.get(source)
    if said is None:
        raise BadRequest(f"source is {source[:60]!r}", hint="explicit or implicit")
    logged = _logged(ormah, node_id, event)
    row = ormah.index.notes([logged.node_id], connections=False).get(logged.node_id)
    if row is None:
        raise NotFound(
            f"the memory {short_id(logged.node_id)} was considered for a prompt, but is not in the vault any more",
            hint=f"`ormahctl history {short_id(logged.node_id)}` tells what became of it; undone, it can be judged",
            data={"id": logged.node_id},
        )
    done = amending(ormah, lambda: _attempt(ormah, row, logged, signal, said, caller))
    if signal > 0 and whispers.claim_use(ormah.state, logged.event, logged.node_id):
        now = ormah.ranking_clock()
        ormah.state.touch([logged.node_id], how="feedback", session_id=logged.session_id, at=now)
    effect = _effect(signal, said)
    text = f"{done.text} {effect}"
    return replace(done, text=text, effect=effect, review=whispers.answer(ormah.state, logged.node_id))


def _logged(ormah: Ormah, node_id: str, event: str | None) -> Logged:
    prefix = clean_prefix(node_id)
    if event is not None:
        return whispers.considered(ormah.state, event.strip().lower(), prefix)
    try:
        return whispers.latest(ormah.state, prefix)
    except NotFound as exc:
        days = ormah.settings.whisper.keep_days
        raise NotFound(
            f"no whisper of the last {days:g} days considered a memory {prefix!r}, so that there is no prompt to judge it for",
            hint="whisper a prompt that it belongs to (ormahctl whisper PROMPT --session NAME), then judge it", data={"id": prefix},
        ) from exc  # fmt: skip


def _attempt(ormah: Ormah, row: NodeRow, logged: Logged, signal: int, source: Source, caller: Caller) -> FeedbackResult:
    path = judgement.FILES.path(logged.time)
    data = ormah.vault.read(path)
    before = judgement.FILES.read(data or b"")[0].get(judgement.line_id(logged.event, row.id, source))
    name = headline(row.title, row.content)
    word = "useful" if signal > 0 else "not useful"
    text = f"Counted as {word}: {name} (id: {row.id})."
    if before is not None and before.signal == signal:
        return FeedbackResult(f"{text} It was noted before.", row.id, short_id(row.id), logged.event, signal, source,
                      counted=False, degraded=ormah.degraded())  # fmt: skip
    seal = ormah.learned.seal
    made = Judgement(
        row.id, signal, source, ormah.clock(), logged.event, logged.model, Int8Vector.of(logged.vector),
        seal.prompt(logged.prompt), logged.space,
        None if logged.session_id is None else seal.hash(f"session\n{logged.session_id}"),
        logged.prompt if ormah.settings.feedback.commit_prompts else None,
    )  # fmt: skip
    new = judgement.FILES.put(data or b"", made)
    done = commit(
        ormah, f"Feedback: {word}: {name}", kind=Kind.FEEDBACK, caller=caller, body=_why(logged, source, before),
        fill=lambda tx: tx.put(path, new, node_id=row.id, expect=None if data is None else digest(data)),
    )  # fmt: skip
    if before is not None:
        text += " It takes the place of the opposite."
    return FeedbackResult(text, row.id, short_id(row.id), logged.event, signal, source, True, before is not None, False, "",
                  done.commit, done.op, ormah.degraded())  # fmt: skip


def _effect(signal: int, source: Source) -> str:
    """Return a sentence about the effect of a judgement (see `whisper.affinity`)."""
    if source == "implicit":
        return f"Whispered {'more' if signal > 0 else 'less'} easily for prompts like this from now on."
    return "Shown for prompts like this from now on." if signal > 0 else "Silent for prompts like this from now on."


def _why(logged: Logged, source: str, before: Judgement | None) -> str:
    """Return the body of the commit that records a judgement. `before`: the judgement that it replaces. The body
    omits the prompt, because git would keep it forever."""
    shown = "held back" if logged.shown is None else f"shown ({logged.shown})"
    said = f"{source.capitalize()}, on the whisper {logged.event}, in which it was {shown} at relevance {logged.relevance:.2f}."
    return said if before is None else f"{said}\nBefore, it was judged the other way."
