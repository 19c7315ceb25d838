"""What nobody needs is let go: Chroma rests, and embeddings of texts that are gone are dropped."""

import shutil
import time
from pathlib import Path

import pytest

from ormahd.vectors import chroma
from tests.contract.index_notes import apply, node_id, open_index, triples
from tests.contract.serving import until
from tests.contract.test_index_vectors import nearest, path, start, tidy, vault


def test_chroma_rests_while_nobody_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all vectors are compared anyway it is open to learn, and to be compared; else its memory is given back."""
    monkeypatch.setattr(chroma, "STAY_S", 0.3)
    index = open_index(tmp_path / "index", attach=True, exact_pieces=1000)
    apply(index, vault(50))
    assert index.wait_filled(60, settled=True)
    active = index.active
    assert active is not None
    until(lambda: active.chroma.place is None and active.recorded)
    assert index.degraded == []
    assert index.verify(triples(vault(50))) == []  # which opens it
    until(lambda: active.chroma.place is None)
    apply(index, vault(1, start=50), [path(3)])
    assert index.wait_filled(60, settled=True)
    assert nearest(index, "only50", 1) == [node_id(50)]
    index.close()

    index = open_index(tmp_path / "index", attach=True, exact_pieces=1000)
    active = index.active
    assert active is not None
    time.sleep(0.5)
    assert (active.chroma.place, active.chroma.complete) == (None, True)  # not even opened
    files = {name: data for name, data in vault(51).items() if name != path(3)}
    shutil.rmtree(tmp_path / "index" / "chroma")  # found out when it is needed, and mended
    apply(index, vault(1, start=51))
    assert index.wait_filled(60, settled=True)
    assert index.verify(triples(files | vault(1, start=51))) == []
    index.close()

    index = open_index(tmp_path / "index", attach=True, exact_pieces=10)
    active = index.active
    assert active is not None
    until(lambda: active.chroma.place is not None)  # more vectors than are compared at once
    time.sleep(0.5)
    assert active.chroma.place == "chroma"
    index.close()


def test_what_nobody_has_any_more_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ormahd.index.embeddings.KEEP_FREE_US", -1)
    index = start(tmp_path / "index")
    apply(index, vault(30))
    assert index.wait_filled(60, settled=True)
    apply(index, {}, [path(number) for number in range(10)])
    assert index.wait_filled(60, settled=True)
    tidy(index)
    with index.database.read() as connection:
        for table in ("document", "vector", "token"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (20,)
    assert index.verify(triples(vault(20, start=10))) == []
    index.close()
