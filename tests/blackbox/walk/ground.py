"""Where walks take place: the house, what the model says of it, and how the two are compared."""

from __future__ import annotations

import random
import subprocess
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ormahd.errors import NotFound, NotReady
from tests.blackbox.walk import model
from tests.blackbox.walk.model import Change, State, Value
from tests.house import House, save, wait_until
from tests.quality.month.clocked import CLOCK

WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty", "knoll", "ledge"]
CONSONANTS = "bcdfghjklmnpqrstvwxz"


@dataclass
class Done:
    """A commit that changed notes. `op` None: it is not ours."""

    commit: str
    op: str | None
    change: Change
    takes: Done | None = None
    kind: str = ""
    taken: list[Done] = field(default_factory=list)
    """What took it back, in order."""


class Ground:
    """The house, the model of it, and what is compared after each step."""

    def __init__(self, house: House, seed: int) -> None:
        self.house = house
        self.seed, self.chance = seed, random.Random(seed)
        self.clock(datetime.now(UTC))
        house.start()
        self.self_id = self.trailer(self.git("rev-list", "--max-parents=0", "HEAD").strip(), "Ormah-Nodes").split()[0]
        self.branch = self.git("symbolic-ref", "--short", "HEAD").strip()
        self.state: State = {}
        self.states: dict[str, State] = {self.head(): {}}
        """Of every commit that was looked into."""
        self.done: dict[str, Done] = {}
        self.synced = ""
        """The commit that the last sync left."""
        self.gone: set[str] = set()
        """Ids of memories that are not there now, but were."""
        self.asked: State = {}
        """The memories when they were last asked for."""
        self.turn = 0
        self.count = 0
        self.tally: dict[str, int] = {}
        self.trace: list[str] = []

    # Ways to the house

    def git(self, *words: str) -> str:
        """git as a person types it: again, where the daemon was committing at that moment."""
        done = self.try_git(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def try_git(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        env = self.house.env | {"GIT_EDITOR": "true"}

        def typed() -> subprocess.CompletedProcess[str] | None:
            done = subprocess.run(["git", *words], cwd=cwd or self.house.vault, env=env, capture_output=True, text=True)
            silent = (
                words[0] == "stash" and not done.stdout + done.stderr
            )  # git stash does not name the lock that it met
            return None if done.returncode and (silent or ".lock': File exists" in done.stderr) else done

        return wait_until(typed, f"git is free for {words}")

    def head(self) -> str:
        return self.git("rev-parse", "HEAD").strip()

    def trailer(self, commit: str, key: str) -> str:
        return self.git("log", "-1", f"--format=%(trailers:key={key},valueonly)", commit).strip()

    def clock(self, moment: datetime) -> None:
        save(self.house.home / CLOCK, moment.isoformat())
        self.moved = time.monotonic(), moment

    def moment(self) -> datetime:
        """What time it is for the daemon."""
        return self.moved[1] + timedelta(seconds=time.monotonic() - self.moved[0])

    def say(self, what: str) -> None:
        self.trace.append(what)

    # What is there

    def look(self) -> State:
        return model.observed(self.house.notes(), self.self_id)

    def state_at(self, commit: str) -> State:
        """What a commit holds, by its objects."""
        if commit not in self.states:
            files = {}
            for line in self.git("ls-tree", "-rz", commit).split("\0"):
                about, _, path = line.partition("\t")
                if path.endswith(".md") and not path.startswith("."):
                    files[path] = about.split()[2]
            given = "\n".join(files.values()).encode()
            found = subprocess.run(["git", "cat-file", "--batch"], cwd=self.house.vault, env=self.house.env, input=given,
                                   capture_output=True, check=True).stdout  # fmt: skip
            notes, at = {}, 0
            for path, name in files.items():
                size = int(found[at : found.index(b"\n", at)].split()[2])
                at = found.index(b"\n", at) + 1
                notes[path] = found[at : at + size]
                assert model.digest(notes[path]) == name
                at += size + 1
            kept = {path: data for path, data in notes.items() if model.read(data, path)[0] is not None}
            self.states[commit] = model.observed(kept, self.self_id)
        return self.states[commit]

    def quiet(self) -> None:
        """Everything is committed, and the index has followed."""
        house = self.house
        wait_until(
            lambda: self.git("status", "--porcelain") == "", lambda: f"clean: {self.git('status', '--porcelain')}"
        )
        wait_until(lambda: house.call("admin.health").index.fresh, "the index has followed")

    def expect(self, expected: State, what: str) -> None:
        """The folder is as the model says, and the model learns the bytes."""
        found = self.look()
        assert not (other := differences(found, expected)), f"{what}: {other}"
        wrong = [n for n, v in expected.items() if v.digest and v.digest != found[n].digest]
        assert not wrong, f"{what}: other bytes in {wrong}"
        self.gone |= self.state.keys() | expected.keys()
        self.state = found
        self.gone -= found.keys()

    def learn(self, head: str, takes: Done | None = None) -> list[Done]:
        """The commits that were made since `head`, with what each did, oldest first."""
        made = []
        trailers = "%x00".join(f"%(trailers:key={key},valueonly,separator=)" for key in ("Ormah-Op", "Ormah-Kind"))
        for line in self.git("log", "--reverse", f"--format=%H %P%x00{trailers}", f"{head}..HEAD").splitlines():
            ids, op, kind = line.split("\0")
            commit, *parents = ids.split()
            if len(parents) != 1 or commit in self.done:
                continue
            change = model.difference(self.state_at(parents[0]), self.state_at(commit))
            if change:
                done = Done(commit, op or None, change, takes, kind)
                self.done[commit] = done
                made.append(done)
        if takes is not None:
            assert made, "what took something back is a commit"
            takes.taken.append(made[-1])
        return made

    def check(self, *, all_of_them: bool = True) -> None:
        """Every memory is where the model says: its file, git, and the index (`verify`). Asked for by its id and by its word is what
        changed since it was last asked for, and a third of the others, in turn; or `all_of_them`."""
        self.quiet()
        house = self.house
        wait_until(lambda: house.call("admin.verify").ok, lambda: f"verify: {house.call('admin.verify')}")
        self.expect(self.state, "the folder")
        listed = {}
        for line in self.git("ls-tree", "-rz", "HEAD").split("\0"):
            about, _, path = line.partition("\t")
            if path.endswith(".md"):
                listed[path] = about.split()[2]
        for value in self.state.values():
            assert listed.pop(value.path) == value.digest, f"{value.path} in git"
        assert len(listed) == 1, f"{listed}: more than the self node"
        with self.house.connect() as connection:
            self.turn = (self.turn + 1) % 3
            for at, (node, value) in enumerate(self.state.items()):
                if all_of_them or self.asked.get(node) != value or at % 3 == self.turn:
                    self.shown(connection, node, value)
                    self.recalled(connection, node, value)
            self.asked = dict(self.state)
            for node in self.chance.sample(sorted(self.gone), min(2, len(self.gone))):
                wait_until(lambda node=node: self.absent(connection, node), f"{node} is not found")

    def absent(self, connection: Any, node: str) -> bool:
        """Whether the daemon says that it knows no such memory; False while its index is behind the vault."""
        try:
            got = connection.call("agent.get", {"node_id": node, "touch": False})
        except NotReady:
            return False
        except NotFound:
            return True
        raise AssertionError(f"it is gone, and found: {got}")

    def shown(self, connection: Any, node: str, value: Value) -> None:
        got = connection.call("agent.get", {"node_id": node, "touch": False})
        said = got.path, got.title, got.tier, got.space, frozenset(got.tags), tuple(got.content.split("\n\n"))
        assert said == (value.path, value.title, value.tier, value.space, value.tags, value.slots), (value, got)

    def recalled(self, connection: Any, node: str, value: Value) -> None:
        mark = mark_of(value)
        got = connection.call("agent.recall", {"query": mark, "limit": 10})
        found = [hit.id for hit in got.results if mark in hit.content]
        ended = value.valid_until is not None and value.valid_until <= self.moment()
        assert found == ([] if ended else [node]), f"recall of {mark}: {got}"

    # Words

    def word(self) -> str:
        self.count += 1
        return f"{self.chance.choice(WORDS)} {self.count}"

    def slots(self) -> tuple[str, ...]:
        mark = "".join(self.chance.choices(CONSONANTS, k=9))
        return tuple(
            f"{place} {mark if at == 0 else 'line'} says {self.word()}." for at, place in enumerate(model.PLACES)
        )

    def another(self, slots: tuple[str, ...]) -> tuple[str, ...]:
        """The lines with one of them changed."""
        at = self.chance.randrange(model.SLOTS)
        return (*slots[:at], f"{slots[at].split(' says ')[0]} says {self.word()}.", *slots[at + 1 :])

    def any(self, state: State | None = None) -> str:
        """One of the memories: in the order of their words, because ids are others each time."""
        there = self.state if state is None else state
        return self.chance.choice(sorted(there, key=lambda node: mark_of(there[node])))


def mark_of(value: Value) -> str:
    """The word that only this memory has."""
    return value.slots[0].split()[1]


def differences(found: State, expected: State) -> list[str]:
    """What the folder has otherwise than the model, a line each."""
    out = []
    for node in {**found, **expected}:
        one, other = found.get(node), expected.get(node)
        if one is None or other is None:
            out.append(f"{node} is {'there' if one else 'not there'}: {one or other}")
        else:
            out += [
                f"{node}: {key} is {now}, not {other.said[key]}"
                for key, now in one.said.items()
                if now != other.said[key]
            ]
    return out


def nothing(expected: State, before: State) -> bool:
    """Whether an undo comes to nothing: all is as it stands, or says what stands there."""
    return expected.keys() == before.keys() and all(
        value.said == before[node].said and value.digest in {"", before[node].digest}
        for node, value in expected.items()
    )
