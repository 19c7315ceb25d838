"""What became of what was whispered: judged by command and call, about one memory, and asked about."""

from __future__ import annotations

import base64

import pytest

from ormahd.errors import Ambiguous, BadRequest, NotFound
from ormahd.model.chance import after_feedback
from tests.blackbox import judging
from tests.blackbox.judging import FLY, PROMPT, STAGING, judge, lines, remember, score, whisper
from tests.house import House, open_house, wait_until
from tests.tables import rows

house = judging.house


def head(house: House) -> str:
    return house.git("rev-parse", "HEAD").strip()


# ------------------------------------------------------------------------------------------------ a judgement


def test_a_judgement_is_a_line_in_the_vault_and_no_word_of_the_prompt(house: House) -> None:
    node = remember(house, STAGING, title="Staging")
    prompt = f"{PROMPT}, zebrafish?"
    said = whisper(house, prompt, session="the-session-of-a-person")
    assert said.event
    before = head(house)
    done = judge(house, node[:8], source="implicit", event=said.event)
    assert (done.node_id, done.short_id, done.event, done.counted, done.signal) == (node, node[:8], said.event, True, 1)
    assert node in done.text
    assert done.commit == head(house)
    assert house.git("rev-parse", "HEAD~2").strip() == before, (
        "the month's file of judgements begins in a commit of its own"
    )
    message = house.git("log", "-1", "--format=%B")
    assert "Staging" in message.splitlines()[0]
    for trailer in ("Ormah-Kind: feedback", f"Ormah-Op: {done.op}", f"Ormah-Nodes: {node}", "Ormah-Source: agent:test"):
        assert trailer in message
    (line,) = lines(house)
    assert (line["node_id"], line["signal"], line["source"], line["event"], line["space"], line["model"]) == (
        node, 1, "implicit", said.event, None, "hashing",
    )  # fmt: skip
    assert len(base64.b64decode(line["vector"])) == 384
    assert "prompt" not in line
    assert house.git("status", "--porcelain") == ""
    everything = house.git("log", "-p", "--all", "--format=%B%an%ae")
    for secret in ("zebrafish", "the-session-of-a-person"):
        assert secret not in everything


def test_judged_useful_it_gains_and_judged_useless_it_loses_and_undone_at_once(house: House) -> None:
    node, other = remember(house, STAGING, title="Staging"), remember(house, FLY, title="Fly")
    far = "which violins of the pipeline orchestra play on Monday in Rome"
    plain, beside, apart = score(house, node), score(house, other), score(house, node, far)
    more = judge(house, node, 1, event=whisper(house).event)
    assert score(house, node) == pytest.approx(after_feedback(plain, 0.15), abs=1e-4)
    assert "Shown for prompts like this from now on." in more.text
    assert score(house, other) == pytest.approx(beside, abs=1e-6), "nobody spoke of this one"
    assert score(house, node, far) == pytest.approx(apart, abs=1e-6), "nobody spoke of prompts like this one"
    less = judge(house, node, -1, event=more.event)
    assert (less.counted, less.replaced) == (True, True)
    assert len(lines(house)) == 1
    assert score(house, node) == pytest.approx(after_feedback(plain, -0.15), abs=1e-4)
    assert house.json("undo", less.op or "")
    assert score(house, node) == pytest.approx(after_feedback(plain, 0.15), abs=1e-4)
    assert house.json("undo", more.op or "")
    assert lines(house) == []
    assert score(house, node) == pytest.approx(plain, abs=1e-6)
    house.git("revert", "--no-edit", "HEAD")
    wait_until(lambda: score(house, node) > plain + 0.1, "a revert by hand counts too")


def injected(house: House, prompt: str = PROMPT) -> list[str]:
    return [node.id for node in whisper(house, prompt).nodes if node.shown != "exploring"]


