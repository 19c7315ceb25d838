"""What cannot be chosen for a folder is refused with the way that works, and leaves the vault's card alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ormahd.vault.create import CARD
from tests.house import House, open_house


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as found:
        (found.vault / "Journal").mkdir(parents=True)
        (found.vault / "Journal/may.md").write_text("It rained on the larches.\n")
        (found.vault / ".trash").mkdir()
        found.start()
        yield found


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["--folder", ".ormah"], "'.ormah' holds Ormah's own data", "--all"),
        ([".ormah/"], "'.ormah' holds Ormah's own data", "--all"),
        (["--folder", ".git"], "'.git' is a dot folder", "--all"),
        (["--folder", ".trash", "--index"], "'.trash' is a dot folder", "--all"),
        (["--folder", "ormah"], "'ormah' is Ormah's own folder", "--all"),
        (["--folder", "./ormah/", "--index"], "'ormah' is Ormah's own folder", "--all"),
        (["--folder", "ormah/global", "--space", "x"], "'ormah/global' lies in Ormah's own folder", "update ID --space"),
        (["--folder", "."], "'.' is the whole vault", "vault adopt --all"),
        (["./"], "'./' is the whole vault", "vault adopt --all"),
        (["--folder", "VAULT"], "is the whole vault", "vault adopt --all"),
        (["--folder", ""], "'' is no file or folder", "the vault is"),
        (["--folder", "Journal", "--space", ""], "the space is empty", "name a space"),
        (["--folder", "Journal", "--space", " \n"], "the space is empty", "name a space"),
        (["--folder", "Journal", "--space", "Global"], "'Global' is no space", "without one is global"),
        (["--folder", "Journal", "--space", ".."], "'..' is no space", "name a space"),
        (["--folder", "Journal", "--space", "x" * 101], "is no space", "at most 100"),
    ],
)  # fmt: skip
def test_it_is_refused_with_the_way_that_works(house: House, words: list[str], said: str, hint: str) -> None:
    card = (house.vault / CARD).read_bytes()
    done = house.ctl("vault", "adopt", *[str(house.vault) if word == "VAULT" else word for word in words])
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr
    assert hint in done.stderr.partition("hint: ")[2]
    assert (house.vault / CARD).read_bytes() == card


def test_a_folder_of_that_name_that_was_there_before_may_be_adopted() -> None:
    with open_house() as house:
        (house.vault / "ormah").mkdir(parents=True)
        (house.vault / "ormah/mine.md").write_text("About larches.\n")
        house.start()
        for _ in range(2):
            house.json("vault", "adopt", "--folder", "ormah")
        assert "id: " in (house.vault / "ormah/mine.md").read_text()
