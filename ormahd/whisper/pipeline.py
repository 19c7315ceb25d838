"""The whisper pipeline: analyse → gather → judge → affinity → generic → choose → renew → render.

`SEEDS.md` in this folder lists the requirements, each with its stage, setting and test.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct

from ormahd.actions.amend import PERSON
from ormahd.actions.evidence import mark_stale
from ormahd.actions.views import headline
from ormahd.api import WhisperNode, WhisperResult
from ormahd.embedding.embedder import QueryVectors
from ormahd.errors import OrmahError
from ormahd.index.rows import GLOBAL, Filter
from ormahd.model.chance import after_feedback, log_odds, sigmoid
from ormahd.model.node import Tier
from ormahd.ormah import Ormah
from ormahd.search.gather import subject_words
from ormahd.search.search import Rules
from ormahd.state import whispers
from ormahd.text import times
from ormahd.text.harness import MAINTENANCE
from ormahd.text.words import is_question
from ormahd.whisper import affinity, analyse, choose, gather, generic, render, review
from ormahd.whisper.affinity import Verdict
from ormahd.whisper.analyse import Archetypes
from ormahd.whisper.gather import Pool
from ormahd.whisper.greet import AgentCommands
from ormahd.whisper.relevance import PART, TEXT_ALONE
from ormahd.whisper.session import CONTENT, Sessions
from ormahd.whisper.types import Analysis, Asked, Candidate, EarlierPrompt, Intent, Silence, context_key

log = logging.getLogger("ormah")

POOL = 30
"""Number of search results that become candidates. Many more than are shown, because the first one is often not the
most relevant."""
FIRST = "what has been decided about how this is built?"
"""The prompt that `Whisper.warm` uses."""


class Whisper:
    """Answers prompts with whispers. It holds the sessions and the examples of intents. Thread-safe."""

    def __init__(self, ormah: Ormah, maintenance_due: Callable[[], bool] = lambda: False) -> None:
        """`maintenance_due`: returns whether agents are the judge and questions wait for one."""
        self.ormah = ormah
        self.settings = ormah.settings.whisper
        self.sessions = Sessions(ormah.state, self.settings)
        self.maintenance_due = maintenance_due
        self.wiring = AgentCommands()
        self.archetypes = Archetypes(ormah.index.embed_query)

    def whisper(self, asked: Asked, *, explain: bool = False) -> WhisperResult:
        """Return the few memories that matter for this prompt as a text for the agent; or silence, with the reason.

        A memory shown with its content counts as weakly used: its lease begins again, but its rank does not rise. No
        use is counted with `explain`, or when a person asks outside of a session. With a session id, the prompt is
        stored as context of the next one, and feedback can refer to the logged candidates.
        """
        begun = time.perf_counter()
        prompt_run = _PromptRun(self, asked, explain=explain)
        return prompt_run.finish(prompt_run.find_memories(), begun)

    def warm(self) -> None:
        """Run a prompt without answering it, so that the first real prompt does not wait for models and caches."""
        times.warm()
        generic.warm()
        if self.archetypes.warm():
            _PromptRun(self, Asked(FIRST, None), explain=False).find_memories()


class Answer(Struct):
    """The result of the stages for one prompt: the chosen memories or the silence, and what the stages computed."""

    silence: Silence | None = None
    analysis: Analysis | None = None
    pool: Pool | None = None
    chosen: tuple[Candidate, ...] = ()
    request: generic.Request | None = None
    """The analysis of a technical prompt; None for other prompts."""
    resting: Candidate | None = None
    """The most relevant archived memory, if it is the reason for silence (`Silence.ARCHIVE`)."""

    @property
    def better_space(self) -> str | None:
        """The space that the agent should ask in, if the whisper is silent and a memory of another space fits better;
        else None."""
        fits = self.pool is not None and self.pool.elsewhere > self.pool.home > 0.0 and self.silence is not None
        return self.pool.better if self.pool is not None and fits else None


class _PromptRun:
    """Runs one prompt through the stages, then renders and logs the answer."""

    def __init__(self, whisper: Whisper, asked: Asked, *, explain: bool) -> None:
        self.whisper = whisper
        self.ormah = whisper.ormah
        self.settings = whisper.settings
        self.asked = asked
        self.explain = explain
        self.now = self.ormah.ranking_clock()
        self.before = whisper.sessions.before(asked.session_id, self.ormah.learned.model)
        self.degraded: list[str] = []
        self._embedded: dict[str, QueryVectors | None] = {}

    # ------------------------------------------------------------ the stages

    def find_memories(self) -> Answer:
        """Return the memories or the silence for the prompt, with what the stages computed. Writes nothing."""
        # silence that needs no search
        asked, ormah = self.asked, self.ormah
        if not self.settings.enabled or (asked.space or GLOBAL) in self.settings.silent_spaces:
            return Answer(Silence.OFF)
        if (early := analyse.early_silence(asked.prompt, asked.harness)) is not None:
            return Answer(early)
        analysis = analyse.analyse(
            asked, self.before, embed=self.embed, archetypes=self.whisper.archetypes, now=self.now
        )
        verdicts = self._verdicts(analysis)

        # What was judged useful for such a prompt, and is not in the session's context, is told even if the search does
        # not find it.
        ids = [node_id for node_id, verdict in verdicts.items() if verdict.signal > 0]
        taught = {
            row.id: Candidate(row, 0.0, "search", numbers={"place": 1.0})
            for row in (ormah.index.notes(ids).values() if ids else ())
            if choose.is_useful(verdicts[row.id], row, asked)
            and not row.expired(self.now)
            and context_key(row) not in self.before.known
        }
        if not taught and (silence := analyse.topic_silence(analysis, self.before)) is not None:
            return Answer(silence, analysis)

        # standing preferences are for a task, or a question about the user
        asks = is_question(analysis.prompt) or generic.asks_to_explain(analysis.prompt)
        pool = gather.gather(
            ormah.index,
            analysis,
            asked,
            self_id=ormah.vault.self_id,
            embed=self.embed,
            now=self.now,
            rules=Rules(sources_of=(None, asked.space) if ormah.sources else None),
            limit=POOL,
            preferences=not analysis.temporal and (Intent.IDENTITY in analysis.intents or not asks),
        )
        self.degraded += pool.degraded
        for candidate in pool.candidates:
            if taught.pop(candidate.id, None) is not None:
                candidate.source = "search"  # it is told for its own sake, also where an edge or the time found it
        pool.candidates.extend(taught.values())
        if analysis.vector is None:
            return Answer(Silence.NOT_READY, analysis, pool)
        if not pool.candidates and not pool.preferences:
            return Answer(Silence.NO_CANDIDATES, analysis, pool)
        return self._choose(analysis, pool, verdicts)

    def _choose(self, analysis: Analysis, pool: Pool, verdicts: Mapping[str, Verdict]) -> Answer:
        """Return the memories that are shown, or the silence. `verdicts`: see `_verdicts`. Sets `dropped` of all other
        candidates."""
        # relevance of the text; explicit judgements
        candidates, settings = pool.candidates, self.settings
        request = generic.technical_request(analysis, self.asked.space)
        choose.compute_relevance(pool, analysis, settings)
        everyone = [*candidates, *pool.preferences]
        choose.record_verdicts(everyone, verdicts, self.asked)
        choose.drop_irrelevant(candidates, analysis, settings)

        # judgements on similar prompts, unless it asks for a time, or the model does not read its language
        boosts: Mapping[str, float] = {}
        if analysis.vector is not None and not analysis.temporal and analyse.is_readable(analysis.prompt, self.embed):
            ids = [candidate.id for candidate in everyone if candidate.dropped is None]
            boosts = affinity.boosts(analysis.vector, ids, self.ormah.learned.judgements, now=self.now)
        choose.add_affinity(everyone, boosts, settings)

        # drop candidates that do not answer this kind of prompt, that the session has, or that are below the gate
        choose.drop_untimely(candidates, analysis, self.asked, topical=bool(subject_words(analysis.query)))
        choose.keep_identity(candidates, analysis, settings)
        stems_of = gather.stems_of_notes([candidate.row for candidate in choose.not_dropped(candidates)])
        generic.drop_generic(candidates, request, stems_of, self.ormah.index.frequencies)
        known = choose.drop_known(candidates, self.before)
        choose.drop_known(pool.preferences, self.before)
        choose.apply_gate(everyone)
        resting = choose.best_archived(candidates, settings)

        # the best of the others, with the newer memory before each one that it replaced
        chosen = choose.choose(candidates, analysis, settings)
        preferences = choose.choose_preferences(pool.preferences, chosen)
        chosen, preferences, old = gather.renew(
            self.ormah.index,
            chosen,
            preferences,
            pool,
            now=self.now,
            holds=self.ormah.learned.both_hold,
            reworded=self.ormah.reworded,
        )

        # nothing is relevant enough: say why
        if not chosen and not preferences:
            why = Silence.GATE if resting is None else Silence.ARCHIVE
            if known:
                why = Silence.KNOWN
            elif generic.has_dropped(candidates, settings.injection_gate):
                why = Silence.GENERIC
            elif choose.is_silenced(everyone, settings):
                why = Silence.JUDGED
            return Answer(why, analysis, pool, request=request, resting=resting if why is Silence.ARCHIVE else None)

        # one memory below the gate may be shown for feedback
        exploring = None
        if settings.exploration and not analysis.temporal:
            known_of = {*boosts, *old, *(preference.id for preference in preferences)}
            room = settings.max_nodes - len(chosen) - len(preferences)
            exploring = choose.pick_exploration(candidates, chosen, known_of, room=room)
        arranged = tuple(choose.arrange(chosen, preferences, exploring, settings))
        for candidate in arranged:
            candidate.row = mark_stale(candidate.row, self.asked.cwd, self.asked.space)
        return Answer(None, analysis, pool, arranged, request=request)

    # ------------------------------------------------------------ inputs of the stages

    def embed(self, text: str) -> QueryVectors | None:
        """Return a text's vectors. Each text is embedded only once in this run."""
        if text not in self._embedded:
            self._embedded[text] = self.ormah.index.embed_query(text)
        return self._embedded[text]

    def _verdicts(self, analysis: Analysis) -> Mapping[str, Verdict]:
        """Return `{node id: verdict}` of the explicit judgements on a prompt with the same meaning as this one."""
        judgements = self.ormah.learned.judgements
        if not judgements.explicit:
            return {}
        same = self.ormah.learned.seal.prompt(whispers.stored_prompt(analysis.prompt))
        vector = analysis.vector if analyse.is_readable(analysis.prompt, self.embed) else None
        return affinity.verdicts(vector, same, judgements)

    # ------------------------------------------------------------ the answer

    def finish(self, found: Answer, begun: float) -> WhisperResult:
        """Return the result for the caller. Stores the prompt in the session, and logs the whisper.

        `found`: the result of `find_memories`; `begun`: the value of `time.perf_counter` when the prompt came.
        """
        asked, sessions = self.asked, self.whisper.sessions
        event = whispers.new_event()
        if found.chosen and asked.disconnected():
            for candidate in found.chosen:
                candidate.display = None
            found = Answer(Silence.UNREAD, found.analysis, found.pool)

        # the first whisper of a session asks to judge a memory
        held = None
        if found.chosen and self.before.recent is None and self.settings.review:
            known = {key.partition(":")[0] for key in self.before.known}
            besides = {candidate.id for candidate in found.chosen} | known
            held = review.pick_review(
                self.ormah, asked.space, now=self.now, besides=besides, archetypes=self.whisper.archetypes
            )

        # the notice that questions wait for a judge
        noticed = not self.settings.maintenance or found.silence in UNCOUNTED or MAINTENANCE in self.before.known
        due = not noticed and not asked.disconnected() and self.whisper.maintenance_due()

        # feedback can refer to this whisper if the prompt's vector may be stored
        learnable = not asked.unkept and found.analysis is not None and found.analysis.vector is not None
        text = render.compose(
            found.chosen,
            now=self.now,
            maintenance_due=due,
            review=held,
            event=event if learnable else None,
            commands=self.whisper.wiring.of(asked.agent),
        )

        # what was sent is recorded
        nodes = tuple(candidate for candidate in found.chosen if candidate.id not in text.left_out)
        if due and MAINTENANCE in text.text.splitlines():  # once per session: the notice stays in its context
            sessions.add_memories(asked.session_id, {MAINTENANCE: "full"})
        if found.silence is not Silence.OFF and not asked.dry:
            self._log(event, found, nodes, begun)
        logged = learnable and found.silence is not Silence.OFF and not asked.dry
        self._use(found, nodes)
        if held is not None and text.reviewed and logged:
            review.record_review(self.ormah, held, event=event)

        # the event has ids, and no text of a prompt or a memory
        silence = found.silence.value if found.silence is not None and not nodes else None
        if found.silence is not Silence.OFF and not asked.dry:
            self.ormah.events.publish(
                "whisper",
                whisper=event if logged else None,
                source=asked.agent,
                space=asked.space,
                nodes=[candidate.id for candidate in nodes],
                silence=None if nodes else str(found.silence),
                milliseconds=round((time.perf_counter() - begun) * 1000, 1),
            )
        views = [_view(candidate) for candidate in nodes]
        return WhisperResult(
            text=text.text,
            nodes=[view for view in views if view.shown != "exploring"],
            exploring=next((view for view in views if view.shown == "exploring"), None),
            silence=silence,
            better_space=found.better_space,
            event=event if logged else None,
            degraded=sorted({*self.degraded, *self.ormah.degraded()}),
            review=held.node_id if held is not None and text.reviewed else None,
            resting=None if found.resting is None else _view(found.resting),
            archived=len(self.ormah.index.ids(Filter(tiers=(Tier.ARCHIVAL,)))) if found.resting is not None else 0,
            trace=whisper_trace(found, asked) if self.explain else UNSET,
        )

    def _log(self, event: str, found: Answer, nodes: Sequence[Candidate], begun: float) -> None:
        """Store the prompt in the session, and log the whisper with the candidates that were relevant enough.

        Candidates found only by their time or by an edge are not logged.
        """
        # the prompt, in the session
        asked, analysis, model = self.asked, found.analysis, self.ormah.learned.model
        vector = analysis.vector if analysis is not None else None
        prompt = analysis.prompt if analysis is not None else asked.prompt
        if found.silence not in UNCOUNTED:
            displays = {context_key(node.row): node.display for node in nodes if node.display is not None}
            earlier = EarlierPrompt(prompt, vector, self.ormah.clock(), bool(nodes))
            self.whisper.sessions.add_prompt(asked.session_id, earlier, displays, model=model, keep=not asked.unkept)

        # the candidates, in the log
        pool = None if asked.unkept else found.pool
        floor = choose.log_relevance(self.settings)
        considered: dict[str, whispers.Considered] = {}
        for candidate in (*pool.candidates, *pool.preferences) if pool is not None else ():
            displayed, relevance = candidate.display is not None, candidate.relevance
            relevant = displayed or (relevance >= floor and "affinity" in candidate.numbers)
            # a memory found both as a candidate and as a preference is logged once, as it was shown
            if candidate.source == "search" and relevant and (displayed or candidate.id not in considered):
                before = candidate.numbers.get("before_feedback", relevance)
                considered[candidate.id] = whispers.Considered(candidate.id, before, relevance, candidate.display)
        whispers.record(
            self.ormah.state,
            event=event,
            prompt="" if asked.unkept else prompt,
            outcome=whispers.SPOKEN if nodes else str(found.silence),
            milliseconds=(time.perf_counter() - begun) * 1000,
            vector=None if asked.unkept else vector,
            model=model,
            candidates=considered.values(),
            space=asked.space,
            session_id=asked.session_id,
            agent=asked.agent,
        )

    def _use(self, found: Answer, nodes: Sequence[Candidate]) -> None:
        """Record in the state that a prompt came, and that the memories shown with their content were used."""
        asked, state = self.asked, self.ormah.state
        by_person = self.explain or (asked.session_id is None and asked.agent == PERSON)
        if by_person or found.silence in UNCOUNTED:
            return
        quoted_ids = [node.id for node in nodes if node.display in CONTENT]
        try:
            state.asked(self.now)
            if quoted_ids:
                state.glance(quoted_ids, how="whisper", session_id=asked.session_id, at=self.now)
        except (sqlite3.Error, OrmahError) as exc:  # a full disk or damaged file must not make a whisper fail
            log.warning("what was whispered could not be noted as used: %s", exc)


