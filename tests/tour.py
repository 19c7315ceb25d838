"""`make run`: Ormah at work on a fresh vault, through the commands a person types.

Starts the daemon in directories of its own, remembers real things, finds them by words that do not occur in them, whispers
the ones that matter for a prompt, edits a note as a person would and finds the edit, lets the jobs merge what was said twice
and takes that back with plain git, and shows the vault's log. Ends with 1 when anything is not as promised.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN = Path(sys.executable).parent

MEMORIES: list[tuple[str, list[str]]] = [
    ("Lives in Dublin, Ireland, in a flat above a bakery.", ["--type", "fact", "--about-self", "--tier", "core"]),
    ("Chose SQLite over Postgres so that everything runs on one laptop without a server.",
     ["--type", "decision", "--space", "ormah", "--title", "SQLite over Postgres"]),
    ("Prefers map and filter over for loops when the body is one expression.",
     ["--type", "preference", "--about-self", "--tag", "python"]),
    ("Gave a talk on agent memory at the AI Tinkerers meetup in April 2026.", ["--type", "event", "--title", "AI Tinkerers talk"]),
    ("Siobhan Murphy is the designer of the mobile app; she answers fastest on Signal.",
     ["--type", "person", "--space", "app", "--title", "Siobhan Murphy"]),
    ("Ormah keeps what agents know as markdown notes under git.", ["--type", "project", "--space", "ormah", "--title", "Ormah"]),
    ("Three tiers: core is always relevant, working is current, archival sleeps until asked.",
     ["--type", "concept", "--space", "ormah", "--title", "Three-tier memory model"]),
    ("To release: tag the commit, wait for the pipeline, then approve the rollout in the dashboard.",
     ["--type", "procedure", "--space", "app", "--title", "How to ship the app"]),
    ("Wants installing to take one command and no questions.", ["--type", "goal", "--space", "ormah"]),
    ("The flaky login test fails only when the clock passes midnight in UTC.",
     ["--type", "observation", "--space", "app", "--title", "Flaky login test"]),
    ("Allergic to peanuts and carries an EpiPen.", ["--type", "fact", "--about-self", "--tier", "core"]),
    ("The staging database is refreshed from production every Sunday night.", ["--type", "fact", "--space", "app"]),
    ("Runs ten kilometres along the canal on Saturday mornings.", ["--type", "fact", "--about-self"]),
    ("Migrating the backend from Flask to FastAPI was abandoned because the plugins had no async support.",
     ["--type", "decision", "--space", "app", "--title", "No FastAPI"]),
]  # fmt: skip

QUESTIONS = [
    ("Which city is home?", "Dublin"),
    ("what nuts must I avoid in a restaurant", "peanuts"),
    ("why no client-server database engine?", "SQLite"),
    ("how do we deploy a new version", "tag the commit"),
    ("which colleague makes the user interface pretty", "Siobhan"),
    ("jogging exercise weekend", "canal"),
    ("functional programming style", "map and filter"),
    ("why did we stay on the old web framework", "Flask"),
]


WHISPERS: list[tuple[list[str], str | None]] = [
    (["--space", "app", "the login test is red again, why?"], "passes midnight in UTC"),
    (["--space", "app", "when was the staging database refreshed?"], "every Sunday night"),
    (["--space", "app", "what am I allergic to?"], "EpiPen"),
    (["--space", "app", "center the logo in the header"], None),
    (["thanks, looks good!"], None),
]
"""Prompts to an agent, and what it is told before it answers; None: nothing."""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="ormah-tour-") as home:
        os.environ.update(
            {f"XDG_{name}_HOME": f"{home}/{name.lower()}" for name in ("CONFIG", "DATA", "STATE", "CACHE")},
            HOME=home, XDG_RUNTIME_DIR=f"{home}/run", GIT_CONFIG_GLOBAL=f"{home}/gitconfig", NO_COLOR="1",
        )  # fmt: skip
        for name in [name for name in os.environ if name.startswith("ORMAH_")]:
            del os.environ[name]
        Path(home, "run").mkdir(mode=0o700)
        Path(home, "gitconfig").write_text("[user]\n\tname = Aoife Byrne\n\temail = aoife@example.org\n")
        os.chdir(home)
        vault = Path(home, "data", "ormah", "vault")
        try:
            return tour(vault)
        finally:
            subprocess.run([BIN / "ormahctl", "down"], check=False)


def tour(vault: Path) -> int:
    say("A daemon on a fresh vault")
    ctl("up")
    wait(lambda: json.loads(ctl("--json", "status", show=False))["phase"] == "ready", "the daemon is ready")
    ctl("status")

    say(f"{len(MEMORIES)} memories of different types")
    for text, options in MEMORIES:
        ctl("remember", text, *options)

    say("Found by words that do not occur in them")
    missed = [question for question, word in QUESTIONS if not found(question, word)]

    say("Whispered into a prompt before the agent answers, or silence")
    missed += [prompt[-1] for prompt, word in WHISPERS if not whispered(prompt, word)]

    say("A person edits a note in an editor; the daemon takes it in")
    note = next(vault.rglob("person_siobhan*.md"))
    print(f"$ sed -i 's/fastest on Signal/fastest by carrier pigeon/' {note.relative_to(vault)}")
    note.write_text(note.read_text().replace("fastest on Signal", "fastest by carrier pigeon"))
    wait(lambda: "pigeon" in ctl("recall", "a message by bird", "-n", "1", show=False), "the edit is found")
    ctl("recall", "a message by bird", "-n", "1")
    wait(
        lambda: "Aoife Byrne" in git(vault, "log", "-1", "--format=%an", "--", str(note.relative_to(vault))),
        "it is committed in her name",
    )

    say("While nobody looks: what was said twice becomes one memory, by a commit that git takes back")
    ctl(
        "remember",
        "the staging database is refreshed from production every sunday night",
        "--type",
        "fact",
        "--space",
        "app",
    )
    ctl("jobs", "run", "all", "--dry-run")
    ctl("jobs", "run", "all")
    merge = git(vault, "log", "-1", "--format=%H", "--grep=Ormah-Kind: merge")
    if not merge:
        missed.append("nothing was merged")
    else:
        print(git(vault, "show", "-s", "--format=%B", merge))
        twice = len(stored("staging database"))
        print(f"$ git revert --no-edit {merge[:8]}")
        git(vault, "revert", "--no-edit", merge)
        wait(lambda: len(stored("staging database")) == twice + 1 == 2, "the merge is taken back")
    ctl("review")

    say("The vault: plain notes, and every change in git")
    print(note.read_text())
    print(git(vault, "log", "--format=%h %<(22,trunc)%an %s"))
    print(git(vault, "log", "-1", "--format=%B", "--grep=Ormah-Kind: remember"))
    if git(vault, "status", "--porcelain"):
        missed.append("the worktree is not clean")
    if missed:
        print("NOT AS PROMISED: " + "; ".join(missed), file=sys.stderr)
        return 1
    print(
        f"{len(MEMORIES)} remembered, {len(QUESTIONS)} of {len(QUESTIONS)} questions found, "
        f"{len(WHISPERS)} prompts answered or left alone, the edit found: as promised."
    )
    return 0


def say(text: str) -> None:
    print(f"\n=== {text}\n", flush=True)


def ctl(*args: str, show: bool = True) -> str:
    if show:
        print("$ ormahctl " + shlex.join(args), flush=True)
    done = subprocess.run([BIN / "ormahctl", *args], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"ormahctl {args[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")
    if show:
        print(done.stdout + done.stderr, flush=True)
    return done.stdout


def found(question: str, word: str) -> bool:
    ctl("recall", question, "-n", "1")
    best = json.loads(ctl("--json", "recall", question, "-n", "1", show=False))["results"]
    return bool(best) and word in f"{best[0]['title']} {best[0]['content']}"


def stored(words: str) -> list[str]:
    """Ids of the memories that have these words: those that say the same stand in one place."""
    hits = json.loads(ctl("--json", "recall", words, show=False))["results"]
    return [node_id for hit in hits if words in hit["content"] for node_id in (hit["id"], *hit.get("also", []))]


def whispered(prompt: list[str], word: str | None) -> bool:
    ctl("whisper", *prompt)
    said = json.loads(ctl("--json", "whisper", *prompt, show=False))
    return said["silence"] is not None if word is None else word in said["text"]


def git(vault: Path, *args: str) -> str:
    return subprocess.run(
        ["git", "--no-pager", *args], cwd=vault, capture_output=True, text=True, check=True
    ).stdout.strip()


def wait(condition: object, what: str, seconds: float = 90.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"waited {seconds:g} s in vain: {what}")
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
