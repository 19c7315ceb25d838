"""The index as other rooms use it: files in, nodes, edges and words out."""

import sqlite3
import threading
from pathlib import Path

import pytest

from ormahd.errors import Ambiguous, BadRequest, NotFound, Unavailable
from ormahd.index.index import Index
from ormahd.index.rows import Filter
from ormahd.model.node import EdgeType, NodeType, Strength, Tier
from ormahd.note.values import NoteLink
from tests.contract.index_notes import NOW, apply, node_id, note, open_index, triples
from tests.tables import rows

A, B, C = node_id(1), node_id(2), node_id(3)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return open_index(tmp_path / "index")


def test_a_note_becomes_a_node_with_all_its_fields(index: Index) -> None:
    data = note(
        1, "Prefers tea to coffee.", type=NodeType.PREFERENCE, tier=Tier.CORE, space="ormah", title="Tea",
        tags=["About_Self", "drinks"], source="person", confidence=0.8, valid_until=NOW, outdated_reason="coffee now",
        links=[NoteLink(EdgeType.SUPPORTS, f"fact_b_{B[:8]}", 0.8, NOW, "because")],
    )  # fmt: skip
    apply(index, {"ormah/a.md": data, f"global/fact_b_{B[:8]}.md": note(2, "Coffee.")})
    index.strength = {A: Strength(importance=0.9, access_count=3)}
    found = index.note(A)
    assert (found.id, found.type, found.tier, found.space, found.title) == (A, "preference", "core", "ormah", "Tea")
    assert (found.content, found.tags, found.source, found.confidence) == (
        "Prefers tea to coffee.", ("About_Self", "drinks"), "person", 0.8,
    )  # fmt: skip
    assert (found.created, found.updated, found.valid_until, found.outdated_reason) == (NOW, NOW, NOW, "coffee now")
    assert found.path == "ormah/a.md"
    assert found.expired(NOW)
    ((edge,), _) = index.edges(A)
    assert (edge.target, edge.edge, edge.weight, edge.created, edge.reason) == (B, "supports", 0.8, NOW, "because")
    assert found.strength.access_count == 3
    assert index.known_files()["ormah/a.md"].digest == found.digest
    assert index.position == "head"


def test_a_word_of_the_title_counts_most(index: Index) -> None:
    indexer = "one two three four five six seven eight nine ten"
    apply(index, {
        "a.md": note(1, f"{indexer} zebra"), "b.md": note(2, indexer, title="zebra"),
        "c.md": note(3, indexer, tags=["zebra"]), "d.md": note(4, indexer),
    })  # fmt: skip
    found = index.search_text("zebra", 10)
    assert [one for one, _ in found] == [B, C, A]
    assert all(score > 0 for _, score in found)


def test_words_are_found_in_every_form_they_are_written(index: Index) -> None:
    apply(index, {
        "a.md": note(1, "Die Zürcher Straße; naïve café"), "b.md": note(2, "東京タワーに行きました"),
        "c.md": note(3, "we were running NOT walking AND \"quoted\" c++ *"),
    })  # fmt: skip
    for query, expected in {
        "zurcher": A, "STRASSE": A, "cafe": A, "東京": B, "run": C, "NOT": C, "c++": C, 'say "quoted': C,
    }.items():  # fmt: skip
        assert [one for one, _ in index.search_text(query, 5)] == [expected], query
    for hostile in ('"', "*", "title:x", "a OR", "NEAR(a b)", "^", "-", "(", "\x00", ""):
        index.search_text(hostile, 5)


def test_a_note_that_cannot_be_read_is_found_by_all_of_its_words_and_is_not_written_to(index: Index) -> None:
    apply(index, {
        "no note.md": b"whales again", "a.md": note(1, "A whale too."), "broken.md": b"---\nid: [\n---\nAnother whale.",
        "cut.md": note(2, "The last whale.").replace(b"\n---\n", b"\n--\n"),
    })  # fmt: skip
    broken = index.resolve("broken.md")
    assert {one for one, _ in index.search_text("whale", 10)} == {A, B, broken}
    assert index.resolve(broken[:8]) == broken
    assert {one for one, _ in index.search_text("whale", 10, Filter(writable=True))} == {A}
    assert [index.note(one).unwritten for one in (A, B, broken)] == [False, True, True]
    assert index.unwritten() == {B, broken}
    assert (index.stats().nodes, index.stats().plain) == (3, 1)
    with pytest.raises(NotFound, match=r"no memory lies at 'no note\.md'"):
        index.resolve("no note.md")
    apply(index, {"broken.md": note(3, "It was mended.")})
    assert index.resolve("broken.md") != broken
    assert index.notes([broken]) == {}


