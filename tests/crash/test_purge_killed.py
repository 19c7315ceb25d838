"""`kill -9` at every step of a purge: the old history or the new one is whole, and the next start ends what was promised."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ormahd.note.forgetting import Forgotten
from ormahd.purge import purge
from tests.crash.strides import die, dies
from tests.vault.git_house import git, open_vault, put, sound
from tests.vault.observed import House
from tests.vault.purging import GOING, STAYING, WORDS, everything, forget_today, nobody, purge_all, silent, told

STEPS = ["purge-written", "purge-exchanged", "purge-removed"]


def begin(root: Path) -> None:
    """A vault with two branches and a tag, from whose files of today the memory is gone."""
    house = House(root)
    told(house)
    house.git("tag", "-a", "heavy", "-m", "a tag")
    house.git("branch", "side", "HEAD~1")
    forget_today(house.vault, purge.survey_vault(house.vault, Forgotten(GOING), nobody, silent))
    house.close()


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """Such a vault, to be copied for each step."""
    begin(tmp_path / "template")
    return tmp_path / "template"


def copy(template: Path, root: Path) -> dict[str, str]:
    shutil.copytree(template, root)
    return refs(root)


def refs(root: Path) -> dict[str, str]:
    lines = git(root, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.split(" ") for line in lines)


def purging(root: Path, at: Callable[[str], None]) -> None:
    vault = open_vault(root, at=at)
    with vault.rewriting() as told_of:
        purge.replace_history(vault, Forgotten(GOING), nobody, silent, told_of)
    at("purge-done")


def holds(root: Path) -> list[str]:
    left = everything(root / ".git").lower()
    return [word for word in (*WORDS, GOING) if word.lower().encode() in left]


@pytest.mark.parametrize("step", STEPS)
def test_every_step(tmp_path: Path, template: Path, step: str) -> None:
    root = tmp_path / step
    old = copy(template, root)
    assert dies(lambda: purging(root, lambda now: die() if now == step else None))
    kept = step == "purge-written"

    # as a person's git finds it, before anything was mended
    git(root, "fsck", "--full")
    assert git(root, "status", "--porcelain") == ""
    assert (refs(root) == old) == kept

    with open_vault(root, recover=False) as vault:
        sentences = vault.recover()
        if kept:
            assert any("before it changed the history: repeat it" in sentence for sentence in sentences), sentences
            assert "zebrafish" in holds(root)
            assert purge.unfinished_purge(vault) is None
            purge_all(vault, GOING)
        else:
            assert purge.unfinished_purge(vault) is not None
            purge.end_purge(vault)
        assert holds(root) == []
        assert refs(root).keys() == old.keys()
        assert all(refs(root)[name] != old[name] for name in old)
        put(vault, ("more.md", b"more\n"))
    sound(root)


def test_killed_while_the_history_is_written_anew(tmp_path: Path, template: Path) -> None:
    """The child that rewrites may outlive us for a moment; the vault is not its place."""
    root = tmp_path / "vault"
    old = copy(template, root)

    def work() -> None:
        def progress(done: int, _total: int, stage: str) -> None:
            if stage == "writing the history anew":
                die()

        vault = open_vault(root)
        purge.replace_history(vault, Forgotten(GOING), nobody, progress, lambda _: None)

    assert dies(work)
    with open_vault(root, recover=False) as vault:
        assert any("before it changed the history: repeat it" in sentence for sentence in vault.recover())
        assert refs(root) == old
        purge_all(vault, GOING)
        assert holds(root) == []
    assert STAYING in git(root, "grep", "-h", STAYING, "HEAD")
