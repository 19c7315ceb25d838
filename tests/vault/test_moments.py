"""A state of the vault by what a person calls it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ormahd.actions.past import find_past_state
from ormahd.errors import Ambiguous, BadRequest, NotFound, OrmahError
from ormahd.model.change import Kind
from ormahd.vault.vault import Vault
from tests.vault.git_house import START, git, history_of, open_vault, put

DAY = timedelta(days=1)
NOW = START + 10 * DAY


@pytest.fixture
def days(tmp_path: Path) -> Callable[[], tuple[Vault, list[str]]]:
    """A vault with a commit at noon of each of ten days: its commits, oldest first."""
    times = [START.replace(hour=12) + n * DAY for n in range(10)]
    now = [times[0]]
    vault = open_vault(tmp_path / "vault", clock=lambda: now[0])
    commits = []
    for number, time in enumerate(times):
        now[0] = time
        done = put(vault, (f"n{number}.md", b"text %d" % number), subject=f"day {number}")
        assert done is not None
        commits.append(done.commit)
    yield lambda: (vault, commits)
    vault.close()


def test_times(days: Callable[[], tuple[Vault, list[str]]]) -> None:
    vault, commits = days()
    present = NOW.replace(hour=18)

    def at(text: str) -> int:
        return commits.index(find_past_state(vault, history_of(vault), text, present).commit)

    assert at("2026-11-21") == 0, "a day is its end"
    assert at("2026-11-22") == 1
    assert at("2026-11-22T11:59:59Z") == 0
    assert at("2026-11-22T12:00:00Z") == 1, "what was done at that second counts"
    assert at("2026-11-22T14:00:00+03:00") == 0
    assert at("2026-11-22 12:00") == 1
    assert at("today") == 9
    assert at("2099-01-01") == 9
    assert at("yesterday") == 9
    assert at("3d") == 7
    assert at("1w") == 3
    assert at("71h") == 7
    standing = find_past_state(vault, history_of(vault), "2026-11-22", present)
    assert standing.time == datetime(2026, 11, 22, 12, tzinfo=UTC)
    assert standing.moment == datetime(2026, 11, 22, 23, 59, 59, tzinfo=UTC)
    assert find_past_state(vault, history_of(vault), "2099-01-01", present).moment == present, "nobody knows the future"


def test_names(days: Callable[[], tuple[Vault, list[str]]]) -> None:
    vault, commits = days()
    op = find_past_state(vault, history_of(vault), commits[4], NOW).op
    assert op is not None
    git(vault.root, "tag", "-am", "a tag", "milestone", commits[2])
    git(vault.root, "branch", "old/branch", commits[3])
    for text, number in (
        (commits[4], 4), (commits[4][:9], 4), (op, 4), (op.upper(), 4), (op[:20], 4), ("HEAD~2", 7), ("HEAD", 9),
        ("milestone", 2), ("old/branch", 3), (git(vault.root, "branch", "--show-current"), 9),
    ):  # fmt: skip
        found = find_past_state(vault, history_of(vault), text, NOW)
        assert commits.index(found.commit) == number, text
        assert found.moment == found.time


def test_what_names_nothing(days: Callable[[], tuple[Vault, list[str]]]) -> None:
    vault, commits = days()
    wrong: list[tuple[str, type[OrmahError]]] = [
        ("2020-01-01", NotFound), ("20000d", NotFound), ("1970-01-01", NotFound), ("nonsense", NotFound),
        ("zz", NotFound), ("../..", NotFound), ("--all", NotFound), ("HEAD:n1.md", NotFound), ("", BadRequest),
        ("HEAD\nHEAD", BadRequest), ("x" * 600, BadRequest), ("2026-13-45", BadRequest), ("2026-11-21T99:00", BadRequest),
        ("99999w", NotFound), (vault.git.resolve("HEAD^{tree}") or "", NotFound),
    ]  # fmt: skip
    for text, kind in wrong:
        with pytest.raises(kind) as error:
            find_past_state(vault, history_of(vault), text, NOW)
        assert error.value.hint, text
    first = find_past_state(vault, history_of(vault), commits[0], NOW).op
    assert first is not None
    with pytest.raises(Ambiguous):
        find_past_state(vault, history_of(vault), first[:5], NOW)
    with pytest.raises(NotFound, match="history begins at 2026-11-21 12:00 UTC"):
        find_past_state(vault, history_of(vault), "2020-01-01", NOW)


def test_a_branch_that_was_merged_later_was_not_known_before(tmp_path: Path) -> None:
    """By time the line of HEAD counts: what another machine wrote in the meantime came with the merge."""
    now = [START]
    with open_vault(tmp_path / "vault", clock=lambda: now[0]) as vault:
        put(vault, ("a.md", b"a"))
        base = vault.head()
        git(vault.root, "switch", "-qc", "other")
        (vault.root / "b.md").write_text("b")
        git(vault.root, "add", "-A")
        when = {"GIT_COMMITTER_DATE": (START + DAY).isoformat(), "GIT_AUTHOR_DATE": (START + DAY).isoformat()}
        git(vault.root, "commit", "-qm", "theirs", env=when)
        git(vault.root, "switch", "-q", "-")
        later = {"GIT_COMMITTER_DATE": (START + 5 * DAY).isoformat()}
        git(vault.root, "merge", "-q", "--no-ff", "--no-edit", "other", env=later)
        assert find_past_state(vault, history_of(vault), "2026-11-23", NOW).commit == base
        assert find_past_state(vault, history_of(vault), "other", NOW).commit == git(vault.root, "rev-parse", "other")


def test_before_the_first_commit(tmp_path: Path) -> None:
    with open_vault(tmp_path / "vault") as vault:
        git(vault.root, "checkout", "-q", "--orphan", "empty")
        with pytest.raises(NotFound, match="no history yet"):
            find_past_state(vault, history_of(vault), "today", NOW)
        with pytest.raises(NotFound):
            find_past_state(vault, history_of(vault), "HEAD", NOW)
        put(vault, ("a.md", b"a"), kind=Kind.REMEMBER)
        assert find_past_state(vault, history_of(vault), "HEAD", NOW).commit == vault.head()


@pytest.mark.parametrize(
    ("asked", "named"),
    [("2020-01-01", "2020-01-01"), ("2020-01-01T10:20:30.123456Z", "2020-01-01 10:20 UTC"),
     ("2020-01-01T10:20:30+02:00", "2020-01-01 10:20 +02:00"), ("4000d", "4000d")],
)  # fmt: skip
def test_a_time_before_the_history_is_named_as_people_write_it(tmp_path: Path, asked: str, named: str) -> None:
    with (
        open_vault(tmp_path / "vault") as vault,
        pytest.raises(NotFound, match=f"nothing was known at {re.escape(named)}:"),
    ):
        find_past_state(vault, history_of(vault), asked, datetime(2026, 11, 27, tzinfo=UTC))
