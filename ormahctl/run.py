"""One command from its arguments to its exit status: streams, completion, errors as people and programs read them."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from ormahctl import render
from ormahctl.failures import Failure, from_click
from ormahctl.registry import cli

PROGRAM = "ormahctl"
COMPLETE = "_ORMAHCTL_COMPLETE"


def run(args: Sequence[str]) -> int:
    """Run the command in `args` and return its exit status (DESIGN section 12); interrupts and closed pipes go through."""
    _utf8_streams()
    if os.environ.get(COMPLETE):
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, PROGRAM, COMPLETE, os.environ[COMPLETE])
    try:
        words = _decode(args)
        with cli.make_context(PROGRAM, words) as context:
            status = cli.invoke(context)
        return status if isinstance(status, int) else 0
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except click.exceptions.NoArgsIsHelpError as exc:
        sys.stderr.write(exc.format_message() + "\n")
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
    """Say what went wrong on stderr, for a program or for a person, and return the exit status."""
    if as_json:
        error: dict[str, Any] = {
            "code": failure.code,
            "message": failure.message,
            "hint": failure.hint,
            "data": failure.data,
        }
        sys.stderr.write(render.encode({"error": error}, pretty=False) + "\n")
        return failure.exit_status
    render.note(failure.message, label="error", colour="red")
    for name in failure.data.get("ids") or []:
        render.aside(f"  {render.line(str(name))}")
    if failure.hint:
        render.note(failure.hint, label="hint", colour="cyan")
    return failure.exit_status


def _wants_json(args: Sequence[str]) -> bool:
    """Whether `--json` was asked for, also when the arguments were too wrong to be parsed."""
    words = list(args)
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def _decode(args: Sequence[str]) -> list[str]:
    """The arguments as UTF-8, whatever the locale says; bytes that are none are refused here and not half-way through."""
    words = []
    for number, word in enumerate(args, 1):
        try:
            words.append(os.fsencode(word).decode("utf-8"))
        except UnicodeError as exc:
            shown = render.line(word)
            raise click.UsageError(f"argument {number} ({shown}) is not valid UTF-8") from exc
    return words


def _utf8_streams() -> None:
    """Results are UTF-8 in every locale (`LC_ALL=C` in cron, in containers); what cannot be encoded is shown escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
