"""What was removed is in no file of the index afterwards, and the index answers as before."""

import sqlite3
from pathlib import Path

from ormahd.index.index import Index
from ormahd.note.values import NoteLink
from tests.contract.index_notes import apply, node_id, open_index, triples
from tests.contract.test_index_vectors import embedder_of, nearest, note, path, start, vault

SECRET = "zebrafish kept in the harbour of Aarhus"
WORDS = (b"zebrafish", b"Aarhus", b"Harbour master", b"narwhal", node_id(900).encode(), b"fact_n_00000384")


def holding(directory: Path, *, grown: bool = False) -> list[bytes]:
    """Words that are in any file. `grown`: Chroma was filled anew by this process, whose hnswlib writes its memory out with
    whatever stood there before, now and then: what a process knew, only its end forgets."""
    data = b"".join(
        file.read_bytes() for file in directory.rglob("*")
        if file.is_file() and not (grown and file.name == "data_level0.bin")
    )  # fmt: skip
    return [word for word in WORDS if word in data]


def filled(directory: Path, *, attach: bool = True) -> tuple[Index, dict[str, bytes]]:
    """An index of fifty notes, after one more came, changed, was linked to and went."""
    index = open_index(directory, attach=attach)
    files = vault(50)
    apply(index, files)
    for text in ("a narwhal, first", SECRET):
        apply(index, {path(900): note(900, text, title="Harbour master", tags=["aarhus-tag"])})
    linked = note(1, "links", links=[NoteLink("supports", "fact_n_00000384")])  # type: ignore[arg-type]
    apply(index, {path(1): linked})
    if attach:
        assert index.wait_filled(30, settled=True)
    apply(index, {path(1): files[path(1)]}, [path(900)])
    return index, files


def test_nothing_is_left_of_it(tmp_path: Path) -> None:
    index, files = filled(tmp_path)
    assert len(holding(tmp_path)) > 3
    before = [nearest(index, f"only{number}", 1) for number in range(20)]
    index.scour()
    assert holding(tmp_path) == []
    assert [nearest(index, f"only{number}", 1) for number in range(20)] == before
    assert index.wait_filled(30, settled=True)
    assert index.verify(triples(files)) == []
    assert holding(tmp_path, grown=True) == []
    apply(index, {path(60): note(60, "life goes on")})
    assert nearest(index, "life goes on", 1) == [node_id(60)]
    index.close()
    assert holding(tmp_path, grown=True) == []


def test_without_a_model(tmp_path: Path) -> None:
    first, _ = filled(tmp_path)
    first.close()
    assert (tmp_path / "chroma").is_dir()
    index = open_index(tmp_path)
    index.scour()
    assert not (tmp_path / "chroma").exists()
    assert holding(tmp_path) == []
    index.close()


def test_what_goes_while_it_is_embedded_leaves_no_embedding(tmp_path: Path) -> None:
    index = start(tmp_path)
    embedder = embedder_of(index)
    embedder.gate.clear()
    apply(index, vault(300))  # two batches: one is embedded, one is to follow
    apply(index, {}, [path(number) for number in range(0, 300, 2)])
    embedder.gate.set()
    assert index.wait_filled(30)
    with sqlite3.connect(tmp_path / "index.sqlite3") as connection:
        (kept,) = connection.execute("SELECT count(*) FROM document").fetchone()
    connection.close()
    assert kept == 150
    assert index.verify(triples({name: data for at, (name, data) in enumerate(vault(300).items()) if at % 2})) == []
    index.close()
