"""What agents did is archived as what was said is: once, without outputs and secrets, and it goes where turns go."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from ormahd import paths
from ormahd.actions.amend import Caller
from ormahd.actions.purge import purge
from ormahd.actions.work import fix, how, same_kind, work
from ormahd.api import PurgeParams, WorkParams
from ormahd.errors import BadRequest
from ormahd.ormah import Ormah
from tests.contract.archiving import NOW, answered, asked, bring, done, opened, ran, written
from tests.contract.test_purged_turns import lose_the_archive
from tests.quality import work as sets
from tests.tables import rows

LINES = [
    asked(0, "Build it."),
    *ran(0, "make all", error="fatal: no rule"),
    *ran(1, "make fast"),
    answered(0, "Built."),
]
TABLE = Path(__file__).with_suffix(".toml")


def lines(number: int = 0, command: str = "make all") -> list[dict[str, object]]:
    return [asked(number, f"Build {number}."), *ran(number, command), answered(number, "Built.")]


def everything(home: Path) -> bytes:
    return b"".join(one.read_bytes() for one in home.rglob("*") if one.is_file() and one.parent.name != "t")


@pytest.mark.parametrize("client", ["claude-code", "codex", "gemini"])
def test_a_transcript_that_grows_line_by_line_gives_each_step_once(ormah: Ormah, tmp_path: Path, client: str) -> None:
    one = next(one for one in sets.sessions() if one.client == client and sets.steps([one]) > 3)
    file = sets.write(one, tmp_path / "t")
    whole = file.read_bytes().splitlines(keepends=True)
    for end in range(1, len(whole) + 1):
        file.write_bytes(b"".join(whole[:end]))
        bring(ormah, file)
    expected = [(one.id, ask.prompt, step.command or step.file) for ask in one.asked for step in ask.done]
    assert done(ormah) == expected


def test_a_purge_takes_commands_errors_and_files_too(ormah: Ormah, tmp_path: Path) -> None:
    file = written(
        tmp_path / "t.jsonl", asked(0, "Build."), *ran(0, "make --for hospital-of-grace"), *ran(1, "make all")
    )
    bring(ormah, file)
    found = purge(ormah, PurgeParams(texts=["hospital-of-grace"]), Caller("person", None), lambda *_: None)
    assert found.kept
    assert [row[2] for row in done(ormah)] == ["make all"]
    file.write_bytes(file.read_bytes() + b"\n")
    bring(ormah, file)
    lose_the_archive(ormah)
    written(
        file, asked(0, "Build."), *ran(0, "make --for hospital-of-grace"), *ran(1, "make all"), answered(0, "Built.")
    )
    bring(ormah, file)
    assert [row[2] for row in done(ormah)] == ["make all"]
    assert b"hospital-of-grace" not in everything(tmp_path).replace(file.read_bytes(), b"")


def test_what_was_taken_back_is_not_found(ormah: Ormah, tmp_path: Path) -> None:
    rows = [*lines(), asked(1, "Then ship."), *ran(1, "make ship"), answered(1, "Shipped.")]
    bring(ormah, written(tmp_path / "t.jsonl", *rows))
    assert [one.command for one in how(ormah, "ship", None, 5)] == ["make ship"]
    instead = asked(1, "No, test.") | {"uuid": "n1"}
    bring(ormah, written(tmp_path / "t.jsonl", *rows, instead))
    assert how(ormah, "ship", None, 5) == []
    again = asked(2, "Go on.") | {"parentUuid": "a1"}
    bring(ormah, written(tmp_path / "t.jsonl", *rows, instead, again))
    assert [one.command for one in how(ormah, "ship", None, 5)] == ["make ship"]


def test_excluded_folders_and_the_setting_keep_it_out(tmp_path: Path) -> None:
    with opened(tmp_path, exclude="/src/secret") as ormah:
        hidden = [line | {"cwd": "/src/secret/deep", "sessionId": "s2"} for line in lines(2, "make hidden")]
        bring(ormah, written(tmp_path / "s2.jsonl", *hidden))
        bring(ormah, written(tmp_path / "s1.jsonl", *lines()))
        assert [row[0] for row in done(ormah)] == ["s1"]
    with opened(tmp_path, work="0") as ormah:
        bring(ormah, written(tmp_path / "s3.jsonl", *(line | {"sessionId": "s3"} for line in lines(3, "make three"))))
        assert [row[0] for row in done(ormah)] == ["s1"]


def test_it_expires_with_its_session_and_goes_with_its_file(tmp_path: Path) -> None:
    with opened(tmp_path) as ormah:
        bring(ormah, written(tmp_path / "t.jsonl", *lines()))
        folder = paths.sessions_dir(ormah.vault.id)
        assert how(ormah, "make all", None, 5)
    for file in folder.rglob("*.jsonl"):
        file.unlink()
    with opened(tmp_path) as ormah:
        assert how(ormah, "make all", None, 5) == []
        bring(ormah, written(tmp_path / "t.jsonl", *lines(), asked(1, "More.")))
        assert how(ormah, "make all", None, 5)
    with opened(tmp_path, now=NOW + timedelta(days=4_000)) as ormah:
        for file in folder.rglob("*.jsonl"):
            os.utime(file, (0, 0))
        assert ormah.sessions.expire() == 1
        assert how(ormah, "make all", None, 5) == []
        assert done(ormah) == []


def test_a_fork_has_only_its_own(ormah: Ormah, tmp_path: Path) -> None:
    bring(ormah, written(tmp_path / "s1.jsonl", *lines()))
    copy = [line | {"sessionId": "s2"} for line in lines()]
    own = [line | {"sessionId": "s2"} for line in lines(1, "make other")]
    bring(ormah, written(tmp_path / "s2.jsonl", *copy, *own))
    assert [(session, command) for session, _, command in done(ormah)] == [("s1", "make all"), ("s2", "make other")]


def test_sub_agents_refusals_and_calls_without_results_give_nothing(ormah: Ormah, tmp_path: Path) -> None:
    aside = [line | {"isSidechain": True} for line in ran(1, "make aside")]
    refused = ran(2, "make refused", error="x")
    refused[1]["message"]["content"][0]["content"] = "The user doesn't want to proceed with this tool use."
    bring(ormah, written(tmp_path / "t.jsonl", *lines(), *aside, *refused, ran(3, "make open")[0]))
    assert [row[2] for row in done(ormah)] == ["make all"]


def test_the_error_and_the_number_of_runs(ormah: Ormah, tmp_path: Path) -> None:
    bring(ormah, written(tmp_path / "t.jsonl", *LINES))
    (found,) = how(ormah, "fast", None, 5)
    assert (found.command, found.worked, found.failed, found.asked) == ("make fast", 1, 0, "Build it.")
    more = [
        asked(5, "Once more."),
        *ran(5, "cd /src/shop && make fast 2>&1 | tail -20"),
        *ran(6, "make  fast", error="fatal: x"),
    ]
    bring(ormah, written(tmp_path / "s2.jsonl", *(line | {"sessionId": "s2"} for line in more)))
    (found,) = how(ormah, "fast", None, 5)
    assert (found.worked, found.failed) == (2, 1), "one command, however its output was cut"
    assert how(ormah, "make all", "elsewhere", 5) == []
    with pytest.raises(BadRequest):
        work(ormah, WorkParams(kind="how", query=" "), Caller("person", None))
    assert fix(ormah, "fatal: no rule", None, 5) == []


def test_a_file_gives_the_prompts_under_which_it_was_edited(ormah: Ormah, tmp_path: Path) -> None:
    for one in (one for one in sets.sessions() if one.project in {"shop", "game"}):
        bring(ormah, sets.write(one, tmp_path / "t"))

    def prompts(path: str, space: str | None) -> list[str]:
        found = work(ormah, WorkParams(kind="file", query=path, space=space), Caller("person", None))
        return [said.text for one in found.exchanges for said in one.said if said.role == "user"]

    cents = ["the total of the cart is off by a cent, please find out why"]
    assert (
        prompts("cart/total.py", "shop")
        == prompts("/home/ada/shop/cart/total.py", "shop")
        == prompts("total.py", None)
        == cents
    )
    assert prompts("cart/total.py", "game") == prompts("other/total.py", "shop") == prompts("otal.py", "shop") == []
    assert len(prompts("lobby/room.go", "game")) == 2


@pytest.mark.parametrize(("one", "other", "same"), rows(TABLE, "kinds"))
def test_commands_of_one_kind(one: str, other: str, same: bool) -> None:
    assert same_kind(one, other) is same_kind(other, one) is same
