"""A memory goes from the history, from every branch and tag, and nothing else changes."""

import os
import subprocess
from pathlib import Path

import pytest

from ormahd.errors import VaultBusy
from ormahd.git.history import drop_unused
from ormahd.git.packs import tidy
from ormahd.model.change import Kind
from ormahd.note.forgetting import Forgotten
from ormahd.note.read import parse
from ormahd.purge import purge
from tests.vault import purging
from tests.vault.git_house import history_of
from tests.vault.observed import House
from tests.vault.purging import (
    GOING,
    STAYING,
    THIRD,
    TITLE,
    everything,
    forget_today,
    gone,
    nobody,
    purge_all,
    silent,
    store,
    told,
)

house = purging.house


def test_every_version_goes_and_the_rest_stays(house: House) -> None:
    first = house.git("rev-parse", "HEAD")
    going, staying = told(house)
    before = house.read(staying)
    subjects = house.log(7)
    purge_all(house.vault, GOING)
    gone(house)
    assert house.clean()
    assert not (house.root / going).exists()
    assert parse(before, staying).links != ()
    assert house.read(staying) == house.vault.committed(staying)
    assert parse(house.read(staying), staying).links == ()
    assert house.read(staying).replace(b"green.", b"blue.") == house.git("show", "HEAD~3:" + staying).encode() + b"\n"
    assert house.git("rev-list", "HEAD").splitlines()[-1] == first  # what was before it keeps its id
    names = {f"Connect: The blue door supports {TITLE}", f"Update: {TITLE}", f"remember: {TITLE}"}
    assert house.log(7)[1:] == ["(purged)" if name in names else name for name in subjects[:6]]
    house.settle()
    assert house.index.find("narwhal") == []
    assert house.index.find("green") == [staying]


def test_ops_keep_their_names_times_and_sources(house: House) -> None:
    told(house)
    before = history_of(house.vault).ops()
    purge_all(house.vault, GOING)
    after = history_of(house.vault).ops()[1:]
    assert [(op.op, op.time, op.kind, op.source) for op in after] == [
        (op.op, op.time, op.kind, op.source) for op in before
    ]
    assert [op.nodes for op in after] == [tuple(node for node in op.nodes if node != GOING) for op in before]


def test_writing_goes_on(house: House) -> None:
    _, staying = told(house)
    purge_all(house.vault, GOING)
    path = house.remember("Afterwards.", title="After", node_id=THIRD)
    store(house, staying, house.read(staying) + b"more\n", "Update: The blue door", STAYING)
    assert house.vault.committed(path) == house.read(path)
    house.git("fsck", "--full", "--strict")
    house.git("revert", "--no-edit", "HEAD")
    assert house.clean()


def test_what_was_noted_of_the_old_commits_goes_too(house: House) -> None:
    told(house)
    assert tidy(house.vault.git, beyond=-1)
    graphs = house.vault.git.git_dir / "objects/info/commit-graphs"
    assert graphs.exists()
    listed = house.vault.git.git_dir / "objects/pack/multi-pack-index"
    assert listed.exists()
    purge_all(house.vault, GOING)
    gone(house)
    assert not graphs.exists()
    assert not listed.exists(), "it names the objects of what is forgotten"
    assert tidy(house.vault.git, beyond=-1)
    house.git("commit-graph", "verify")
    house.git("fsck", "--full", "--strict")


def test_all_the_paths_that_it_had(house: House) -> None:
    """Moved by a person, and once without its frontmatter: still the same memory."""
    going, _ = told(house)
    house.git("mv", going, "My door.md")
    house.git("commit", "-qm", "moved by hand")
    house.write("My door.md", "cut off: the zebrafish and the narwhal\n")
    house.git("commit", "-qam", "frontmatter lost")
    house.git("revert", "--no-edit", "HEAD")
    house.write("other.md", "see [[My door]], [[the red door]] and [[The blue door]]\n")
    house.git("add", "other.md")
    house.git("commit", "-qm", "a note by hand")
    found = purge.survey_vault(house.vault, Forgotten(GOING), nobody, silent)
    assert found.own_paths == {going, "My door.md"}
    purge_all(house.vault, GOING)
    gone(house)
    assert house.read("other.md") == b"see (purged), (purged) and [[The blue door]]\n"
    assert "my door" not in everything(house.root / ".git").decode("utf-8", "replace").lower()


