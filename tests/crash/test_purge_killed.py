"""`kill -9` at every step of a purge: the old history or the new one is whole, and the next start ends what was promised."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ormahd.note.forgetting import Forgotten
from ormahd.purge import purge
from tests.crash.strides import STRIDE, numbered
from tests.crash.test_kill_at_every_step import in_a_child
from tests.vault.git_house import git, open_vault, put, sound
from tests.vault.observed import House
from tests.vault.purging import GOING, STAYING, WORDS, everything, forget_today, nobody, purge_all, silent, told

PROMISED = "purge-promised"


@pytest.fixture(autouse=True)
def git_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gitconfig").write_text("[user]\n\tname = Ada Example\n\temail = ada@example.org\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def begin(root: Path) -> None:
    """A vault with two branches, a tag and work under way, from whose files of today the memory is gone."""
    house = House(root)
    told(house)
    house.git("tag", "-a", "heavy", "-m", "a tag")
    house.git("branch", "side", "HEAD~1")
    forget_today(house.vault, purge.look(house.vault, Forgotten(GOING), nobody, silent))
    house.write("staged.md", "staged\n")
    house.git("add", "staged.md")
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
        prepared = purge.prepare(vault, purge.look(vault, Forgotten(GOING), nobody, silent), nobody, silent)
        purge.replace(vault, prepared, told_of)
    at("purge-done")


def steps(template: Path) -> list[str]:
    root = template.with_name("dry")
    copy(template, root)
    seen: list[str] = []
    purging(root, seen.append)
    return [step for step in seen if step.startswith("purge-")]


def killed_at(root: Path, step: str) -> None:
    def at(now: str) -> None:
        if now == step:
            os.kill(os.getpid(), signal.SIGKILL)

    assert os.WIFSIGNALED(in_a_child(lambda: purging(root, at))), step


def holds(root: Path) -> list[str]:
    left = everything(root / ".git").lower()
    return [word for word in (*WORDS, GOING) if word.lower().encode() in left]


@STRIDE
def test_every_step(tmp_path: Path, template: Path, stride: int) -> None:
    order = steps(template)
    assert order[:3] == ["purge-packs", PROMISED, "purge-refs"]
    assert len(order) > 8
    for _, step in numbered(order, stride):
        root = tmp_path / step
        old = copy(template, root)
        killed_at(root, step)
        kept = order.index(step) < order.index(PROMISED)

        # as a person's git finds it, before anybody has mended anything
        git(root, "fsck", "--full")
        assert git(root, "status", "--porcelain") == "A  staged.md", step
        between = refs(root)
        assert (between == old) == (order.index(step) <= order.index(PROMISED)), step

        with open_vault(root, recover=False) as vault:
            said = vault.recover()
            if kept:
                assert any("before it changed the history: repeat it" in sentence for sentence in said), (step, said)
                assert vault.notices() == said[-1:]
                assert refs(root) == old
                assert "zebrafish" in holds(root)
                assert purge.pending(vault) is None
            else:
                assert purge.pending(vault) is not None, step
                assert vault.notices() == []
                purge.finish(vault)
                assert holds(root) == [], step
                assert refs(root).keys() == old.keys()
                assert all(refs(root)[name] != old[name] for name in old)
            assert git(root, "show", ":staged.md") == "staged"
        git(root, "commit", "-qm", "what was staged")
        sound(root)
        with open_vault(root) as vault:
            if kept:
                purge_all(vault, GOING)
                assert holds(root) == []
                assert vault.notices() == []
            put(vault, ("more.md", b"more\n"))
        sound(root)


def test_somebody_commits_between_the_crash_and_the_next_start(tmp_path: Path, template: Path) -> None:
    for step in ("purge-packs", PROMISED, "purge-refs", "purge-repacked"):
        root = tmp_path / step
        copy(template, root)
        killed_at(root, step)
        (root / ".git/index.lock").unlink(missing_ok=True)  # git told them to
        git(root, "commit", "-qm", "by hand")
        mine = git(root, "rev-parse", "HEAD")
        with open_vault(root, recover=False) as vault:
            said = vault.recover()
            assert git(root, "rev-parse", "HEAD") == mine, step
            git(root, "fsck", "--full")
            if step == PROMISED:
                assert any("went on from the old history" in sentence for sentence in said), said
            purge.finish(vault)
            if step in {"purge-packs", PROMISED}:
                assert "zebrafish" in holds(root)
                purge_all(vault, GOING)
            assert holds(root) == [], step
            assert git(root, "show", "HEAD:staged.md") == "staged"
        sound(root)


def test_killed_while_the_history_is_written_anew(tmp_path: Path, template: Path) -> None:
    """The child that rewrites may outlive us for a moment; the vault is not its place."""
    root = tmp_path / "vault"
    old = copy(template, root)

    def work() -> None:
        def progress(done: int, _total: int, stage: str) -> None:
            if stage == "writing the history anew":
                os.kill(os.getpid(), signal.SIGKILL)

        vault = open_vault(root)
        purge.prepare(vault, purge.look(vault, Forgotten(GOING), nobody, silent), nobody, progress)

    assert os.WIFSIGNALED(in_a_child(work))
    with open_vault(root, recover=False) as vault:
        assert any("before it changed the history: repeat it" in sentence for sentence in vault.recover())
        assert refs(root) == old
        purge_all(vault, GOING)
        assert holds(root) == []
    assert STAYING in git(root, "grep", "-h", STAYING, "HEAD")
