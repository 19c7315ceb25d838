"""The cross-encoder in the whisper, through a daemon: used where its files are, never for prompts about the user alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contract.test_rerank import make
from tests.house import open_house, wait_until


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("reranker") / "tiny")


@pytest.mark.soak  # the suite has ten minutes
def test_the_reranker_is_not_asked_about_the_user(files: Path) -> None:
    """Seeds: "identity prompts skip the reranker path"; for others its word stands in the trace, and in the sum."""
    more = {"ORMAH_EMBEDDING_MODEL": "all-MiniLM-L6-v2", "ORMAH_WHISPER_RERANKER_MODEL": str(files)}
    with open_house(**more) as house:
        house.start()
        house.call("agent.remember", content="We use postgres because of json.", title="Database", space="shop")
        house.call("agent.remember", content="The user lives in Lisbon.", title="Home", space=None, about_self=True)

        def read(prompt: str) -> tuple[Any, list[dict[str, Any]]]:
            found = house.call("agent.whisper", prompt=prompt, space="shop", explain=True)
            return found, [one for one in found.trace["candidates"] if "cross" in one]

        asked = "which database do we use?"
        wait_until(lambda: "reranker" not in read(asked)[0].degraded, "the reranker is loaded")
        _, judged = read(asked)
        assert judged
        for one in judged:
            text = 0.6 * one["cross"] + 0.4 * one["text"]
            assert one["relevance"] == pytest.approx(text * one["certain"] * one["place"] + one["affinity"], abs=1e-5)
        about_user, none = read("where do I live?")
        assert (none, [node.title for node in about_user.nodes]) == ([], ["Home"])


def test_without_its_files_late_interaction_judges_and_that_is_said_where_it_was_configured(tmp_path: Path) -> None:
    asked = "which database do we use?"
    with open_house(ORMAH_EMBEDDING_MODEL="all-MiniLM-L6-v2", HF_HOME=str(tmp_path)) as house:
        house.start()
        house.call("agent.remember", content="We use postgres because of json.", title="Database", space="shop")
        found = wait_until(
            lambda: found if not (found := house.call("agent.whisper", prompt=asked, space="shop")).degraded else None,
            "it is known that the default model is not there",
        )
        assert [node.title for node in found.nodes] == ["Database"]
        explained = house.ctl("whisper", "--space", "shop", "--explain", asked)
        assert ("Database" in explained.stdout, "reranker" in explained.stderr) == (True, False), explained.stderr
        house.stop()
        house.settings["ORMAH_WHISPER_RERANKER_MODEL"] = str(tmp_path / "nowhere")
        house.start()
        found = house.call("agent.whisper", prompt=asked, space="shop")
        assert ([node.title for node in found.nodes], found.degraded) == (["Database"], ["reranker"])
        assert "reranker" in house.ctl("whisper", "--space", "shop", "--explain", asked).stderr
        house.stop()
        house.settings["ORMAH_WHISPER_RERANKER"] = "off"
        house.start()
        assert house.call("agent.whisper", prompt=asked, space="shop").degraded == []
