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
        assert served["precision"] == "int8" if served["why"] is None else "hardly quicker" in served["why"]
        assert min(served["vectors"], served["tokens"]) > (0.99 if served["precision"] == "int8" else 0.99999)
        shown = " ".join(house.ctl("doctor", "--verbose").stdout.split())
        assert (
            f"all-MiniLM-L6-v2: ONNX Runtime {served['version']}; {served['precision']}; as sentence-transformers"
            in shown
        )
        assert ("a short note takes" in shown) == (served["precision"] == "int8")

        assert house.process is not None
        maps = Path(f"/proc/{house.process.pid}/maps").read_text()
        assert "onnxruntime" in maps
        assert "libtorch" not in maps
        assert not list(house.home.rglob("*onnxruntime*")), "its telemetry is on"

        models = house.models_dir
        assert models.stat().st_mode & 0o777 == 0o700
        made = {file.name: file.stat().st_ino for file in models.iterdir()}
        assert any(name.startswith("basis-") for name in made)
        assert any(name.startswith("eight-") for name in made) == (served["precision"] == "int8")
        house.stop()
        shutil.rmtree(house.index_dir)
        house.start()
        assert house.json("recall", "which database keeps the bills?")["results"][0]["id"] == stored["id"]
        assert {file.name: file.stat().st_ino for file in models.iterdir()} == made, "worked out again"


@pytest.mark.soak  # two daemons with torch
def test_torch_serves_where_it_is_asked_for_and_finds_the_same_vectors_in_the_index() -> None:
    with open_house(ORMAH_EMBEDDING_MODEL=DEFAULT_MODEL, ORMAH_EMBEDDING_PRECISION="fp32") as house:
        house.plainly = True
        house.start()
        house.json("remember", "Invoices of the billing service lie in PostgreSQL.")
        before = house.json("recall", "which database keeps the bills?", "--explain")
        house.stop()
        house.settings["ORMAH_EMBEDDING_RUNTIME"] = "torch"
        house.start()
        served = house.json("status")["embedding"]
        assert served["runtime"] == "torch"
        assert served["vectors"] is None
        assert "· torch " in house.ctl("status").stdout
        after = house.json("recall", "which database keeps the bills?", "--explain")
        assert [one["id"] for one in before["results"]] == [one["id"] for one in after["results"]]
        assert abs(before["results"][0]["score"] - after["results"][0]["score"]) < 1e-3


@pytest.mark.soak  # the suite has ten minutes
def test_a_model_that_cannot_be_served_is_said_in_words() -> None:
    with open_house(ORMAH_EMBEDDING_RUNTIME="onnx", ORMAH_EMBEDDING_MODEL="nobody/there") as house:
        house.plainly = True
        house.start()
        status = house.json("status")
        assert status["embedding"] is None
        assert status["degraded"] == ["vectors"]
        assert any("nobody/there" in warning for warning in status["warnings"])
