"""A state of the vault by what a person calls it: a date, an op, a commit, a branch, a tag."""

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
    """A commit that the vault stood at. `time`: when it was made; `moment`: what counts as the present in it, that is the
    time that was asked for, or the commit's own. `op`: None where it was made by hand, or lies beside HEAD's history."""

    commit: str
    op: str | None
    time: datetime
    moment: datetime


def find_standing(vault: Vault, text: str, now: datetime) -> Standing:
    """The state that `text` names.

    A time is an ISO date (its end) or time, `today`, `yesterday`, or an age (`12h`, `7d`, `2w`); without a zone it is
    UTC. It means the last commit until then on the line of HEAD. Anything else is a revision: an op or a commit by a
    unique beginning, a branch, a tag, whatever git understands.

    Raises:
        BadRequest: neither. NotFound: nothing has that name, or the history begins later. Ambiguous: a beginning of many.
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
    """Checked: the vault was there at that commit."""
    card = vault.git.resolve(f"{commit}:{vault.prefix}.ormah/vault.toml")
    if card is None and not vault.tree(commit):
        raise NotFound(
            f"the vault was not there yet at {asked}: {_beginning(vault)}", hint="name a later time or commit"
        )
    made = _made(vault.git.read(commit, "commit"))
    entry = next((entry for entry in vault.oplog.view().entries if entry.commit == commit), None)
    return Standing(commit, None if entry is None else entry.op, made, time or made)


def _made(commit: bytes) -> datetime:
    """The committer's time in a commit object."""
    line = next(line for line in commit.split(b"\n") if line.startswith(b"committer "))
    return datetime.fromtimestamp(int(line.rsplit(b" ", 2)[1]), UTC)


def _beginning(vault: Vault) -> str:
    entries = vault.oplog.view().entries
    if not entries:
        return "the vault has no history yet"
    first = datetime.fromtimestamp(min(entry.time for entry in entries), UTC)
    return f"the vault's history begins at {readable(first)}"


def _named(asked: str) -> str:
    """A time as an error names it: a word or a day as it was written, else to the minute, in the zone that it was written in."""
    try:
        return asked if len(asked) <= len("2026-11-21") else readable(datetime.fromisoformat(asked))
    except ValueError:
        return asked


def readable(time: datetime) -> str:
    """A time for people, to the minute: `2026-11-21 20:00 UTC`, `2026-11-21 21:00 +01:00`."""
    offset = f"{time:%z}"
    zone = f"{offset[:3]}:{offset[3:5]}" if time.utcoffset() else "UTC"
    return f"{time:%Y-%m-%d %H:%M} {zone}"
