"""Commands on memories, as processes: what they send and what they print. The desk lays out the answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import UNSET

from ormahd import api
from tests.tables import rows
from tests.unit.ctl_desk import Desk, health, hit, node, remembered, write

# ---------------------------------------------------------------- remember


def test_remember_sends_all_options_and_prints_what_a_person_wants(desk: Desk) -> None:
    edge = api.Edge(id="1a2b3c4d-0", short_id="1a2b3c4d", edge="supports", weight=0.5, title="Chose \x1bVite")
    desk.answers["agent.remember"] = remembered(
        space="kitchen", links=[edge], redacted=["AWS key"], degraded=["vectors"]
    )
    desk.answers["agent.list"] = api.ListResult(memories=[], total=0, spaces={"kitchen": 2})
    done = desk.ctl(
        "--agent", "codex", "remember", "Likes tea", "--type", "preference", "--tier", "core", "--space", "kitchen",
        "--title", "Tea", "--tag", "a", "--tag", "b", "--about-self", "--confidence", "0.5", "--link", "supports:1a2b3c4d",
        "--verbose",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert desk.params("agent.remember") == [
        api.RememberParams(
            content="Likes tea", type="preference", tier="core", space="kitchen", title="Tea", tags=["a", "b"],
            about_self=True, confidence=0.5, connections=[api.Link(target="1a2b3c4d", edge="supports")],
        )
    ]  # fmt: skip
    assert desk.calls[-1].agent == "codex"
    assert (
        done.stdout
        == "remembered 97acbe8e in kitchen, undo: ormahctl undo cccccccc\n  a/b_97acbe8e.md\n  supports 1a2b3c4d (0.50)  Chose \\x1bVite\n"
    )
    assert "secret: taken out before anything was written: AWS key" in done.stderr
    assert "neighbours were not looked for" in done.stderr
    done = desk.ctl("remember", "Likes tea")
    assert done.stdout == "remembered 97acbe8e in kitchen, undo: ormahctl undo cccccccc\n"
    assert done.stderr == "secret: taken out before anything was written: AWS key\n"


def test_remember_as_json(desk: Desk) -> None:
    desk.answers["agent.remember"] = remembered()
    for args in (["--json", "remember", "x"], ["remember", "x", "--json"]):
        fields = json.loads(desk.ctl(*args).stdout)
        assert {name: fields[name] for name in ("id", "short_id", "path", "commit", "links", "redacted")} == {
            "id": "97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1", "short_id": "97acbe8e", "path": "a/b_97acbe8e.md",
            "commit": "c" * 40, "links": [], "redacted": [],
        }  # fmt: skip


def test_a_memory_from_stdin_is_sent_as_it_is(desk: Desk) -> None:
    desk.answers["agent.remember"] = remembered()
    done = desk.ctl("remember", "-", stdin="\ufeffzwei Zeilen,\n\nÜmläute 日本\n")
    assert done.returncode == 0
    assert desk.params("agent.remember")[0].content == "zwei Zeilen,\n\nÜmläute 日本\n"


def test_stdin_that_is_no_utf8_is_a_usage_error(desk: Desk) -> None:
    done = desk.ctl("remember", "-", stdin=b"caf\xe9")
    assert done.returncode == 2
    assert done.stderr.startswith("error: the memory on stdin is not valid UTF-8 (byte 4)")
    assert not desk.calls


def test_stdin_without_end_is_refused_early(desk: Desk) -> None:
    done = desk.ctl("remember", "-", stdin=b"x" * 8_000_001)
    assert done.returncode == 2
    assert "longer than 8,000,000 bytes" in done.stderr
    assert not desk.calls


def test_spaces_of_a_call(desk: Desk, tmp_path: Path) -> None:
    desk.answers["agent.remember"] = remembered()
    desk.ctl("remember", "x", cwd=tmp_path)
    desk.ctl("remember", "x", "--global")
    desk.ctl("remember", "x", env={"ORMAH_SPACE": "mine"})
    desk.ctl("remember", "x", env={"ORMAH_SPACE": "global"})
    assert [params.space for params in desk.params("agent.remember")] == [UNSET, None, "mine", None]
    assert desk.calls[0].cwd == str(tmp_path)
    assert desk.calls[0].agent == "person"
    assert desk.ctl("remember", "x", "--global", "--space", "y").returncode == 2


# ---------------------------------------------------------------- recall, show


def test_recall_filters_by_space_and_favours_the_callers(desk: Desk) -> None:
    desk.answers["agent.recall"] = api.RecallResult(text="prose", results=[])
    desk.answers["agent.list"] = api.ListResult(memories=[], total=0, spaces={"a": 1})
    done = desk.ctl(
        "recall", "which", "tea", "-n", "3", "--type", "fact", "--type", "goal", "--tier", "core", "--space", "a", "--space",
        "global", "--tag", "t", "--after", "2026-11-01T00:00:00Z", "--before", "2026-11-02T00:00:00+00:00", "--explain",
        env={"ORMAH_SPACE": "mine", "TZ": "UTC"},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr  # as grep
    assert done.stdout == ""
    assert "nothing found for: which tea" in done.stderr
    assert desk.params("agent.recall") == [
        api.RecallParams(
            query="which tea", limit=3, types=["fact", "goal"], tiers=["core"], spaces=["a", "global"], tags=["t"],
            created_after="2026-11-01T00:00:00+00:00", created_before="2026-11-02T00:00:00+00:00", space="mine", explain=True,
        )
    ]  # fmt: skip


def test_results_are_numbered_and_harmless(desk: Desk) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07 ignore\rme \u202egnp.exe \x9b31m"
    desk.answers["agent.recall"] = api.RecallResult(
        text="prose",
        results=[
            hit(),
            hit(title=None, content="First line\nsecond", source="activated", space="日本"),
            hit(title=evil, content=evil * 50),
        ],
        degraded=["vectors"],
    )
    desk.answers["admin.health"] = health()
    done = desk.ctl("recall", "tea", env={"TZ": "UTC"})
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "1. Likes tea",
        "   preference · working · global · 97acbe8e · 2026-11-21 · 0.81",
        "   Green tea, no sugar.",
    ]
    assert lines[3] == "2. First line"
    assert lines[4].endswith("日本 · 97acbe8e · 2026-11-21 · 0.81 · activated")
    assert lines[5] == "   second"
    assert lines[6].startswith("3. \\x1b[2J\\x1b]0;owned\\x07 ignore me \\u202egnp.exe \\x9b31m")
    assert not set(done.stdout) & set(evil[:1] + "\x07\r\u202e\x9b")


@pytest.mark.parametrize(
    ("source", "words", "characters"),
    [("search", (), 1_601), ("search", ("--full",), 400_000), ("id", (), 400_000), ("activated", (), 1_601)],
)
def test_a_long_text_is_cut_unless_all_of_it_is_asked_for(
    desk: Desk, source: str, words: tuple[str, ...], characters: int
) -> None:
    desk.answers["agent.recall"] = api.RecallResult(text="", results=[hit(source=source, content="tea " * 100_000)])
    found = json.loads(desk.ctl("--json", "recall", "tea", *words).stdout)["results"]
    assert [len(one["content"]) for one in found] == [characters]
    assert len(desk.ctl("recall", "tea", *words).stdout) > 300_000 or characters == 1_601


def test_a_recall_waits_for_the_model_of_a_daemon_that_has_just_begun(desk: Desk) -> None:
    answers = iter([["vectors"], ["vectors"], []])
    desk.answers["agent.recall"] = lambda _: api.RecallResult(text="", results=[hit()], degraded=next(answers))
    desk.answers["admin.health"] = health(phase="warming")
    done = desk.ctl("recall", "tea")
    assert done.stderr == "note: the model is being loaded: this waits up to 10 s for it\n"
    assert done.stdout.startswith("1. Likes tea\n")
    assert len(desk.params("agent.recall")) == 3


@pytest.mark.parametrize(
    ("scores", "sources", "degraded", "weak"), rows(__file__, "matches_that_are_all_weak_are_called_so")
)
def test_matches_that_are_all_weak_are_called_so(
    desk: Desk, scores: list[float], sources: list[str], degraded: list[str], weak: bool
) -> None:
    results = [hit(score=score, source=source) for score, source in zip(scores, sources, strict=True)]
    desk.answers["agent.recall"] = api.RecallResult(text="", results=results, degraded=degraded)
    desk.answers["admin.health"] = health()
    assert ("weak matches" in desk.ctl("recall", "tea").stderr) is weak


def test_results_as_json(desk: Desk) -> None:
    desk.answers["agent.recall"] = api.RecallResult(
        text="prose", results=[hit(content="\x9b31m")], degraded=["vectors"]
    )
    desk.answers["admin.health"] = health()
    done = desk.ctl("--json", "recall", "tea")
    found = json.loads(done.stdout)
    assert "\x9b" not in done.stdout
    assert set(found) == {"results", "degraded"}
    assert set(found["results"][0]) >= {
        "id", "short_id", "title", "type", "tier", "space", "tags", "score", "source", "content", "created", "origin",
    }  # fmt: skip


def test_explain_shows_every_number_and_what_was_dropped(desk: Desk) -> None:
    dropped = [{"node_id": f"{number:08}-x", "score": 0.05, "dropped": "cut: below \x1b"} for number in range(30)]
    desk.answers["agent.recall"] = api.RecallResult(
        text="prose",
        results=[
            hit(trace={"node_id": hit().id, "rrf": 0.5, "path": [{"edge": "supports"}], "dropped": None}),
            hit(short_id="1a2b3c4d", trace={"node_id": "1a2b", "rrf": None, "cosine": 0.25}),
        ],
        trace={"question": True, "terms": ["a\x1b", "b"], "period": {"after": "x"}, "dropped": dropped},
    )
    out = desk.ctl("recall", "tea", "--explain").stdout
    assert "\n1. 97acbe8e\nnode_id: 97acbe8e" in out
    assert "rrf: 0.5\npath 1. edge supports\n" in out
    assert "question: yes\nterms: a\\x1b, b\nperiod.after: x\n" in out
    assert "\ndropped 1. node_id 00000000-x, score 0.05, dropped cut: below \\x1b\n" in out
    assert "dropped 20." in out
    assert "dropped 21." not in out


def test_show_prints_the_note_and_its_connections(desk: Desk) -> None:
    edge = api.Edge(id="1a2b3c4d-0", short_id="1a2b3c4d", edge="supports", weight=0.8, title="Chose Vite", reason="why")
    desk.answers["agent.get"] = node(connections=api.Connections(out=[edge], incoming=[edge]), content="a\x1bb\n\nc")
    out = desk.ctl("show", "97ac").stdout
    assert out.startswith("Likes tea\npreference · working · global · 97acbe8e-")
    assert "\na\\x1bb\n\nc\n" in out
    assert "→ supports 1a2b3c4d  Chose Vite  0.80  (why)" in out
    assert "← supports" in out
    fields = json.loads(desk.ctl("--json", "show", "97ac").stdout)
    assert fields["connections"]["out"][0]["edge"] == "supports"
    assert fields["connections"]["in"][0]["id"] == "1a2b3c4d-0"
    assert fields["path"] == node().path
    assert "text" not in fields


# ---------------------------------------------------------------- changes


def test_update_sends_only_what_was_named(desk: Desk) -> None:
    desk.answers["agent.update"] = write()
    done = desk.ctl(
        "update", "97ac", "--content", "-", "--tag", "a", "--untag", "b", "--clear", "title", "--global", stdin="new"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("updated 97acbe8e")
    expected = api.UpdateParams(
        node_id="97ac", content="new", add_tags=["a"], remove_tags=["b"], title=None, space=None
    )
    assert desk.params("agent.update") == [expected]


def test_changes_answer_with_the_node_as_json(desk: Desk) -> None:
    desk.answers |= {name: write() for name in ("agent.update", "agent.forget", "agent.outdated", "agent.connect")}
    desk.answers["agent.get"] = node()
    for args in (
        ["update", "97ac", "--tier", "core"],
        ["forget", "97ac"],
        ["outdated", "97ac", "--reason", "moved"],
        ["connect", "97ac", "supports", "1a2b", "--weight", "0.7"],
    ):
        done = desk.ctl("--json", *args)
        assert done.returncode == 0, done.stderr
        fields = json.loads(done.stdout)
        assert fields["id"] == node().id
        assert fields["content"] == "Green tea, no sugar."
        assert fields["commit"] == "c" * 40
    assert all(params.touch is False for params in desk.params("agent.get"))
    assert desk.params("agent.outdated") == [api.OutdatedParams(node_id="97ac", reason="moved")]
    assert desk.params("agent.connect") == [
        api.ConnectParams(source_id="97ac", target_id="1a2b", edge="supports", weight=0.7)
    ]
