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
        is_sound(house)
        verified = house.call("admin.verify")
        assert verified.ok, verified.differences[:5]


def is_sound(house: House) -> None:
    """Git finds all objects. The daemon may pack them meanwhile, which takes away packs that a check has listed: then it is
    checked again, and what is really lost is missing each time."""
    for left in reversed(range(5)):
        try:
            house.git("fsck", "--strict", "--no-dangling")
        except AssertionError:
            if not left:
                raise
            continue
        return