def test_another_note_in_its_place_stays(house: House) -> None:
    going, _ = told(house)
    data = house.read(going)
    other = (
        data.replace(GOING.encode(), THIRD.encode()).replace(b"narwhal", b"heron").replace(b"red door", b"pink door")
    )
    (house.root / "elsewhere").mkdir()
    house.git("mv", going, "elsewhere/door.md")
    house.git("commit", "-qm", "out of the way")
    house.write("elsewhere/place.md", other)
    house.git("add", ".")
    house.git("commit", "-qm", "another note")
    house.git("mv", "-f", "elsewhere/place.md", "elsewhere/door.md")
    house.git("commit", "-qm", "in its place")
    purge_all(house.vault, GOING)
    gone(house)
    assert house.read("elsewhere/door.md") == other
    assert house.git("log", "--format=%s", "--", "elsewhere/door.md").splitlines()[0] == "(purged)"


def test_a_memory_that_is_forgotten_already(house: House) -> None:
    going, staying = told(house)
    store(house, going, None, f"Forget: {TITLE}", GOING, Kind.FORGET)
    purge_all(house.vault, GOING)
    gone(house)
    assert (house.root / staying).exists()


def test_branches_tags_and_merges(house: House) -> None:
    going, _ = told(house)
    house.git("tag", "light")
    house.git("tag", "-a", "heavy", "-m", f"as of {TITLE}")
    house.git("tag", "-a", "other", "-m", "a good day", "HEAD~1")
    house.git("switch", "-qc", "side")
    house.write(going, house.read(going).replace(b"narwhal", b"narwhal and zebrafish"))
    house.git("commit", "-qam", "the side's version of the red door")
    house.git("switch", "-q", "main")
    house.write("x.md", "x\n")
    house.git("add", ".")
    house.git("commit", "-qm", "x")
    house.git("merge", "-q", "--no-edit", "-m", "Merge of the side", "side")
    refs = house.git("for-each-ref", "--format=%(refname)").splitlines()
    parents = [line.count(" ") for line in house.git("log", "--all", "--topo-order", "--format=%H %P").splitlines()]
    purge_all(house.vault, GOING)
    gone(house)
    assert house.git("for-each-ref", "--format=%(refname)").splitlines() == refs
    after = [line.count(" ") for line in house.git("log", "--all", "--topo-order", "--format=%H %P").splitlines()]
    assert sorted(after[1:]) == sorted(parents)
    assert house.git("tag", "-l", "--format=%(contents:subject)", "heavy", "other").splitlines() == [
        "(purged)",
        "a good day",
    ]
    assert "Merge of the side" in house.log(5)
    for ref in ("side", "light", "heavy", "other"):
        assert going not in house.git("ls-tree", "-r", "--name-only", ref)
    assert house.clean()


def raw(house: House, *arguments: str, stdin: bytes = b"") -> bytes:
    """What git prints, as bytes: names and messages need not be text."""
    return subprocess.run(["git", *arguments], cwd=house.root, input=stdin, capture_output=True, check=True).stdout


