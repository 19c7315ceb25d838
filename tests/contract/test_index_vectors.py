"""VectorStore: vectors follow the notes, Chroma may break, models may change, and nothing is embedded twice."""

import shutil
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from ormahd.embedding.embedder import DocumentVectors, Hashing, QueryVectors
from ormahd.index.index import Index
from ormahd.index.rows import Filter
from tests.contract.index_notes import apply, node_id, note, open_index, triples

WORDS = [f"word{number}" for number in range(200)]


class Counting(Hashing):
    """Counts what it embeds, can be held up, and can fail."""

    def __init__(self, salt: str = "") -> None:
        super().__init__(salt=salt)
        self.texts = 0
        self.gate = threading.Event()
        self.gate.set()
        self.failing = False

    def embed_documents(
        self, texts: Sequence[str], headings: Sequence[str | None] | None = None, *, urgent: bool = False
    ) -> list[DocumentVectors]:
        self.gate.wait()
        if self.failing:
            raise RuntimeError("out of memory")
        self.texts += len(texts)
        return super().embed_documents(texts, headings, urgent=urgent)


def path(number: int) -> str:
    """A file name of ours: it says nothing that would count as a heading."""
    return f"fact_n_{number:08x}.md"


def vault(count: int, *, start: int = 0) -> dict[str, bytes]:
    return {
        path(number): note(number, " ".join(WORDS[number % 190 : number % 190 + 10]) + f" only{number}")
        for number in range(start, start + count)
    }


def question(text: str) -> QueryVectors:
    return Hashing().embed_query(text)


def nearest(index: Index, text: str, limit: int = 5) -> list[str]:
    return [one for one, _ in index.search_vectors(question(text).vector, limit)]


def embedder_of(index: Index) -> Counting:
    assert isinstance(index.embedder, Counting)
    return index.embedder


def tidy(index: Index) -> None:
    """What the background thread does when it has nothing else to do."""
    while index.tidy():
        pass


def start(directory: Path, salt: str = "") -> Index:
    index = open_index(directory)
    index.attach(Counting(salt))
    return index


@pytest.mark.parametrize(("exact", "where"), [(0, "chroma"), (1000, "memory")])
def test_where_vectors_are_searched_is_said(tmp_path: Path, exact: int, where: str) -> None:
    index = open_index(tmp_path / "index", exact_pieces=exact)
    apply(index, vault(3))
    assert index.searched == "nowhere"
    index.attach(Hashing())
    assert index.wait_filled(60, settled=True)
    assert (index.searched, index.trouble) == (where, None)
    index.close()


def test_without_a_model_words_answer_and_it_is_said(tmp_path: Path) -> None:
    index = open_index(tmp_path / "index")
    apply(index, vault(3))
    assert index.degraded == ["vectors"]
    assert index.search_vectors(question("word1").vector, 5) == []
    assert index.cosines(question("word1").vector, [node_id(1)]) == {}
    assert index.tokens([node_id(1)]) is None
    assert not index.wait_filled(0)
    assert len(index.search_text("word1", 5)) == 2
    index.close()


def test_a_few_notes_are_found_at_once_and_many_soon(tmp_path: Path) -> None:
    index = start(tmp_path / "index")
    apply(index, vault(20))
    assert index.pending() == 0
    assert nearest(index, "only7 " + " ".join(WORDS[7:17]), 1) == [node_id(7)]
    apply(index, vault(300, start=20))
    assert index.wait_filled(60, settled=True)
    assert index.degraded == []
    assert nearest(index, "only210 " + " ".join(WORDS[20:30]), 2)[0] == node_id(210)
    assert index.verify(triples(vault(320))) == []
    index.close()


def test_chroma_and_the_exact_vectors_agree(tmp_path: Path) -> None:
    index = start(tmp_path / "index")
    apply(index, vault(500))
    assert index.wait_filled(60, settled=True)
    active = index.active
    assert active is not None
    assert active.chroma.place == "chroma"
    for number in range(0, 180, 20):
        vector = question(" ".join(WORDS[number : number + 5])).vector
        exact = active.matrix.nearest(vector, 10)
        assert index.search_vectors(vector, 10) == exact
        assert index.cosines(vector, [one for one, _ in exact]) == dict(exact)
    index.close()


def test_nothing_is_embedded_twice(tmp_path: Path) -> None:
    index = start(tmp_path / "index")
    apply(index, vault(30))
    assert index.wait_filled(60)
    embedder = embedder_of(index)
    assert embedder.texts == 30
    text = " ".join(WORDS[3:13]) + " only3"
    apply(
        index, {"moved/" + path(3): note(3, text, tier="core", space="web", tags=["x"])}, [path(3)]
    )  # moved, retiered
    apply(index, {}, [path(4)])
    apply(index, {path(4): vault(5)[path(4)]})  # gone and back
    apply(index, {path(99): note(99, text)})  # another note with the same text
    index.rebuild(triples(vault(30)))
    assert index.wait_filled(60, settled=True)
    assert embedder.texts == 30
    assert index.verify(triples(vault(30))) == []
    index.close()
    index = start(tmp_path / "index")
    assert index.wait_filled(60, settled=True)
    assert embedder_of(index).texts == 0
    assert nearest(index, text, 1) == [node_id(3)]
    index.close()


