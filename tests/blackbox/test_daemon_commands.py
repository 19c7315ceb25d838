"""`ormahd config`, `check` and `doctor`: for when the daemon is down, or cannot come up."""

from __future__ import annotations

import json

import pytest

from ormahd import __version__
from ormahd.api import PROTOCOL
from tests.blackbox.test_daemon_life import complaint, ormahd
from tests.house import House


def test_version(house: House):
    assert ormahd(house, "--version").stdout == f"ormahd {__version__} (protocol {PROTOCOL})\n"


def test_config_show_says_where_each_setting_comes_from(house: House):
    file = house.home / "c.toml"
    file.write_text("[whisper]\nmax_nodes = 30\n")
    done = ormahd(house, "config", "show", "--json", "--config", str(file))
    found = json.loads(done.stdout)
    assert found["file"] == str(file)
    assert found["settings"]["whisper.max_nodes"] == {"value": 30, "origin": str(file), "default": 6}
    assert found["settings"]["embedding.model"] == {
        "value": "hashing", "origin": "ORMAH_EMBEDDING_MODEL", "default": "all-MiniLM-L6-v2",
    }  # fmt: skip
    assert found["settings"]["log.level"]["origin"] == "default"
    text = ormahd(house, "config", "show", "--config", str(file)).stdout
    assert f"whisper.max_nodes = 30    # {file}" in text
    assert 'log.level = "info"\n' in text


def test_config_default_is_a_file_that_can_be_used(house: House):
    file = house.home / "c.toml"
    document = ormahd(house, "config", "default").stdout
    file.write_text(document)
    assert ormahd(house, "config", "check", "--config", str(file)).returncode == 0
    assert "injection_gate" in document


@pytest.mark.parametrize(
    ("text", "words"),
    [("[whisper]\nmax_nodes = 'x'\n", "whisper.max_nodes"), ("[nope]\na = 1\n", "nope.a"), ("=", "not valid TOML")],
)
def test_config_check_finds_faults(house: House, text, words):
    file = house.home / "c.toml"
    file.write_text(text)
    done = ormahd(house, "config", "check", "--json", "--config", str(file))
    assert done.returncode == 1
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["level"] == "error"
    assert words in finding["what"]
    assert ormahd(house, "check", "--config", str(file)).returncode == 1
    assert ormahd(house, "config", "show", "--config", str(file)).returncode == 2


def test_config_check_names_every_fault(house: House) -> None:
    file = house.home / "c.toml"
    file.write_text('[vault]\nbusy_wait_seconds = -3\n[whisper]\nmax_nodes = "some"\ngat = 0.4\n[nowhere]\nx = 1\n')
    done = ormahd(house, "config", "check", "--json", "--config", str(file))
    told = [one["what"] for one in json.loads(done.stdout)["findings"]]
    wanted = ("whisper.gat", "nowhere.x", "whisper.max_nodes", "vault.busy_wait_seconds")
    assert [any(name in what for what in told) for name in wanted] == [True] * 4
    assert len(told) == 4
    first = ormahd(house, "config", "show", "--config", str(file))
    assert "(and 3 more: ormahctl config check)" in first.stderr


def test_check_finds_what_is_wrong_with_notes_and_changes_nothing(house: House):
    assert ormahd(house, "check").returncode == 1, "there is no vault yet"
    assert not house.vault.exists(), "and looking makes none"
    house.start()
    made = house.call("agent.remember", content="a good note")
    house.stop()
    fine = ormahd(house, "check")
    assert (fine.returncode, fine.stdout) == (0, "configuration and vault are in order\n")
    (house.vault / "broken.md").write_text("---\ntags: [unclosed\n---\ntext\n")
    (house.vault / "copy.md").write_bytes((house.vault / made.path).read_bytes())
    (house.vault / ".obsidian").mkdir()
    (house.vault / ".obsidian" / "x.md").write_text("---\ntags: [unclosed\n---\n")
    before = house.git("status", "--porcelain")
    done = ormahd(house, "check", "--json")
    assert done.returncode == 1
    findings = {finding["path"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert findings["broken.md"]["level"] == "error"
    assert findings["broken.md"]["line"]
    assert any("same id" in finding["what"] for finding in findings.values())
    assert not any(path and path.startswith(".obsidian") for path in findings)
    assert house.git("status", "--porcelain") == before
    text = ormahd(house, "check").stdout
    assert "error: broken.md:" in text
    assert "mend: " in text


def test_doctor_examines_while_the_daemon_is_down_and_defers_to_it_while_it_runs(house: House):
    absent = ormahd(house, "doctor")
    assert absent.returncode == 3
    assert "no vault" in complaint(absent)
    house.start()
    running = ormahd(house, "doctor")
    assert running.returncode == 69
    assert "in use" in complaint(running)
    house.stop()
    assert ormahd(house, "doctor").returncode == 0
    (house.vault / "broken.md").write_text("---\ntags: [unclosed\n---\ntext\n")
    done = ormahd(house, "doctor", "--json")
    assert done.returncode == 1
    assert [finding["path"] for finding in json.loads(done.stdout)["findings"]] == ["broken.md"]
