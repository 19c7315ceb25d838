"""The way to another machine's git: what is refused, what is away, what somebody else pushed first."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.errors import BadRequest, Conflict, NotFound
from ormahd.git.remote import Network, Remote, Unreachable, find, redact_urls, remote_url, set_upstream
from ormahd.sync.state import check_our_history, check_remote_history, note_synced
from tests.house import wait_until
from tests.tables import rows
from tests.vault.git_house import git, put
from tests.vault.sync_house import Machine, network, nothing, two_machines

Two = tuple[Machine, Machine]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    one, other = two_machines(tmp_path, {"a.txt": b"1\n"})
    yield one, other
    one.vault.close()
    other.vault.close()


def test_the_remote_is_what_the_branch_follows_else_the_one_of_the_setting(two: Two) -> None:
    one, _ = two
    bare = str(one.root.parent / "remote.git")
    assert find(one.vault.git, "origin") == Remote("origin", bare, "refs/heads/main", known=True)
    one.git("remote", "rename", "origin", "backup")
    one.git("config", "branch.main.merge", "refs/heads/notes")
    assert find(one.vault.git, "origin") == Remote("backup", bare, "refs/heads/notes", known=True)
    one.git("config", "--unset", "branch.main.remote")
    with pytest.raises(NotFound, match="no remote 'origin'"):
        find(one.vault.git, "origin")
    one.git("checkout", "-q", "--detach")
    with pytest.raises(Conflict, match="detached"):
        find(one.vault.git, "backup")


def test_a_remote_is_written_into_the_configuration(two: Two) -> None:
    one, _ = two
    set_upstream(one.vault.git, Remote("other", "/nowhere/x.git", "refs/heads/trunk", known=False))
    assert remote_url(one.vault.git, "other") == "/nowhere/x.git"
    assert find(one.vault.git, "origin") == Remote("other", "/nowhere/x.git", "refs/heads/trunk", known=True)
    set_upstream(one.vault.git, Remote("other", "/elsewhere/x.git", "refs/heads/trunk", known=True))
    assert remote_url(one.vault.git, "other") == "/elsewhere/x.git"


def test_what_a_remote_has(two: Two, tmp_path: Path) -> None:
    one, _ = two
    heads = network(one.vault).heads(one.remote.url)
    assert heads.branches == {"refs/heads/main": one.vault.head()}
    assert heads.default == "refs/heads/main"
    git(tmp_path, "init", "-q", "--bare", "empty.git")
    assert network(one.vault).heads(str(tmp_path / "empty.git")).default is None


def test_a_branch_that_the_remote_has_not_is_no_error(two: Two) -> None:
    one, _ = two
    assert network(one.vault).fetch(Remote("origin", one.remote.url, "refs/heads/other", known=True), nothing) is None


def test_a_push_that_came_too_late(two: Two) -> None:
    one, other = two
    one.store({"b.txt": b"b"})
    assert one.push()
    assert one.git("rev-parse", "origin/main") == one.vault.head()
    other.store({"c.txt": b"c"})
    assert not other.push()


def test_a_remote_that_is_a_folder_somebody_works_in(two: Two, tmp_path: Path) -> None:
    one, _ = two
    git(tmp_path, "init", "-q", "--initial-branch=main", "work")
    git(tmp_path / "work", "commit", "-q", "--allow-empty", "-m", "x")
    remote = Remote("work", str(tmp_path / "work"), "refs/heads/main", known=False)
    head = one.vault.head()
    assert head
    git(tmp_path / "work", "update-ref", "-d", "refs/heads/main")
    with pytest.raises(Conflict, match="refuses our changes") as caught:
        network(one.vault).push(remote, head, nothing)
    assert "bare" in (caught.value.hint or "")


@pytest.mark.parametrize("url", ["ext::sh -c 'touch {0}/pwned'", "fd::17", "nonsense://x/y"])
def test_other_programs_in_place_of_a_transport_are_refused(two: Two, tmp_path: Path, url: str) -> None:
    one, _ = two
    with pytest.raises(BadRequest, match="no address"):
        network(one.vault).heads(url.format(tmp_path))
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(("words", "reason"), rows(__file__, "a_server_that_refuses_is_not_away"))
def test_a_server_that_refuses_is_not_away(two: Two, tmp_path: Path, words: str, reason: str) -> None:
    one, _ = two
    says = tmp_path / "ssh"
    says.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{words}\nEND\nexit 128\n")
    says.chmod(0o700)
    one.git("config", "core.sshCommand", str(says))
    with pytest.raises(Unreachable) as caught:
        network(one.vault).heads("ssh://nas/x.git")
    assert caught.value.data["reason"] == reason
    assert reason == "offline" or words.removeprefix("fatal: ") in caught.value.message


def test_a_remote_that_is_away(two: Two, tmp_path: Path) -> None:
    one, _ = two
    (tmp_path / "remote.git").rename(tmp_path / "away.git")
    with pytest.raises(Unreachable, match="cannot be reached") as caught:
        one.fetch()
    assert caught.value.data["reason"] == "offline"
    with pytest.raises(Unreachable):
        one.push()
    with pytest.raises(Unreachable):
        network(one.vault).heads("ssh://127.0.0.1:1/x.git")


def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ssh that says nothing and never ends; its pid goes into the file that is returned."""
    pid, script = tmp_path / "pid", tmp_path / "ssh"
    script.write_text(
        f"#!{sys.executable}\nimport os,time\nopen({str(pid)!r},'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(script))
    return pid


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


def wait_for(file: Path) -> int:
    wait_until(lambda: file.exists() and file.read_text(), "ssh is called")
    return int(file.read_text())


def test_a_remote_that_falls_silent_is_given_up_and_leaves_no_process(
    two: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = two
    pid = hanging(tmp_path, monkeypatch)
    with pytest.raises(Unreachable, match="said nothing for 1 s") as caught:
        network(one.vault, silence=1.0).heads("ssh://example.org/x.git")
    assert caught.value.data["reason"] == "silent"
    found = wait_for(pid)
    wait_until(lambda: is_gone(found), "ssh has ended")


def test_stopping_ends_what_is_under_way(two: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = two
    pid = hanging(tmp_path, monkeypatch)
    closing = threading.Event()
    wire = Network(one.vault.git, silence=600.0, closing=closing)
    said: list[Exception] = []

    def ask() -> None:
        try:
            wire.heads("ssh://example.org/x.git")
        except Unreachable as exc:
            said.append(exc)

    thread = threading.Thread(target=ask)
    thread.start()
    found = wait_for(pid)
    closing.set()
    thread.join(120)
    assert not thread.is_alive()
    assert [str(exc) for exc in said] == ["the daemon is stopping"]
    wait_until(lambda: is_gone(found), "ssh has ended")


def test_nobody_is_asked_for_a_password(two: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = two
    script = tmp_path / "ssh"
    script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/args\nenv > {tmp_path}/env\nexit 255\n')
    script.chmod(0o755)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("SSH_ASKPASS", "/usr/bin/ask")
    one.git("config", "core.sshCommand", f"{script} -i key")
    with pytest.raises(Unreachable):
        network(one.vault).heads("ssh://example.org/x.git")
    assert (tmp_path / "args").read_text().startswith("-i key -o BatchMode=yes")
    env = dict(line.partition("=")[::2] for line in (tmp_path / "env").read_text().splitlines())
    assert (env["GIT_TERMINAL_PROMPT"], env["SSH_ASKPASS"], env["SSH_ASKPASS_REQUIRE"]) == ("0", "", "never")


def test_hooks_of_the_person_stay_asleep(two: Two, tmp_path: Path) -> None:
    one, _ = two
    hook = one.root / ".git/hooks/pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    hook.chmod(0o755)
    one.store({"b.txt": b"b"})
    assert one.push()
    assert not (tmp_path / "ran").exists()


def test_an_address_is_shown_without_its_password() -> None:
    assert redact_urls("https://ada:secret@example.org/x.git") == "https://example.org/x.git"
    assert redact_urls("https://token@example.org/x.git") == "https://example.org/x.git"
    assert redact_urls("ssh://git:secret@example.org/x.git") == "ssh://git@example.org/x.git"
    assert redact_urls("git@example.org:x.git") == "git@example.org:x.git"
    assert redact_urls("unable to access 'https://a:b@c.d/x/': no") == "unable to access 'https://c.d/x/': no"


# ---------------------------------------------------------------- rewritten histories


def test_a_history_that_was_rewritten_there_is_noticed(two: Two) -> None:
    one, other = two
    for machine in two:
        tip = machine.vault.head()
        assert tip
        note_synced(machine.vault, machine.remote, tip)
    one.git("commit", "-q", "--amend", "-m", "rewritten")
    one.git("push", "-q", "--force")
    put(other.vault, ("b.txt", b"b"))
    tip = other.fetch()
    assert tip
    with pytest.raises(Conflict, match="was rewritten since the last sync") as caught:
        check_remote_history(other.vault, other.remote, tip)
    said = (caught.value.hint or "").partition("git rebase ")[2].partition(" (")[0]
    other.git("status")  # our commits leave the index without the files' times, which a rebase would stumble over
    other.git("rebase", "-q", *said.split())
    assert other.git("log", "-1", "--format=%P") == tip
    assert (other.root / "b.txt").exists()
    check_our_history(other.vault, other.remote, unasked(other))
    check_remote_history(other.vault, other.remote, tip)


def test_a_history_that_was_rewritten_here_is_noticed(two: Two) -> None:
    one, _ = two
    tip = one.vault.head()
    assert tip
    note_synced(one.vault, one.remote, tip)
    one.git("commit", "-q", "--amend", "-m", "rewritten")
    with pytest.raises(Conflict, match="this vault's history was rewritten") as caught:
        check_our_history(one.vault, one.remote, network(one.vault))
    said = caught.value.hint or ""
    one.git("push", *said.partition("git push ")[2].partition(" (")[0].split())
    check_our_history(one.vault, one.remote, unasked(one))


def test_a_purged_history_is_not_even_fetched(two: Two) -> None:
    """After a purge neither the old commits nor a tracking ref are there: only the remote can be asked."""
    one, _ = two
    tip = one.vault.head()
    assert tip
    note_synced(one.vault, one.remote, tip)
    one.git("commit", "-q", "--amend", "-m", "rewritten")
    one.git("update-ref", "-d", "refs/remotes/origin/main")
    one.git("reflog", "expire", "--expire=now", "--all")
    one.git("gc", "-q", "--prune=now")
    one.vault.git.reopen()
    assert one.vault.git.resolve(tip) is None
    with pytest.raises(Conflict, match="this vault's history was rewritten"):
        check_our_history(one.vault, one.remote, network(one.vault))
    bare = one.root.parent / "remote.git"
    one.git("push", "-q", "--force", str(bare), "main")
    check_our_history(one.vault, one.remote, network(one.vault))
    git(bare, "update-ref", "-d", "refs/heads/main")
    check_our_history(one.vault, one.remote, network(one.vault))
    assert one.vault.git.resolve(tip) is None


def unasked(machine: Machine) -> Network:
    """A network that raises if it is used."""
    closing = threading.Event()
    closing.set()
    return Network(machine.vault.git, silence=30.0, closing=closing)


def test_a_remote_that_was_put_back_is_not_taken_for_rewritten(two: Two, tmp_path: Path) -> None:
    one, _ = two
    first = one.vault.head()
    put(one.vault, ("b.txt", b"b"))
    assert one.push()
    head = one.vault.head()
    assert first
    assert head
    note_synced(one.vault, one.remote, head)
    git(tmp_path / "remote.git", "update-ref", "refs/heads/main", first)
    tip = one.fetch()
    assert tip == first
    check_remote_history(one.vault, one.remote, tip)
    one.git("reset", "-q", "--hard", first)
    check_our_history(one.vault, one.remote, unasked(one))
    check_remote_history(one.vault, one.remote, head)
