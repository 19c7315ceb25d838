"""What the tests of undo share: a house that does not wait long for git, and undos that are refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.blackbox.tours import head
from tests.house import House, open_house


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """One daemon for all tests of a file, which says `house = undoing.house`."""
    with open_house(ORMAH_VAULT_BUSY_WAIT_SECONDS="0.2") as found:
        found.start()
        yield found


def update(house: House, node_id: str, **fields: object) -> str:
    """Update a memory; the id of the commit."""
    return house.call("agent.update", node_id=node_id, **fields).commit


def untouched(house: House) -> tuple[str, dict[str, bytes]]:
    return head(house), house.notes()


def refused(house: House, *args: str, status: int, says: str) -> dict[str, Any]:
    """The undo ends with this status, says so with a hint, and changes nothing; its error."""
    before = untouched(house)
    done = house.ctl("--json", "undo", *args)
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    error: dict[str, Any] = json.loads(done.stderr)["error"]
    assert re.search(says, f"{error['message']} {error['hint']}"), error
    assert error["hint"] or status == 4
    assert untouched(house) == before
    assert house.git("status", "--porcelain") == ""
    return error
