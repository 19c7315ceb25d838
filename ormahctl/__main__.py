"""`ormahctl`: runs one command and turns whatever happens into an exit status and a sentence.

Nothing but builtins is imported before `main` runs, so that Ctrl-C during the start prints no traceback.
"""

from __future__ import annotations

import sys

INTERRUPTED = 130
PIPE_CLOSED = 141
"""128 + SIGPIPE: the status that a shell reports if the reader of a pipe (`| head`) has ended."""


def main() -> None:
    """Run the command in `sys.argv`, and end the process with its exit status."""
    try:
        if sys.getfilesystemencoding() != "utf-8":
            from ormahd.paths import in_utf8

            in_utf8()
        if sys.argv[-1] in _MODES and sys.stdin is not None and not sys.stdin.isatty():
            _become(_MODES[sys.argv[-1]], sys.argv[1:-1])
        from ormahctl.run import run

        status = run(sys.argv[1:])
    except KeyboardInterrupt:
        from contextlib import suppress

        with suppress(OSError):  # if stderr is closed, the exit status says the same
            sys.stderr.write("interrupted\n")
        status = INTERRUPTED
    except BrokenPipeError:
        status = PIPE_CLOSED
    sys.exit(_finish(status))


_MODES = {"mcp": ["--mcp"], "statusline": ["--hook", "StatusLine", "--harness", "claude-code"]}
"""{command: the words for `hook.py` that do the same without importing any command}."""


def _become(mode: list[str], options: list[str]) -> None:
    """Replace this process by `hook.py`, run as `mode` says. If `options` has anything but `--socket PATH`, return
    instead; then the command runs as usual."""
    if options and not (len(options) == 2 and options[0] == "--socket"):
        return
    import os

    root = os.path.dirname(os.path.abspath(__file__))
    words = [sys.executable, "-I", "-S", f"{root}/hook.py", *mode, *options]
    os.execv(sys.executable, words)  # noqa: S606 - this program


def _finish(status: int) -> int:
    """Flush stdout and stderr. Return `status`, or another exit status if the output could not be written. No message
    is printed if the reader of the pipe has ended."""
    import os

    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            # the interpreter flushes once more while it exits: /dev/null takes what is left
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            status = status or PIPE_CLOSED
        except OSError as exc:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if stream is sys.stdout:
                sys.stderr.write(f"error: the output could not be written: {exc.strerror}\n")
                status = status or 70
        except ValueError:
            pass  # closed before we started (`>&-`): there is nowhere to write to
    return status


if __name__ == "__main__":
    main()
