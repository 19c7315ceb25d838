"""Ask a real daemon the task prompts: `python -m tests.quality.tasks [dev|held] [--model NAME] [--misses]`.

hit: a wanted memory is told with its text. right: of the memories told, those that are wanted or acceptable. silent: of the
prompts that want nothing, those that were told nothing but what is acceptable.
"""

from __future__ import annotations

import argparse
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ormahd.embedding.model_files import DEFAULT_MODEL
from tests.house import open_house
from tests.quality.tasks import NOW, Prompt, TaskVault, vaults


@dataclass(frozen=True)
class Told:
    prompt: Prompt
    shown: tuple[tuple[str, str], ...]
    """(key, how it was shown)"""
    silence: str | None

    @property
    def hit(self) -> bool:
        return any(key in self.prompt.must and how in {"full", "preference"} for key, how in self.shown)

    @property
    def wrong(self) -> list[str]:
        return [key for key, _ in self.shown if key not in self.prompt.must | self.prompt.may]


def ask(vault: TaskVault, model: str) -> list[Told]:
    """Ask one vault's prompts, each on its own."""
    id_of = {one.key: str(uuid.uuid5(uuid.NAMESPACE_URL, f"{vault.name} {one.key}")) for one in vault.memories}
    key_of = {node_id: key for key, node_id in id_of.items()}
    lines = [
        json.dumps({
            "id": id_of[one.key], "type": one.type, "space": one.space, "title": one.title, "content": one.content,
            "created": one.created.isoformat(), "updated": one.created.isoformat(), "source": "person",
        }) for one in vault.memories
    ]  # fmt: skip
    with open_house(ORMAH_EMBEDDING_MODEL=model, ORMAH_DAEMON_FIXED_TIME=NOW.isoformat()) as house:
        house.start()
        done = house.call("admin.import", lines=lines)
        assert not done.failed, done.failed
        found = []
        with house.connect() as connection:
            for prompt in vault.prompts:
                params = {"prompt": prompt.text, "space": prompt.space, "session_id": None}
                answer: Any = connection.call("agent.whisper", params, agent="tasks", timeout=120)
                assert "vectors" not in answer.degraded, house.said()
                shown = tuple((key_of[node.id], node.shown) for node in answer.nodes if node.shown != "exploring")
                found.append(Told(prompt, shown, answer.silence))
    return found


def table(name: str, told: Sequence[Told]) -> str:
    long = [one.hit for one in told if one.prompt.must and one.prompt.long]
    short = [one.hit for one in told if one.prompt.must and not one.prompt.long]
    silent = [not one.wrong for one in told if not one.prompt.must]
    shown = sum(len(one.shown) for one in told)
    right = shown - sum(len(one.wrong) for one in told)
    return (
        f"{name:12} hit long {_share(long):.2f}, short {_share(short):.2f}; silent {_share(silent):.3f}; "
        f"right {right / shown if shown else 1.0:.2f} of {shown}"
    )


def _share(some: Sequence[bool]) -> float:
    return sum(some) / len(some) if some else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("half", nargs="?", default="dev", choices=("dev", "held"))
    parser.add_argument("--model", default=DEFAULT_MODEL, help="the embedding model")
    parser.add_argument("--misses", action="store_true", help="also print each prompt that went wrong")
    chosen = parser.parse_args()
    everything: list[Told] = []
    for vault in vaults(chosen.half):
        told = ask(vault, chosen.model)
        everything += told
        print(table(vault.name, told), flush=True)
        for one in told if chosen.misses else ():
            if one.wrong or (one.prompt.must and not one.hit):
                print(
                    f"  -{','.join(sorted(one.prompt.must))} +{','.join(one.wrong)} {one.silence} {one.prompt.text[:90]!r}"
                )
    print(table("all", everything))


if __name__ == "__main__":
    main()
