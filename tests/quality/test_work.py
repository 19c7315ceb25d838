"""How something is run, and what fixed an error, is found in what agents did; nothing of outputs, contents or secrets is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.ormah import Ormah
from ormahd.rpc.failures import known_fix
from ormahd.text.secrets import redact
from tests.contract.archiving import bring, done, opened
from tests.quality import work
from tests.quality.planted import planted
from tests.quality.secrets import planted_cases
from tests.quality.work.__main__ import archived, measure

COMMANDS = Path(work.__file__).with_name("secret_commands.txt")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def ormah(home: Path) -> Iterator[Ormah]:
    with archived(home) as found:
        yield found


def kept(home: Path) -> bytes:
    """Everything below a home, except the transcripts."""
    return b"".join(one.read_bytes() for one in home.rglob("*") if one.is_file() and home / "agents" not in one.parents)


@pytest.mark.parametrize("half", ["fit", "held"])
def test_the_right_command_and_fix_are_found(ormah: Ormah, half: str) -> None:
    found = measure(ormah, half)
    print(half, found.right, "of", found.asked)
    assert found.share("how") >= 0.9
    assert found.share("fix") >= 0.8
    assert found.share("none") == 1.0


def test_an_agent_is_told_the_right_fix_or_nothing(ormah: Ormah) -> None:
    """After a failure, without being asked: in its own project, and in all others."""
    asked = [one for half in ("fit", "held") for one in work.questions(half) if one.kind != "how"]
    projects = sorted({one.project for one in asked})
    right = 0
    for one in asked:
        told = {space: known_fix(ormah, one.text, space=space, session=None, known=())[0] for space in projects}
        assert [space for space, text in told.items() if text and space != one.project] == []
        fits = any(name.removeprefix("~ ") in told[one.project] for name in one.right if name)
        assert fits or not told[one.project], "silent rather than wrong"
        right += fits
    print(f"told: {right} of {sum(one.kind == 'fix' for one in asked)}")
    assert right >= 0.85 * sum(one.kind == "fix" for one in asked)


def test_nothing_of_outputs_and_contents_is_kept(ormah: Ormah, home: Path) -> None:
    assert len(done(ormah)) == work.steps(work.sessions())
    data = kept(home)
    assert work.PRINTED.encode() not in data
    assert work.WRITTEN.encode() not in data
    assert b"AssertionError: assert Decimal" in data


def test_no_secret_is_kept(tmp_path: Path) -> None:
    """Secrets in commands, in names of files and in errors."""
    texts = [(one.text, list(one.parts)) for one in planted(7)]
    texts += [
        (text, parts)
        for text, parts in planted_cases()
        if not any(part in redact(f'notify "{text}"').text for part in parts)
    ]
    lines = [line for line in COMMANDS.read_text("utf-8").splitlines() if not line.startswith("#")]
    one = work.WorkSession("shop", "claude-code", "2026-11-01", "Secrets", [work.Asked("go on")])
    for text, _ in texts:
        one.asked[0].done += [
            work.Done(command=f'notify "{text}"'),
            work.Done(command="make", status=1, errors=[f"error: {text}"]),
        ]
    for line in lines:
        one.asked[0].done += [work.Done(command=line)]
    with opened(tmp_path) as ormah:
        bring(ormah, work.write(one, tmp_path / "agents"))
        assert len(done(ormah)) == len(one.asked[0].done)
        data = kept(tmp_path)
        left = [
            text for text, parts in texts for part in parts if json.dumps(part)[1:-1].encode() in data and len(part) > 6
        ]
    assert left == []
    assert b"Kranich!4821" not in data


def test_the_disk_that_it_needs(tmp_path: Path) -> None:
    """At most a fifth more than turns alone, with answers as long as those of a coding assistant."""
    sizes = []
    for setting in ("0", "1"):
        home = tmp_path / setting
        home.mkdir()
        with opened(home, work=setting) as ormah:
            for one in work.sessions():
                for asked in one.asked:
                    asked.answer = " ".join([asked.answer] * (2_000 // len(asked.answer)))
                bring(ormah, work.write(one, tmp_path / "agents"))
            ormah.sessions.close()
            sizes.append(sum(file.stat().st_size for file in home.rglob("sessions*/**/*.jsonl")))
    print(f"files: {sizes[1] / sizes[0] - 1:.1%} more")
    assert sizes[0] < sizes[1] <= 1.2 * sizes[0]
