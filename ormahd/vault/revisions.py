"""Finds a past state of the vault by a date, an op, a commit, a branch or a tag."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from ormahd.errors import BadRequest, NotFound
from ormahd.model.change import is_op
from ormahd.vault.history import find_op, moment
from ormahd.vault.vault import Vault

_AGO = re.compile(r"(\d{1,5})\s*(min|h|d|w)")
_UNITS = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_DAYS = {"today": 0, "yesterday": 1}
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?", re.IGNORECASE)


class Standing(Struct, frozen=True):
    """A past state of the vault. `time`: when its commit was made. `moment`: what counts as now in it, which is the
    time that was asked for, or else the commit's. `op`: None for a commit made by hand or not in HEAD's history."""

    commit: str
    op: str | None
    time: datetime
    moment: datetime


def find_standing(vault: Vault, text: str, now: datetime) -> Standing:
    """Return the state that `text` names.

    A time is an ISO date (the end of that day) or time, `today`, `yesterday`, or an age (`12h`, `7d`, `2w`); UTC unless
    a time zone is given. It means the last commit up to then among HEAD's first parents. Anything else is a revision: a
    unique prefix of an op or commit, a branch, a tag, or whatever git accepts.

    Raises:
        BadRequest: the text is no time and no revision.
        Ambiguous: the prefix matches several.
        NotFound: nothing has that name, or the history begins later.
    """
    asked = text.strip()
    if not asked or len(asked) > 500 or not asked.isprintable():
        raise BadRequest(
            f"{text[:60]!r} is no time and no revision", hint="for example 2026-11-21, yesterday, 7d, an op"
        )
    time = _time(asked, now)
    return _by_name(vault, asked) if time is None else _by_time(vault, _named(asked), min(time, now))


def _time(text: str, now: datetime) -> datetime | None:
    word = text.lower()
    try:
        if word in _DAYS:
            day = (now - timedelta(days=_DAYS[word])).date().isoformat()
            return moment(day, end=True) - timedelta(seconds=1)
        if ago := _AGO.fullmatch(word):
            return now - int(ago[1]) * _UNITS[ago[2]]
        if _TIME.fullmatch(text):
            whole_day = len(text) == len("2026-11-21")
            return moment(text, end=True) - timedelta(seconds=int(whole_day))
    except OverflowError:
        raise BadRequest(f"{text!r} is no time", hint="for example 2026-11-21, yesterday, 7d") from None
    return None


def _by_time(vault: Vault, asked: str, time: datetime) -> Standing:
    seconds = int(time.timestamp())
    found = ""
    if vault.head() is not None and seconds > 0:
        below = ["--", vault.prefix.rstrip("/")] if vault.prefix else []
        arguments = ["rev-list", "-1", "--first-parent", f"--min-age={seconds}", "HEAD", *below]
        found = vault.git.run(*arguments).decode().strip()
    if not found:
        raise NotFound(
            f"nothing was known at {asked}: {_beginning(vault)}", hint="`ormahctl history` lists the changes"
        )
    return _there(vault, asked, found, time)


def _by_name(vault: Vault, asked: str) -> Standing:
    commit = None if is_op(asked.lower()) else vault.git.resolve(f"{asked}^{{commit}}")
    if commit is None:
        try:
            commit = find_op(vault, asked).commit
        except (NotFound, BadRequest) as exc:
            raise NotFound(
                f"{asked!r} is no time, and no op, commit, branch or tag of the vault",
                hint="write 2026-11-21, yesterday, 7d, or an op from `ormahctl history`",
            ) from exc
    return _there(vault, asked, commit, None)


def _there(vault: Vault, asked: str, commit: str, time: datetime | None) -> Standing:
    """Return the state at a commit. Raises NotFound when the vault did not exist there."""
    card = vault.git.resolve(f"{commit}:{vault.prefix}.ormah/vault.toml")
    if card is None and not vault.tree(commit):
        raise NotFound(
            f"the vault was not there yet at {asked}: {_beginning(vault)}", hint="name a later time or commit"
        )
    made = _made(vault.git.read(commit, "commit"))
    entry = next((entry for entry in vault.oplog.view().entries if entry.commit == commit), None)
    return Standing(commit, None if entry is None else entry.op, made, time or made)


def _made(commit: bytes) -> datetime:
    """Return the committer's time from the bytes of a commit object."""
    line = next(line for line in commit.split(b"\n") if line.startswith(b"committer "))
    return datetime.fromtimestamp(int(line.rsplit(b" ", 2)[1]), UTC)


def _beginning(vault: Vault) -> str:
    entries = vault.oplog.view().entries
    if not entries:
        return "the vault has no history yet"
    first = datetime.fromtimestamp(min(entry.time for entry in entries), UTC)
    return f"the vault's history begins at {readable(first)}"


def _named(asked: str) -> str:
    """Return a time as errors name it: a word or a date as written, else to the minute in the time zone as written."""
    try:
        return asked if len(asked) <= len("2026-11-21") else readable(datetime.fromisoformat(asked))
    except ValueError:
        return asked


def readable(time: datetime) -> str:
    """Return a time for people, to the minute: `2026-11-21 20:00 UTC`, `2026-11-21 21:00 +01:00`."""
    offset = f"{time:%z}"
    zone = f"{offset[:3]}:{offset[3:5]}" if time.utcoffset() else "UTC"
    return f"{time:%Y-%m-%d %H:%M} {zone}"