@pytest.mark.parametrize("damage", ["missing", "garbage", "graph", "emptied", "older"])
def test_broken_chroma_is_filled_again_without_embedding(tmp_path: Path, damage: str) -> None:
    directory = tmp_path / "index"
    index = start(directory)
    apply(index, vault(40))
    assert index.wait_filled(60, settled=True)
    index.close()
    if damage == "older":
        shutil.copytree(directory / "chroma", tmp_path / "older")
        index = start(directory)
        apply(index, {path(5): note(5, "changed since")})
        assert index.wait_filled(60, settled=True)
        index.close()
    if damage in {"missing", "older"}:
        shutil.rmtree(directory / "chroma")
    if damage == "older":
        shutil.copytree(tmp_path / "older", directory / "chroma")
    if damage == "garbage":
        (directory / "chroma" / "chroma.sqlite3").write_bytes(b"garbage" * 500)
    if damage == "graph":
        for file in (directory / "chroma").glob("*/*"):
            file.write_bytes(b"x" * 64)
    if damage == "emptied":
        connection = sqlite3.connect(directory / "chroma" / "chroma.sqlite3")
        connection.execute("DELETE FROM embeddings")
        connection.execute("DELETE FROM embeddings_queue")
        connection.commit()
        connection.close()
    index = start(directory)
    assert nearest(index, "only7 " + " ".join(WORDS[7:17]), 1) == [node_id(7)]  # exactly, while Chroma is away
    assert index.wait_filled(60, settled=True)
    assert nearest(index, "only7 " + " ".join(WORDS[7:17]), 1) == [node_id(7)]
    assert embedder_of(index).texts == 0
    files = vault(40) | ({path(5): note(5, "changed since")} if damage == "older" else {})
    assert index.verify(triples(files)) == []
    assert index.degraded == []
    index.close()


def test_a_crash_between_sqlite_and_chroma_is_repaired(tmp_path: Path) -> None:
    """The index is copied while Chroma has not learned of the last changes: what a kill leaves."""
    directory = tmp_path / "index"
    index = start(directory)
    apply(index, vault(30))
    assert index.wait_filled(60, settled=True)
    assert index.active is not None
    teller = index.active.chroma
    step, teller.step = teller.step, lambda *_, **__: 0.01  # type: ignore[method-assign]
    apply(
        index, {path(5): note(5, "changed at the last moment"), path(77): note(77, "new at the last moment")}, [path(6)]
    )
    shutil.copytree(directory, tmp_path / "killed")
    teller.step = step  # type: ignore[method-assign]
    index.close()
    index = start(tmp_path / "killed")
    assert nearest(index, "changed at the last moment", 1) == [node_id(5)]
    assert index.wait_filled(60, settled=True)
    files = vault(30) | {path(5): note(5, "changed at the last moment"), path(77): note(77, "new at the last moment")}
    del files[path(6)]
    assert index.verify(triples(files)) == []
    assert embedder_of(index).texts == 0
    index.close()


def test_another_model_grows_beside_the_old_one_and_then_answers(tmp_path: Path) -> None:
    index = start(tmp_path / "index")
    apply(index, vault(40))
    assert index.wait_filled(60, settled=True)
    other = Counting("other")
    other.gate.clear()
    index.attach(other)
    assert index.embedder is not other
    assert nearest(index, "only7 " + " ".join(WORDS[7:17]), 1) == [node_id(7)]
    apply(index, {path(77): note(77, "written in between")})
    assert nearest(index, "written in between", 1) == [node_id(77)]
    other.gate.set()
    assert index.wait_filled(60, settled=True)
    assert index.embedder is other
    vector = other.embed_query("written in between").vector
    assert index.search_vectors(vector, 1)[0][0] == node_id(77)
    assert other.texts == 41
    assert index.verify(triples(vault(40) | {path(77): note(77, "written in between")})) == []
    index.close()
    index = start(tmp_path / "index", "other")
    assert index.wait_filled(60, settled=True)
    assert embedder_of(index).texts == 0
    tidy(index)
    with index.database.read() as connection:
        assert connection.execute("SELECT count(*) FROM model").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM document").fetchone() == (41,)
    index.close()


def test_a_failing_model_keeps_no_note_out(tmp_path: Path) -> None:
    index = start(tmp_path / "index")
    embedder = embedder_of(index)
    embedder.failing = True
    apply(index, {path(1): note(1, "some words")})
    assert [one for one, _ in index.search_text("words", 5)] == [node_id(1)]
    assert index.pending() == 1
    embedder.failing = False
    apply(index, {path(2): note(2, "other words")})
    assert index.wait_filled(60)
    assert nearest(index, "some words", 1) == [node_id(1)]
    index.close()


def test_filters_widen_or_score_exactly(tmp_path: Path) -> None:
    index = start(tmp_path / "index")
    files = {
        path(number): note(number, f"common words {number}", space="web" if number % 50 == 0 else None)
        for number in range(400)
    }
    apply(index, files)
    assert index.wait_filled(60, settled=True)
    vector = question("common words").vector
    web = {node_id(number) for number in range(0, 400, 50)}
    found = index.search_vectors(vector, 20, Filter(spaces=("web",)))
    assert {one for one, _ in found} == web
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    rest = index.search_vectors(vector, 300, Filter(spaces=("global",)))
    assert len(rest) == 300
    assert not {one for one, _ in rest} & web
    assert index.search_vectors(vector, 5, Filter(spaces=("none",))) == []
    index.close()


def long_text() -> str:
    indexer = " ".join(f"indexer{number % 97}" for number in range(1200))
    return f"{indexer} needle needle needle needle. {indexer}"


def test_a_long_note_is_found_by_each_of_its_parts_and_shrinks_again(tmp_path: Path) -> None:
    index = start(tmp_path / "index")
    apply(index, vault(20) | {path(50): note(50, long_text())})
    assert index.wait_filled(60, settled=True)
    assert nearest(index, "needle", 1) == [node_id(50)]
    apply(index, {path(50): note(50, "short now")})
    assert index.wait_filled(60, settled=True)
    assert nearest(index, "needle", 21)[0] != node_id(50)
    assert index.verify(triples(vault(20) | {path(50): note(50, "short now")})) == []
    index.close()
