"""The client looks where the daemon listens, whatever is set in which of the places."""

from __future__ import annotations

from pathlib import Path

import pytest

from ormahd import paths
from ormahd.config import load
from ormahd.daemon import socket_of


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    for name in ("CONFIG_HOME", "DATA_HOME", "STATE_HOME", "CACHE_HOME", "RUNTIME_DIR"):
        (tmp_path / name.lower()).mkdir(mode=0o700)
        monkeypatch.setenv(f"XDG_{name}", str(tmp_path / name.lower()))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("flag", [None, "flag.sock", "~/flag.sock"])
@pytest.mark.parametrize(
    "environ",
    [{}, {"ORMAH_SOCKET": "/s/env.sock"}, {"ORMAH_SOCKET": "~/env.sock"}, {"ORMAH_DAEMON_SOCKET": "/s/daemon.sock"},
     {"ORMAH_VAULT": "/v/env"}, {"ORMAH_VAULT": "~/env"}, {"ORMAH_VAULT_PATH": "/v/path"}],
)  # fmt: skip
@pytest.mark.parametrize(
    "document",
    ["", "[daemon]\nsocket = '/s/file.sock'", "[daemon]\nsocket = '~/file.sock'", "[vault]\npath = '/v/file'",
     "[vault]\npath = '~/file'", "[vault]\npath = '/v/env'"],
)  # fmt: skip
@pytest.mark.parametrize("named", [True, False])
def test_both_ends_mean_the_same_socket(home, flag, environ, document, named):
    file = home / "c.toml" if named else paths.config_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(document)
    environ = environ | ({"ORMAH_CONFIG": str(file)} if named else {})
    config = load(None, environ, {"daemon.socket": flag})
    vault = (config.settings.vault.path or paths.default_vault()).expanduser()
    assert socket_of(config, vault) == paths.find_socket(flag, environ)
