"""Record whether a whispered memory was useful: a judgement, stored in the vault, that affects later whispers.

A judgement is about one memory, for the prompt of one whisper: the whisper that is named, also one that did not
consider the memory; otherwise the last one of the caller's session that considered it. It takes effect through that
prompt's vector (`whisper.affinity`).
"""

from __future__ import annotations

from msgspec.structs import replace

from ormahd.actions.amend import Caller, amending, commit
from ormahd.actions.projects import space_of
from ormahd.actions.views import headline
from ormahd.api import FeedbackResult
from ormahd.errors import BadRequest, NotFound
from ormahd.index.rows import NodeRow
from ormahd.model import judgement
from ormahd.model.change import Kind
from ormahd.model.judgement import Int8Vector, Judgement, Source
from ormahd.model.node import short_id
from ormahd.note.read import digest
from ormahd.ormah import Ormah
from ormahd.state import whispers
from ormahd.state.whispers import Logged
from ormahd.text.quoting import one_line

PROMPT = 160
"""Number of characters of the judged prompt that the answer shows."""
_SOURCES: dict[str, Source] = {"explicit": "explicit", "implicit": "implicit"}


def feedback(
    ormah: Ormah, node_id: str, signal: int, caller: Caller, *, source: str = "explicit", event: str | None = None
) -> FeedbackResult:
    """Judge the memory that `node_id` names (full id, or a unique prefix). `signal`: 1 for useful, -1 for not useful.

    There is one judgement per whisper, memory and source: to repeat it changes nothing, the opposite signal replaces
    it. A memory judged useful counts as used, once per whisper.

    Raises:
        BadRequest: the signal, the source, the id. NotFound: no whisper of the caller's session considered the memory,
        the event does not exist, or the memory has been forgotten. Ambiguous: the prefix matches several memories.
    """
    if signal not in (1, -1) or isinstance(signal, bool):
        raise BadRequest(f"signal is {signal!r}", hint="1: the memory was of use; -1: it was not")
    said = _SOURCES.get(source)
    if said is None:
        raise BadRequest(f"source is {source[:60]!r}", hint="explicit or implicit")
    found = ormah.anyone(node_id)
    row = ormah.index.notes([found], connections=False).get(found)
    if row is None:
        raise NotFound(
            f"the memory {short_id(found)} is not in the vault any more",
            hint=f"`ormahctl history {short_id(found)}` tells what became of it; undone, it can be judged",
            data={"id": found},
        )
    logged: Logged | None
    if event is not None:
        logged = whispers.considered(ormah.state, event.strip().lower(), found)
        if logged is None:
            raise NotFound(
                f"no whisper with a prompt to learn from has the event {event[:40]!r}",
                hint="`ormahctl whisper` lists the last prompts with their events; those that ask for nothing teach nothing",
            )
    else:
        logged = whispers.latest(
            ormah.state, found, session_id=caller.session, space=space_of(ormah, caller), agent=caller.source
        )
    done = amending(ormah, lambda: _attempt(ormah, row, logged, signal, said, caller))
    if signal > 0 and whispers.claim_use(ormah.state, logged.event, logged.node_id):
        now = ormah.ranking_clock()
        ormah.state.touch([logged.node_id], how="feedback", session_id=logged.session_id, at=now)
    text = f"{done.text} {_effect(signal, said)}"
    return replace(done, text=text, review=whispers.answer(ormah.state, logged.node_id))


def _attempt(ormah: Ormah, row: NodeRow, logged: Logged, signal: int, source: Source, caller: Caller) -> FeedbackResult:
    path = judgement.FILES.path(logged.time)
    data = ormah.vault.read(path)
    before = judgement.FILES.read(data or b"")[0].get(judgement.line_id(logged.event, row.id, source))
    name = headline(row.title, row.content)
    word = "useful" if signal > 0 else "not useful"
    prompt = one_line(logged.prompt, PROMPT)
    text = f"Counted as {word}: {name} (id: {row.id}), for the prompt “{prompt}” (event {logged.event})."
    if before is not None and before.signal == signal:
        return FeedbackResult(f"{text} It was noted before.", row.id, short_id(row.id), logged.event, prompt, signal, source,
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
    return FeedbackResult(text, row.id, short_id(row.id), logged.event, prompt, signal, source, True, before is not None, False,
                  done.commit, done.op, ormah.degraded())  # fmt: skip


def _effect(signal: int, source: Source) -> str:
    """Return a sentence about the effect of a judgement (see `whisper.affinity`)."""
    if source == "implicit":
        return f"Whispered {'more' if signal > 0 else 'less'} easily for prompts like this from now on."
    return "Shown for prompts like this from now on." if signal > 0 else "Silent for prompts like this from now on."


def _why(logged: Logged, source: str, before: Judgement | None) -> str:
    """Return the body of the commit that records a judgement. `before`: the judgement that it replaces. The body
    omits the prompt, because git would keep it forever."""
    shown = f"shown ({logged.shown})" if logged.shown else "held back" if logged.relevance else "not considered"
    said = f"{source.capitalize()}, on the whisper {logged.event}, in which it was {shown} at relevance {logged.relevance:.2f}."
    return said if before is None else f"{said}\nBefore, it was judged the other way."