def test_said_outright_it_is_silent_for_that_prompt_and_speaks_again_when_undone(house: House) -> None:
    """However relevant it is: five times -1 left it at 0.707 - 0.15, above the gate."""
    text = "The cello case of the orchestra is blue and stands behind the second curtain."
    node, prompt = remember(house, text, title="Cello case"), "where does the blue cello case of the orchestra stand"
    alike = "the blue cello case of the orchestra: who carries it to Vienna tomorrow"
    assert injected(house, prompt) == injected(house, alike) == [node]
    inferred = judge(house, node, -1, event=whisper(house, prompt).event, source="implicit")
    assert inferred.text.endswith("Whispered less easily for prompts like this from now on.")
    assert house.json("undo", inferred.op or "")
    done = judge(house, node, -1, event=whisper(house, prompt).event)
    assert done.text.endswith("Silent for prompts like this from now on.")
    said = whisper(house, prompt)
    assert (injected(house, prompt), said.silence) == ([], "judged")
    assert isinstance(said.trace, dict)
    (candidate,) = [one for one in said.trace["candidates"] if one["node_id"] == node]
    assert candidate["verdict"] == -1
    assert candidate["dropped"].startswith("feedback: said to be of no use for a prompt that means the same")
    assert candidate["parts"][-1]["relevance"] == pytest.approx(candidate["relevance"], abs=1e-6)
    assert injected(house, alike) == [node], "for another prompt it is a bit less relevant, and no more than that"
    shown = house.ctl("whisper", "--session", "look", "--explain", prompt).stdout
    assert "left out" in shown
    assert "Against: feedback said that it is of no use for such a prompt" in shown
    assert house.json("undo", done.op or "")
    assert injected(house, prompt) == [node]
    again = judge(house, node, -1, event=whisper(house, prompt).event)
    other = judge(house, node, 1, event=whisper(house, prompt).event)
    assert (again.counted, other.counted) == (True, True)
    assert injected(house, prompt) == [node], "the last word counts"


def test_said_outright_it_passes_the_gate_for_that_prompt() -> None:
    with open_house(ORMAH_WHISPER_INJECTION_GATE="0.95") as house:
        house.start()
        node = remember(house, STAGING, title="Staging")
        prompt = "who deployed the pipeline on a Tuesday"
        assert injected(house, prompt) == []
        event = whisper(house, prompt).event
        judge(house, node, 1, event=event, source="implicit")
        assert injected(house, prompt) == []
        judge(house, node, 1, event=event)
        assert injected(house, prompt) == [node]
        assert injected(house, "who deployed the orchestra on a Tuesday") == []


# ------------------------------------------------------------------------------------------------ which memory


def test_names_that_lead_nowhere_or_to_several(shared: House) -> None:
    twins = ["abcd1234-6d0a-4c1e-9a55-0a52b0f4f9d1", "abcd5678-6d0a-4c1e-9a55-0a52b0f4f9d2"]
    for number, node in enumerate(twins):
        text = f"Kayaks number {number} are stored in the boathouse behind the mill."
        (shared.vault / f"kayak{number}.md").write_text(f"---\nid: {node}\ntype: fact\n---\n{text}\n")
    wait_until(lambda: shared.call("admin.health").nodes == 3, "both are taken in")
    never = remember(shared, "Violins are tuned on Mondays.")
    said = whisper(shared, "kayaks are stored in the boathouse behind the mill")
    for event in (None, said.event):
        with pytest.raises(Ambiguous) as several:
            judge(shared, "abcd", event=event)
        assert sorted(several.value.data["ids"]) == sorted(twins)
    assert judge(shared, "abcd1").node_id == twins[0]
    assert judge(shared, twins[1].upper(), event=(said.event or "").upper()).node_id == twins[1]
    for unknown in (never, never[:8]):
        with pytest.raises(NotFound, match="which prompt is judged") as unclear:
            judge(shared, unknown)
        assert said.event in (unclear.value.hint or "")
    with pytest.raises(NotFound, match="no memory"):
        judge(shared, "ffffffff")
    with pytest.raises(NotFound, match="no whisper with a prompt to learn from has the event"):
        judge(shared, twins[0], event="nobodyknows1")
    for odd in ("", "abc", "*", "%%%%", "../..", "abcd'--", "abcdefgh"):
        with pytest.raises(BadRequest):
            judge(shared, odd)
    for wrong in ({"signal": 0}, {"signal": 2}, {"signal": 1, "source": "guess"}):
        with pytest.raises(BadRequest):
            shared.call("agent.feedback", node_id=twins[0], **wrong)


TAUGHT = rows(__file__, "taught")


