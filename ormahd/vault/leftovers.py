"""Cleans up a vault that was released with all its data, and prevents a new vault from starting there unasked."""

from __future__ import annotations

import shutil
from pathlib import Path

from ormahd.errors import Unavailable
from ormahd.paths import released_marker

LOCAL = ("lock", "intent", "tmp", "creating", ".gitignore", ".gitattributes")


def remove_leftovers(root: Path) -> None:
    """Remove the daemon's own files below `.ormah`; versions that were set aside stay."""
    data = root / ".ormah"
    for name in LOCAL:
        place = data / name
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
    aside = data / "conflicts"
    if aside.is_dir() and not any(path.is_file() for path in aside.rglob("*")):
        shutil.rmtree(aside)
    if data.is_dir() and not any(data.iterdir()):
        data.rmdir()


def refuse_released(root: Path) -> None:
    """Raise Unavailable when a person has removed Ormah's data from the folder, so that no vault is made there unasked."""
    marker = released_marker(root)
    if marker.exists():
        raise Unavailable(
            f"{root} was released: Ormah's data was removed from it",
            hint=f"set vault.path to another folder; to begin again in this one: rm {marker}",
        )
