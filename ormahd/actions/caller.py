"""The caller of an action: who it is, and from where it calls."""

from __future__ import annotations

from msgspec import Struct

from ormahd.errors import BadRequest

PERSON = "person"


class Caller(Struct, frozen=True):
    """A caller. `agent`: its name as sent; `cwd`: an absolute path; `session`: the agent's session. None if not sent."""

    agent: str | None = None
    cwd: str | None = None
    session: str | None = None

    @property
    def source(self) -> str:
        """The source recorded in notes and commits: `person`, `agent:NAME` or `job:NAME`."""
        name = " ".join((self.agent or "unknown").split())[:100]
        if name == PERSON or name.startswith(("agent:", "job:", "system:")):
            return name
        return f"agent:{name}"


def check_space(space: str | None) -> str | None:
    """Return a space's name with normalised whitespace; None if blank (global). Raises BadRequest for `global` itself."""
    if space is None or not space.strip():
        return None
    if space.casefold() == "global":
        raise BadRequest("'global' is no space", hint="send null (ormahctl: --global) for a global memory")
    return " ".join(space.split())
