"""What happens beside that: other machines, jobs, time and accidents."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from ormahd.errors import Internal, OrmahError
from tests.blackbox.walk import model
from tests.blackbox.walk.ground import mark_of
from tests.blackbox.walk.model import Conflicts, State, Value
from tests.blackbox.walk.people import People
from tests.house import wait_until


class World(People):
    # Several machines

    def sync(self) -> None:
        """Another machine, whose person has git and no daemon, changes something; then this one syncs."""
        bare, other = self.house.home / "remote.git", self.house.home / "other"
        if not bare.exists():
            subprocess.run(["git", "init", "-q", "--bare", f"--initial-branch={self.branch}", str(bare)], check=True)
            self.house.json("sync", "setup", str(bare), "--yes")
            self.synced = self.head()
            self.quiet()
            self.try_git("clone", "-q", str(bare), str(other), cwd=self.house.home)
        head, ours = self.head(), self.state
        assert self.try_git("fetch", "-q", cwd=other).returncode == 0
        assert self.try_git("reset", "-q", "--hard", f"origin/{self.branch}", cwd=other).returncode == 0
        self.git("fetch", "-q", str(bare), self.branch)
        theirs = self.state_at(self.git("rev-parse", "FETCH_HEAD").strip())
        for _ in range(self.chance.randrange(3)):
            theirs = self.elsewhere(other, theirs)
        there = self.try_git("rev-parse", "HEAD", cwd=other).stdout.strip()
        self.git("fetch", "-q", str(bare), self.branch)
        base = self.state_at(self.git("merge-base", head, there).strip())
        try:
            expected: State | None = model.brought_together(base, ours, theirs)
        except Conflicts:
            expected = None
        if self.rewritten(head):
            refused = self.house.ctl("--json", "sync")
            assert refused.returncode == 4, refused
            assert json.loads(refused.stderr)["error"]["data"]["reason"] == "rewritten"
            self.quiet()
            self.expect(ours, "a refused sync")
            self.git("push", "-q", "--force", str(bare), f"HEAD:{self.branch}")  # as the hint says
            self.house.json("sync")
            self.synced = self.head()
            self.tally["rewritten"] = self.tally.get("rewritten", 0) + 1
            return
        said = self.house.json("sync")
        self.synced = self.head()
        self.quiet()
        if expected is None:
            assert said["conflicts"] or said["replaced"], f"the model has a conflict: {said}"
            self.tally["conflicts"] = self.tally.get("conflicts", 0) + 1
            expected = self.look()
            kept = (ours.keys() & theirs.keys()) - expected.keys()
            assert not kept, f"{kept}: lost in a conflict"
            for node in expected:
                assert self.either(expected[node], ours.get(node), theirs.get(node)), node
        self.expect(expected, "sync")
        self.learn(head)
        at = self.try_git("ls-remote", str(bare), self.branch).stdout.split()[0]
        assert at == self.head(), "the remote has it all"

    def rewritten(self, head: str) -> bool:
        """Whether what the last sync left has been taken out of the history since. A reset to an older commit alone, with
        nothing new after it, is no other history: a sync brings back what came after, as `git pull` does."""
        pairs = ((self.synced, head), (head, self.synced))
        return all(self.try_git("merge-base", "--is-ancestor", *pair).returncode for pair in pairs)

    @staticmethod
    def either(now: Value, ours: Value | None, theirs: Value | None) -> bool:
        """Whether every line of a memory comes from one of the sides."""
        sides = [side for side in (ours, theirs) if side is not None]
        return all(any(now.slots[at] == side.slots[at] for side in sides) for at in range(model.SLOTS))

    def elsewhere(self, other: Path, state: State) -> State:
        """A commit of the other machine, pushed; its state then."""
        after = dict(state)
        if not state or self.chance.random() < 0.4:
            slots, title = self.slots(), self.word()
            node = str(uuid.UUID(int=self.chance.getrandbits(128), version=4))
            path = f"elsewhere/{title}.md"
            data = model.new_note(node, title, slots, "2026-01-02T03:04:05Z")
            (other / "elsewhere").mkdir(exist_ok=True)
        else:
            node = self.any(state)
            path = state[node].path
            data, _ = self.edited((other / path).read_bytes(), state[node])
        (other / path).write_bytes(data)
        after[node] = model.read(data, path)[1]
        for words in (("add", "-A"), ("commit", "-qm", "Elsewhere"), ("push", "-q", "origin", self.branch)):
            done = self.try_git(*words, cwd=other)
            assert done.returncode == 0 or "nothing to commit" in done.stdout, (words, done.stdout, done.stderr)
        return after

    # Maintenance

    def jobs(self) -> None:
        """Jobs change what they may: edges, tiers and spaces. No line of any memory, and no memory is less."""
        before, head = self.state, self.head()
        results = self.house.call("admin.run_all").results
        assert not [done.error for done in results if done.error]
        self.quiet()
        after = self.look()
        assert after.keys() == before.keys(), "jobs made or removed memories"
        for node, value in after.items():
            was = before[node]
            same = replace(
                value, tier=was.tier, space=was.space, edges=was.edges, updated=was.updated, digest=was.digest
            )
            assert same == was, f"a job changed {node}"
        self.expect(after, "jobs")
        made = self.learn(head)
        assert {done.commit for done in made} <= {commit for done in results for commit in done.commits}
        self.say(f"jobs made {len(made)}")

    def time_passes(self) -> None:
        """Weeks, or some hours back: a clock that was wrong."""
        days = self.chance.choice([0.1, 1, 40, 100, -0.2, -2])
        self.say(f"the clock is moved by {days} days")
        self.clock(self.moment() + timedelta(days=days))

    # Accidents

    @contextlib.contextmanager
    def writers(self) -> Iterator[None]:
        """Somebody goes on remembering until the daemon is gone, or the block ends. Afterwards what was answered is there; the one
        thing that was not may be."""
        told: dict[str, Value] = {}
        tried: dict[str, tuple[str, ...]] = {}
        faults: list[BaseException] = []
        texts = [self.slots() for _ in range(400)]
        ended = threading.Event()

        def write() -> None:
            try:
                with self.house.connect() as connection:
                    for slots in texts:
                        if ended.is_set():
                            return
                        mark = slots[0].split()[1]
                        tried[mark] = slots
                        done = connection.call(
                            "agent.remember", {"content": model.content(slots), "title": mark, "space": "random"}
                        )
                        told[done.node_id] = Value(
                            done.path or "", "", mark, "fact", "working", "random", None, frozenset(), slots, {}
                        )
                        del tried[mark]
                        time.sleep(0.02)
            except (OrmahError, OSError):
                return  # what was not answered may be there or not
            except BaseException as exc:  # noqa: BLE001 - told to the test, which fails with it
                faults.append(exc)

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        before, head = self.state, self.head()
        try:
            yield
        finally:
            ended.set()
            thread.join(120)
        assert not faults, faults
        assert not thread.is_alive()
        self.quiet()
        found = self.look()
        after = dict(self.state)
        for node, value in found.items():
            if node in before:
                continue
            wish = told.pop(node, None)
            if wish is None:
                if mark_of(value) not in tried:
                    continue  # then it is of somebody else, and expected
                wish = replace(value, title=mark_of(value), type="fact", tier="working", slots=tried[mark_of(value)])
            after[node] = replace(wish, path=value.path, digest=value.digest, updated=value.updated)
        assert not told, f"acknowledged and lost: {told}"
        self.expect(after, "what was written before the accident")
        self.learn(head)

    def killed(self) -> None:
        with self.writers():
            time.sleep(self.chance.uniform(0, 0.15))  # the random instant
            self.house.kill()
            self.house.start()

    def stopped(self) -> None:
        """Asked to stop while somebody writes; a person edits before the next start."""
        with self.writers():
            time.sleep(self.chance.uniform(0, 0.1))
            status = self.house.stop()
            assert status == 0, f"{status}: {self.house.said()}"
            self.house.start()
        self.house.stop()
        head, after = self.head(), self.by_person()
        self.house.start()
        self.taken_in(head, after)

    def meanwhile(self) -> None:
        """A person does something in the folder, and perhaps commits it, while somebody goes on remembering."""
        with self.writers():
            time.sleep(self.chance.uniform(0, 0.1))
            head = self.head()
            self.state = self.by_person()
            if self.chance.random() < 0.3:
                self.git("add", "-A")
                self.try_git("commit", "-qm", "By hand, meanwhile")
            wait_until(lambda: self.head() != head, "something is committed")

    def killed_in_an_edit(self) -> None:
        """The daemon is killed while it takes in what a person did, or before, or after."""
        head, after = self.head(), self.by_person()
        time.sleep(self.chance.uniform(0.05, 0.3))
        self.house.kill()
        self.house.start()
        self.taken_in(head, after)

    def killed_in_an_undo(self) -> None:
        """An undo that nobody was answered is done or not."""
        target = self.target(ours=True)
        if target is None or self.is_undone(target):
            return
        before, head = self.state, self.head()
        try:
            after = model.taken_back(before, target.change)
        except Conflicts:
            return
        answered: list[bool] = []

        def undo() -> None:
            with contextlib.suppress(OrmahError, OSError):
                self.house.call("history.undo", ops=[target.commit])
                answered.append(True)

        thread = threading.Thread(target=undo, daemon=True)
        thread.start()
        time.sleep(self.chance.uniform(0, 0.08))
        self.house.kill()
        thread.join(120)
        self.house.start()
        self.quiet()
        done = self.head() != head
        assert done or not answered
        self.say(
            f"the undo of {target.op} is {'done' if done else 'not done'}, {'answered' if answered else 'not answered'}"
        )
        self.expect(after if done else before, "an undo that was cut off")
        if done:
            self.learn(head, target)

    def index_deleted(self) -> None:
        self.house.stop()
        shutil.rmtree(self.house.index_dir)
        self.house.start()

    def disk_full(self) -> None:
        """The disk is full for a while; what is refused says so, and when there is room again everything works."""
        filler = self.house.home / "filler"
        before, head = self.state, self.head()
        after = dict(before)
        self.fill(filler, self.chance.choice([0, 0, 4, 16, 64, 200]) << 10)
        told: dict[str, tuple[str, ...]] = {}
        tried: dict[str, tuple[str, ...]] = {}
        refused = 0
        for _ in range(self.chance.randrange(1, 5)):
            slots = self.slots()
            try:
                done = self.house.call("agent.remember", content=model.content(slots), space="random")
                told[done.node_id] = slots
            except Internal:
                raise
            except OrmahError as exc:
                refused += 1
                self.say(f"refused: {exc}")
                if "nothing was changed" not in str(exc):
                    tried[slots[0].split()[1]] = slots
            with contextlib.suppress(OrmahError):
                node = self.any()
                got = self.house.call("agent.get", node_id=node, touch=False)
                assert got.path == before[node].path
        how = self.chance.random()
        if how < 0.3:
            self.say("killed on a full disk")
            self.house.kill()
        filler.unlink()
        if how < 0.3:
            self.house.start()
        wait_until(lambda: self.house.call("hello").phase == "ready", "it is ready again", 30)
        self.quiet()
        for node, value in self.look().items():
            if node in before:
                continue
            slots = told.pop(node, None) or tried.get(mark_of(value), ())
            assert value.slots == slots, f"{value}: nobody said that"
            after[node] = value
        assert not told, f"acknowledged and lost: {told}"
        self.expect(after, "a disk that was full")
        self.learn(head)
        self.tally["refused for want of room"] = self.tally.get("refused for want of room", 0) + refused
        self.remember()

    def fill(self, filler: Path, leave: int) -> None:
        for _ in range(10):  # the daemon may write between the question and the answer
            there = os.statvfs(self.house.home)
            with filler.open("wb") as file, contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), 0, max(there.f_bavail * there.f_frsize - leave, 4096))
                return
