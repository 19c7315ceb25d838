"""Normalise the address of a git remote to host and path, so that two clones of one repository get the same key.
Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_SCP: Final = re.compile(r"(?:[^@/\s]*@)?(\[[0-9A-Fa-f:.]+\]|[^/:@\s\\]{2,}):(?!//)(.*)", re.DOTALL)
"""`git@host:path`. A single letter before the colon is a Windows drive."""
_HOST: Final = re.compile(r"(?:[^@/]*@)?(\[[^\]]*\]|[^/:]*)(?::\d*)?(?:/(.*))?", re.DOTALL)
_SAME_HOST: Final = {
    "ssh.github.com": "github.com", "altssh.gitlab.com": "gitlab.com", "altssh.bitbucket.org": "bitbucket.org",
    "ssh.dev.azure.com": "dev.azure.com", "vs-ssh.visualstudio.com": "dev.azure.com",
}  # fmt: skip
"""Alternative hosts of the same repositories: for ssh, or for networks that block port 22."""
_LEADS: Final = re.compile(r"^(?:v3|scm)/(?=[^/]+/[^/]+)")
"""The path prefix that Azure uses in ssh addresses (`v3`), and Bitbucket Server in https addresses (`scm`)."""


class Remote(Struct, frozen=True):
    """A normalised address.

    `key`: equal for all spellings of the address. `name`: the last part of its path, as written. `owners`: the parts
    before it, nearest first, then the host. `local`: a path on this machine; `key` is that path.
    """

    key: str
    name: str
    owners: tuple[str, ...]
    local: bool = False


def read_remote(address: str) -> Remote | None:
    """Parse `address`; None if it has no host or no path.

    User, password, port, `.git`, trailing slashes and the case of letters are ignored.
    """
    address = address.strip()
    scheme = _SCHEME.fullmatch(address)
    if scheme is not None and scheme[1].lower() == "file":
        return _local(unquote(scheme[2]).removeprefix("localhost"))
    if scheme is not None:
        split = _HOST.fullmatch(scheme[2])
        host, path = (split[1], split[2] or "") if split else ("", "")
    elif (scp := _SCP.fullmatch(address)) is not None:
        host, path = scp[1], scp[2]
    else:
        return _local(address)
    host = host.strip("[]").rstrip(".").lower().removeprefix("www.")
    host = _SAME_HOST.get(host, host)
    parts = _parts(_LEADS.sub("", unquote(re.split(r"[?#]", path)[0]).strip("/")))
    if host == "dev.azure.com" or host.endswith(".visualstudio.com"):
        parts = [part for part in parts if part != "_git"]
    if not host or not parts:
        return None
    key = "/".join([host, *parts]).casefold()
    return Remote(key, parts[-1], (*reversed(parts[:-1]), host))


def _local(path: str) -> Remote | None:
    parts = _parts(path.replace("\\", "/"))
    return Remote(path, parts[-1], tuple(reversed(parts[:-1])), local=True) if parts else None


def _parts(path: str) -> list[str]:
    parts = [" ".join(part.split()) for part in path.split("/")]
    parts = [part for part in parts if part and part != "."]
    if parts and parts[-1] == ".git":
        parts.pop()
    if parts:
        bare = re.sub(r"\.git$", "", parts[-1], flags=re.IGNORECASE)
        parts[-1] = bare or parts[-1]
    return parts
