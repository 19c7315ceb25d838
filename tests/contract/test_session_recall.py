"""Archived sessions are searched, and what is purged or old leaves them."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ormahd import paths
from ormahd.actions.amend import Caller
from ormahd.actions.purge import purge
from ormahd.actions.sessions import PASSAGE, passage
from ormahd.api import PurgeParams
from ormahd.ingest.capture import Capture
from ormahd.ormah import Ormah
from tests.contract.archiving import SHOP, answered, archived, asked, bring, found, opened, written
from tests.house import wait_until


def test_a_search_can_be_narrowed_by_time_and_gives_each_exchange_once(ormah: Ormah, tmp_path: Path) -> None:
    bring(
        ormah,
        written(
            tmp_path / "t.jsonl",
            asked(0, "cents or floats?"),
            answered(0, "cents, not floats"),
            asked(1, "floats again"),
        ),
    )
    assert found(ormah, "floats cents") == ["cents or floats? / cents, not floats", "floats again"]
    assert found(ormah, "floats", created_before="2026-11-02T09:00:01.500Z") == ["cents or floats? / cents, not floats"]
    assert found(ormah, "floats", created_after="2026-11-03") == []
    assert len(found(ormah, "floats", limit=1)) == 1


def test_a_long_turn_is_quoted_where_it_has_the_words() -> None:
    text = "start " + "filler words here " * 200 + "the rounding rule is half even " + "more filler text " * 200
    part = passage(text, ["rounding", "rule"])
    assert "rounding rule is half even" in part
    assert len(part) <= PASSAGE + 50
    assert passage("short", ["x"]) == "short"
    assert passage("x" * 5000, [])


def test_a_purge_reaches_the_archive_and_stays(ormah: Ormah, tmp_path: Path) -> None:
    file = written(
        tmp_path / "t.jsonl", *SHOP, asked(2, "Grace is in hospital until the twelfth."), answered(2, "I am sorry.")
    )
    bring(ormah, file)
    done = purge(ormah, PurgeParams(texts=["Grace is in hospital"]), Caller("person", None), lambda *_: None)
    assert done is not None
    ormah.sessions.close()
    for place in (paths.sessions_dir(ormah.vault.id), ormah.index.directory):
        assert not [one for one in place.rglob("*") if one.is_file() and b"hospital" in one.read_bytes()]
    assert found(ormah, "hospital") == []
    os.utime(file)
    assert bring(ormah, file).added == 0
    ormah.sessions.close()
    for one in ormah.index.directory.glob("sessions.sqlite3*"):
        one.unlink()
    os.utime(file)
    assert bring(ormah, file).added == 0
    assert "Grace" not in str(archived(ormah))
    assert len(archived(ormah)) == 5


def test_sessions_leave_after_their_days(tmp_path: Path) -> None:
    file = written(tmp_path / "t.jsonl", *SHOP)
    with opened(tmp_path, now=datetime.now(UTC)) as ormah:
        bring(ormah, file)
    with opened(tmp_path, now=datetime.now(UTC) + timedelta(days=300)) as ormah:
        assert ormah.sessions.expire() == 0
    with opened(tmp_path, now=datetime.now(UTC) + timedelta(days=400), keep_days="0") as ormah:
        assert ormah.sessions.expire() == 0
    with opened(tmp_path, now=datetime.now(UTC) + timedelta(days=400)) as ormah:
        bring(ormah, written(tmp_path / "u.jsonl", asked(7, "Tides are in metres.", session="s2")))
        assert found(ormah, "tides")
        next(paths.sessions_dir(ormah.vault.id).rglob("s2.jsonl")).unlink()  # nor does a file that is gone hold it up
        capture = Capture(ormah)
        capture.start()  # at the start of a daemon, and with what hooks bring: no command is needed for it
        wait_until(lambda: not archived(ormah), "an archive without the session")
        assert capture.stop(120)
        assert found(ormah, "cents") == []
