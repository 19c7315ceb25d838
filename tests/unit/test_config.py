"""Settings: layers, origins, and errors that name the key."""

from pathlib import Path

import pytest

from ormahd import config, paths
from ormahd.errors import BadRequest


def test_layers_and_origins(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[whisper]\nmax_nodes = 10\n[linking]\nsimilarity = 0.7\n[log]\nlevel = "debug"\n')
    loaded = config.load(
        file, {"ORMAH_WHISPER_MAX_NODES": "20", "ORMAH_SPACE": "x"}, {"log.level": "error", "daemon.socket": None}
    )
    assert loaded.settings.whisper.max_nodes == 20
    assert loaded.settings.linking.similarity == 0.7
    assert loaded.settings.log.level == "error"
    assert loaded.origin("whisper.max_nodes") == "ORMAH_WHISPER_MAX_NODES"
    assert loaded.origin("linking.similarity") == str(file)
    assert loaded.origin("log.level") == "flag"
    assert loaded.origin("daemon.socket") == "default"


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="no configuration file"):
        config.load(tmp_path / "none.toml", {})


def test_the_default_document_loads_when_uncommented(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    lines = [
        line[2:] if " = " in line and line[2:].split(" = ")[0].isidentifier() else line
        for line in config.default_document().splitlines()
    ]
    file.write_text("\n".join(lines))
    assert config.load(file, {}).settings == config.Settings(), 'one that is unset is written as ""'
    assert paths.configured({"ORMAH_CONFIG": str(file)}) == paths.configured({"ORMAH_CONFIG": str(tmp_path / "none")})


def test_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
        (tmp_path / name).mkdir()
    monkeypatch.delenv("ORMAH_SOCKET", raising=False)
    run = tmp_path / "XDG_RUNTIME_DIR" / "ormah"
    assert paths.find_socket(environ={}) == run / "ormahd.sock"
    assert paths.find_socket("/x", {"ORMAH_SOCKET": "/y"}) == Path("/x")
    assert paths.find_socket(None, {"ORMAH_SOCKET": "/y"}) == Path("/y")
    other = paths.find_socket(None, {"ORMAH_VAULT": str(tmp_path / "other")})
    assert other.parent == run
    assert other.name.startswith("ormahd-")
    (tmp_path / "XDG_CONFIG_HOME" / "ormah").mkdir()
    (tmp_path / "XDG_CONFIG_HOME" / "ormah" / "config.toml").write_text(f'[vault]\npath = "{tmp_path}/other"\n')
    assert paths.find_socket(environ={}) == run / "ormahd.sock"


def test_an_empty_variable_does_not_move_the_socket_away_from_where_commands_look(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[daemon]\nsocket = "/run/mine"\n[vault]\npath = "/v"\n')
    empty = {"ORMAH_SOCKET": "", "ORMAH_VAULT": "", "ORMAH_VAULT_PATH": "", "ORMAH_DAEMON_SOCKET": ""}
    settings = config.load(file, empty).settings
    assert (settings.daemon.socket, settings.vault.path) == (Path("/run/mine"), Path("/v"))
    assert paths.find_socket(environ=empty | {"ORMAH_CONFIG": str(file)}) == settings.daemon.socket


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"])
def test_a_file_as_windows_saves_it(tmp_path: Path, encoding: str) -> None:
    marks = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}
    file = tmp_path / "config.toml"
    text = '[vault]\r\npath = "/tmp/größe"\r\n[daemon]\r\nsocket = "/tmp/s"\r\n'
    file.write_bytes(marks.get(encoding, b"") + text.encode(encoding))
    assert str(config.load(file, environ={}).settings.vault.path) == "/tmp/größe"
    assert paths.configured({}, file) == {"vault": "/tmp/größe", "socket": "/tmp/s"}


def test_a_file_in_no_encoding_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b'[vault]\npath = "/tmp/gr\xf6sse"\n')
    with pytest.raises(BadRequest, match=r"config\.toml"):
        config.load(file, environ={})
