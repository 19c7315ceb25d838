"""Run one command from its arguments to its exit status, and report every failure in one form.

A failure has a code, a sentence, a hint and an exit status, and is printed for people or as JSON.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from ormahctl import render
from ormahctl.options import Unknown, near
from ormahctl.registry import cli
from ormahd.rpc.wire import OrmahError

USAGE = 2
INTERNAL = 70


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as it is reported to a person or a program: a code, a sentence, and what to do next."""

    code: str
    message: str
    hint: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    exit_status: int = USAGE

    @classmethod
    def of(cls, exc: Exception) -> Failure | None:
        """Return the failure for `exc`, or None if it is a bug in this program."""
        if isinstance(exc, OrmahError):
            return cls(exc.code, exc.message, exc.hint, exc.data, exc.exit_status)
        if isinstance(exc, OSError) and exc.strerror:
            place = f"{exc.filename}: " if exc.filename else ""
            return cls("internal", f"{place}{exc.strerror}", exit_status=INTERNAL)
        return None

    @classmethod
    def internal(cls, exc: Exception) -> Failure:
        """Return the failure for an exception that is a bug in this program."""
        return cls(
            "internal",
            f"ormahctl failed: {type(exc).__name__}: {exc}",
            "this is a fault of ormahctl; please report it with the lines above",
            exit_status=INTERNAL,
        )


def from_click(exc: click.ClickException, args: Sequence[str]) -> Failure:
    """Return the failure for an error of click, with a hint that fits the mistake and the command in `args`."""
    # in general: what click says, and where the help is
    context = exc.ctx if isinstance(exc, click.UsageError) else None
    begun = f"{PROGRAM} {args[0]}" if args and args[0] in cli.list_commands(click.Context(cli)) else PROGRAM
    path = context.command_path if context else begun  # click names no command where an option lacks its value
    hint = f"see: {path} --help"
    message = exc.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]

    # a hint for the mistakes that are likely
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
    elif message.startswith("got unexpected extra argument") and any(
        isinstance(parameter, click.Argument) and parameter.human_readable_name in {"TEXT", "VALUE"}
        for parameter in (context.command.params if context else ())
    ):
        hint = f"put quotes around a text of several words; see: {path} --help"
    return Failure("bad_request", message, hint, exit_status=USAGE)


PROGRAM = "ormahctl"


def run(args: Sequence[str]) -> int:
    """Run the command in `args` and return its exit status. Every failure is reported, except KeyboardInterrupt and
    BrokenPipeError, which are passed on."""
    for stream in (sys.stdout, sys.stderr):  # UTF-8 in every locale (`LC_ALL=C` in cron, containers)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        words = _decode(args)
        with cli.make_context(PROGRAM, words) as context:
            status = cli.invoke(context)
        return status if isinstance(status, int) else 0
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as exc:
        return report(from_click(exc, args), as_json=_wants_json(args))
    except BrokenPipeError:
        raise
    except Exception as exc:  # noqa: BLE001 - the edge of the program: every failure becomes a sentence here
        failure = Failure.of(exc)
        if failure is None:
            import traceback

            traceback.print_exc()
            failure = Failure.internal(exc)
        return report(failure, as_json=_wants_json(args))


def report(failure: Failure, *, as_json: bool) -> int:
    """Print a failure to stderr, as text or JSON, and return its exit status."""
    if as_json:
        error = {name: getattr(failure, name) for name in ("code", "message", "hint", "data")}
        sys.stderr.write(render.encode({"error": error}, pretty=False) + "\n")
        return failure.exit_status
    render.note(failure.message, label="error")
    for name in failure.data.get("ids") or []:
        render.aside(f"  {render.line(str(name))}")
    if failure.hint:
        render.note(failure.hint, label="hint")
    return failure.exit_status


def _wants_json(args: Sequence[str]) -> bool:
    """Whether `--json` is among the arguments before `--`. Does not parse them with click, because that may have
    failed."""
    words = list(args)
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def _decode(args: Sequence[str]) -> list[str]:
    """Return the arguments decoded as UTF-8 in every locale. Raises UsageError for other bytes."""
    words = []
    for number, word in enumerate(args, 1):
        try:
            words.append(os.fsencode(word).decode("utf-8"))
        except UnicodeError as exc:
            text = render.line(word)
            raise click.UsageError(f"argument {number} ({text}) is not valid UTF-8") from exc
    return words