def test_odd_commits_and_files_are_carried_along(house: House) -> None:
    """Encodings, empty messages, links, submodules, names that are no text, an octopus, times in other zones."""
    going, staying = told(house)
    for name in (b"caf\xe9.md", b'quo"te\n.md', "ünï.txt".encode()):
        with open(os.path.join(os.fsencode(house.root), name), "wb") as file:
            file.write(b"\x00\xff bytes of " + name)
    house.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    (house.root / "link").symlink_to("run.sh")
    house.git("add", "-A")
    house.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    raw(house, "-c", "i18n.commitEncoding=latin-1", "commit", "-qF", "-", stdin="Notiz über nichts".encode("latin-1"))
    zone = {"GIT_AUTHOR_DATE": "1700000000 +0545", "GIT_COMMITTER_DATE": "1700000000 -0930"}
    house.git("commit", "-q", "--allow-empty", "--allow-empty-message", "-m", "", env=zone)
    tree = house.git("write-tree")
    parents = [house.git("commit-tree", tree, "-p", "HEAD", stdin="no line end")]
    parents += [house.git("commit-tree", tree, "-p", "HEAD~1", stdin=f"side {number}\n\n\n") for number in range(3)]
    words = [word for parent in parents for word in ("-p", parent)]
    house.git("update-ref", "HEAD", house.git("commit-tree", tree, *words, stdin="octopus"))

    def files(commit: str) -> dict[bytes, bytes]:
        rows = (entry.split(b"\t", 1) for entry in raw(house, "ls-tree", "-rz", commit).split(b"\0") if entry)
        return {path: entry for entry, path in rows if path not in {going.encode(), staying.encode()}}

    def told_of(commit: str) -> list[bytes]:
        shown = ["--format=%an|%ae|%ad|%cn|%ce|%cd|%e|%B", "--date=raw", "--encoding=none", "-z", "--topo-order"]
        return sorted(raw(house, "log", *shown, f"{commit}~2..{commit}").split(b"\0"))

    before = files("HEAD"), told_of("HEAD")
    assert len(before[1]) == 6
    purge_all(house.vault, GOING)
    gone(house)
    assert (files("HEAD~1"), told_of("HEAD~1")) == before
    assert house.git("log", "-1", "--format=%P", "HEAD~1").count(" ") == 3


def test_commits_that_name_each_other_are_renamed_in_words_too(house: House) -> None:
    told(house)
    path = house.remember("A third one.", title="Third", node_id=THIRD)
    house.git("revert", "--no-edit", "HEAD")
    purge_all(house.vault, GOING)
    gone(house)
    revert, remembered = house.git("log", "-3", "--format=%H").splitlines()[1:]
    assert f"This reverts commit {remembered}" in house.git("log", "-1", "--format=%B", revert)
    [op] = [op for op in history_of(house.vault).ops() if op.commit == remembered]
    assert op.undone_by == revert
    assert not (house.root / path).exists()


def test_files_of_ours_lose_their_lines(house: House) -> None:
    told(house)
    lines = [f'{{"id":"a","node":"{GOING}"}}\n', f'{{"id":"b","node":"{STAYING}"}}\n']
    for number in (1, 2):
        data = "".join(lines[:number]).encode()
        store(house, ".ormah/feedback/2026-11.jsonl", data, "Feedback: +1", STAYING, Kind.FEEDBACK)
    store(house, ".ormah/strength.jsonl", "".join(lines).encode(), "Strength: 2 folded", STAYING, Kind.STRENGTH)
    purge_all(house.vault, GOING)
    gone(house)
    assert house.read(".ormah/feedback/2026-11.jsonl") == lines[1].encode()
    assert house.read(".ormah/strength.jsonl") == lines[1].encode()


def test_a_secret_text(house: House) -> None:
    path = house.remember("The key is s3cr3t-w0rd, keep it.", title="Key", node_id=THIRD)
    house.write("by hand s3cr3t-w0rd.md", "mine: s3cr3t-w0rd\n")
    house.git("add", ".")
    house.git("-c", "user.name=s3cr3t-w0rd", "commit", "-qm", "with s3cr3t-w0rd in it")
    house.git("mv", "by hand s3cr3t-w0rd.md", "by hand.md")
    house.git("commit", "-qm", "renamed")
    purge_all(house.vault, None, "s3cr3t-w0rd")
    assert b"s3cr3t-w0rd" not in everything(house.root / ".git")
    assert house.read("by hand.md") == b"mine: (purged)\n"
    assert b"The key is (purged), keep it." in house.read(path)
    assert "with (purged) in it" in house.log(4)
    assert house.git("log", "--format=%an", "--all").splitlines().count("(purged)") == 1
    house.git("fsck", "--full", "--strict")


