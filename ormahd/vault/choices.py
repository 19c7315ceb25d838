"""What may be adopted: the choices on the vault's card, and those of them that were made on this machine.

The card arrives by sync too. What another machine chose for its notes does not have this one write into notes that lie only here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from msgspec import Struct, ValidationError, convert, to_builtins

from ormahd.git.remote import set_value, value
from ormahd.vault.create import Adopt, Folder
from ormahd.vault.vault import Vault

AGREED = "ormah.agreed"
"""Git's local setting that holds the choices that were made here."""


class Choices(Struct, frozen=True):
    """What was chosen for the vault, and by folder."""

    home: str
    mode: Adopt
    folders: Mapping[str, Folder] = {}

    def mode_at(self, path: str) -> Adopt:
        """What was chosen for the folder that a file is in, else for the vault."""
        while path and self.folders:
            path = path.rpartition("/")[0]
            found = self.folders.get(path)
            if found is not None and found.adopt is not None:
                return found.adopt
        return self.mode

    def adopts(self, path: str) -> bool:
        """Whether any note at that path is to be a memory. Ormah's own folder is for that, but where it was said that its notes are only
        found."""
        mode = self.mode_at(path)
        if mode != "index":
            return mode == "all" or (mode == "ours" and (not self.home or path.startswith(self.home + "/")))
        said = [folder for folder, found in self.folders.items() if found.adopt == "index"]
        only_found = any(f"{folder}/".startswith(f"{self.home}/") and path.startswith(f"{folder}/") for folder in said)
        return bool(self.home) and path.startswith(self.home + "/") and not only_found

    def beyond(self, other: Choices) -> list[str]:
        """The folders ("" is the whole vault) all of whose notes these adopt, and the others do not."""
        asked = ["", *sorted(self.folders)]
        inside = {folder: f"{folder}/note" if folder else "note" for folder in asked}
        return [
            folder
            for folder, path in inside.items()
            if self.mode_at(path) == "all" and other.mode_at(path) != "all"
        ]  # fmt: skip


def agreed(vault: Vault) -> Choices:
    """The choices that were made on this machine. Where none were noted yet, the card's of today are."""
    try:
        found = convert(json.loads(value(vault.git, AGREED) or ""), Choices)
    except (ValueError, ValidationError):
        found = Choices(vault.home, vault.adopt, vault.folders)
        agree(vault, found)
    setting = vault.settings.adopt
    return found if setting == "auto" else Choices(vault.home, setting, found.folders)


def agree(vault: Vault, choices: Choices) -> None:
    """Note the choices of this machine."""
    set_value(vault.git, AGREED, json.dumps(to_builtins(choices)))
