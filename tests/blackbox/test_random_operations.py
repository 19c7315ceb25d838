"""Random writes, edits by hand, links, undos, `git revert`s and restarts, against a pure model after each (DESIGN 2.3, 10).

At the end everything since a mark is taken back, newest first, and the vault's tree is that of the mark. A failure names its
seed: `ORMAH_SEED=7 pytest tests/blackbox/test_random_operations.py`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from dataclasses import dataclass, replace

import pytest

from ormahd.core.node import EdgeType, Tier
from ormahd.core.note import edit, parse
from tests.blackbox import undo_model as model
from tests.blackbox.undo_model import Change, Conflicts, State
from tests.house import House, open_house, wait_until

WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty", "knoll", "ledge"]
EDGES = [EdgeType.SUPPORTS, EdgeType.PART_OF, EdgeType.DEPENDS_ON]
MEMORIES = 25
"""About so many at a time, so that operations meet each other."""


@dataclass
class Done:
    """A commit that changed notes. `op` None: made by `git revert`. `undone_by`: the commit that took it back."""

    commit: str
    op: str | None
    change: Change
    takes: Done | None = None
    undone_by: Done | None = None

    @property
    def is_undone(self) -> bool:
        return self.undone_by is not None and not self.undone_by.is_undone


class Machine:
    def __init__(self, house: House, seed: int) -> None:
        self.house = house
        self.chance = random.Random(seed)
        self.self_id = house.git("show", "-s", "--format=%B", house.git("rev-list", "--max-parents=0", "HEAD").strip())
        self.self_id = self.self_id.split("Ormah-Nodes: ")[1].split()[0]
        self.state: State = {}
        self.done: list[Done] = []
        self.count = 0
        self.tally: dict[str, int] = {}
        self.trace: list[str] = []
        self.look()

    # What is there

    def look(self) -> State:
        return model.observed(self.house.notes(), self.self_id)

    def head(self) -> str:
        return self.house.git("rev-parse", "HEAD").strip()

    def quiet(self) -> None:
        """Everything is committed, and the index has followed: a note that moved is a copy of itself for a moment."""
        wait_until(lambda: self.house.git("status", "--porcelain") == "", "everything is committed")
        try:
            wait_until(lambda: self.house.call("admin.verify").ok, "the index equals the vault")
        except pytest.fail.Exception as exc:
            raise AssertionError(f"{exc}: {self.house.call('admin.verify')}") from exc

    def expect(self, expected: State, what: str) -> None:
        """The vault is as the model says, and the model learns the bytes."""
        found = self.look()
        assert {n: v.said for n, v in found.items()} == {n: v.said for n, v in expected.items()}, what
        wrong = [n for n, v in expected.items() if v.digest and v.digest != found[n].digest]
        assert not wrong, f"{what}: other bytes in {wrong}"
        self.state = found

    def record(self, before: State, op: str | None, commit: str, takes: Done | None = None) -> Done:
        done = Done(commit, op, model.difference(before, self.state), takes)
        if takes is not None:
            takes.undone_by = done
        self.done.append(done)
        return done

    # Operations

    def word(self) -> str:
        self.count += 1
        return f"{self.chance.choice(WORDS)} {self.count}"

    def slots(self) -> tuple[str, ...]:
        return tuple(f"{place} says {self.word()}." for place in ("First", "Second", "Third", "Fourth"))

    def any(self) -> str:
        return self.chance.choice(sorted(self.state))

    def remember(self) -> None:
        before, slots, title = self.state, self.slots(), self.word()
        tier = self.chance.choice(list(Tier))
        made = self.house.call("agent.remember", content=model.content(slots), title=title, tier=tier, space="random")
        found = self.look()[made.node_id]
        assert (found.title, found.tier, found.slots, dict(found.edges)) == (title, tier, slots, {})
        self.expect({**before, made.node_id: found}, "remember")
        self.record(before, made.op, made.commit)

    def changed(self, data: bytes, path: str, slots: tuple[str, ...]) -> tuple[bytes, tuple[str, ...]]:
        """A note with one thing changed as a person would; its new lines."""
        what = self.chance.choice(["slot", "slot", "title", "tier", "tag"])
        if what == "slot":
            at = self.chance.randrange(model.SLOTS)
            slots = (*slots[:at], f"{slots[at].split(' says ')[0]} says {self.word()}.", *slots[at + 1 :])
            return edit(data, path, content=model.content(slots)), slots
        fields = {"title": self.word(), "tier": self.chance.choice(list(Tier)), "tag": [self.chance.choice(WORDS)]}
        return edit(data, path, set={{"tag": "tags"}.get(what, what): fields[what]}), slots

    def update(self) -> None:
        node, before = self.any(), self.state
        old = before[node]
        wish: dict[str, object] = {}
        expected = old
        what = self.chance.choice(["slot", "slot", "title", "tier", "add", "remove"])
        if what == "slot":
            at = self.chance.randrange(model.SLOTS)
            slots = (*old.slots[:at], f"{old.slots[at].split(' says ')[0]} says {self.word()}.", *old.slots[at + 1 :])
            wish, expected = {"content": model.content(slots)}, replace(old, slots=slots)
        elif what in {"title", "tier"}:
            given = self.word() if what == "title" else self.chance.choice(list(Tier))
            wish, expected = {what: given}, replace(old, **{what: given})
        else:
            tag = self.chance.choice(WORDS)
            tags = old.tags | {tag} if what == "add" else old.tags - {tag}
            wish, expected = {f"{what}_tags": [tag]}, replace(old, tags=tags)
        done = self.house.call("agent.update", node_id=node, **wish)
        self.written(before, node, expected, done)

    def connect(self) -> None:
        node, other = self.any(), self.any()
        if node == other:
            return
        before, kind = self.state, self.chance.choice(EDGES)
        key = f"{kind}:{other[:8]}"
        edges = dict(before[node].edges)
        if key in edges and self.chance.random() < 0.5:
            del edges[key]
            done = self.house.call("agent.connect", source_id=node, target_id=other, edge=kind, remove=True)
        else:
            weight = self.chance.choice([0.3, 0.6, 0.9])
            done = self.house.call("agent.connect", source_id=node, target_id=other, edge=kind, weight=weight)
            created = edges[key][1] if key in edges else self.look()[node].edges[key][1]
            edges[key] = weight, created
        self.written(before, node, replace(before[node], edges=edges), done)

    def written(self, before: State, node: str, expected: model.Value, done: object) -> None:
        """A change of one note by the daemon: its date is new, all else as expected."""
        if not done.changed:  # type: ignore[attr-defined]
            self.expect(before, "nothing to change")
            return
        expected = replace(expected, updated=self.look()[node].updated, digest="")
        self.expect({**before, node: expected}, "a change of one note")
        self.record(before, done.op, done.commit)  # type: ignore[attr-defined]

    def forget(self) -> None:
        node, before = self.any(), self.state
        done = self.house.call("agent.forget", node_id=node)
        self.expect({n: v for n, v in before.items() if n != node}, "forget")
        self.record(before, done.op, done.commit)

    def by_hand(self) -> None:
        """An edit, a move or a deletion in the folder, by a person."""
        node, before, head = self.any(), self.state, self.head()
        old = before[node]
        file = self.house.vault / old.path
        after = dict(before)
        how = self.chance.random()
        if how < 0.7:
            data, slots = self.changed(file.read_bytes(), old.path, old.slots)
            after[node] = replace(model.value(model.parse(data, old.path)), slots=slots)
            if data == file.read_bytes():
                return
            file.write_bytes(data)
        elif how < 0.9:
            self.count += 1
            there = self.house.vault / model.fresh_place(old.path, self.count)
            there.parent.mkdir(parents=True, exist_ok=True)
            file.rename(there)
            after[node] = replace(old, path=there.relative_to(self.house.vault).as_posix())
        else:
            file.unlink()
            del after[node]
        wait_until(lambda: self.head() != head, "the edit is taken in")
        self.quiet()
        self.expect(after, "an edit by hand")
        (made,) = self.house.git("rev-list", f"{head}..HEAD").split()
        self.record(before, self.op_of(made), made)

    def op_of(self, commit: str) -> str:
        found = self.house.git("log", "-1", "--format=%(trailers:key=Ormah-Op,valueonly)", commit).strip()
        assert found, f"{commit} is not ours"
        return found

    def target(self, *, ours: bool) -> Done | None:
        known = [done for done in self.done if done.op is not None or not ours]
        return self.chance.choice(known[-40:]) if known else None

    def undo(self) -> None:
        target = self.target(ours=True)
        if target is None:
            return
        before, head = self.state, self.head()
        name = target.op if self.chance.random() < 0.5 else target.commit[:14]
        said = self.house.ctl("--json", "undo", str(name))
        try:
            expected = None if target.is_undone else model.taken_back(before, target.change)
        except Conflicts:
            expected = None
        if expected is None or _nothing(expected, before):
            assert said.returncode == 4, (said.stdout, said.stderr)
            assert self.head() == head
            self.tally["undo refused"] = self.tally.get("undo refused", 0) + 1
            self.expect(before, "a refused undo")
            return
        assert said.returncode == 0, said.stderr
        (done,) = json.loads(said.stdout)["undone"]
        self.expect(expected, f"undo of {target.commit}")
        self.record(before, done["undo_op"], done["commit"], target)

    def revert(self) -> None:
        """What git makes of it is what undo would, or it refuses: it goes by names, so that a note that moved may be
        beyond it, and then nothing has changed either."""
        target = self.target(ours=False)
        if target is None:
            return
        before, head = self.state, self.head()
        done = subprocess.run(["git", "revert", "--no-edit", target.commit], cwd=self.house.vault, env=self.house.env,
                              capture_output=True, text=True)  # fmt: skip
        try:
            expected = model.taken_back(before, target.change)
        except Conflicts:
            expected = None
        if done.returncode:
            self.house.git("reset", "-q", "--hard", head)  # `--abort` knows nothing of a revert that came to nothing
            stayed = all((was or now).path == before[node].path for node, (was, now) in target.change.items()
                         if node in before and (was or now))  # fmt: skip
            moved = any(was and now and was.path != now.path for was, now in target.change.values())
            same = expected is None or _nothing(expected, before)
            assert same or moved or not stayed, f"git refused {target.commit}: {done.stdout}{done.stderr}"
            self.tally["revert refused"] = self.tally.get("revert refused", 0) + 1
            self.quiet()
            self.expect(before, "a refused revert")
            return
        self.quiet()
        if expected is None or self.doubled():
            self.came_back(target, before, head)
            return
        self.expect(expected, f"git revert of {target.commit}")
        self.record(before, None, self.head(), target)

    def doubled(self) -> bool:
        ids = [parse(data, path).id for path, data in self.house.notes().items()]
        return len(set(ids)) < len(ids)

    def came_back(self, target: Done, before: State, head: str) -> None:
        """Git put a note back at a place that it had left by moving: a copy, and the memory stays where it lives."""
        ((node, (was, _)),) = target.change.items()
        left = was is not None and node in before and was.path != before[node].path
        assert left, f"git reverted what conflicts: {target.commit}"
        assert self.house.call("agent.get", node_id=node).path == before[node].path
        self.house.git("reset", "-q", "--hard", head)
        self.tally["copies"] = self.tally.get("copies", 0) + 1
        self.quiet()
        self.expect(before, "a copy that went again")

    def restart(self) -> None:
        self.house.restart()
        self.quiet()
        self.expect(self.state, "a restart")

    # The walk

    def step(self) -> None:
        ways = [(self.update, 18), (self.connect, 14), (self.by_hand, 14), (self.undo, 24), (self.revert, 12),
                (self.restart, 1), (self.forget, 6 if len(self.state) > MEMORIES // 2 else 1),
                (self.remember, 8 if len(self.state) < MEMORIES else 2)]  # fmt: skip
        if len(self.state) < 4:
            ways = [(self.remember, 1)]
        (way,) = self.chance.choices([way for way, _ in ways], [weight for _, weight in ways])
        self.tally[way.__name__] = self.tally.get(way.__name__, 0) + 1
        self.trace.append(way.__name__)
        try:
            way()
        except Exception as exc:
            raise AssertionError(f"after {', '.join(self.trace[-6:])}; verify says {self.house.ctl('verify')}") from exc

    def check(self) -> None:
        self.quiet()
        self.house.git("fsck", "--strict", "--no-dangling")

    def back_to(self, mark: str) -> None:
        """Take back every commit since the mark, newest first: ours by undo, those of git by git."""
        for commit in self.house.git("rev-list", f"{mark}..HEAD").split():
            parent = self.house.git("rev-parse", f"{commit}^^{{tree}}")
            ours = "Ormah-Op: " in self.house.git("show", "-s", "--format=%B", commit)
            if ours:
                (done,) = self.house.call("history.undo", ops=[commit]).undone
                assert not done.merged, "nothing stands between it and what it left"
            else:
                self.house.git("revert", "--no-edit", commit)
                self.quiet()
            assert self.house.git("rev-parse", "HEAD^{tree}") == parent, f"{commit} was not taken back whole"


def _nothing(expected: State, before: State) -> bool:
    """Whether an undo comes to nothing: all is as it stands, or says what stands there."""
    return expected.keys() == before.keys() and all(
        value.said == before[node].said and value.digest in {"", before[node].digest}
        for node, value in expected.items()
    )


def run(count: int, seed: int) -> None:
    with open_house(ORMAH_LINKING_SIMILARITY="1.0") as house:
        house.start()
        machine = Machine(house, seed)
        mark = machine.head()
        for number in range(count):
            if number == count // 5:
                mark = machine.head()
            machine.step()
            if number % 10 == 9:
                machine.house.git("fsck", "--strict", "--no-dangling")
            if number % 50 == 49:
                machine.check()
        machine.check()
        print(f"seed {seed}: {machine.tally}")
        machine.back_to(mark)
        assert house.git("rev-parse", "HEAD^{tree}") == house.git("rev-parse", f"{mark}^{{tree}}")
        machine.check()
        assert house.git("status", "--porcelain") == ""


SEED = int(os.environ.get("ORMAH_SEED", "1"))


def test_a_hundred_operations() -> None:
    run(100, SEED)


@pytest.mark.soak
@pytest.mark.timeout(14_400)
def test_a_thousand_operations() -> None:
    run(1_000, SEED + 1)
