"""Asking before files that the person made go: the daemon refuses, a terminal asks, `--yes` says so from the start."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import click

from ormahctl import render
from ormahctl.session import Session
from ormahd.rpc.wire import OrmahError

R = TypeVar("R")
UNCONFIRMED = "unconfirmed"


def asked(session: Session, call: Callable[[bool], R], *, yes: bool) -> R | None:
    """What `call` (given whether the person agrees) returns; None where they were asked and said no. Without a terminal the
    daemon's refusal stands, with exit status 2."""
    try:
        return call(yes)
    except OrmahError as exc:
        if exc.code != UNCONFIRMED or not _terminal(session):
            raise
        render.note(exc.message)
    if not click.confirm("Do it?", err=True):
        render.note("nothing was changed")
        return None
    session.reconnect()
    return call(True)


def _terminal(session: Session) -> bool:
    return not session.json and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
