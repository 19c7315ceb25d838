"""The commands that a text for an agent names: what the agent can run, as it stands, where it reads the text."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

PROGRAM: Final = "ormahctl"


class Commands(Struct, frozen=True):
    """How one agent reaches its memory. In each command `ID` and `E` stand for a memory and the event of a whisper."""

    show: str
    remember: str
    feedback: str
    maintenance: str

    def judged(self, node_id: str, event: str) -> str:
        """The command that says of this memory that it helped in this whisper."""
        return self.feedback.replace(" ID ", f" {node_id} ").removesuffix(" E") + f" {event}"


def shell(program: str = PROGRAM) -> Commands:
    """The commands of an agent that has a shell. `program`: how that shell calls ormahctl, quoted where it has to be."""
    return Commands(
        show=f"{program} show ID",
        remember=f'{program} remember "…" --type decision',
        feedback=f"{program} feedback ID +1 --event E",
        maintenance=f"{program} maintenance",
    )
