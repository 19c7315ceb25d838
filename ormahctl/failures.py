"""Every failure a command can meet, as one shape: code, sentence, hint, exit status."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from ormahctl.options import Unknown, near
from ormahd.rpc.wire import OrmahError

USAGE = 2
INTERNAL = 70


@dataclass(frozen=True, slots=True)
class Failure:
    code: str
    message: str
    hint: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    exit_status: int = USAGE

    @classmethod
    def of(cls, exc: Exception) -> Failure | None:
        """The failure that `exc` stands for; None when it is a fault of this program."""
        if isinstance(exc, OrmahError):
            return cls(exc.code, exc.message, exc.hint, exc.data, exc.exit_status)
        if isinstance(exc, OSError) and exc.strerror:
            place = f"{exc.filename}: " if exc.filename else ""
            return cls("internal", f"{place}{exc.strerror}", exit_status=INTERNAL)
        return None

    @classmethod
    def internal(cls, exc: Exception) -> Failure:
        return cls(
            "internal",
            f"ormahctl failed: {type(exc).__name__}: {exc}",
            "this is a fault of ormahctl; please report it with the lines above",
            exit_status=INTERNAL,
        )


def from_click(exc: click.ClickException, args: Sequence[str]) -> Failure:
    """A usage error in our words, with a hint that helps with this command."""
    context = exc.ctx if isinstance(exc, click.UsageError) else None
    path = context.command_path if context else "ormahctl"
    hint = f"see: {path} --help"
    message = exc.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    if isinstance(exc, Unknown):
        hint = f"did you mean {' or '.join(exc.meant)}?" if exc.meant else hint
    elif isinstance(exc, click.NoSuchOption):
        option = exc.option_name
        message = f"there is no option '{option}'"
        if exc.possibilities:
            hint = f"did you mean {' or '.join(sorted(exc.possibilities))}?"
        elif re.match(r"-[^-a-zA-Z]|-\w+\s|--?\S*\s", option) or any(
            word.startswith(option) and " " in word for word in args
        ):
            hint = f"put -- before a text that starts with a dash: {path} -- ..."
    elif isinstance(exc, click.UsageError) and context and isinstance(context.command, click.Group):
        found = re.match(r"no such command '(.*?)'", message)
        if found:
            message = f"there is no command '{found[1]}'"
            close = near(found[1], context.command.list_commands(context))
            hint = f"did you mean {' or '.join(close)}?" if close else hint
    elif "unexpected extra argument" in message:
        hint = f"put quotes around a text of several words; see: {path} --help"
    return Failure("bad_request", message, hint, exit_status=USAGE)
