"""What people do: in the folder, with `undo`, with git."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from ormahd.errors import Conflict, VaultBusy
from tests.blackbox.walk import model
from tests.blackbox.walk.agents import TIERS, Agents
from tests.blackbox.walk.ground import WORDS, Done, nothing
from tests.blackbox.walk.model import Conflicts, State, Value
from tests.house import save, wait_until


class People(Agents):
    # A person in the folder

    def edited(self, data: bytes, old: Value) -> tuple[bytes, Value]:
        """A note with one thing changed in an editor, and what it says then."""
        what = self.chance.choice(["slots", "slots", "title", "tier", "tags"])
        if what == "slots":
            slots = self.another(old.slots)
            ((was, now),) = ((a, b) for a, b in zip(old.slots, slots, strict=True) if a != b)
            return model.with_slot(data, was, now), replace(old, slots=slots, digest="")
        if what == "tags":
            tag = self.chance.choice(WORDS)
            return model.with_line(data, "tags", f"[{tag}]"), replace(old, tags=frozenset({tag}), digest="")
        given = self.word() if what == "title" else self.chance.choice(TIERS)
        return model.with_line(data, what, given), replace(old, **{what: given}, digest="")

    def by_person(self) -> State:
        """An edit, a move, a deletion or a new note in the folder; the state then."""
        how = self.chance.choices(["edit", "move", "delete", "drop"], [7, 2, 1, 1])[0]
        after = dict(self.state)
        if how == "drop":
            slots, title = self.slots(), self.word()
            node = str(uuid.UUID(int=self.chance.getrandbits(128), version=4))
            path = f"by-hand/{title}.md"
            (self.house.vault / "by-hand").mkdir(exist_ok=True)
            data = model.new_note(node, title, slots, "2026-01-02T03:04:05Z")
            save(self.house.vault / path, data.decode())
            after[node] = model.read(data, path)[1]
            self.say(f"a person drops in {node[:8]}")
            return after
        node = self.any()
        old = self.state[node]
        file = self.house.vault / old.path
        self.say(f"a person: {how} {node[:8]}")
        if how == "edit":
            data, after[node] = self.edited(file.read_bytes(), old)
            after[node] = replace(after[node], digest=model.digest(data))
            if self.chance.random() < 0.5:
                file.write_bytes(data)
            else:
                save(file, data.decode())
        elif how == "move":
            self.count += 1
            there = self.house.vault / model.fresh_place(old.path, self.count)
            there.parent.mkdir(parents=True, exist_ok=True)
            file.rename(there)
            after[node] = replace(old, path=there.relative_to(self.house.vault).as_posix())
        else:
            file.unlink()
            del after[node]
        return after

    def by_hand(self) -> None:
        head, after = self.head(), self.by_person()
        if self.chance.random() < 0.2:  # committed by the person, or by the daemon, whoever comes first
            self.git("add", "-A")
            self.try_git("commit", "-qm", "By hand")
        self.taken_in(head, after)

    def taken_in(self, head: str, after: State) -> None:
        if {n: v.digest for n, v in after.items()} != {
            n: v.digest for n, v in self.state.items()
        } or after.keys() != self.state.keys():
            wait_until(lambda: self.head() != head, "the edit is taken in")
        self.quiet()
        self.expect(after, "an edit by hand")
        self.learn(head)

    # Taking back

    def is_undone(self, done: Done) -> bool:
        there = set(self.git("rev-list", "HEAD").split())
        return any(one.commit in there and not self.is_undone(one) for one in done.taken[-1:])

    def target(self, *, ours: bool) -> Done | None:
        there = set(self.git("rev-list", "-60", "HEAD").split())
        known = [done for done in self.done.values() if (done.op is not None or not ours) and done.commit in there]
        return self.chance.choice(known) if known else None

    def undo(self) -> None:
        self.take_back(self.target(ours=True))

    def undo_the_undo(self) -> None:
        undos = [done for done in list(self.done.values())[-12:] if done.takes is not None and done.op is not None]
        there = set(self.git("rev-list", "HEAD").split())
        self.take_back(next((done for done in reversed(undos) if done.commit in there), None))

    def take_back(self, target: Done | None) -> None:
        if target is None:
            return
        before, head = self.state, self.head()
        name = target.op if self.chance.random() < 0.5 else target.commit[:14]
        assert name is not None
        self.say(f"undo {target.op}")
        try:
            expected = None if self.is_undone(target) else model.taken_back(before, target.change)
        except Conflicts:
            expected = None
        refused, said = None, None
        try:
            said = self.house.call("history.undo", ops=[name])
        except Conflict as exc:
            refused = exc
        if refused is not None:
            assert expected is None or nothing(expected, before), refused
            assert self.head() == head
            self.tally["undo refused"] = self.tally.get("undo refused", 0) + 1
            self.expect(before, "a refused undo")
            return
        assert expected is not None, f"undone, against the model: {said}"
        (one,) = said.undone
        assert one.commit == self.head()
        self.expect(expected, f"undo of {target.commit}")
        self.learn(head, target)

    def revert(self) -> None:
        """What git makes of it is what undo would, or it refuses: it goes by names, so that a note that moved may be
        beyond it, and then nothing has changed either."""
        target = self.target(ours=False)
        if target is None:
            return
        before, head = self.state, self.head()
        self.say(f"git revert {target.commit[:10]}")
        done = self.try_git("revert", "--no-edit", target.commit)
        try:
            expected = model.taken_back(before, target.change)
        except Conflicts:
            expected = None
        if done.returncode:
            # the daemon committed an edit while git merged: a person types it again
            overtaken = "cannot lock ref 'HEAD'" in done.stderr
            self.git("reset", "-q", "--hard", "HEAD" if overtaken else head)  # `--abort` knows nothing of such a revert
            stayed = all((was or now).path == before[node].path for node, (was, now) in target.change.items()
                         if node in before and (was or now))  # fmt: skip
            moved = any(was and now and was.path != now.path for was, now in target.change.values())
            moved |= "CONFLICT (file location)" in done.stdout  # the notes beside it went to another folder
            same = expected is None or nothing(expected, before)
            assert overtaken or same or moved or not stayed, f"git refused {target.commit}: {done.stdout}{done.stderr}"
            self.tally["revert refused"] = self.tally.get("revert refused", 0) + 1
            self.quiet()
            self.expect(before, "a refused revert")
            return
        self.quiet()
        if expected is None or self.doubled():
            self.came_back(target, before, head)
            return
        self.expect(expected, f"git revert of {target.commit}")
        self.learn(head, target)

    def doubled(self) -> bool:
        ids = [node for node, _ in model.every(self.house.notes())]
        return len(set(ids)) < len(ids)

    def came_back(self, target: Done, before: State, head: str) -> None:
        """Git put a note back at a place that it had left by moving: a copy, and the memory stays where it lives."""
        left = {
            node for node, (was, _) in target.change.items()
            if was is not None and node in before and was.path != before[node].path
        }  # fmt: skip
        assert left, f"git reverted what conflicts: {target.commit}"
        for node in left:
            assert self.house.call("agent.get", node_id=node).path == before[node].path
        self.git("reset", "-q", "--hard", head)
        self.tally["copies"] = self.tally.get("copies", 0) + 1
        self.quiet()
        self.expect(before, "a copy that went again")

    # Git by hand

    def earlier(self, most: int) -> str:
        """A commit of some steps ago."""
        return self.chance.choice(self.git("rev-list", "--first-parent", f"-{most}", "HEAD").split())

    def checkout(self) -> None:
        """A branch from the past, a memory in it, back again, and perhaps it is merged."""
        here, state, past = self.head(), self.state, self.earlier(15)
        side = f"side-{self.count}"
        self.git("checkout", "-q", "-b", side, past)
        self.quiet()
        self.expect(self.state_at(past), f"git checkout {past}")
        self.check()
        for _ in range(self.chance.randrange(3)):
            self.remember()
        self.check()
        there, top = self.state, self.head()
        self.git("checkout", "-q", self.branch)
        self.quiet()
        self.expect(state, "git checkout, back again")
        self.check()
        if top != past and self.chance.random() < 0.6:
            base = self.git("merge-base", here, top).strip()
            merged = model.brought_together(self.state_at(base), state, there)
            if self.chance.random() < 0.5:
                self.say(f"git merge {side}")
                self.git("merge", "-q", "--no-edit", side)
                self.quiet()
                self.expect(merged, f"git merge {side}")
            else:
                self.merge_under_way(side, merged)
        self.git("branch", "-q", "-D", side)

    def merge_under_way(self, side: str, merged: State) -> None:
        """A merge that a person has not ended: what is remembered meanwhile is refused, and nothing is changed."""
        state, slots = self.state, self.slots()
        self.git("merge", "-q", "--no-commit", "--no-ff", side)
        with pytest.raises(VaultBusy):
            self.house.call("agent.remember", content=model.content(slots), title="Meanwhile", space=None)
        end = self.chance.choice(["commit", "abort"])
        self.say(f"git merge {side}, something is remembered, {end}")
        if end == "commit":
            self.git("commit", "-q", "--no-edit")
        else:
            self.git("merge", "--abort")
        self.quiet()
        self.expect(merged if end == "commit" else state, f"git merge {side}, {end}")

    def checkout_file(self) -> None:
        """One note as it was: an edit by a person."""
        node, past = self.any(), self.earlier(15)
        old = self.state_at(past).get(node)
        if old is None or old.path != self.state[node].path:
            return
        head = self.head()
        self.git("checkout", past, "--", old.path)
        self.taken_in(head, {**self.state, node: old})

    def reset(self) -> None:
        """The branch is led back: with the files, or without them (`--soft`: all of it becomes one commit)."""
        past, how = self.earlier(8), self.chance.choice(["--hard", "--hard", "--soft", "--mixed"])
        self.say(f"git reset {how} {past[:10]}")
        self.git("reset", "-q", how, past)
        if how == "--hard":
            self.quiet()
            self.expect(self.state_at(past), "git reset --hard")
        else:
            if how == "--soft":
                self.try_git("commit", "-qm", "All of it")
            self.quiet()
            self.expect(self.state, f"git reset {how}")
            self.learn(past)

    def stash(self) -> None:
        """An edit that is put aside before the daemon takes it in, or not; meanwhile something is remembered."""
        node, head = self.any(), self.head()
        old = self.state[node]
        file = self.house.vault / old.path
        data, after = self.edited(file.read_bytes(), old)
        after = replace(after, digest=model.digest(data))
        file.write_bytes(data)
        said = self.git("stash")
        if "No local changes" in said:
            self.taken_in(head, {**self.state, node: after})
            return
        if self.head() != head:  # the daemon committed the edit between git's two steps (save, reset), so it stays
            self.git("stash", "drop")
            self.taken_in(head, {**self.state, node: after})
            return
        self.check()
        self.remember()
        head = self.head()
        self.git("stash", "pop")
        self.taken_in(head, {**self.state, node: after})