@pytest.mark.parametrize("session", [[], ["--session", "s"]])
def test_what_was_missed_is_taught_by_the_event_of_a_silent_prompt(house: House, session: list[str]) -> None:
    """Issue: "a missed memory cannot be taught at all"."""
    wanted, other = remember(house, "Quinces ripen in October."), remember(house, "Kayaks lie in the boathouse.")
    for number, (prompt, again, told) in enumerate(TAUGHT):
        ask = ["whisper", *(f"{one}{number}" if one == "s" else one for one in session)]
        silent = house.json(*ask, prompt)
        assert (silent["text"], bool(silent["event"])) == ("", True)
        assert silent["event"] in house.ctl("whisper").stdout, "the list of prompts names it"
        assert "feedback ID +1 --event " in house.ctl(*ask, prompt, "--explain").stdout
        done = house.json("feedback", wanted, "+1", "--event", silent["event"])
        assert (done["prompt"], done["event"], done["source"]) == (prompt, silent["event"], "explicit")
        assert judge(house, other, 1, event=silent["event"], source="implicit").counted
        shown = [one["id"] for one in house.json(*ask, again)["nodes"]]
        assert shown == ([wanted] if told else []), "what is only inferred decides nothing"
        assert house.json("undo", done["op"])
        assert wanted not in injected(house, again)


def test_another_sessions_prompt_is_not_judged(house: House) -> None:
    """Issue: "`feedback ID +1` after a silent prompt judged another session's prompt"."""
    node = remember(house, STAGING)
    spoken = whisper(house)
    silent = house.json("whisper", "which paint goes on the hull")
    done = house.ctl("feedback", node, "+1")
    assert done.returncode == 3
    assert silent["event"] in done.stderr
    assert spoken.event in done.stderr
    assert "which paint goes on the hull" in done.stderr
    assert PROMPT in house.ctl("feedback", node, "+1", "--event", spoken.event or "").stdout


# ------------------------------------------------------------------------------------------------ the command


def test_the_command(shared: House) -> None:
    node = remember(shared, "Marzipan is rolled thin for the Martinmas cake.")
    said = whisper(shared, "marzipan is rolled thin for the cake")
    found = shared.json("feedback", node[:8], "+1")
    assert (found["node_id"], found["signal"], found["source"], found["counted"]) == (node, 1, "explicit", True)
    found = shared.json("--agent", "codex", "feedback", "--event", said.event or "", node[:8], "-1")
    assert (found["signal"], found["source"], found["event"]) == (-1, "implicit", said.event)
    done = shared.ctl("feedback", node[:8], "-1")
    assert done.returncode == 0
    assert "not useful" in done.stdout
    assert "Silent for prompts like this from now on." in done.stdout
    assert "undo: ormahctl undo " in done.stdout
    assert "It was noted before." in shared.ctl("feedback", node[:8], "-1").stdout
    assert shared.ctl("feedback", "ffffffff", "+1").returncode == 3
    for wrong in (
        ["feedback", node],
        ["feedback", node, "+2"],
        ["feedback", node, "yes"],
        ["feedback", node, "+1", "-x"],
    ):
        assert shared.ctl(*wrong).returncode == 2
    listed = [op for op in shared.json("history") if op["kind"] == "feedback"]
    assert {one["kind"] for one in listed} == {"feedback"}
    assert shared.ctl("history", node[:8]).returncode == 0


# ------------------------------------------------------------------------------------------------ the review loop


def test_the_first_whisper_of_a_session_asks_about_what_was_held_back() -> None:
    """Seeds: "On the first message of a session, whisper may surface one held-back candidate as a review suggestion."."""
    with open_house(ORMAH_WHISPER_EXPLORATION="false", ORMAH_WHISPER_INJECTION_GATE="0.75") as house:
        house.start()
        held, kayaks = remember(house, FLY, title="Fly"), remember(house, "Kayaks are stored in the boathouse.")
        earlier = whisper(house, "who runs the smoke tests of production")
        assert (earlier.silence, earlier.review) == ("gate", None)
        whisper(house, "what is 17 * 23")
        assert whisper(house, "tulips and violins").review is None, "beside nothing there is no question"
        ask = "where are kayaks stored in the boathouse"
        first = whisper(house, ask, session="s1")
        assert ([node.id for node in first.nodes], first.review) == ([kayaks], held)
        for part in ("smoke tests of production", FLY, held, earlier.event or "?"):
            assert part in first.text
        assert whisper(house, "kayaks in the boathouse are stored", session="s1").review is None
        assert whisper(house, ask).review is None, "asked once, it rests"
        found = house.json("status", "--verbose")["stats"]["whisper"]
        assert (found["asked"], found["answered"]) == (1, 0)
        done = judge(house, held, source="implicit", event=earlier.event)
        assert (done.review, done.event) == (True, earlier.event)
        assert house.json("status", "--verbose")["stats"]["whisper"]["answered"] == 1
        assert score(house, held, "who runs the smoke tests of production") > 0.15
