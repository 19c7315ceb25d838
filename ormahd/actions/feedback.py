"""Record whether a whispered memory was useful: a judgement, stored in the vault, that affects later whispers.

A judgement is about one memory, for the prompt of one whisper: the whisper that is named, also one that did not
consider the memory; otherwise the last one of the caller's session that considered it. It takes effect through that
prompt's vector (`whisper.affinity`).
"""

from __future__ import annotations

from msgspec.structs import asdict, replace

from ormahd.actions.amend import Caller, amending, outcome, transaction
from ormahd.actions.projects import space_of
from ormahd.actions.views import headline
from ormahd.api import FeedbackParams, FeedbackResult
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


def feedback(ormah: Ormah, params: FeedbackParams, caller: Caller) -> FeedbackResult:
    """Store a judgement of the memory that `node_id` names (full id, or a unique prefix). `signal`: 1 for useful, -1
    for not useful.

    There is one judgement per whisper, memory and source: repeating it changes nothing, and the opposite signal
    replaces it. A memory judged useful counts as used, once per whisper.

    Raises:
        BadRequest: the signal, the source or the id is invalid.
        NotFound: no whisper of the caller's session considered the memory, the event does not exist, or the memory has
        been forgotten.
        Ambiguous: the prefix matches several memories.
    """
    # Check the request
    if params.signal not in (1, -1):
        raise BadRequest(f"signal is {params.signal!r}", hint="1: the memory was of use; -1: it was not")
    source = _SOURCES.get(params.source)
    if source is None:
        raise BadRequest(f"source is {params.source[:60]!r}", hint="explicit or implicit")
    node_id = ormah.full_id(params.node_id)
    row = ormah.index.notes([node_id]).get(node_id)
    if row is None:
        raise NotFound(
            f"the memory {short_id(node_id)} is not in the vault any more",
            hint=f"`ormahctl history {short_id(node_id)}` tells what became of it; undone, it can be judged",
            data={"id": node_id},
        )

    # The whisper that is judged: the last one with this memory, or the one of the event
    if params.event is None:
        space = space_of(ormah, caller)
        logged = whispers.latest(ormah.state, node_id, session_id=caller.session, space=space, agent=caller.source)
    elif (named := whispers.considered(ormah.state, params.event.strip().lower(), node_id)) is not None:
        logged = named
    else:
        raise NotFound(
            f"no whisper with a prompt to learn from has the event {params.event[:40]!r}",
            hint="`ormahctl whisper` lists the last prompts with their events; those that ask for nothing teach nothing",
        )

    # Store the judgement, and count the use
    done = amending(ormah, lambda: _store(ormah, row, logged, params.signal, source, caller))
    if params.signal > 0 and whispers.claim_use(ormah.state, logged.event, logged.node_id):
        now = ormah.ranking_clock()
        ormah.state.touch([logged.node_id], how="feedback", session_id=logged.session_id, at=now)

    # The answer
    effect = "Shown" if params.signal > 0 else "Silent"
    if source == "implicit":
        effect = f"Whispered {'more' if params.signal > 0 else 'less'} easily"
    done.text = f"{done.text} {effect} for prompts like this from now on."
    done.review = whispers.mark_answered(ormah.state, logged.node_id)
    return done


def _store(ormah: Ormah, row: NodeRow, logged: Logged, signal: int, source: Source, caller: Caller) -> FeedbackResult:
    """Store the judgement of one memory for a logged whisper, and return the answer. Nothing is written if the same
    judgement is stored already."""
    # The judgement as it is stored, if any, and the answer
    path = judgement.FILES.path(logged.time)
    data = ormah.vault.read(path)
    before = judgement.FILES.read(data or b"")[0].get(judgement.line_id(logged.event, row.id, source))
    name = headline(row.title, row.content)
    word = "useful" if signal > 0 else "not useful"
    prompt = one_line(logged.prompt, PROMPT)
    result = FeedbackResult(
        text=f"Counted as {word}: {name} (id: {row.id}), for the prompt “{prompt}” (event {logged.event}).",
        node_id=row.id,
        short_id=row.short_id,
        event=logged.event,
        prompt=prompt,
        signal=signal,
        source=source,
        counted=before is None or before.signal != signal,
        replaced=before is not None and before.signal != signal,
        degraded=ormah.degraded(),
    )
    if not result.counted:
        result.text += " It was noted before."
        return result

    # Add its line to the file
    seal, session = ormah.learned.seal, logged.session_id
    made = Judgement(
        node_id=row.id,
        signal=signal,
        source=source,
        confirmed_at=ormah.clock(),
        event=logged.event,
        model=logged.model,
        vector=Int8Vector.of(logged.vector),
        prompt_hash=seal.prompt(logged.prompt),
        space=logged.space,
        session_id=None if session is None else seal.hash(f"session\n{session}"),
        prompt=logged.prompt if ormah.settings.feedback.commit_prompts else None,
    )
    new = judgement.FILES.put(data or b"", made)
    # The prompt is left out, because git would keep it forever
    treatment = f"shown ({logged.how})" if logged.how else "held back" if logged.relevance else "not considered"
    why = f"{source.capitalize()}, on the whisper {logged.event}, in which it was {treatment} at relevance {logged.relevance:.2f}."
    why += "" if before is None else "\nBefore, it was judged the other way."
    with transaction(ormah, f"Feedback: {word}: {name}", kind=Kind.FEEDBACK, caller=caller, body=why) as tx:
        tx.put(path, new, node_id=row.id, expect=None if data is None else digest(data))
    if result.replaced:
        result.text += " It takes the place of the opposite."
    return replace(result, **asdict(outcome(tx)))
