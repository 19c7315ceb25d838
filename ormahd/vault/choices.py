"""Which notes may be adopted: the choices on the vault's card, and those that were made on this machine.

The card also arrives by sync. A choice that another machine made does not let this machine write into notes that only
this machine has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from msgspec import Struct, ValidationError, convert, to_builtins

from ormahd.git.remote import set_value, value
from ormahd.vault.create import Adopt, Folder
from ormahd.vault.vault import Vault

AGREED = "ormah.agreed"
"""The local git setting that holds this machine's choices, as JSON."""


class Choices(Struct, frozen=True):
    """Says which notes are to be adopted. `mode`: the adoption mode of the vault. `folders`: `{folder: choices}` of
    the folders with choices of their own. `home`: the folder of Ormah's own notes ("" is the whole vault)."""

    home: str
    mode: Adopt
    folders: Mapping[str, Folder] = {}

    def mode_at(self, path: str) -> Adopt:
        """Return the mode of the nearest folder above the file that has one, else that of the vault."""
        while path and self.folders:
            path = path.rpartition("/")[0]
            found = self.folders.get(path)
            if found is not None and found.adopt is not None:
                return found.adopt
        return self.mode

    def adopts(self, path: str) -> bool:
        """Whether every note at `path` is to be adopted, whoever wrote it. In Ormah's own folder (`home`) that is so
        even in mode `index`, unless a person chose `index` for `home` itself or for a folder in it that holds the
        note."""
        mode = self.mode_at(path)
        if mode != "index":
            return mode == "all" or (mode == "ours" and (not self.home or path.startswith(self.home + "/")))
        said = [folder for folder, found in self.folders.items() if found.adopt == "index"]
        only_found = any(f"{folder}/".startswith(f"{self.home}/") and path.startswith(f"{folder}/") for folder in said)
        return bool(self.home) and path.startswith(self.home + "/") and not only_found

    def beyond(self, other: Choices) -> list[str]:
        """Return the folders ("" is the whole vault) in which these choices adopt every note and `other` does not."""
        asked = ["", *sorted(self.folders)]
        inside = {folder: f"{folder}/note" if folder else "note" for folder in asked}
        return [
            folder
            for folder, path in inside.items()
            if self.mode_at(path) == "all" and other.mode_at(path) != "all"
        ]  # fmt: skip


def agreed(vault: Vault) -> Choices:
    """Return the adoption choices that apply on this machine, from git's local configuration. On first use, today's
    choices in the card are copied there. The setting `vault.adopt`, unless it is `auto`, replaces the mode of the
    vault."""
    try:
        found = convert(json.loads(value(vault.git, AGREED) or ""), Choices)
    except (ValueError, ValidationError):
        found = Choices(vault.home, vault.adopt, vault.folders)
        agree(vault, found)
    setting = vault.settings.adopt
    return found if setting == "auto" else Choices(vault.home, setting, found.folders)


def agree(vault: Vault, choices: Choices) -> None:
    """Record the choices of this machine in git's local configuration, where `agreed` finds them."""
    set_value(vault.git, AGREED, json.dumps(to_builtins(choices)))
