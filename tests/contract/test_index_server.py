"""A Chroma server instead of the embedded one, for vaults that outgrow a machine."""

import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ormahd.embedding.embedder import Hashing
from ormahd.index.index import Index
from ormahd.settings import VectorSettings
from ormahd.vectors.chroma import server_of
from tests.contract.index_notes import NOW, apply, node_id, note, triples
from tests.house import wait_until
from tests.tables import rows

RUN = "from chromadb.cli.cli import app; app()"


@pytest.fixture
def port() -> int:
    """A port that the server can still have when it has started: no system gives one below 32768 to those that take any."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port := random.SystemRandom().randrange(20_000, 32_000)))
            return port


@contextmanager
def server(folder: Path, port: int) -> Iterator[None]:
    command = [sys.executable, "-c", RUN, "run", "--host", "127.0.0.1", "--port", str(port), "--path", str(folder)]
    said = folder.parent / "server.log"  # a pipe that nobody reads would fill, and hold the server up
    with said.open("wb") as out, subprocess.Popen(command, cwd=folder.parent, stdout=out, stderr=out) as process:
        try:
            wait_until(lambda: reachable(port) or process.poll() is not None, "the server answers")
            assert process.poll() is None, said.read_text()
            yield
        finally:
            process.terminate()
            process.communicate()


def reachable(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def open_at(directory: Path, port: int) -> Index:
    index = Index.open(directory, vectors=VectorSettings(url=f"http://127.0.0.1:{port}"), clock=lambda: NOW)
    index.attach(Hashing())
    return index


@pytest.mark.parametrize(("url", "shown"), rows(__file__, "a_server_is_shown_without_what_opens_it"))
def test_a_server_is_shown_without_what_opens_it(url: str | None, shown: str | None) -> None:
    assert server_of(url) == shown


def test_a_server_holds_the_vectors(tmp_path: Path, port: int) -> None:
    files = {f"fact_n_{number:08x}.md": note(number, f"number{number} and more") for number in range(50)}
    (tmp_path / "server").mkdir()
    index = open_at(tmp_path / "index", port)
    apply(index, files)
    vector = Hashing().embed_query("number7").vector
    assert index.wait_filled(10)
    assert index.search_vectors(vector, 1)[0][0] == node_id(7)  # nobody is there yet: exactly
    wait_until(lambda: index.degraded == ["chroma"], "Chroma is missed")
    assert index.searched == "memory"
    assert "Chroma failed to open" in (index.trouble or "")
    with server(tmp_path / "server", port):
        assert index.wait_filled(60, settled=True)
        assert (index.searched, index.degraded) == ("server", [])
        assert index.search_vectors(vector, 1)[0][0] == node_id(7)
        assert index.verify(triples(files)) == []
        apply(index, {}, ["fact_n_00000007.md"])
        assert index.wait_filled(60, settled=True)
        index.close()
        index = open_at(tmp_path / "index", port)
        assert index.wait_filled(60, settled=True)
        del files["fact_n_00000007.md"]
        assert index.verify(triples(files)) == []
    assert index.search_vectors(vector, 1)[0][0] != node_id(7)  # gone again
    assert not (tmp_path / "index" / "chroma").exists()
    index.close()
