"""What runs the model, seen from outside: the status, the process's libraries, its files."""

import shutil
from pathlib import Path

import pytest

from ormahd.embedding.model_files import DEFAULT_MODEL
from tests.house import open_house
from tests.surroundings import ROOT


def test_the_daemon_embeds_without_torch_and_tells_nobody(tmp_path: Path) -> None:
    for name in ("torch", "transformers", "sentence_transformers"):  # as in an installation without the extra
        (tmp_path / f"{name}.py").write_text("raise ImportError('not installed')\n")
    with open_house(ORMAH_EMBEDDING_MODEL=DEFAULT_MODEL, PYTHONPATH=f"{tmp_path}:{ROOT}") as house:
        house.plainly = True
        house.start()
        stored = house.json("remember", "Invoices of the billing service lie in PostgreSQL.")
        found = house.json("recall", "which database keeps the bills?")
        assert found["degraded"] == []
        assert found["results"][0]["id"] == stored["id"]
        assert house.json("whisper", "which database holds the invoices of the billing service?")["nodes"]

        served = house.json("status")["embedding"]
        assert served["runtime"] == "onnx"
        assert f"embedding.version: {served['version']}\n" in house.ctl("status", "--verbose").stdout

        assert house.process is not None
        maps = Path(f"/proc/{house.process.pid}/maps").read_text()
        assert "onnxruntime" in maps
        assert "libtorch" not in maps
        assert not list(house.home.rglob("*onnxruntime*")), "its telemetry is on"

        models = house.models_dir
        assert models.stat().st_mode & 0o777 == 0o700
        made = {file.name: file.stat().st_ino for file in models.iterdir()}
        assert any(name.startswith("frame-") for name in made)
        house.stop()
        shutil.rmtree(house.index_dir)
        house.start()
        assert house.json("recall", "which database keeps the bills?")["results"][0]["id"] == stored["id"]
        assert {file.name: file.stat().st_ino for file in models.iterdir()} == made, "worked out again"


@pytest.mark.soak  # the suite has ten minutes
def test_a_model_that_cannot_be_served_is_said_in_words() -> None:
    with open_house(ORMAH_EMBEDDING_MODEL="nobody/there") as house:
        house.plainly = True
        house.start()
        status = house.json("status")
        assert status["embedding"] is None
        assert status["degraded"] == ["vectors"]
        assert any("nobody/there" in warning for warning in status["warnings"])
