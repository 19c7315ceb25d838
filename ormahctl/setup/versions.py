"""Whether what runs is what is installed: the daemon, and the hooks in the agents' settings, against this package."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ormahctl.setup import entry, look
from ormahd import __version__
from ormahd.api import Finding

_VERSION = re.compile(r"""^__version__\s*=\s*["']([^"']+)["']""", re.MULTILINE)


def findings(daemon: str | None) -> list[Finding]:
    """What is of another version than this package, or is not there any more. `daemon`: the version that runs, if one does."""
    found = []
    if daemon is not None and daemon != __version__:
        what = f"the daemon that runs is version {daemon}, and {__version__} is installed"
        found.append(Finding(level="warning", what=what, mend="ormahctl restart"))
    for agent, handlers in look.connected().items():
        troubles = dict.fromkeys(trouble for handler in handlers for trouble in _troubles(handler))
        for trouble in troubles:
            what = f"the hooks of {agent} {trouble}"
            found.append(Finding(level="warning", what=what, mend=f"ormahctl setup {agent}"))
    return found


def _troubles(handler: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the command of one hook, as the end of a sentence."""
    words = entry.words(handler)
    shim = next((word for word in words if word.endswith(entry.SHIM_END)), None)
    if shim is None:
        return
    if not os.access(words[0], os.X_OK):
        yield f"run {words[0]}, which is not there"
    if not Path(shim).is_file():
        yield f"run {shim}, which is not there"
        return
    version = _version(Path(shim))
    if version is not None and version != __version__:
        yield f"are of version {version}, and {__version__} is installed"


def _version(shim: Path) -> str | None:
    """The version of the package that a shim belongs to; None where it does not say."""
    try:
        text = (shim.parents[1] / "ormahd" / "__init__.py").read_text("utf-8")
    except (OSError, ValueError):
        return None
    found = _VERSION.search(text)
    return found[1] if found else None
