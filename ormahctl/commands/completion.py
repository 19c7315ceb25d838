"""`ormahctl completion`: the script that lets a shell complete our commands, options, types, tiers and edges."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ormahctl import render
from ormahctl.options import OneOf
from ormahctl.registry import Verb, cli
from ormahctl.run import COMPLETE, PROGRAM

_WHERE = {
    "bash": "ormahctl completion bash > ~/.local/share/bash-completion/completions/ormahctl",
    "zsh": 'ormahctl completion zsh > ~/.zfunc/_ormahctl   # with "fpath+=~/.zfunc" before compinit in ~/.zshrc',
    "fish": "ormahctl completion fish > ~/.config/fish/completions/ormahctl.fish",
}


@click.command(cls=Verb, short_help="Completion for bash, zsh or fish.", example="\n".join(_WHERE.values()))
@click.argument("shell", type=OneOf(sorted(_WHERE)))
def completion(shell: str) -> None:
    """Print the script that completes commands, options, types, tiers and edges in SHELL."""
    made = get_completion_class(shell)
    assert made is not None
    complete = made(cli, {}, PROGRAM, COMPLETE)
    # not source(): for bash that looks for a bash to ask for its version, and the script may be for another machine
    script = complete.source_template % complete.source_vars()
    if shell == "zsh":
        first, _, rest = script.partition("\n")  # compinit reads the #compdef of the first line
        render.raw(f"{first}\n# To have it in every shell: {_WHERE[shell]}\n{rest}")
    else:
        render.raw(f"# To have it in every shell: {_WHERE[shell]}\n{script}")
