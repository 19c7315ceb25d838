"""Two clones with two daemons: random changes on both sides, syncs in random order, one side killed now and then.

At the end: identical trees, no acknowledged memory lost, no marker in any note, every conflict listed. 60 changes in
`make test`, 500 in `make soak`. A failure prints the seed and the last steps.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ormahd.errors import OrmahError, VaultBusy
from ormahd.note.read import parse
from ormahd.note.values import NoteKind
from tests.house import House, open_house, save, wait_until

WORDS = ("bees", "ports", "tea", "rain", "keys", "trains", "maps", "songs", "bread", "stars")
LEVEL = 8
"""Rounds of syncs in which two sides must have come to the same once nobody changes anything any more."""


@dataclass
class World:
    """Both machines, and what they acknowledged."""

    houses: tuple[House, House]
    chance: random.Random
    ids: dict[str, str] = field(default_factory=dict)
    """Of every memory that was acknowledged and that nobody tried to forget: a text that it had at some time."""
    forgotten: set[str] = field(default_factory=set)
    """What somebody forgot; an edit on the other side may have brought it back."""
    texts: dict[str, set[str]] = field(default_factory=dict)
    """Every content that was ever written, by memory, acknowledged or not."""
    conflicts: set[str] = field(default_factory=set)
    """The ops that a sync named as having met a conflict."""
    steps: list[str] = field(default_factory=list)
    count: int = 0

    def say(self, step: str) -> None:
        self.steps.append(step)

    def text(self) -> str:
        self.count += 1
        return "\n\n".join(
            f"{word} {self.count} {self.chance.getrandbits(32):08x}" for word in self.chance.sample(WORDS, 4)
        )

    def wrote(self, node: str, text: str) -> None:
        self.texts.setdefault(node, set()).add(text)


def known(house: House) -> dict[str, str]:
    """{id: content} of every memory, from the daemon."""
    found: dict[str, str] = {}
    after = None
    while True:
        page = house.call("admin.export", after=after)
        found |= {item["id"]: item["content"] for item in page.items}
        after = page.next
        if after is None:
            return found


def pick(world: World, house: House) -> str | None:
    """A memory that this side has now."""
    ours = sorted(node for node in known(house) if node in world.texts)
    return world.chance.choice(ours) if ours else None


# ---------------------------------------------------------------- what happens


def remember(world: World, house: House) -> None:
    text = world.text()
    about = world.chance.random() < 0.15
    done = house.call("agent.remember", content=text, about_self=about, tags=[world.chance.choice(WORDS)])
    world.ids[done.node_id] = text
    world.wrote(done.node_id, text)
    world.say(f"remembered {done.short_id}")


def update(world: World, house: House) -> None:
    node = pick(world, house)
    if node is None:
        return
    lines = known(house)[node].split("\n\n")
    at = world.chance.randrange(len(lines))
    lines[at] = f"{lines[at].split()[0]} {world.chance.getrandbits(32):08x}"
    text = "\n\n".join(lines)
    world.wrote(node, text)
    more = world.chance.choice([{}, {"title": world.text()[:30].replace("\n", " ")}, {"tier": "archival"}])
    house.call("agent.update", node_id=node, content=text, **more)
    world.say(f"updated {node[:8]}")


def tag(world: World, house: House) -> None:
    node = pick(world, house)
    if node is not None:
        house.call("agent.update", node_id=node, add_tags=[world.chance.choice(WORDS)])
        world.say(f"tagged {node[:8]}")


def forget(world: World, house: House) -> None:
    node = pick(world, house)
    if node is None or len(world.ids) < 5:
        return
    world.ids.pop(node, None)
    world.forgotten.add(node)
    house.call("agent.forget", node_id=node)
    world.say(f"forgot {node[:8]}")


def connect(world: World, house: House) -> None:
    one, other = pick(world, house), pick(world, house)
    if one is not None and other is not None and one != other:
        edge = world.chance.choice(["supports", "related_to", "part_of"])
        house.call("agent.connect", source_id=one, target_id=other, edge=edge)
        world.say(f"connected {one[:8]} {edge} {other[:8]}")


def edit_by_hand(world: World, house: House) -> None:
    """A person saves a note, or moves its file; the daemon takes it in when it rests."""
    node = pick(world, house)
    if node is None:
        return
    path = house.call("agent.get", node_id=node, touch=False).path
    file = house.vault / path
    if world.chance.random() < 0.4:
        moved = f"moved/{world.chance.randrange(4)}/{Path(path).name}"
        target = house.vault / moved
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            os.rename(file, target)
            wait_until(lambda: house.call("agent.get", node_id=node, touch=False).path == moved, f"{node} moved")
            world.say(f"moved {node[:8]} to {moved}")
        return
    line = world.text().replace("\n\n", " ")
    save(file, file.read_text() + f"\n{line}\n")
    wait_until(lambda: line in known(house).get(node, ""), f"{node} edited")
    world.wrote(node, known(house)[node])
    world.say(f"edited {node[:8]} by hand")


def drop_in(world: World, house: House) -> None:
    """A person puts a note of their own into the folder."""
    text = world.text()
    path = f"by-hand/{world.count}-{world.chance.getrandbits(16):04x}.md"
    (house.vault / "by-hand").mkdir(exist_ok=True)
    (house.vault / path).write_text(text + "\n")
    node = wait_until(
        lambda: next((node for node, content in known(house).items() if content == text), None), f"{path} is adopted"
    )
    world.ids[node] = text
    world.wrote(node, text)
    world.say(f"dropped in {path} as {node[:8]}")


def same_place(world: World, house: House) -> None:
    """Both sides put different notes at one path."""
    number = world.chance.getrandbits(16)
    for each in world.houses:
        text = world.text()
        (each.vault / f"same-{number}.md").write_text(text + "\n")
        node = wait_until(
            lambda each=each, text=text: next((n for n, content in known(each).items() if content == text), None),
            "the same path twice is adopted",
        )
        world.ids[node] = text
        world.wrote(node, text)
    world.say(f"same-{number}.md on both sides")


CHANGES: list[Callable[[World, House], None]] = [
    remember, remember, remember, update, update, update, tag, tag, forget, connect, edit_by_hand, drop_in, same_place,
]  # fmt: skip


def synced(house: House) -> subprocess.CompletedProcess[str]:
    """Sync; say yes where the other side forgot or moved several notes that a person had put there."""
    done = house.ctl("--json", "sync")
    if done.returncode == 2 and json.loads(done.stderr)["error"]["code"] == "unconfirmed":
        done = house.ctl("--json", "sync", "--yes")
    return done


def sync(world: World, house: House) -> None:
    done = synced(house)
    name = house.home.name
    assert done.returncode in {0, 75}, done.stderr
    if done.returncode == 0:
        found = json.loads(done.stdout)
        world.conflicts |= {(item["op"]) for item in found["conflicts"]}
        world.say(f"{name} synced: {found['pulled']} in, {found['pushed']} out, {len(found['conflicts'])} conflicts")


def killed(world: World, house: House) -> None:
    """SIGKILL to the daemon's group, in the middle of a sync or of a write, and up again."""
    world.say(f"{house.home.name} is killed")
    syncing = subprocess.Popen(
        [sys.executable, "-m", "ormahctl", "sync"], env=house.env, cwd=house.home,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    text = world.text()
    wait_until(lambda: syncing.poll() is not None or house.call("admin.health").clients > 1, "the sync has begun")
    pause = world.chance.random() * 0.3
    with house.connect() as connection:
        if world.chance.random() < 0.5:
            try:
                done = connection.call("agent.remember", {"content": text}, timeout=pause + 0.01)
                world.ids[done.node_id] = text
                world.wrote(done.node_id, text)
            except (OrmahError, OSError):
                world.wrote("?", text)  # it may be there or not: nobody was told
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                syncing.wait(pause)
    house.kill()
    syncing.wait(120)
    house.start()


# ---------------------------------------------------------------- what must hold


def level(world: World) -> None:
    one, two = world.houses
    for _ in range(LEVEL):
        for house in world.houses:
            done = synced(house)
            assert done.returncode == 0, done.stderr
        if one.git("rev-parse", "HEAD") == two.git("rev-parse", "HEAD"):
            return
    pytest.fail("the two machines do not come to the same")


def check(world: World) -> None:
    one, two = world.houses
    assert one.git("rev-parse", "HEAD^{tree}") == two.git("rev-parse", "HEAD^{tree}")
    assert one.notes() == two.notes()
    memories = known(one)
    assert memories == known(two)
    lost = set(world.ids) - set(memories)
    assert not lost, f"acknowledged and lost: {lost}"
    listed = {}
    for house in world.houses:
        assert house.git("status", "--porcelain") == ""
        house.git("fsck", "--strict", "--no-dangling")
        verified = house.call("admin.verify")
        assert verified.ok, verified.differences[:5]
        for path, data in house.notes().items():
            note = parse(data, path)
            assert note.kind is NoteKind.NOTE, (path, note.problems)
            assert not any(line.startswith((b"<<<<<<<", b">>>>>>>")) for line in data.splitlines()), path
        for item in house.json("review")["conflicts"]:
            listed.setdefault(item["op"], []).append((house, item))
            for file in item["files"].values():
                assert (house.vault / file).is_file()
    # what a sync said is listed, and what the history says was a conflict too
    met = {
        line.split()[1]
        for line in one.git("log", "--format=%x00%B").replace("\0", "").splitlines()
        if line.startswith("Ormah-Op:")
    }
    assert world.conflicts <= set(listed)
    told = one.git("log", "--grep=Ormah-Conflict: ", "--format=%(trailers:key=Ormah-Op,valueonly)").split()
    assert set(told) <= set(listed)
    assert set(listed) <= met | {"unclaimed"}
    for entries in listed.values():
        for house, item in entries:
            if item["kept"]:
                assert item["node"] in memories or item["node"] in world.forgotten or item["node"] is None
                assert (
                    (house.vault / item["path"]).exists() or item["node"] in memories or item["node"] in world.forgotten
                )


def play(changes: int, seed: int, *, check_every: int) -> None:
    chance = random.Random(seed)
    with open_house() as one, open_house() as two:
        world = World((one, two), chance)
        try:
            bare = one.home / "remote.git"
            subprocess.run(["git", "init", "-q", "--bare", "--initial-branch=main", str(bare)], check=True)
            for house in world.houses:
                house.start()
                house.json("sync", "setup", str(bare), "--yes")
            for number in range(1, changes + 1):
                house = chance.choice(world.houses)
                try:
                    chance.choice(CHANGES)(world, house)
                except VaultBusy:
                    world.say("git was busy")
                for each in world.houses:
                    if chance.random() < 0.15:
                        sync(world, each)
                if chance.random() < 0.06:
                    killed(world, chance.choice(world.houses))
                if number % check_every == 0:
                    level(world)
                    check(world)
                    world.say("checked")
            level(world)
            check(world)
            assert world.ids
        except BaseException:
            print(f"seed {seed}; the last steps:", *world.steps[-40:], sep="\n  ")
            raise


def test_forty_changes() -> None:
    play(40, int(os.environ.get("ORMAH_TEST_SEED", "1")), check_every=40)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [11, 12])
def test_five_hundred_changes(seed: int) -> None:
    play(500, seed, check_every=100)
