"""When a purge is refused, and what makes it wait."""

import pytest

from ormahd.errors import Conflict, VaultBusy
from ormahd.note.forgetting import Forgotten
from ormahd.purge import purge
from tests.vault import purging
from tests.vault.observed import House
from tests.vault.purging import GOING, forget_today, gone, nobody, purge_all, silent, told

house = purging.house


def refused(house: House) -> Conflict:
    head = house.git("rev-parse", "HEAD")

    with pytest.raises(Conflict) as caught:
        purge.survey_vault(house.vault, Forgotten(GOING), nobody, silent)
    assert house.git("rev-parse", "HEAD") == head
    assert caught.value.hint
    return caught.value


def test_refused_with_stashed_work(house: House) -> None:
    going, _ = told(house)
    house.write(going, "changed\n")
    house.git("stash", "-q")
    assert "stash" in refused(house).message
    house.git("stash", "drop", "-q")
    purge_all(house.vault, GOING)
    gone(house)


def test_refused_on_no_branch(house: House) -> None:
    told(house)
    house.git("switch", "-q", "--detach")
    assert "HEAD is detached" in refused(house).message


def test_busy_while_somebody_else_is_at_work(house: House) -> None:
    told(house)
    found = purge.survey_vault(house.vault, Forgotten(GOING), nobody, silent)
    forget_today(house.vault, found)
    (house.root / ".git/index.lock").touch()
    with pytest.raises(VaultBusy), house.vault.rewriting():
        pytest.fail("the lock is not ours")
    (house.root / ".git/index.lock").unlink()
    with house.vault.rewriting() as at:
        purge.replace_history(house.vault, found.forgotten, nobody, silent, at)
    purge.end_purge(house.vault)
    gone(house)