def test_conflict_markers_leave_the_last_good_version(index: Index) -> None:
    apply(index, {"a.md": note(1, "the good version")})
    bad = note(1, "the good version") + b"\n<<<<<<< ours\nx\n=======\ny\n>>>>>>> theirs\n"
    apply(index, {"a.md": bad, "new.md": bad})
    assert index.note(A).content == "the good version"
    assert set(index.known_files()) == {"a.md"}
    assert index.known_files()["a.md"].size == len(bad)


def test_ids_are_resolved_or_refused(index: Index) -> None:
    same = ["abcd1111-0000-4000-8000-000000000001", "abcd2222-0000-4000-8000-000000000002"]
    apply(index, {f"{number}.md": note(one, "x") for number, one in enumerate(same)})
    assert index.resolve(same[0]) == same[0]
    assert index.resolve(" ABCD1 ") == same[0]
    assert index.resolve(same[1].replace("-", "")) == same[1]
    assert index.resolve("abcd2222-00") == same[1]
    with pytest.raises(Ambiguous) as ambiguous:
        index.resolve("abcd")
    assert ambiguous.value.data["ids"] == same
    with pytest.raises(NotFound):
        index.resolve("abcd3")
    for wrong in (
        "*",
        "%",
        "_",
        "",
        "abc",
        "../",
        "abcd*",
        "abcd%",
        "abcd_",
        "abcd1111/../x",
        "nothing",
        "abcd-1",
        "g" * 8,
    ):
        with pytest.raises(BadRequest):
            index.resolve(wrong)
    with pytest.raises(NotFound):
        index.note("%")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (f"fact_whatever_{B[:8]}", B), (f"deep/folder/fact_x_{B[:8]}.md", B), (B, B), (B[:8], B),
        ("Meeting with Bob", B), ("MEETING WITH BOB.md", B), ("people/Meeting with Bob", B), ("Bob", B),
        ("The Robert", B), ("the robert", B), ("Same", None), ("one/Same", C), ("two/Same", node_id(4)),
        ("three/Same", None), ("Nobody", None), ("deadbeef", None),
    ],
)  # fmt: skip
def test_where_a_link_leads(index: Index, written: str, expected: str | None) -> None:
    with_alias = note(2, "b", title="The Robert").replace(b"\ntier:", b"\naliases: [Bob]\ntier:")
    files = {
        "people/Meeting with Bob.md": with_alias, "one/Same.md": note(3, "c"), "two/Same.md": note(4, "d"),
        "a.md": note(1, "a", links=[NoteLink(EdgeType.SUPPORTS, written)]),
    }  # fmt: skip
    for path in sorted(files):  # the link is there before its target
        apply(index, {path: files[path]})
    assert index.resolve_link(written) == expected
    assert [edge.target for edge in index.edges(A)[0]] == ([expected] if expected else [])


def test_two_files_with_one_id(index: Index) -> None:
    apply(
        index, {"note.md": note(1, "the first"), "other.md": note(2, "x", links=[NoteLink(EdgeType.SUPPORTS, A[:8])])}
    )
    apply(index, {"note copy.md": note(1, "the second")})
    assert index.note(A).path == "note.md"
    assert index.kinds()["note copy.md"] == "duplicate"
    assert index.search_text("second", 5) == []
    apply(index, removals=["note.md"])
    assert index.note(A).path == "note copy.md"
    assert [edge.target for edge in index.edges(B)[0]] == [A]
    with index.database.write() as connection:  # as the history says it
        connection.execute("INSERT INTO op VALUES (1, 'c', NULL, 1, 1, NULL, 'person', NULL, 0, '', '', '')")
        connection.execute("INSERT INTO op_file VALUES (1, 'zz.md', NULL, ?, NULL, 'blob')", (A,))
    apply(index, {"zz.md": note(1, "the third")})
    assert index.note(A).path == "zz.md"


def test_filters(index: Index) -> None:
    apply(index, {
        "a.md": note(1, "x", space="web", tags=["Red", "blue"]), "b.md": note(2, "x", tier=Tier.CORE),
        "c.md": note(3, "x", type=NodeType.GOAL, valid_until=NOW, created=NOW.replace(year=2020)),
    })  # fmt: skip
    cases = {
        Filter(): {A, B, C}, Filter(spaces=("web",)): {A}, Filter(spaces=("global",)): {B, C},
        Filter(spaces=("web", "global")): {A, B, C}, Filter(spaces=()): set(), Filter(tiers=(Tier.CORE,)): {B},
        Filter(types=(NodeType.GOAL,)): {C}, Filter(types=()): set(), Filter(tags=("red",)): {A},
        Filter(tags=("BLUE", "red", "no")): {A}, Filter(alive_at=NOW): {A, B}, Filter(created_after=NOW): {A, B},
        Filter(created_before=NOW.replace(year=2021)): {C}, Filter(created_after=NOW, created_before=NOW): {A, B},
    }  # fmt: skip
    for chosen, expected in cases.items():
        assert set(index.ids(chosen)) == expected, chosen
        assert index.count(chosen) == len(expected)
        assert {one for one, _ in index.search_text("x", 10, chosen)} == expected
        assert set(index.filter_ids([A, B, C], chosen)) == expected