UNCOUNTED = frozenset({Silence.OFF, Silence.EMPTY, Silence.COMMAND, Silence.MACHINE})
"""Silences whose prompts get no maintenance notice and are not counted in the session, as they ask an agent nothing."""


def _view(candidate: Candidate) -> WhisperNode:
    """Return a candidate as the protocol shows it."""
    return WhisperNode(
        id=candidate.id,
        short_id=candidate.row.short_id,
        type=candidate.row.type.value,
        title=candidate.row.title,
        score=round(candidate.relevance, 6),
        shown=candidate.display or "title",
        older_than=candidate.older_than,
    )


# ------------------------------------------------------------ the trace, for `--explain`


def whisper_trace(answer: Answer, asked: Asked) -> dict[str, Any]:
    """Return the values that `--explain` shows of a whisper, as plain dicts, lists and scalars."""
    analysis, pool = answer.analysis, answer.pool
    values: dict[str, Any] = {
        "space": asked.space,
        "silence": None if answer.silence is None else answer.silence.value,
    }
    if analysis is not None:
        values |= {
            "prompt": analysis.prompt,
            "query": analysis.query,
            "intents": sorted(analysis.intents),
            "intent_scores": {name: round(score, 4) for name, score in analysis.scores.items()},
            "follow_up": analysis.follow_up,
            "after": None if analysis.after is None else analysis.after.isoformat(),
            "before": None if analysis.before is None else analysis.before.isoformat(),
        }
    if answer.request is not None:
        values |= {"request": answer.request.explained()}
    if pool is not None:
        values |= {
            "weights": dict(pool.weights),
            "fits_better": pool.better,
            "candidates": [candidate_values(candidate) for candidate in pool.candidates],
            "preferences": [candidate_values(candidate) for candidate in pool.preferences],
        }
    return values


