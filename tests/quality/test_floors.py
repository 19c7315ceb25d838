"""Retrieval floors, with the real model: ranking is better than words alone and than vectors alone.

The figures on the shared benchmarks are taken by hand (`make bench`); these sets are small, so that a ranking which
forgot one of its witnesses fails here within a minute.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ormahd.embedding.embedder import Embedder
from ormahd.index.index import Index
from ormahd.model.node import SearchQuery
from ormahd.search.search import Rules, rank
from tests.contract.index_notes import NOW, apply, note
from tests.quality.sets import Question, Text, long_notes, memory


class Stand:
    """An index of texts, and three ways to ask it."""

    def __init__(self, directory: Path, model: Embedder, texts: Sequence[Text]) -> None:
        self.index = Index.open(directory, clock=lambda: NOW)
        self.model = model
        self._ranked: dict[str, list[str]] = {}
        self.index.attach(model)
        self.ids = {text.key: str(uuid.uuid5(uuid.NAMESPACE_URL, text.key)) for text in texts}
        apply(self.index, {f"n_{self.ids[text.key][:8]}.md": note(self.ids[text.key], text.content, title=text.title) for text in texts})  # fmt: skip
        self.index.wait_filled(600.0)

    def ranked(self, question: str) -> list[str]:
        """The ids that are found, best first; each question is searched for once."""
        if question not in self._ranked:
            found = rank(
                self.index,
                SearchQuery(query=question),
                embed=self.model.embed_query,
                space=None,
                now=NOW,
                rules=Rules(),
            )
            self._ranked[question] = [hit.node_id for hit in found.results]
        return self._ranked[question]

    def by_words(self, question: str) -> list[str]:
        return [node_id for node_id, _ in self.index.search_text(question, 10)]

    def by_meaning(self, question: str) -> list[str]:
        return [node_id for node_id, _ in self.index.search_vectors(self.model.embed_query(question).vector, 10)]

    def figures(self, questions: Sequence[Question], ask: Callable[[str], list[str]]) -> tuple[float, float]:
        """(share with the right note in the top 10, mean reciprocal rank)."""
        places = []
        for question in questions:
            found = ask(question.text)[:10]
            gold = self.ids[question.gold]
            places.append(found.index(gold) + 1 if gold in found else 0)
        return sum(place > 0 for place in places) / len(places), sum(1 / place for place in places if place) / len(
            places
        )


@pytest.fixture
def stand(tmp_path: Path, model: Embedder) -> Iterator[Callable[[Sequence[Text]], Stand]]:
    made: list[Stand] = []

    def build(texts: Sequence[Text]) -> Stand:
        made.append(Stand(tmp_path, model, texts))
        return made[-1]

    yield build
    for one in made:
        one.index.close()


def test_short_notes_asked_in_other_words(stand: Callable[[Sequence[Text]], Stand]) -> None:
    texts, questions = memory()
    it = stand(texts)
    any10, mrr = it.figures(questions, it.ranked)
    assert any10 >= 0.93
    assert mrr >= 0.62
    assert (any10, mrr) > it.figures(questions, it.by_words)


def long_floor(it: Stand, questions: Sequence[Question]) -> None:
    any10, mrr = it.figures(questions, it.ranked)
    for other in (it.by_words, it.by_meaning):
        least_any10, least_mrr = it.figures(questions, other)
        assert any10 >= least_any10
        assert mrr >= least_mrr


@pytest.mark.soak  # the suite has ten minutes
def test_long_notes(stand: Callable[[Sequence[Text]], Stand]) -> None:
    texts, questions = long_notes(40)
    long_floor(stand(texts), questions)


@pytest.mark.soak
def test_many_long_notes(stand: Callable[[Sequence[Text]], Stand]) -> None:
    texts, questions = long_notes(600)
    long_floor(stand(texts), questions)