def test_what_only_a_reflog_or_nothing_leads_to(house: House) -> None:
    going, _ = told(house)
    house.git("commit", "-q", "--amend", "-m", "amended")
    house.git("hash-object", "-w", "--stdin", stdin="a lost zebrafish of 1a2b3c4d")
    house.git("gc", "-q")
    purge_all(house.vault, GOING)
    gone(house)
    assert not (house.root / going).exists()


def test_unreachable_versions_alone_are_reason_enough(house: House) -> None:
    mark = house.git("rev-parse", "HEAD")
    told(house)
    house.git("reset", "-q", "--hard", mark)
    assert purge.survey_vault(house.vault, Forgotten(GOING), nobody, silent).found
    purge_all(house.vault, GOING)
    gone(house)


def test_a_persons_work_survives(house: House) -> None:
    """Edited, untracked and ignored files; configuration, hooks and remotes. What was staged is a plain file again."""
    told(house)
    house.remember("A third one.", title="Third", node_id=THIRD)
    house.write("staged.md", "staged\n")
    house.git("add", "staged.md")
    house.write("free.md", "untracked\n")
    house.write("drafts/x.md", "ignored\n")
    (house.root / ".git/info").mkdir(exist_ok=True)
    (house.root / ".git/info/exclude").write_text("/drafts/\n")
    house.git("remote", "add", "far", "https://me:word@example.org/vault.git")
    house.git("update-ref", "refs/remotes/far/main", "HEAD~1")
    house.git("symbolic-ref", "refs/remotes/far/HEAD", "refs/remotes/far/main")
    seen = house.git("rev-parse", "HEAD~1")
    config = (house.root / ".git/config").read_bytes()
    found = purge.survey_vault(house.vault, Forgotten(GOING), nobody, silent)
    [far] = purge.remotes(house.vault, found)
    purge_all(house.vault, GOING)
    gone(house)
    status = house.git("status", "--porcelain=v1", "--ignored").splitlines()
    assert status == ["?? free.md", "?? staged.md", "!! .ormah/lock", "!! drafts/"]
    settings = (house.root / ".git/config").read_bytes()
    assert settings.startswith(config), "and the last commit that the remote had: a sync with it is refused"
    assert house.git("for-each-ref", "refs/remotes") == ""
    assert (far.name, far.url) == ("far", "https://example.org/vault.git")
    assert seen not in house.git("rev-list", "--all")


def test_the_word_on_remotes_carries_a_lease_that_works(house: House, tmp_path: Path) -> None:
    told(house)
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "far.git")], check=True)
    house.git("remote", "add", "far", str(tmp_path / "far.git"))
    house.git("push", "-q", "far", "main")
    found = purge.survey_vault(house.vault, Forgotten(GOING), nobody, silent)
    [far] = purge.remotes(house.vault, found)
    purge_all(house.vault, GOING)
    assert subprocess.run(["git", "push", "-q", "far", "main"], cwd=house.root, capture_output=True).returncode != 0
    [command] = far.push
    subprocess.run(command.split(), cwd=house.root, check=True, capture_output=True)
    assert house.git("ls-remote", "far", "main").split()[0] == house.git("rev-parse", "main")


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_when_it_comes_back_the_old_history_stays(house: House, when: str) -> None:
    """By an edit before the history is written anew, or by a git that asks no lock while it is."""
    _, staying = told(house)
    found = purge.survey_vault(house.vault, Forgotten(GOING), nobody, silent)
    forget_today(house.vault, found)
    if when == "before":
        store(house, staying, house.read(staying) + b"see [[fact_x_1a2b3c4d]]\n", "Update", STAYING)

    def progress(_done: int, _total: int, stage: str) -> None:
        if when == "meanwhile" and stage == "checking every object":
            commit = house.git("commit-tree", "HEAD~1^{tree}", "-p", "HEAD", "-m", "by plumbing")
            house.git("update-ref", "HEAD", commit)

    with house.vault.rewriting() as at, pytest.raises(VaultBusy, match=r"again|meanwhile"):
        purge.replace_history(house.vault, found.forgotten, nobody, progress, at)
    head = house.git("rev-parse", "HEAD")
    assert drop_unused(house.root)
    assert house.git("rev-parse", "HEAD") == head
    assert house.git("show", "HEAD~2:" + staying)
