"""What must hold of a house after every kill, whatever was under way."""

import os

from tests.house import House


def nothing_is_left(house: House, *, deep: bool) -> None:
    """Git sees nothing to commit, holds no lock and no half-written file. `deep`: and it is sound, and the index is the vault's."""
    assert house.git("status", "--porcelain") == "", house.git("status", "--porcelain")
    # Not by a pattern of pathlib, which falls over a folder that the packing of loose objects takes away meanwhile.
    left = [name for _, _, files in os.walk(house.vault / ".git") for name in files if name.endswith(".lock")]
    assert not left, left
    ignored = house.git("status", "--porcelain", "--ignored").splitlines()
    assert [line for line in ignored if not line.startswith("!! .ormah/")] == [], "a half-written file was left"
    if deep:
        house.git("fsck", "--strict", "--no-dangling")
        verified = house.call("admin.verify")
        assert verified.ok, verified.differences[:5]