def candidate_values(candidate: Candidate) -> dict[str, Any]:
    """Return the values that `--explain` shows of one candidate."""
    return {
        "node_id": candidate.id,
        "source": candidate.source,
        "project": candidate.row.space,
        "relevance": round(candidate.relevance, 6),
        "order": round(candidate.order, 6),
        "shown": candidate.display,
        "dropped": candidate.dropped,
        **candidate.numbers,
        "parts": relevance_steps(candidate.numbers),
        **({"older_than": candidate.older_than} if candidate.older_than else {}),
        **({"also": candidate.also} if candidate.also else {}),
        "title": headline(candidate.row.title, candidate.row.content),
    }


def relevance_steps(numbers: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the steps by which a candidate's relevance was computed from its `numbers`, in order.

    Each step is a dict: the `name` of the evidence, the `odds` that it adds to the log odds (which begin at 0), and the
    `relevance` after it. The relevance of the last step is that of the candidate.
    """
    found, odds = list[dict[str, Any]](), 0.0
    if "by_words" not in numbers:  # else the other evidence does not count
        for name, value in numbers.items():
            if name.startswith(PART) and name != TEXT_ALONE:
                odds += value
                found.append({"name": name.removeprefix(PART), "odds": value, "relevance": sigmoid(odds)})

    linked = max(numbers["text"], numbers["identity"])
    placed = linked * numbers["place"]
    certain = placed * numbers["certain"]
    steps: dict[str, float | None] = {
        "by_words": numbers.get("by_words"),
        "twin" if numbers.get("twin") else "names": numbers["text"],
        "identity": linked,
        "place": placed,
        "certain": certain,
        "affinity": after_feedback(certain, numbers.get("affinity", 0.0)),
        "renewed": numbers.get("renewed"),
    }
    for name, after in steps.items():
        if after is not None:
            found.append({"name": name, "odds": log_odds(after) - odds, "relevance": after})
            odds = log_odds(after)
    return found
