"""An index that followed every change and one that was built in one go from the same files are the same index.

Random histories: notes are written, edited, renamed, moved, removed, doubled; links name what is not there yet, names
collide, titles and tags change. After each history the whole content of both is compared, and what they answer.
"""

import itertools
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ormahd.embedding.embedder import Hashing
from ormahd.index.index import Index
from ormahd.model.node import EdgeType, NodeType, Tier
from ormahd.note.values import NoteLink
from tests.contract.index_notes import NOW, apply, node_id, note, open_index, triples
from tests.examples import examples

WORDS = ["alpha", "beta", "gamma", "delta", "running", "runs", "Äpfel", "東京", "tokyo", "c++", "don't"]
NAMES = ["one", "Zwölf", "sub/one", "deep/er/Four"]
TARGETS = ["one", "ZWÖLF", "sub/One", "Four", node_id(0)[:8], node_id(1), f"x_{node_id(2)[:8]}", "Alpha", "nowhere"]
QUERIES = ["alpha", "beta gamma", "running", "tokyo 東京", "apfel", "don't c++", "delta one two"]

contents = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
long_contents = st.sampled_from(WORDS).map(lambda word: f"{word} lorem. " * 400)
links = st.lists(
    st.builds(NoteLink, st.sampled_from(list(EdgeType)), st.sampled_from(TARGETS), st.sampled_from([0.5, 0.9]),
              st.sampled_from([None, NOW]), st.sampled_from([None, "because"])), max_size=4, unique_by=lambda link: (link.edge, link.target),
)  # fmt: skip
notes = st.builds(
    note, st.integers(0, 2), contents | long_contents, links=links, type=st.sampled_from([NodeType.FACT, NodeType.GOAL]),
    tier=st.sampled_from(list(Tier)), space=st.sampled_from([None, "web"]), tags=st.lists(st.sampled_from(WORDS), max_size=2),
    title=st.sampled_from([None, "Alpha", "beta", "a title"]), created=st.sampled_from([NOW, NOW.replace(year=2020)]),
)  # fmt: skip
others = st.sampled_from([
    b"", b"plain alpha text [[one]]", b"---\nid: 42\ntype: book\n---\nbeta", b"---\nid: [\n---\nbroken gamma", b"\xff\xfe",
    note(1, "body links [[one]] and [[Alpha]]").replace(b"\ntier:", b"\naliases: [Alpha, nowhere]\ntier:"),
])  # fmt: skip
paths = st.sampled_from([f"{name}.md" for name in NAMES])
steps = st.one_of(
    st.tuples(st.just("write"), st.dictionaries(paths, notes | others, min_size=1, max_size=4)),
    st.tuples(st.just("write"), st.dictionaries(paths, notes, min_size=1, max_size=1)),
    st.tuples(st.just("remove"), st.lists(paths, min_size=1, max_size=2)),
    st.tuples(st.just("rename"), st.tuples(paths, paths)),
    st.tuples(st.just("swap"), st.tuples(paths, paths)),
)


def play(index: Index, files: dict[str, bytes], step: tuple[str, Any]) -> None:
    """Do one step to the index and to `files`, the vault it should be like."""
    what, how = step
    wanted: dict[str, bytes] = {}
    removals: list[str] = []
    if what == "write":
        wanted = how
    elif what == "remove":
        removals = how
    elif what == "rename" and how[0] in files and how[0] != how[1]:
        wanted, removals = {how[1]: files[how[0]]}, [how[0]]
    elif what == "swap" and how[0] in files and how[1] in files:
        wanted = {how[0]: files[how[1]], how[1]: files[how[0]]}
    apply(index, wanted, removals)
    for path in removals:
        files.pop(path, None)
    files |= wanted


def dump(index: Index) -> dict[str, Any]:
    """Everything in the index but the keys of its rows."""
    queries = {
        "files": "SELECT path, size, digest, kind, node_id FROM file",
        "texts": "SELECT path, content FROM text JOIN file USING (number)",
        "nodes": "SELECT path, n.id, held, tier, type, space, created, valid_until, updated, confidence, source, title, "
        "tags, aliases, outdated_reason, n.digest, same FROM node n JOIN file USING (number)",
        "tags": "SELECT path, tag FROM tag JOIN file USING (number)",
        "names": "SELECT path, key, rank FROM name JOIN file USING (number)",
        "edges": "SELECT path, type, text, weight, e.created, reason, body, target FROM edge e JOIN file USING (number)",
        "words": "SELECT path, term, col, offset FROM instance JOIN file ON number = doc",
        "documents": "SELECT sha, pieces FROM document WHERE free IS NULL",
        "embedded": "SELECT id, sha FROM embedded JOIN document USING (document)",
    }  # fmt: skip
    with index.database.write() as connection:
        connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.instance USING fts5vocab (main, words, instance)")
        return {name: sorted(connection.execute(query).fetchall(), key=repr) for name, query in queries.items()}


def answers(index: Index) -> list[Any]:
    given_by: list[Any] = [index.edges_of(), index.unresolved(), sorted(index.kinds().items())]
    embedder = Hashing()
    for query in QUERIES:
        question = embedder.embed_query(query)
        given_by += [index.search_text(query, 10)]
        given_by += [index.search_vectors(question.vector, 10), index.idf(question.token_ids).tolist()]
        ids = sorted(index.ids())
        tokens = index.tokens(ids, question.vector)
        assert tokens is not None
        given_by += [tokens.ids, tokens.offsets.tolist(), tokens.packed.tobytes()]
    return given_by


def key(edge: Any) -> str:
    return repr(edge)


@settings(max_examples=examples(20))
@given(history=st.lists(steps, min_size=2, max_size=10), rounds=st.integers(0, 2))
def test_incremental_is_rebuilt(history: list[tuple[str, Any]], rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        grown = open_index(Path(folder) / "grown", attach=True)
        fresh = open_index(Path(folder) / "fresh")
        try:
            files: dict[str, bytes] = {}
            for step in itertools.chain(history, history[:rounds]):
                play(grown, files, step)
            apply(fresh, dict(sorted(files.items())))
            fresh.attach(Hashing())
            assert grown.wait_filled(60)
            assert fresh.wait_filled(60)
            one, other = dump(grown), dump(fresh)
            for part in one:
                assert one[part] == other[part], part
            assert sorted(map(key, grown.edges_of())) == sorted(map(key, fresh.edges_of()))
            assert answers(grown)[1:] == answers(fresh)[1:]
            grown.rebuild(triples(files))
            assert grown.wait_filled(60)
            again = dump(grown)
            for part in one:
                assert one[part] == again[part], part
            assert answers(grown)[1:] == answers(fresh)[1:]
        finally:
            grown.close()
            fresh.close()


@settings(max_examples=examples(6))
@given(history=st.lists(steps, min_size=1, max_size=6))
def test_chroma_follows(history: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = open_index(Path(folder) / "index", attach=True)
        try:
            files: dict[str, bytes] = {}
            for step in history:
                play(index, files, step)
                if step[0] == "remove":
                    assert index.wait_filled(60, settled=True)
            assert index.wait_filled(60, settled=True)
            assert index.verify(triples(files)) == []
        finally:
            index.close()
