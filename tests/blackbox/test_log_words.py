"""A day in which everything is about one word: no line of the log at info and above has it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from ormahd.errors import OrmahError, VaultBusy
from tests.house import House, save, wait_until

WORD = "Zwiebelfisch"


def hook(house: House, event: str, said: bytes) -> None:
    with house.connect() as connection:
        connection.hook(b"\0".join((b"claude-code", event.encode(), b"/tmp/shop", b"", said)), 30)


def agents(house: House) -> str:
    """What agents ask, rightly and wrongly; the id of a memory."""
    first = house.call("agent.remember", content=f"The {WORD} swims at dawn.", title=f"{WORD} at dawn", tags=[WORD])
    second = house.call("agent.remember", content=f"Nobody eats the {WORD}.", space="shop")
    house.call("agent.update", node_id=first.node_id, content=f"The {WORD} swims at dusk.")
    house.call("agent.connect", source_id=first.node_id, target_id=second.node_id, reason=f"both of the {WORD}")
    house.call("agent.outdated", node_id=second.node_id, reason=f"the {WORD} is extinct")
    for query in (WORD, f'"{WORD}" AND (', f"{WORD} " * 1_000):
        house.call("agent.recall", query=query, session_id=f"s-{WORD}")
    found = house.call("agent.whisper", prompt=f"When does the {WORD} swim?", session_id="s1", explain=True)
    if any(one.id == first.node_id for one in found.nodes):
        house.call("agent.feedback", node_id=first.node_id, signal=1, event=found.event)
    hook(house, "UserPromptSubmit", json.dumps({"prompt": f"Where is the {WORD}?", "session_id": WORD}).encode())
    for said in (f"{{{WORD}".encode(), f'{{"prompt": {{"{WORD}": 1}}}}'.encode(), b'{"prompt": "\xff' + WORD.encode()):
        hook(house, "UserPromptSubmit", said)
    wrong: list[tuple[str, dict[str, object]]] = [
        ("agent.get", {"node_id": WORD}), ("agent.recall", {"query": f"{WORD}\0"}), ("agent.remember", {"content": WORD, "type": WORD}),
        ("agent.remember", {"content": "", "title": WORD}), ("agent.remember", {WORD: WORD}),
        ("agent.recall", {"query": WORD, "as_of": WORD}), ("agent.update", {"node_id": first.node_id, "valid_until": WORD}),
        ("history.show", {"op": WORD}), ("history.undo", {"ops": [WORD]}), (f"agent.{WORD}", {}),
        ("agent.recall", {"query": WORD, "limit": WORD}), ("agent.feedback", {"node_id": WORD, "signal": 7}),
    ]  # fmt: skip
    for method, params in wrong:
        with pytest.raises(OrmahError):
            house.call(method, **params)
    house.ctl(
        "import", "-", input="\n".join([json.dumps({"content": f"{WORD} imported"}), f'{{"content": "{WORD}', WORD])
    )
    house.call("agent.recall", query=WORD, as_of=house.git("rev-parse", "HEAD~2").strip())
    house.call("agent.forget", node_id=second.node_id)
    house.json("undo", house.git("log", "-1", "--format=%H").strip())
    return str(first.node_id)


def person(house: House, node_id: str) -> None:
    """What a person types, in an editor and in git; some of it cannot be read."""
    note = house.vault / house.call("agent.get", node_id=node_id).path
    save(note, note.read_text() + f"\nThe {WORD} by hand.\n")
    odd = {
        "yaml.md": f"---\ntitle: [{WORD}\ntags: {{\n---\n{WORD}\n", "open.md": f"---\ntitle: {WORD}\n{WORD}\n",
        "markers.md": f"<<<<<<< HEAD\n{WORD}\n=======\nother\n>>>>>>> theirs\n",
        "types.md": f"---\nid: {WORD}\ntype: {WORD}\ntier: {WORD}\nconfidence: {WORD}\ncreated: {WORD}\ntags: {{{WORD}: 1}}\n---\n{WORD}\n",
        "copy.md": note.read_text(), "secret.md": f"The {WORD} has the password: hunter2-{WORD}-9f8e7d6c5b4a\n",
    }  # fmt: skip
    for name, text in odd.items():
        save(house.vault / name, text)
    (house.vault / "bytes.md").write_bytes(b"---\ntitle: \xff\xfe" + WORD.encode() + b"\n---\n\x00\xff")
    os.mkfifo(house.vault / "pipe.md")
    house.git("commit", "-qm", f"{WORD} by hand", "--allow-empty")
    lines = house.vault / ".ormah/feedback/2020-01.jsonl"
    lines.parent.mkdir(exist_ok=True)
    lines.write_text(f'{{"id": "{WORD}", "x": {WORD}}}\n{WORD}\n')
    (house.vault / ".ormah/strength.jsonl").write_text(f"{WORD}\n")
    wait_until(lambda: house.call("agent.get", node_id=node_id).content.endswith("by hand."), "the edit is taken in")


def upkeep(house: House) -> None:
    for job in house.json("jobs"):
        house.ctl("jobs", "run", job["name"])
    house.ctl("verify")
    house.ctl("doctor")
    house.ctl("rebuild")


def crash(house: House) -> None:
    """A write that git keeps out, and a kill."""
    (house.vault / ".git/index.lock").write_text("")
    with pytest.raises(VaultBusy):
        house.call("agent.remember", content=f"The {WORD} waits for git.")
    house.kill()
    (house.vault / ".git/index.lock").unlink()
    (house.state / "state.sqlite3").write_bytes(WORD.encode() * 2_000)
    house.start()


def test_no_line_of_the_log_has_words_of_notes_queries_and_prompts(house: House) -> None:
    house.settings = {"ORMAH_VAULT_BUSY_WAIT_SECONDS": "0.2"}
    house.start()
    node_id = agents(house)
    person(house, node_id)
    upkeep(house)
    crash(house)
    agents(house)
    house.signal(signal.SIGHUP)
    house.stop()
    logs = [*(house.home / "state_home").rglob("*.log*"), house.home / "stderr"]
    said = [line for file in logs for line in Path(file).read_text(errors="replace").splitlines()]
    assert sum(" agent." in line for line in said) > 30, "the log was kept"
    assert [line for line in said if WORD.casefold() in line.casefold()] == []
