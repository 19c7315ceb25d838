"""Counts and lists of a daemon that has not read the vault yet say that they may not be all."""

from __future__ import annotations

import shutil

from tests.crash.first_answers import first_answers
from tests.house import House

COMMANDS = (["recall"], ["spaces"])


def test_what_is_counted_before_the_vault_is_read_says_so(daemon: House) -> None:
    daemon.json("remember", "Tapirs swim.")
    for command in COMMANDS:
        now = daemon.ctl(*command)
        assert ("still reading" in now.stderr, now.returncode) == (False, 0), "the whole vault is known"
    assert daemon.json("status", "--verbose")["stats"]["degraded"] == []
    daemon.stop()
    shutil.rmtree(daemon.index_dir)
    answers = first_answers(daemon, *COMMANDS)
    said = [one["err"].count("the daemon is still reading the vault, so this may not be all of it") for one in answers]
    assert said == [1] * len(COMMANDS), answers
