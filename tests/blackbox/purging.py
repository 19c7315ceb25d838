"""A memory that is to be purged, and where a house may still hold it."""

from __future__ import annotations

import subprocess

from tests.house import House

TITLE = "Harbour master"
FIRST, SECOND = (
    "The harbour master keeps a zebrafish in his cellar.",
    "The harbour master keeps a narwhal in his cellar.",
)
WORDS = ("zebrafish", "narwhal", "harbour-master", "harbour master")


def told(house: House) -> tuple[str, str]:
    """A memory in two versions, with links to it from two others and from a person's note; ids of it and of another."""
    going = house.json("remember", FIRST, "--title", TITLE)["id"]
    staying = house.json(
        "remember", "Ships are counted on Fridays.", "--title", "Ships", "--link", f"supports:{going}"
    )["id"]
    third = house.json("remember", "Ropes are bought in Bristol.", "--title", "Ropes")["id"]
    house.json("connect", third, "related_to", going, "--reason", "the zebrafish needs a rope")
    house.json("update", going, "--content", SECOND)
    house.json("outdated", going, "--reason", "the narwhal died")
    house.call("agent.remember", content="Written once.", request_id="r1", links=[going])
    house.call("agent.recall", query="harbour master")
    house.call("agent.get", node_id=going)
    return going, staying


def holding(house: House, *words: str) -> list[str]:
    """Every file of Ormah's folders that has one of the words, raw or in its name, in any case of letters, and every object of
    git that has."""
    names = ("cache_home", "state_home", "data_home", "config_home", "runtime_dir")
    roots = (house.vault, *(house.home / name for name in names))
    files = {str(file): file.read_bytes() for root in roots for file in root.rglob("*") if file.is_file()}
    files["git"] = subprocess.run(["git", "cat-file", "--batch-all-objects", "--batch"], cwd=house.vault, capture_output=True,
                                  check=True).stdout  # fmt: skip
    wanted = [word.lower() for word in words]
    return [
        f"{name}: {word}"
        for name, data in files.items()
        for word in wanted
        if word.encode() in data.lower() or word in name.lower()
    ]


def sound(house: House) -> None:
    house.git("fsck", "--full", "--strict")
    assert house.git("status", "--porcelain") == ""
    verified = house.ctl("verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert house.json("doctor")["findings"] == []
