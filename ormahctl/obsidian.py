"""Finds the vaults of Obsidian on this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from ormahd import paths

LISTS: Final = (
    *(".config/obsidian", "Library/Application Support/obsidian"),
    *(".var/app/md.obsidian.Obsidian/config/obsidian", "snap/obsidian/current/.config/obsidian"),
)
"""Where Obsidian keeps its list of vaults, relative to the home directory: Linux, macOS, Flatpak, snap."""
CLOUD: Final = "Library/Mobile Documents/iCloud~md~obsidian/Documents"
DEPTH: Final = 3
"""Number of folders below the home directory in which vaults are looked for that Obsidian does not list."""


def known_vaults() -> list[Path]:
    """Return the existing vaults in Obsidian's list, the last opened one first."""
    given = os.environ.get("XDG_CONFIG_HOME")
    found: dict[Path, float] = {}
    for place in [paths.home() / place for place in LISTS] + ([Path(given) / "obsidian"] if given else []):
        try:
            vaults = json.loads((place / "obsidian.json").read_bytes())["vaults"].values()
            found |= {Path(vault["path"]): float(vault.get("ts", 0)) for vault in vaults}
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            continue  # it is not installed so, or writes its list otherwise: then it is no help
    return [vault for vault in sorted(found, key=lambda vault: -found[vault]) if vault.is_dir()]


def find_obsidian_vaults() -> list[Path]:
    """Return the vaults of Obsidian on this machine: first those in its own list (`known_vaults`), then other
    folders of the person, at most `DEPTH` levels deep, that have the folder `.obsidian`."""
    found = dict.fromkeys(known_vaults())
    for start in (paths.home(), paths.home() / CLOUD):
        for place, folders, _ in os.walk(start):
            folder = Path(place)
            if ".obsidian" in folders:
                found.setdefault(folder)
            at_bottom = len(folder.relative_to(start).parts) >= DEPTH or folder in found
            folders[:] = (
                [] if at_bottom else sorted(name for name in folders if not name.startswith(".") and name != "Library")
            )
    return list(found)