def test_another_version_starts_anew(tmp_path: Path) -> None:
    directory = tmp_path / "index"
    index = open_index(directory)
    apply(index, {"a.md": note(1, "x")})
    index.close()
    with sqlite3.connect(directory / "index.sqlite3") as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    index = open_index(directory)
    assert index.dropped
    assert "999" in index.dropped
    assert index.known_files() == {}
    apply(index, {"a.md": note(1, "x")})
    assert index.note(A).content == "x"
    index.close()
    index = open_index(directory)
    assert index.dropped is None
    assert index.note(A).content == "x"
    assert (directory / "index.sqlite3").stat().st_mode & 0o077 == 0
    index.close()
    with pytest.raises(Unavailable):
        index.known_files()


def test_a_program_that_reads_notes_differently_reads_them_again_but_keeps_embeddings(tmp_path: Path) -> None:
    directory = tmp_path / "index"
    index = open_index(directory, attach=True)
    apply(index, {"a.md": note(1, "some words")})
    assert index.wait_filled(10)
    index.close()
    connection = sqlite3.connect(directory / "index.sqlite3")
    connection.execute("UPDATE meta SET value = 'older' WHERE key = 'reading'")
    connection.commit()
    connection.close()
    index = open_index(directory, attach=True)
    assert index.known_files() == {}
    assert index.position is None
    apply(index, {"a.md": note(1, "some words")})
    assert index.pending() == 0
    assert index.verify(triples({"a.md": note(1, "some words")})) == []
    index.close()


HELD = f"(SELECT number FROM node WHERE id = '{A}')"


@pytest.mark.parametrize(
    ("change", "what", "detail"),
    [
        *rows(__file__, "what_something_else_changed_is_a_difference"),
        (f"UPDATE text SET content = 'x' WHERE number = {HELD}", "changed", "another text"),
        *(
            (f"UPDATE node SET {column} WHERE id = '{A}'", "changed", "other properties")
            for column in ("title = 'x'", "tags = '[]'", "confidence = 0.5", "valid_until = 7", "said_in = 'a#1'")
        ),
        (f"DELETE FROM tag WHERE number = {HELD}", "changed", "other tags"),
        (f"UPDATE name SET key = 'x' WHERE number = {HELD}", "changed", "other names"),
        (f"UPDATE node SET held = 0 WHERE id = '{A}'", "changed", "another file with its id"),
    ],
)
def test_what_something_else_changed_is_a_difference(index: Index, change: str, what: str, detail: str) -> None:
    files = {"a.md": note(1, "some words [[b]]", tags=["one"]), "b.md": note(2, "others"), "c.md": note(2, "a copy")}
    apply(index, files)
    assert index.verify(triples(files)) == []
    with index.database.write() as connection:
        for statement in change.split(";"):
            connection.execute(statement)
    (found,) = [one for one in index.verify(triples(files)) if one.what == what]
    assert detail in (found.detail or "")


def test_reading_goes_on_while_writing(tmp_path: Path) -> None:
    index = open_index(tmp_path / "index", attach=True)
    files = {f"{number}.md": note(number, f"word{number} common") for number in range(50)}
    apply(index, files)
    failures: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        try:
            query = index.embedder.embed_query("common") if index.embedder else None
            while not stop.is_set():
                assert len(index.search_text("common", 100)) == 50
                found = index.notes([node_id(number) for number in range(50)])
                assert len(found) == 50
                assert query is not None
                for one, score in index.search_vectors(query.vector, 20):
                    assert one in found
                    assert -1.01 <= score <= 1.01
                index.tokens(list(found), query.vector)
                assert len(index.ids()) == 50
        except BaseException as error:  # noqa: BLE001  # a thread's failure is shown by the test
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(12)]
    for thread in threads:
        thread.start()
    for turn in range(30):
        changed = {f"{number}.md": note(number, f"word{number} common {turn}") for number in range(turn, turn + 20)}
        apply(index, changed)
        files |= changed
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    assert index.wait_filled(30, settled=True)
    assert index.verify(triples(files)) == []
    index.close()
