"""The review loop over weeks: one `Ormah` in this process, with a clock that the test turns on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from ormahd.actions.amend import Caller
from ormahd.actions.feedback import feedback
from ormahd.actions.outdated import forget, outdated
from ormahd.api import FeedbackParams, ForgetParams, OutdatedParams
from ormahd.state import whispers
from ormahd.state.whispers import Considered
from ormahd.whisper import review
from ormahd.whisper.analyse import ARCHETYPES, Archetypes
from ormahd.whisper.render import Review
from ormahd.whisper.review import pick_review
from ormahd.whisper.types import Intent
from tests.jobs_house import JobsHouse, open_jobs_house
from tests.tables import rows

ME = Caller("person")
PROMPT = "how do we deploy the payment service"


class House(JobsHouse):
    """Whispers as the pipeline logs them."""

    def remember(self, content: str, **more: Any) -> str:
        """All of one moment, so that none replaces another."""
        node_id = super().remember(content, **more)
        self.go(seconds=-1)
        return node_id

    def whisper(self, *considered: Considered, prompt: str = PROMPT, space: str | None = None) -> str:
        query = self.ormah.index.embed_query(prompt)
        assert query is not None
        return whispers.record(
            self.ormah.state, prompt=prompt, outcome="gate", milliseconds=1.0, vector=query.vector, model="hashing",
            candidates=considered, space=space, session_id="s",
        )  # fmt: skip

    def hold(self, node: str, relevance: float = 0.45, **more: object) -> str:
        return self.whisper(Considered(node, relevance, relevance), **more)  # type: ignore[arg-type]

    def pick(self, space: str | None = None, *besides: str) -> Review | None:
        return pick_review(self.ormah, space, now=self.now, besides=besides)

    def name(self, space: str | None = None) -> str | None:
        found = self.pick(space)
        return None if found is None else found.node_id

    def ask(self, space: str | None = None) -> str | None:
        """As the first whisper of a session does; the id that was asked about."""
        found = self.pick(space)
        if found is not None:
            review.record_review(self.ormah, found, whispers.new_event())
        return None if found is None else found.node_id


@pytest.fixture
def house() -> Iterator[JobsHouse]:
    with open_jobs_house(made=House) as found:
        yield found


def test_what_was_held_back_is_asked_about_with_its_prompt(house: House) -> None:
    node = house.remember("Payments are deployed on Tuesdays.", title="Payments")
    assert house.pick() is None
    event = house.hold(node)
    house.go(days=2)
    found = house.pick()
    assert found is not None
    assert (found.node_id, found.title, found.content, found.prompt, found.event) == (
        node, "Payments", "Payments are deployed on Tuesdays.", PROMPT, event,
    )  # fmt: skip
    assert found.when == house.now - timedelta(days=2)
    assert house.pick() == found, "looking writes nothing"
    assert house.pick(None, node) is None, "what stands in the whisper is not asked about"


def test_seven_days_fourteen_days_three_times_in_vain(house: House) -> None:
    node = house.remember("Payments are deployed on Tuesdays.")
    house.hold(node)
    house.go(days=6.9)
    assert house.name() == node
    house.go(days=0.2)
    assert house.name() is None, "held back more than seven days ago"
    for _ in range(3):
        house.hold(node)
        assert house.ask() == node
        house.go(days=13.9)
        house.hold(node)
        assert house.name() is None, "asked within fourteen days"
        house.go(days=0.2)
    assert house.name() is None, "three questions in vain"
    assert whispers.counts(house.ormah.state) == (3, 0)
    assert whispers.mark_answered(house.ormah.state, node)
    assert house.name() == node, "an answer closes a question"


def test_never_shown_in_seven_days(house: House) -> None:
    node = house.remember("Payments are deployed on Tuesdays.")
    house.whisper(Considered(node, 0.8, 0.8, "full"))
    house.go(days=3)
    house.hold(node)
    assert house.name() is None
    house.go(days=4.1)
    assert house.name() == node


@pytest.mark.parametrize("source", ["explicit", "implicit"])
@pytest.mark.parametrize("signal", [1, -1])
def test_any_judgement_closes_the_loop(house: House, source: str, signal: int) -> None:
    """Reference F 23: where only explicit answers count, 185 questions had no answer."""
    node = house.remember("Payments are deployed on Tuesdays.")
    event = house.hold(node)
    assert house.ask() == node
    done = feedback(house.ormah, FeedbackParams(node_id=node, signal=signal, source=source, event=event), ME)
    assert done.review
    assert whispers.counts(house.ormah.state) == (1, 1)
    assert not feedback(
        house.ormah, FeedbackParams(node_id=node, signal=-signal, source=source, event=event), ME
    ).review
    house.go(days=15)
    house.hold(node)
    assert house.name() is None, "for prompts like this one there is a judgement"
    house.hold(node, prompt="kayaks are stored in the boathouse behind the mill", relevance=0.47)
    assert house.name() == node, "for another prompt there is none"


def test_the_most_relevant_first_and_only_twenty(house: House) -> None:
    nodes = [house.remember(f"Rule number {number} of deploying payments.") for number in range(24)]
    for number, node in enumerate(nodes):
        house.hold(node, 0.45 + number / 1000)
    house.hold(nodes[3], 0.49)
    best = [nodes[3], *(node for node in reversed(nodes) if node != nodes[3])]
    for node in best[:20]:
        assert house.ask() == node
    assert house.ask() is None, "the twenty best rest, and nobody goes further down"


@pytest.mark.parametrize(("prompt", "content"), rows(__file__, "a_question_needs_a_prompt_with_content"))
def test_a_question_needs_a_prompt_with_content(house: House, prompt: str, content: bool) -> None:
    """ "what's 17 * 23?" brought the upgrade of a database."""
    node = house.remember("Postgres 17 was installed on all 23 servers.", space="shop")
    house.hold(node, 0.49, prompt=prompt, space="shop")
    assert (house.name("shop") == node) is content


def test_small_talk_asks_for_nothing(house: House) -> None:
    node = house.remember("Payments are deployed on Tuesdays.")
    house.hold(node)
    query = house.ormah.index.embed_query(PROMPT)
    assert query is not None
    for kind in (Intent.CONVERSATIONAL, Intent.GENERAL):
        other = house.ormah.index.embed_query("quite another matter")
        archetypes = Archetypes(lambda text, kind=kind, other=other: query if text in ARCHETYPES[kind] else other)  # type: ignore[misc]
        found = pick_review(house.ormah, None, now=house.now, archetypes=archetypes)
        assert (found is None) is (kind is Intent.CONVERSATIONAL)


def test_other_projects_are_not_shown(house: House) -> None:
    ours = house.remember("Payments are deployed on Tuesdays.", space="shop")
    theirs = house.remember("Merger talks are secret.", space="bank")
    everywhere = house.remember("Deploys are announced in the channel.")
    house.hold(theirs, 0.49, space="bank")
    assert house.name("bank") == theirs
    for space in ("shop", None):
        assert house.name(space) is None
    house.hold(theirs, 0.49, space="shop", prompt="what does the bank want")
    assert house.name("shop") is None, "a memory of another project"
    house.hold(everywhere, 0.48, space="bank", prompt="what about the merger")
    assert house.name("shop") is None, "a prompt of another project"
    house.hold(everywhere, 0.45, space=None)
    assert house.name("shop") is None, "a prompt from no project is not one from this one"
    assert house.name(None) == everywhere
    house.hold(everywhere, 0.45, space="shop")
    assert house.name("shop") == everywhere
    house.hold(ours, 0.46, space="shop")
    assert house.name("shop") == ours
    assert house.name(None) == everywhere


def test_what_is_gone_or_outdated_or_archived_is_not_asked_about(house: House) -> None:
    gone, old = house.remember("Payments are deployed on Mondays."), house.remember("Payments are deployed by hand.")
    archived = house.remember("Payments were deployed by fax.", tier="archival")
    left = house.remember("Payments are deployed on Tuesdays.")
    for node in (gone, old, archived):
        house.hold(node, 0.49)
    house.hold(left, 0.46)
    forget(house.ormah, ForgetParams(node_id=gone), ME)
    outdated(house.ormah, OutdatedParams(node_id=old), ME)
    house.go(seconds=2)
    assert house.name() == left


def test_the_earlier_prompt_is_one_short_line_without_secrets(house: House) -> None:
    node = house.remember("Payments are deployed on Tuesdays.")
    house.hold(node, prompt="why\n\tis ghp_" + "a1B2" * 9 + " refused " + "and again " * 80)
    found = house.pick()
    assert found is not None
    assert found.prompt.startswith("why is [redacted: ")
    assert "ghp_" not in found.prompt
    assert len(found.prompt) <= 300
    assert found.prompt.endswith(("again …", "and …"))
    other = house.remember("Payments are deployed by two people.")
    house.hold(other, 0.48, prompt="".join(chr(0x4E00 + at) for at in range(900)))
    found = house.pick()
    assert found is not None
    assert (len(found.prompt), found.prompt[-1]) == (300, "…")
