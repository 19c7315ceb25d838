"""Who asks, and from where."""

from __future__ import annotations

from msgspec import Struct

from ormahd.errors import BadRequest

PERSON = "person"


class Caller(Struct, frozen=True):
    """`agent` as the call named it, `cwd` an absolute path, `session` the agent's session; None where the caller did not say."""

    agent: str | None = None
    cwd: str | None = None
    session: str | None = None

    @property
    def source(self) -> str:
        """The origin that notes and commits carry: `person`, `agent:NAME`, `job:NAME`."""
        name = " ".join((self.agent or "unknown").split())[:100]
        if name == PERSON or name.startswith(("agent:", "job:", "system:")):
            return name
        return f"agent:{name}"


def check_space(space: str | None) -> str | None:
    """A space that the caller named. Blank means global; `global` itself is refused, because it is no space."""
    if space is None or not space.strip():
        return None
    if space.casefold() == "global":
        raise BadRequest("'global' is no space", hint="send null (ormahctl: --global) for a global memory")
    return " ".join(space.split())
