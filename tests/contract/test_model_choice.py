"""`ormahctl model`: what there is, what a model can do, and choosing one from a folder, with a model that the test makes."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ormahd.config import write_setting
from ormahd.embedding.families import family_of
from ormahd.embedding.model_files import pooling_of
from ormahd.errors import BadRequest
from tests import forked
from tests.contract.tiny_models import make
from tests.surroundings import ROOT, surroundings


def ctl(home: Path, *words: str, fails: int = 0, **extra: str) -> str:
    """Run `ormahctl`; returns its output, or what it says on stderr where it has to fail."""
    env = surroundings(home) | extra
    if all(name.startswith("ORMAH_") for name in extra):
        done = forked.run("ormahctl", *words, env=env, cwd=home, given=b"", timeout=600)
    else:
        command = [sys.executable, "-m", "ormahctl", *words]
        done = subprocess.run(command, env=env, capture_output=True, timeout=600, check=False)
    assert done.returncode == fails, done.stderr
    return (done.stderr if fails else done.stdout).decode()


def listed(home: Path) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(ctl(home, "--json", "model", "list"))["models"]}


def test_a_model_from_a_folder_is_checked_and_then_set(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "config_home" / "ormah").mkdir(parents=True)
    file = home / "config_home" / "ormah" / "config.toml"
    file.write_text("# mine\n[embedding]\nthreads = 1  # one\n")
    before = listed(home)
    assert before["all-MiniLM-L6-v2"]["used"]
    assert before["all-MiniLM-L6-v2"]["where"]
    assert before["intfloat/multilingual-e5-small"]["where"] is None
    assert "more than 100" in ctl(home, "model")

    (broken := tmp_path / "lib" / "sentence_transformers").mkdir(parents=True)
    (broken / "__init__.py").write_text("raise SystemExit('it takes seconds to load')")
    without = {"PYTHONPATH": f"{broken.parent}:{ROOT}"}
    missing = ctl(home, "model", "use", "mine/e5-tiny", fails=69, **without)
    assert "not on this machine" in missing
    assert "--download" in missing
    nobody = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "1"}
    assert "could not be downloaded" in ctl(home, "model", "use", "mine/e5-tiny", "--download", fails=69, **nobody)
    assert list((home / "data_home" / "ormah" / "models").rglob("*.json")) == []
    assert "holds no model" in ctl(home, "model", "use", "mine/e5-tiny", "--from", str(tmp_path), fails=3)
    assert "is no name for a model" in ctl(home, "model", "use", "../x", "--from", str(tmp_path), fails=2)
    assert file.read_text() == "# mine\n[embedding]\nthreads = 1  # one\n"

    tiny = make(tmp_path / "tiny", pooling="cls")
    said = ctl(home, "model", "use", "mine/e5-tiny", "--from", str(tiny))
    assert "ormahctl restart" in said
    assert '"query: "' in said
    assert "pooling cls" in said
    assert tomllib.loads(file.read_text())["embedding"] == {"threads": 1, "model": "mine/e5-tiny"}
    assert file.read_text().startswith("# mine\n[embedding]\nthreads = 1  # one\n")
    after = listed(home)
    assert after["mine/e5-tiny"]["used"]
    assert after["mine/e5-tiny"]["where"]
    assert not after["all-MiniLM-L6-v2"]["used"]

    found = json.loads(ctl(home, "--json", "model", "check"))["report"]
    assert found["name"] == "mine/e5-tiny"
    assert found["runtime"].startswith("onnx ")
    assert (found["query_prefix"], found["document_prefix"]) == ("query: ", "passage: ")
    assert "English" in found["read"]
    assert "Russian" in found["unread"]
    wins = ctl(home, "model", "use", "all-MiniLM-L6-v2", fails=4, ORMAH_EMBEDDING_MODEL="hashing")
    assert "ORMAH_EMBEDDING_MODEL" in wins


@pytest.mark.parametrize(
    ("name", "family", "query", "document", "pooling"),
    [
        ("all-MiniLM-L6-v2", "MiniLM", "", "", "mean"),
        ("BAAI/bge-small-en-v1.5", "bge", "Represent this", "", "cls"),
        ("BAAI/bge-m3", "bge-m3", "", "", "cls"),
        ("intfloat/e5-small-v2", "e5", "query: ", "passage: ", "mean"),
        ("/home/x/hub/models--intfloat--e5-base/snapshots/1", "e5", "query: ", "passage: ", "mean"),
        ("intfloat/multilingual-e5-small", "multilingual-e5", "query: ", "passage: ", "mean"),
        ("thenlper/gte-small", "gte", "", "", "mean"),
        ("Snowflake/snowflake-arctic-embed-s", "arctic", "Represent this", "", "cls"),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "arctic-2", "query: ", "", "cls"),
        ("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", "paraphrase-multilingual", "", "", "mean"),
    ],
)
def test_families(name: str, family: str, query: str, document: str, pooling: str) -> None:
    found = family_of(name)
    assert found is not None
    assert (found.name, found.document, found.pooling) == (family, document, pooling)
    assert found.query.startswith(query)
    assert bool(found.query) is bool(query)


def test_a_model_of_no_known_family() -> None:
    assert family_of("mine/wonder") is None
    assert pooling_of(None) is None


def test_a_configuration_that_is_no_toml_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[embedding\n")
    with pytest.raises(BadRequest, match="TOML"):
        write_setting(file, "embedding.model", "x")
    assert file.read_text() == "[embedding\n"
    write_setting(tmp_path / "new" / "config.toml", "embedding.model", "x")
    assert tomllib.loads((tmp_path / "new" / "config.toml").read_text()) == {"embedding": {"model": "x"}}
