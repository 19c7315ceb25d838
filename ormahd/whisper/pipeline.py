"""The whisper pipeline: hear → suppress → gather → judge → affinity → generic → choose → renew → render.

`SEEDS.md` in this folder lists the requirements, each with its stage, setting and test.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import UNSET, Struct

from ormahd.actions.amend import PERSON
from ormahd.actions.evidence import mark_stale
from ormahd.api import WhisperNode, WhisperResult
from ormahd.embedding.embedder import QueryVectors
from ormahd.errors import OrmahError
from ormahd.index.rows import Filter
from ormahd.model.node import Tier
from ormahd.ormah import Ormah
from ormahd.search.gather import subject
from ormahd.search.search import Rules
from ormahd.state import whispers
from ormahd.text import times
from ormahd.text.harness import MAINTENANCE
from ormahd.text.words import is_question
from ormahd.whisper import affinity, choose, generic, hear, intents, render, review, suppress
from ormahd.whisper import gather as renew
from ormahd.whisper.affinity import Verdict
from ormahd.whisper.gather import Pool, gather, stemmed
from ormahd.whisper.greet import AgentCommands
from ormahd.whisper.intents import small_talk
from ormahd.whisper.session import CONTENT, Sessions
from ormahd.whisper.trace import trace
from ormahd.whisper.types import Asked, Candidate, Heard, Intent, Said, Silence, context_key

log = logging.getLogger("ormah")

POOL = 30
"""Number of search results that become candidates. Many more than are shown, because the first one is often not the
most relevant."""
FIRST = "what has been decided about how this is built?"
"""The prompt that `Whisper.warm` uses."""


class Whisper:
    """Answers prompts with whispers. It holds the sessions and the examples of intents. Thread-safe."""

    def __init__(
        self,
        ormah: Ormah,
        sessions: Sessions,
        *,
        maintenance_due: Callable[[], bool] = lambda: False,
        wiring: AgentCommands | None = None,
    ) -> None:
        """`maintenance_due`: returns whether agents are the judge and questions wait for one. `wiring`: the commands
        that each agent can run."""
        self.ormah = ormah
        self.settings = ormah.settings.whisper
        self.sessions = sessions
        self.maintenance_due = maintenance_due
        self.wiring = wiring or AgentCommands()
        self._archetypes: intents.Archetypes | None = None
        self._archetypes_lock = threading.Lock()

    @classmethod
    def of(cls, ormah: Ormah, maintenance_due: Callable[[], bool] = lambda: False) -> Whisper:
        """Create a `Whisper` whose sessions are stored in the vault's state."""
        sessions = Sessions(ormah.state, ormah.settings.whisper, ormah.clock, model=lambda: ormah.learned.model)
        return cls(ormah, sessions, maintenance_due=maintenance_due)

    def whisper(self, asked: Asked, *, explain: bool = False) -> WhisperResult:
        """Return the few memories that matter for this prompt as a text for the agent; or silence, with the reason.

        A memory shown with its content counts as weakly used: its lease begins anew, but its rank does not rise. With
        `explain`, or when a person asks outside of a session, no use is counted. With a session id, the prompt is
        stored as context of the next one, and feedback can refer to the logged candidates.
        """
        begun = time.perf_counter()
        course = _Course(self, asked, explain=explain)
        return course.answer(course.run(), begun)

    def warm(self) -> None:
        """Run a prompt without answering it, so that the first real prompt does not wait for models and caches."""
        times.warm()
        generic.warm()
        if self.archetypes(self.ormah.index.embed_query).warm():
            _Course(self, Asked(FIRST, None), explain=False).run()

    def archetypes(self, embed: Callable[[str], QueryVectors | None]) -> intents.Archetypes:
        """Return the vectors of the examples of each intent. `embed`: used at the first call only."""
        with self._archetypes_lock:
            if self._archetypes is None:
                self._archetypes = intents.Archetypes(embed)
            return self._archetypes


class Answer(Struct):
    """The result of the stages for one prompt: the chosen memories or the silence, and what the stages computed."""

    silence: Silence | None = None
    heard: Heard | None = None
    pool: Pool | None = None
    chosen: tuple[Candidate, ...] = ()
    request: generic.Request | None = None
    """The analysis of a technical prompt; None for other prompts."""
    resting: Candidate | None = None
    """The most relevant archived memory, if it is the reason for silence (`Silence.ARCHIVE`)."""

    @property
    def better_space(self) -> str | None:
        """With a silence: the other space that the prompt is about, if a memory there fits better than those at home."""
        fits = self.pool is not None and self.pool.elsewhere > self.pool.here > 0.0 and self.silence is not None
        return self.pool.better if self.pool is not None and fits else None


