"""A day in fast motion: agents that recall, remember, change and take back, and prompts that are whispered to, all at once.
What the daemon holds of the machine stays what it was."""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ormahd.errors import Conflict
from tests.bench import corpus
from tests.house import House, wait_until

AGENTS = 8
QUIET_S = 5.0
"""Longer than memory waits for the end of work before it is given back."""
CHILDREN = 1
"""git, which is asked about objects."""
METHODS = {
    "agent.recall", "agent.whisper", "hook", "history.undo", "history.show", "agent.connect", "agent.remember", "agent.get",
    "agent.update", "agent.forget", "history.list", "admin.health",
}  # fmt: skip
"""What each agent asks for in the course of a day."""
NOTE_KB = 16
"""What a new memory may add, in memory: its vectors, what is remembered of it, its ops in the history."""


def held(house: House) -> dict[str, int]:
    """What the daemon's process holds of the machine."""
    assert house.process is not None
    place = Path(f"/proc/{house.process.pid}")
    status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    children = [
        child for task in (place / "task").iterdir() for child in (task / "children").read_text().split()
    ]  # fmt: skip
    return {
        "threads": int(status["Threads"]), "descriptors": len(list((place / "fd").iterdir())),
        "kb": int(status["VmRSS"].split()[0]), "children": len(children),
    }  # fmt: skip


def day(agent: int, calls: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """What one agent asks; `{last}` stands for the id of what it stored last, `{op}` for the op that did. `hook`: an event of a session,
    each fifth call one of another session; "reconnect": it hangs up and comes again."""
    chance = random.Random(agent)
    for number, query in zip(range(calls), corpus.queries(calls, seed=agent), strict=True):
        drawn = chance.random()
        if drawn < 0.30:
            yield "agent.recall", {"query": f"{query} {number}", "limit": chance.choice([3, 10, 20])}
        elif drawn < 0.45:
            yield "agent.whisper", {"prompt": f"{query}, {number}?", "session_id": f"day-{agent}-{number // 20}"}
        elif drawn < 0.70:
            event = chance.choice(["SessionStart", "UserPromptSubmit", "UserPromptSubmit", "Stop"])
            yield (
                "hook",
                {"event": event, "prompt": query, "session_id": f"hook-{agent}-{number // 5}", "source": "startup"},
            )
        elif drawn < 0.72:
            yield "reconnect", {}
        elif drawn < 0.74:
            yield "history.undo", {"ops": ["{op}"]}
        elif drawn < 0.77:
            yield "history.show", {"op": "{op}"}
        elif drawn < 0.773:
            yield "agent.recall", {"query": query, "as_of": "{op}"}
        elif drawn < 0.80:
            yield "agent.connect", {"source_id": "{last}", "target_id": "{first}"}
        elif drawn < 0.86:
            yield (
                "agent.remember",
                {"content": f"Agent {agent} met {query} for the time {number}.", "space": f"s{agent}"},
            )
        elif drawn < 0.90:
            yield "agent.get", {"node_id": "{last}"}
        elif drawn < 0.93:
            yield "agent.update", {"node_id": "{last}", "content": f"Agent {agent} thinks again of {query}, {number}."}
        elif drawn < 0.95:
            yield "agent.forget", {"node_id": "{last}"}
        elif drawn < 0.97:
            yield "history.list", {"limit": 20}
        else:
            yield "admin.health", {}


def wants_stored(params: dict[str, Any]) -> bool:
    """Whether a parameter stands for something that this agent stored before."""
    return not {"{first}", "{last}", "{op}"}.isdisjoint(str(one) for value in params.values() for one in _each(value))


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def filled(params: dict[str, Any], stored: list[tuple[str, str]]) -> dict[str, Any]:
    """The parameters with the ids that they stand for."""
    names = {"{first}": stored[0][0], "{last}": stored[-1][0], "{op}": stored[-1][1]}
    return {
        key: [names.get(one, one) for one in value] if isinstance(value, list) else names.get(value, value)
        for key, value in params.items()
    }


def live(house: House, calls: int, part: int = 0) -> Counter[str]:
    """Have the agents ask; in another `part` of the day they ask other things. How often each method was called."""
    failed: list[BaseException] = []
    counts = [Counter[str]() for _ in range(AGENTS)]

    def one(agent: int) -> None:
        called = counts[agent]
        stored: list[tuple[str, str]] = []  # what this agent stored and did not forget: node and op
        connection = house.connect()
        try:
            for method, params in day(AGENTS * part + agent, calls // AGENTS):
                if method == "reconnect":
                    connection.close()
                    connection = house.connect()
                elif method == "hook":
                    said = {key: value for key, value in params.items() if key != "event"}
                    head = (b"claude-code", params["event"].encode(), b"/tmp/shop", b"")
                    connection.hook(b"\0".join((*head, json.dumps(said).encode())), 60.0)
                    called[method] += 1
                elif len(stored) > 1 or not wants_stored(params):
                    try:
                        found = connection.call(method, filled(params, stored) if stored else params, timeout=120)
                    except Conflict:
                        assert method == "history.undo"  # it was changed since it was stored
                        continue
                    called[method] += 1
                    if method == "agent.remember" and not found.existing:
                        stored.append((found.node_id, found.op))
                    elif method in {"agent.forget", "history.undo"}:
                        stored.pop()
        except BaseException as exc:  # noqa: BLE001  # a thread's failure is shown by the test
            failed.append(exc)
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=(agent,)) for agent in range(AGENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    return sum(counts, Counter())


def opened(house: House, part: str) -> bool:
    """Whether the daemon has a file of this part of the index open."""
    assert house.process is not None
    for name in Path(f"/proc/{house.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            if f"/{part}/" in os.readlink(name):
                return True
    return False


def at_rest(house: House) -> dict[str, int]:
    """What it holds once nobody asks: all parts were loaded, and what was to be given back is."""
    wait_until(lambda: opened(house, "chroma"), "Chroma is told of what was written", 120)
    said: list[dict[str, int]] = []

    def steady() -> bool:
        time.sleep(QUIET_S / 4)
        said.append(held(house))
        lately = [one["kb"] for one in said[-5:]]
        return len(lately) == 5 and max(lately) - min(lately) < 0.01 * max(lately) and said[-1]["children"] <= CHILDREN

    wait_until(steady, "memory is steady and no child is left", 120)
    return said[-1]


def test_what_the_daemon_holds_at_noon_it_holds_in_the_evening(house: House, tmp_path: Path) -> None:
    house.plainly = True  # its memory is its own
    house.start()
    house.ctl("import", str(corpus.write(tmp_path / "notes.jsonl", 200)), timeout=300)
    called = live(house, 500)  # everything was asked: threads are there
    assert called.keys() >= METHODS, "a day without one of these shows nothing of it"
    noon, notes = at_rest(house), house.call("admin.health").nodes
    live(house, 240, part=1)
    evening, new = at_rest(house), house.call("admin.health").nodes - notes
    print(f"noon {noon}, evening {evening}, {new} memories more")
    assert evening["threads"] <= noon["threads"] + 4, (noon, evening)
    assert evening["descriptors"] <= noon["descriptors"] + 16, (noon, evening)
    assert evening["kb"] <= noon["kb"] * 1.1 + NOTE_KB * new, (noon, evening, new)
