"""Turns and titles that were purged stay away, also where the archive, its index and the state were removed."""

from __future__ import annotations

import json
import os
import shutil
from itertools import count
from pathlib import Path

import pytest

from ormahd import paths
from ormahd.actions.amend import Caller
from ormahd.actions.purge import purge
from ormahd.api import IngestedFile, PurgeParams
from ormahd.ingest.bring_in import ingest
from ormahd.ormah import Ormah
from ormahd.sessions.files import PurgedTurns
from tests.contract.archiving import opened
from tests.session_formats import FORMATS

SAID = [
    ("Use cents everywhere.", "Cents it is."),
    ("Grace is in hospital until the twelfth.", "So she is in hospital, and not here."),
]
TIMES = count(1_700_000_000)
TITLE = {"type": "custom-title", "customTitle": "Grace in hospital", "sessionId": "s1"}


def bring(ormah: Ormah, file: Path) -> IngestedFile:
    at = next(TIMES)
    os.utime(file, (at, at))  # it rests, and changed since it was read
    return ingest(ormah, str(file), progress=lambda *_: None).out


def purged(ormah: Ormah, text: str) -> None:
    purge(ormah, PurgeParams(texts=[text]), Caller("person", None), lambda *_: None)


def lose_the_archive(ormah: Ormah) -> None:
    ormah.sessions.close()
    shutil.rmtree(paths.sessions_dir(ormah.vault.id))
    for file in ormah.index.directory.glob("sessions.sqlite3*"):
        file.unlink()


def everything(home: Path, without: Path) -> bytes:
    return b"".join(one.read_bytes() for one in home.rglob("*") if one.is_file() and one != without)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_purged_turn_does_not_come_back_without_the_archive(tmp_path: Path, name: str) -> None:
    ending, write = FORMATS[name]
    file = tmp_path / f"t{ending}"
    file.write_bytes(write(SAID, "s1") + (json.dumps(TITLE).encode() + b"\n" if name == "claude-code" else b""))
    with opened(tmp_path) as ormah:
        before = bring(ormah, file).added
        assert before == 4
        purged(ormah, "in hospital")
        assert bring(ormah, file).added == 0
        lose_the_archive(ormah)
    with opened(tmp_path) as ormah:
        assert bring(ormah, file).added == 2
        ormah.sessions.close()
        assert b"hospital" not in everything(tmp_path, file)
        lose_the_archive(ormah)
        assert bring(ormah, file).added == 2, "again and again"
        ormah.sessions.close()
    assert b"hospital" not in everything(tmp_path, file)
    assert b"Cents it is" in everything(tmp_path, file)


def test_the_record_is_private_and_survives_damage(tmp_path: Path) -> None:
    file = tmp_path / "purged" / "vault"
    record = PurgedTurns(file)
    assert record.among(["a", "b"]) == set()
    record.add(["a"])
    record.add(["a", "c"])
    assert PurgedTurns(file).among(["a", "b", "c"]) == {"a", "c"}
    assert file.stat().st_mode & 0o077 == 0
    assert file.parent.stat().st_mode & 0o077 == 0
    file.write_bytes(file.read_bytes()[:-10] + b"\xff\n")
    assert len(PurgedTurns(file).among(["a", "c"])) == 1
    file.write_bytes(b"")
    again = PurgedTurns(file)
    assert again.among(["a"]) == set()
    again.add(["b"])
    assert PurgedTurns(file).among(["b"]) == {"b"}
