"""`ormahctl model`: the model in use, and choosing one from a folder; families of models."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from ormahd.config import write_setting
from ormahd.embedding.families import family_of
from ormahd.embedding.model_files import pooling_of
from ormahd.errors import BadRequest
from tests import forked, models
from tests.contract.models_as_folders import folder
from tests.surroundings import surroundings
from tests.tables import rows


def ctl(home: Path, *words: str, fails: int = 0, **extra: str) -> str:
    """Run `ormahctl`; returns its output, or what it says on stderr where it has to fail."""
    done = forked.run("ormahctl", *words, env=surroundings(home) | extra, cwd=home, given=b"", timeout=600)
    assert done.returncode == fails, done.stderr
    return (done.stderr if fails else done.stdout).decode()


def test_a_model_from_a_folder_is_loaded_and_then_set(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "config_home" / "ormah").mkdir(parents=True)
    file = home / "config_home" / "ormah" / "config.toml"
    file.write_text("# mine\n[vectors]\nexact_pieces = 9  # nine\n")
    with models.made_once(home / "cache_home" / "ormah" / "models"):
        assert ctl(home, "model").startswith("all-MiniLM-L6-v2: onnx ")

    missing = ctl(home, "model", "use", "mine/e5-tiny", fails=69)
    assert "not on this machine" in missing
    assert "hf download mine/e5-tiny" in missing
    assert tomllib.loads(file.read_text()) == {"vectors": {"exact_pieces": 9}}

    mine = folder(home / "e5-mine")
    assert "ormahctl restart" in ctl(home, "model", "use", "e5-mine")
    assert tomllib.loads(file.read_text())["embedding"] == {"model": str(mine)}
    assert file.read_text().startswith("# mine\n[vectors]\nexact_pieces = 9  # nine\n")
    found = json.loads(ctl(home, "--json", "model"))
    assert (found["name"], found["runtime"], found["dimensions"]) == (str(mine), "onnx", 384)
    wins = ctl(home, "model", "use", "all-MiniLM-L6-v2", fails=4, ORMAH_EMBEDDING_MODEL="hashing")
    assert "ORMAH_EMBEDDING_MODEL" in wins


@pytest.mark.parametrize(("name", "family", "query", "document", "pooling"), rows(__file__, "families"))
def test_families(name: str, family: str, query: str, document: str, pooling: str) -> None:
    found = family_of(name)
    assert found is not None
    assert (found.name, found.document, found.pooling) == (family, document, pooling)
    assert found.query.startswith(query)
    assert bool(found.query) is bool(query)


def test_what_a_models_files_say_of_its_pooling_wins_over_its_family(tmp_path: Path) -> None:
    assert family_of("mine/wonder") is None
    assert pooling_of(tmp_path / "wonder") == "mean"
    bge = tmp_path / "bge-small"
    assert pooling_of(bge) == "cls"
    (bge / "1_Pooling").mkdir(parents=True)
    (bge / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    assert pooling_of(bge) == "mean"


def test_a_configuration_that_is_no_toml_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[embedding\n")
    with pytest.raises(BadRequest, match="TOML"):
        write_setting(file, "embedding.model", "x")
    assert file.read_text() == "[embedding\n"
    write_setting(tmp_path / "new" / "config.toml", "embedding.model", "x")
    assert tomllib.loads((tmp_path / "new" / "config.toml").read_text()) == {"embedding": {"model": "x"}}