class _Course:
    """Runs one prompt through the stages, then renders and logs the answer."""

    def __init__(self, whisper: Whisper, asked: Asked, *, explain: bool) -> None:
        self.whisper = whisper
        self.ormah = whisper.ormah
        self.settings = whisper.settings
        self.asked = asked
        self.explain = explain
        self.now = self.ormah.ranking_clock()
        self.before = whisper.sessions.before(asked.session_id)
        self.degraded: list[str] = []
        self._embedded: dict[str, QueryVectors | None] = {}

    # ------------------------------------------------------------ the stages

    def run(self) -> Answer:
        if self._off():
            return Answer(Silence.OFF)
        if (early := hear.early(self.asked.prompt, self.asked.harness)) is not None:
            return Answer(early)
        heard = hear.hear(
            self.asked, self.before, embed=self.embed, archetypes=self.whisper.archetypes(self.ormah.index.embed_query),
            now=self.now,
        )  # fmt: skip
        verdicts = self._verdicts(heard)
        taught = self._taught(verdicts)
        if not taught and (silence := suppress.quiet(heard, self.before)) is not None:
            return Answer(silence, heard)
        pool = gather(
            self.ormah.index, heard, self.asked, self_id=self.ormah.vault.self_id, embed=self.embed, now=self.now,
            rules=Rules(sources_of=self._sources_of()), limit=POOL,
            preferences=applies(heard),
        )  # fmt: skip
        self.degraded += pool.degraded
        for one in pool.candidates:
            if taught.pop(one.id, None) is not None:
                one.source = "search"  # it is told for its own sake, also where an edge or the time found it
        pool.candidates.extend(taught.values())
        if heard.vector is None:
            return Answer(Silence.NOT_READY, heard, pool)
        if not pool.candidates and not pool.preferences:
            return Answer(Silence.NO_CANDIDATES, heard, pool)
        return self._choose(heard, pool, verdicts)

    def _choose(self, heard: Heard, pool: Pool, verdicts: Mapping[str, Verdict]) -> Answer:
        candidates, settings = pool.candidates, self.settings
        request = generic.request(heard, self.asked.space)
        choose.judge(pool, heard, settings)
        everyone = [*candidates, *pool.preferences]
        choose.heed(everyone, verdicts, self.asked)
        choose.floor(candidates, heard, settings)
        boosts = self._boosts(heard, everyone)
        choose.boost(everyone, boosts, settings)
        choose.timely(candidates, heard, self.asked, topical=bool(subject(heard.query)))
        choose.identity(candidates, heard, settings)
        said = stemmed([one.row for one in choose.alive(candidates)])
        generic.drop(candidates, request, said, self.ormah.index.frequencies)
        known = choose.unknown(candidates, self.before)
        choose.unknown(pool.preferences, self.before)
        choose.gate(everyone)
        resting = choose.resting(candidates, settings)
        chosen = choose.choose(candidates, heard, settings)
        preferences = choose.standing(pool.preferences, chosen)
        chosen, preferences, old = renew.renew(
            self.ormah.index, chosen, preferences, pool, now=self.now, holds=self.ormah.learned.both_hold,
            reworded=self.ormah.reworded,
        )  # fmt: skip
        if not chosen and not preferences:
            why = Silence.GATE if resting is None else Silence.ARCHIVE
            if known:
                why = Silence.KNOWN
            elif generic.dropped(candidates, settings.injection_gate):
                why = Silence.GENERIC
            elif choose.silenced(everyone, settings):
                why = Silence.JUDGED
            return Answer(why, heard, pool, request=request, resting=resting if why is Silence.ARCHIVE else None)
        exploring = None
        if settings.exploration and not heard.temporal:
            known_of = {*boosts, *old, *(one.id for one in preferences)}
            room = settings.max_nodes - len(chosen) - len(preferences)
            exploring = choose.explore(candidates, chosen, known_of, room=room)
        shown = tuple(choose.arrange(chosen, preferences, exploring, settings))
        for one in shown:
            one.row = mark_stale(one.row, self.asked.cwd, self.asked.space)
        return Answer(None, heard, pool, shown, request=request)

    # ------------------------------------------------------------ inputs of the stages

    def _off(self) -> bool:
        here = "global" if self.asked.space is None else self.asked.space
        return not self.settings.enabled or here in self.settings.silent_spaces

    def _sources_of(self) -> tuple[str | None, ...] | None:
        """Return the spaces of sources that may be whispered: global ones, and those of the caller's space."""
        return (None, self.asked.space) if self.ormah.sources else None

    def embed(self, text: str) -> QueryVectors | None:
        """Return a text's vectors. Each text is embedded only once in this run."""
        if text not in self._embedded:
            self._embedded[text] = self.ormah.index.embed_query(text)
        return self._embedded[text]

    def _boosts(self, heard: Heard, candidates: Sequence[Candidate]) -> Mapping[str, float]:
        """Return `{node id: boost}` by judgements on similar prompts.

        Empty for a prompt that asks for a time, or whose language the model does not read.
        """
        if heard.vector is None or heard.temporal or not hear.is_read(heard.prompt, self.embed):
            return {}
        ids = [one.id for one in candidates if one.dropped is None]
        return affinity.boosts(heard.vector, ids, self.ormah.learned.judgements, now=self.now)

    def _verdicts(self, heard: Heard) -> Mapping[str, Verdict]:
        """Return `{node id: verdict}`: explicit judgements for a prompt that means the same as this one."""
        judgements = self.ormah.learned.judgements
        if not judgements.explicit:
            return {}
        same = self.ormah.learned.seal.prompt(whispers.stored_prompt(heard.prompt))
        vector = heard.vector if hear.is_read(heard.prompt, self.embed) else None
        return affinity.verdicts(vector, same, judgements)

    def _taught(self, verdicts: Mapping[str, Verdict]) -> dict[str, Candidate]:
        """Return `{node id: candidate}`: memories that were judged useful for such a prompt, and are not in the session's
        context. They are told even if the search does not find them."""
        ids = [node_id for node_id, verdict in verdicts.items() if verdict.signal > 0]
        return {
            row.id: Candidate(row, 0.0, "search", numbers={"place": 1.0})
            for row in (self.ormah.index.notes(ids).values() if ids else ())
            if choose.useful(verdicts[row.id], row, self.asked)
            and not row.expired(self.now)
            and context_key(row) not in self.before.known
        }

    # ------------------------------------------------------------ the answer

    def answer(self, found: Answer, begun: float) -> WhisperResult:
        """Render the result of the stages, store it in the session, and log it.

        `begun`: the value of `time.perf_counter` when the prompt came.
        """
        event = whispers.new_event()
        if found.chosen and self.asked.gone():
            for one in found.chosen:
                one.shown = None
            found = Answer(Silence.UNREAD, found.heard, found.pool)
        held = None
        if found.chosen and self.before.recent is None and self.settings.review:
            known = {key.partition(":")[0] for key in self.before.known}
            besides = {one.id for one in found.chosen} | known
            archetypes = self.whisper.archetypes(self.ormah.index.embed_query)
            held = review.pick(
                self.ormah, self.asked.space, now=self.now, besides=besides,
                small_talk=lambda vector: small_talk(vector, archetypes),
            )  # fmt: skip
        due = (
            self.settings.maintenance and found.silence not in UNHEARD and MAINTENANCE not in self.before.known
            and not self.asked.gone() and self.whisper.maintenance_due()
        )  # fmt: skip
        text = render.compose(
            found.chosen, now=self.now, maintenance_due=due, review=held,
            event=event if self._learnable(found) else None, commands=self.whisper.wiring.of(self.asked.agent),
        )  # fmt: skip
        nodes = tuple(one for one in found.chosen if one.id not in text.left_out)
        if due and MAINTENANCE in text.text.splitlines():  # once per session: the notice stays in its context
            self.whisper.sessions.told(self.asked.session_id, {MAINTENANCE: "full"})
        logged = self._log(event, found, nodes, begun)
        self._use(found, nodes)
        if held is not None and text.reviewed and logged:
            review.went_out(self.ormah, held, event=event)
        views = [_view(one) for one in nodes]
        self._publish(event if logged else None, found, nodes, begun)
        return WhisperResult(
            text=text.text,
            nodes=[one for one in views if one.shown != "exploring"],
            exploring=next((one for one in views if one.shown == "exploring"), None),
            silence=found.silence.value if found.silence is not None and not nodes else None,
            better_space=found.better_space,
            event=event if logged else None,
            degraded=sorted({*self.degraded, *self.ormah.degraded()}),
            review=held.node_id if held is not None and text.reviewed else None,
            resting=None if found.resting is None else _view(found.resting),
            archived=len(self.ormah.index.ids(Filter(tiers=(Tier.ARCHIVAL,)))) if found.resting is not None else 0,
            trace=trace(found, self.asked) if self.explain else UNSET,
        )

    def _log(self, event: str, found: Answer, nodes: Sequence[Candidate], begun: float) -> bool:
        """Store the prompt in the session, and log the whisper with the candidates that were relevant enough.

        Candidates found only by their time or by an edge are not logged. Nothing is stored or logged if whispering is
        off. Return whether feedback can refer to this whisper.
        """
        asked, heard = self.asked, found.heard
        if found.silence is Silence.OFF or asked.dry:
            return False
        vector = heard.vector if heard is not None else None
        shown = {context_key(one.row): one.shown for one in nodes if one.shown is not None}
        said = Said(heard.prompt if heard is not None else asked.prompt, vector, self.ormah.clock(), bool(nodes))
        if found.silence not in UNHEARD:
            self.whisper.sessions.heard(asked.session_id, said, shown=shown, keep=not asked.unkept)
        pool = None if asked.unkept else found.pool
        floor = choose.log_relevance(self.settings)
        considered: dict[str, whispers.Considered] = {}
        for one in (*pool.candidates, *pool.preferences) if pool is not None else ():
            told = one.shown is not None
            serious = told or (one.relevance >= floor and "affinity" in one.numbers)
            # a memory found both as a candidate and as a preference is logged once, as it was shown
            if one.source == "search" and serious and (told or one.id not in considered):
                before = one.numbers.get("before_feedback", one.relevance)
                considered[one.id] = whispers.Considered(one.id, before, one.relevance, one.shown)
        whispers.record(
            self.ormah.state, event=event, prompt="" if asked.unkept else said.text, outcome=whispers.SPOKEN if nodes else str(found.silence),
            milliseconds=(time.perf_counter() - begun) * 1000, vector=None if asked.unkept else vector, model=self.ormah.learned.model,
            candidates=considered.values(), space=asked.space,
            session_id=asked.session_id, agent=asked.agent,
        )  # fmt: skip
        return self._learnable(found)

    def _publish(self, event: str | None, found: Answer, nodes: Sequence[Candidate], begun: float) -> None:
        """Publish an event about this whisper. It contains ids, and no text of a prompt or a memory."""
        if found.silence is not Silence.OFF and not self.asked.dry:
            self.ormah.events.publish(
                "whisper", whisper=event, source=self.asked.agent, space=self.asked.space, nodes=[one.id for one in nodes],
                silence=None if nodes else str(found.silence), milliseconds=round((time.perf_counter() - begun) * 1000, 1),
            )  # fmt: skip

    def _use(self, found: Answer, nodes: Sequence[Candidate]) -> None:
        """Record in the state that a prompt came, and that the memories shown with their content were used."""
        asked = self.asked
        looked = self.explain or (asked.session_id is None and asked.agent == PERSON)
        if looked or found.silence in UNHEARD:
            return
        full = [one.id for one in nodes if one.shown in CONTENT]
        state = self.ormah.state
        try:
            state.asked(self.now)
            if full:
                state.glance(full, how="whisper", session_id=asked.session_id, at=self.now)
        except (sqlite3.Error, OrmahError) as exc:  # a full disk or damaged file must not make a whisper fail
            log.warning("what was whispered could not be noted as used: %s", exc)

    def _learnable(self, found: Answer) -> bool:
        """Return whether feedback can refer to this whisper: the prompt's vector must be stored."""
        return not self.asked.unkept and found.heard is not None and found.heard.vector is not None


UNHEARD = frozenset({Silence.OFF, Silence.EMPTY, Silence.COMMAND, Silence.MACHINE})
"""Silences whose prompts get no maintenance notice and are not counted in the session, as they ask an agent nothing."""


def applies(heard: Heard) -> bool:
    """Return whether standing preferences are searched for a prompt: it is a task, or a question about the user."""
    asks = is_question(heard.prompt) or generic.explains(heard.prompt)
    return not heard.temporal and (Intent.IDENTITY in heard.intents or not asks)


def _view(one: Candidate) -> WhisperNode:
    return WhisperNode(
        one.id, one.row.short_id, one.row.type.value, one.row.title, round(one.relevance, 6), one.shown or "title",
        one.older_than,
    )  # fmt: skip
