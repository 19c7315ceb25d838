"""Where a git remote leads, however its address is written: host and path, so that two clones of one repository agree. Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_SCP: Final = re.compile(r"(?:[^@/\s]*@)?(\[[0-9A-Fa-f:.]+\]|[^/:@\s\\]{2,}):(?!//)(.*)", re.DOTALL)
"""`git@host:path`. A single letter before the colon is a drive of Windows."""
_HOST: Final = re.compile(r"(?:[^@/]*@)?(\[[^\]]*\]|[^/:]*)(?::\d*)?(?:/(.*))?", re.DOTALL)
_SAME_HOST: Final = {
    "ssh.github.com": "github.com", "altssh.gitlab.com": "gitlab.com", "altssh.bitbucket.org": "bitbucket.org",
    "ssh.dev.azure.com": "dev.azure.com", "vs-ssh.visualstudio.com": "dev.azure.com",
}  # fmt: skip
"""Hosts by which the same repositories are reached where port 22 is closed, or by ssh."""
_LEADS: Final = re.compile(r"^(?:v3|scm)/(?=[^/]+/[^/]+)")
"""What Azure puts before the path of an ssh address, and Bitbucket Server before that of an https address."""


class Remote(Struct, frozen=True):
    """`key` is the same for every way to write the address; `name` is the last part of its path as it was written, `owners` are
    what stands before it, nearest first, then the host. `local`: a path on this machine instead (`key` is that path)."""

    key: str
    name: str
    owners: tuple[str, ...]
    local: bool = False


def read_remote(address: str) -> Remote | None:
    """Where `address` leads; None where it leads nowhere that can be named.

    User, password, port, `.git`, slashes at the end and the case of letters are left out.
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
