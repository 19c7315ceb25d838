"""Find a past state of the vault by what a person calls it: a date, an op, a commit, a branch or a tag."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from ormahd.errors import BadRequest, NotFound
from ormahd.index.history import History, moment
from ormahd.model.change import is_op
from ormahd.vault.vault import Vault

_AGO = re.compile(r"(\d{1,5})\s*(min|h|d|w)")
_UNITS = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_DAYS = {"today": 0, "yesterday": 1}
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?", re.IGNORECASE)


class PastState(Struct, frozen=True):
    """One past state of the vault: that of a commit. `time`: when the commit was made. `moment`: the time that counts
    as now in this state: the requested time, or else `time`. `op`: the commit's op; None for a commit made by hand or
    not in HEAD's history."""

    commit: str
    op: str | None
    time: datetime
    moment: datetime


def find_past_state(vault: Vault, history: History, text: str, now: datetime) -> PastState:
    """Return the past state that `text` names.

    A time is an ISO date (the end of that day) or time, `today`, `yesterday`, or an age (`12h`, `7d`, `2w`); local
    unless a time zone is given. It means the last commit made until then, along HEAD's first parents. Anything else
    is a revision: a unique prefix of an op or commit, a branch, a tag, or whatever git accepts.

    Raises:
        BadRequest: the text is no time and no revision.
        Ambiguous: the prefix matches several.
        NotFound: nothing has that name, or the history begins later.
    """
    # Any text may reach git below: refuse what can be no name
    asked = text.strip()
    if not asked or len(asked) > 500 or not asked.isprintable():
        hint = "for example 2026-11-21, yesterday, 7d, a change"
        raise BadRequest(f"{text[:60]!r} is no time and no revision", hint=hint)
    since = history.beginning()
    begins = f"the vault's history begins at {readable(since)}" if since else "the vault has no history yet"

    # If it is a time: the last commit made until then. The future is like now
    time = _past_time(asked, now)
    if time is not None:
        time, name = min(time, now), asked
        seconds = int(time.timestamp())
        arguments = ["rev-list", "-1", "--first-parent", f"--min-age={seconds}", "HEAD"]
        commit = vault.git.run(*arguments).decode().strip() if vault.head() is not None and seconds > 0 else ""
        if not commit:
            # The error quotes a word or a date (10 characters) as written, and a longer time to the minute
            with suppress(ValueError):
                name = asked if len(asked) <= len("2026-11-21") else readable(datetime.fromisoformat(asked))
            raise NotFound(f"nothing was known at {name}: {begins}", hint="`ormahctl history` lists the changes")
    else:
        # Otherwise it is a revision. The id of an op may look like a commit's: git is not asked for it
        commit = (None if is_op(asked.lower()) else vault.git.resolve(f"{asked}^{{commit}}")) or ""
        try:
            commit = commit or history.find(asked).commit
        except (NotFound, BadRequest) as exc:
            raise NotFound(
                f"{asked!r} is no time, and no change, branch or tag of the vault",
                hint="write 2026-11-21, yesterday, 7d, or the id of a change from `ormahctl history`",
            ) from exc

    # The state of that commit, if it has any file
    if next(vault.differences(None, commit), None) is None:
        raise NotFound(f"the vault was not there yet at {asked}: {begins}", hint="name a later time or commit")
    made = datetime.fromtimestamp(int(vault.git.run("log", "-1", "--format=%ct", commit)), UTC)
    op = None
    with suppress(NotFound):  # a commit that HEAD does not lead to
        op = history.find(commit).op
    return PastState(commit, op, made, time or made)


def _past_time(text: str, now: datetime) -> datetime | None:
    """Return the time that `text` means (a date, a time, `today`, `yesterday`, an age), or None if it is no time. A
    date means the last second of that day.

    Raises:
        BadRequest: the time is out of range.
    """
    word = text.lower()
    try:
        if word in _DAYS:
            text = (now.astimezone() - timedelta(days=_DAYS[word])).date().isoformat()
        if ago := _AGO.fullmatch(word):
            return now - int(ago[1]) * _UNITS[ago[2]]
        if _TIME.fullmatch(text):
            whole_day = len(text) == len("2026-11-21")
            return moment(text, end=True) - timedelta(seconds=int(whole_day))
    except OverflowError:
        raise BadRequest(f"{text!r} is no time", hint="for example 2026-11-21, yesterday, 7d") from None
    return None


def readable(time: datetime) -> str:
    """Return a time for people, to the minute: `2026-11-21 20:00 UTC`, `2026-11-21 21:00 +01:00`."""
    offset = f"{time:%z}"
    zone = f"{offset[:3]}:{offset[3:5]}" if time.utcoffset() else "UTC"
    return f"{time:%Y-%m-%d %H:%M} {zone}"
