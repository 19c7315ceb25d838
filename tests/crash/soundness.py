"""What must hold of a house after every kill, whatever was under way."""

from tests.house import House


def nothing_is_left(house: House, *, deep: bool) -> None:
    """Git sees nothing to commit, holds no lock and no half-written file. `deep`: and it is sound, and the index is the vault's."""
    assert house.git("status", "--porcelain") == "", house.git("status", "--porcelain")
    left = [str(path) for path in (house.vault / ".git").rglob("*.lock")]
    assert not left, left
    ignored = house.git("status", "--porcelain", "--ignored").splitlines()
    assert [line for line in ignored if not line.startswith("!! .ormah/")] == [], "a half-written file was left"
    if deep:
        house.git("fsck", "--strict", "--no-dangling")
        verified = house.call("admin.verify")
        assert verified.ok, verified.differences[:5]
