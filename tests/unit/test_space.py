"""Which project a working directory belongs to, and which space that is: stable for worktrees and clones, apart for two projects
of one name."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.actions.amend import Caller
from ormahd.actions.projects import assign, home_of, list_spaces, settle, space_of
from ormahd.api import AssignSpaceParams
from ormahd.config import load
from ormahd.errors import BadRequest
from ormahd.git.remote import read_remote
from ormahd.model.lines import merge_lines
from ormahd.model.spaces import FILE, ProjectKey, free_name, read, spaces, suffixes, with_line
from ormahd.note.values import short_name
from ormahd.ormah import Ormah
from ormahd.state import sessions
from ormahd.vault.spaces import find_project
from tests.tables import rows


@pytest.fixture
def ormah(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ormah]:
    (tmp_path / "home").mkdir()
    environ = {
        "HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_RUNTIME_DIR": str(tmp_path / "run"), "ORMAH_VAULT": str(tmp_path / "vault"), "ORMAH_EMBEDDING_MODEL": "hashing",
    }  # fmt: skip
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    opened = Ormah.open(load(None, environ))
    yield opened
    opened.close()


def git(folder: Path, *args: str) -> str:
    return subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", *args], cwd=folder, check=True,
        capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip


def make(folder: Path, remote: str | None = None, message: str | None = None) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", message or str(folder))
    if remote:
        git(folder, "remote", "add", "origin", remote)
    return folder


def seen(ormah: Ormah, place: Path | str | None) -> str | None:
    """The space of whoever asks there."""
    found = home_of(ormah, None if place is None else str(place))
    return None if found is None else found.space


def stored(ormah: Ormah, place: Path) -> str | None:
    """The space of whoever stores a memory there."""
    return settle(ormah, Caller("claude-code", str(place)))


# ---------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("address", "key", "name"), rows(__file__, "an_address_leads_to_one_place_however_it_is_written")
)
def test_an_address_leads_to_one_place_however_it_is_written(address: str, key: str, name: str) -> None:
    remote = read_remote(address)
    assert remote is not None
    assert (remote.key, remote.name) == (key, name)


@pytest.mark.parametrize(
    "address", ["", "   ", "https://", "https://github.com", "ssh://git@host/", "/", ".git", "git@host:"]
)
def test_an_address_that_leads_nowhere_is_none(address: str) -> None:
    assert read_remote(address) is None


# ---------------------------------------------------------------- one project


def test_worktrees_clones_and_folders_of_a_repository_are_one_project(ormah: Ormah, tmp_path: Path) -> None:
    repo = make(tmp_path / "src" / "ormah")
    (repo / "packages" / "web").mkdir(parents=True)
    git(repo, "worktree", "add", "-q", str(tmp_path / "feature-x"))
    git(tmp_path, "clone", "-q", str(repo), str(tmp_path / "elsewhere"))
    assert stored(ormah, repo) == "ormah"
    for place in (repo, repo / "packages" / "web", repo / "gone", tmp_path / "feature-x", tmp_path / "elsewhere"):
        assert stored(ormah, place) == "ormah", place
    assert len(ormah.spaces.lines()[0]) == 1


def test_clones_by_other_addresses_are_one_project(
    ormah: Ormah, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home" / ".gitconfig").write_text('[url "https://github.com/"]\n\tinsteadOf = gh:\n')
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    addresses = (
        "git@github.com:acme/Api.git",
        "https://github.com/acme/api",
        "ssh://git@github.com:22/acme/api.git",
        "gh:acme/api",
    )
    assert {stored(ormah, make(tmp_path / str(at) / "x", address)) for at, address in enumerate(addresses)} == {"Api"}


def test_gits_variables_of_another_repository_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = make(tmp_path / "here")
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(make(tmp_path / "there") / ".git/objects"))
    found = find_project(here, frozenset())
    assert found is not None
    assert found.key.startswith("root:")


def test_a_submodule_and_a_fork_are_projects_of_their_own(ormah: Ormah, tmp_path: Path) -> None:
    library = make(tmp_path / "lib", "git@github.com:acme/lib.git")
    shop = make(tmp_path / "shop", "git@github.com:acme/shop.git")
    git(shop, "submodule", "add", "-q", str(library), "vendor/lib")
    git(shop / "vendor" / "lib", "remote", "set-url", "origin", "https://github.com/acme/lib")
    assert stored(ormah, shop / "vendor" / "lib") == "lib"
    assert stored(ormah, shop / "vendor") == "shop"
    assert stored(ormah, library) == "lib"
    fork = make(tmp_path / "fork", "git@github.com:me/shop.git")
    git(fork, "remote", "add", "upstream", "git@github.com:acme/shop.git")
    assert stored(ormah, fork) == "shop (me)"
    git(fork, "remote", "rename", "origin", "mine")
    assert seen(ormah, fork) == "shop (me)"


def test_a_repository_keeps_its_space_when_its_remote_comes_or_changes(ormah: Ormah, tmp_path: Path) -> None:
    repo = make(tmp_path / "a" / "api")
    assert stored(ormah, repo) == "api"
    for address in (
        "git@github.com:acme/api.git",
        "git@github.com:acme/interface.git",
        "https://example.org/new/place.git",
    ):
        git(repo, "config", "remote.origin.url", address)
        assert seen(ormah, repo) == "api"
        assert stored(ormah, repo) == "api"
    git(tmp_path, "clone", "-q", str(repo), str(tmp_path / "b"))
    git(tmp_path / "b", "remote", "set-url", "origin", "git@example.org:new/place.git")
    assert seen(ormah, tmp_path / "b") == "api"


def test_a_renamed_repository_keeps_its_space_and_a_copy_has_its_own(ormah: Ormah, tmp_path: Path) -> None:
    repo = make(tmp_path / "old")
    assert stored(ormah, repo) == "old"
    repo = repo.rename(tmp_path / "new")
    assert stored(ormah, repo) == "old"
    template = make(tmp_path / "template")
    assert stored(ormah, template) == "template"
    shutil.copytree(template, tmp_path / "product")
    assert stored(ormah, tmp_path / "product") == "product"
    assert seen(ormah, tmp_path / "product") == "product"
    assert seen(ormah, template) == "template"


def test_a_repository_without_a_commit_or_begun_anew_stays_where_it_was(ormah: Ormah, tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    folder.mkdir()
    assert stored(ormah, folder) == "fresh"
    git(folder, "init", "-q")
    assert stored(ormah, folder) == "fresh"
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    assert stored(ormah, folder) == "fresh"
    shutil.rmtree(folder / ".git")
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "anew")
    assert stored(ormah, folder) == "fresh"


def test_what_is_cloned_into_the_place_of_another_is_another_project(ormah: Ormah, tmp_path: Path) -> None:
    repo = make(tmp_path / "work" / "api", "git@github.com:acme/api.git")
    assert stored(ormah, repo) == "api"
    shutil.rmtree(repo)
    make(repo, "git@github.com:globex/api.git", "another beginning")
    assert stored(ormah, repo) == "api (globex)"


# ---------------------------------------------------------------- two of one name


def test_two_projects_of_one_name_are_two_spaces(ormah: Ormah, tmp_path: Path) -> None:
    remotes = (
        ("git@git.example.org:acme/api.git", "api"),
        ("git@git.example.org:globex/api.git", "api (globex)"),
        ("git@other.example.org:globex/API.git", "API (other.example.org)"),
        ("git@git.example.org:big/globex/api.git", "api (big/globex)"),
    )
    repos = [(make(tmp_path / str(at) / "api", remote), space) for at, (remote, space) in enumerate(remotes)]
    folder = tmp_path / "plain" / "api"
    folder.mkdir(parents=True)
    for place, space in (*repos, (folder, "api (plain)"), (make(tmp_path / "local" / "api"), "api (local)")):
        assert seen(ormah, place) == space
        assert stored(ormah, place) == space
    for place, space in repos:
        assert seen(ormah, place) == space
        assert stored(ormah, place) == space


def test_who_only_asks_takes_no_name(ormah: Ormah, tmp_path: Path) -> None:
    one, other = (make(tmp_path / name / "api", f"git@git.example.org:{name}/api.git") for name in ("acme", "globex"))
    assert seen(ormah, one) == seen(ormah, other) == "api"
    assert (ormah.vault.root / FILE).read_bytes() == b""
    assert stored(ormah, other) == "api"
    assert seen(ormah, one) == "api (acme)"


def test_a_space_from_before_belongs_to_the_first_who_stores_there(ormah: Ormah, tmp_path: Path) -> None:
    one = make(tmp_path / "api", "git@git.example.org:acme/api.git")
    before = ormah.vault.head()
    assert stored(ormah, one) == "api"
    assert ormah.vault.head() != before
    assert git(ormah.vault.root, "log", "-1", "--format=%s") == "Space api: belongs to git.example.org/acme/api"
    assert git(ormah.vault.root, "status", "--porcelain") == ""
    before = ormah.vault.head()
    assert stored(ormah, one) == "api"
    assert ormah.vault.head() == before


def test_a_person_says_which_space_a_project_has(ormah: Ormah, tmp_path: Path) -> None:
    one, other, third = (
        make(tmp_path / name / "api", f"git@git.example.org:{name}/api.git") for name in ("a", "b", "c")
    )
    assert (stored(ormah, one), stored(ormah, other)) == ("api", "api (b)")
    given = assign(ormah, AssignSpaceParams(space="shop"), Caller("person", str(other)))
    assert (given.space, given.key) == ("shop", "git.example.org/b/api")
    assert (seen(ormah, other), stored(ormah, other), seen(ormah, one)) == ("shop", "shop", "api")
    assign(ormah, AssignSpaceParams(space="api"), Caller("person", str(third)))  # together with another project
    assert (seen(ormah, third), seen(ormah, one), seen(ormah, other)) == ("api", "api", "shop")
    assign(ormah, AssignSpaceParams(space="api (b)"), Caller("person", str(other)))
    assert seen(ormah, other) == "api (b)"
    head = ormah.vault.head()
    assign(ormah, AssignSpaceParams(space="api (b)"), Caller("person", str(other)))
    assert ormah.vault.head() == head
    found = list_spaces(ormah, Caller("person", str(other)))
    assert (found.here, found.project) == ("api (b)", "git.example.org/b/api")
    projects = {space.space: space.projects for space in found.spaces}
    assert projects["api"] == ["git.example.org/a/api", "git.example.org/c/api"]
    nowhere = list_spaces(ormah, Caller("person", "/"))
    assert (nowhere.here, nowhere.project) == (None, None)
    with pytest.raises(BadRequest, match="no project here"):
        assign(ormah, AssignSpaceParams(space="api"), Caller("person", "/"))


# ---------------------------------------------------------------- no project


def test_no_space(ormah: Ormah, tmp_path: Path) -> None:
    vault = ormah.vault.root
    for place in ("/", str(tmp_path / "home"), str(vault), str(vault / "sub"), None, "", "relative", "/x\x00y"):
        assert seen(ormah, place) is None, place


def test_dotfiles_and_global(ormah: Ormah, tmp_path: Path) -> None:
    home = tmp_path / "home"
    git(home, "init", "-q")
    (home / "notes").mkdir()
    assert seen(ormah, home / "notes") == "notes"
    assert stored(ormah, make(tmp_path / "Global")) == "global-repo"


def test_a_broken_git_file_is_a_plain_folder(ormah: Ormah, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    for junk in (b"", b"gitdir: /nowhere\n", b"\xff\xfe", b"gitdir: \x00"):
        (folder / ".git").write_bytes(junk)
        assert seen(ormah, folder) == "odd"
    (folder / ".git").unlink()
    git(folder, "init", "-q")
    for junk in (
        b"",
        b"[remote",
        b'[remote "origin"]\n\turl = \n',
        b'[remote "origin"]\n\turl = --upload-pack=x\n',
        b"\x00",
    ):
        (folder / ".git" / "config").write_bytes(junk)
        assert seen(ormah, folder) in {"odd", "--upload-pack=x"}


# ---------------------------------------------------------------- sessions


def test_a_session_stays_in_the_project_in_which_it_began(ormah: Ormah, tmp_path: Path) -> None:
    shop, library = (make(tmp_path / name, f"git@git.example.org:acme/{name}.git") for name in ("shop", "library"))
    assert sessions.begin(ormah.state, "s1", str(shop), ormah.clock()) == str(shop)
    assert sessions.begin(ormah.state, "s1", str(library), ormah.clock()) == str(shop)
    assert space_of(ormah, Caller("claude-code", str(library), "s1")) == "shop"
    assert settle(ormah, Caller("claude-code", str(library), "s1")) == "shop"
    assert space_of(ormah, Caller("claude-code", str(library), "unknown")) == "library"
    assert space_of(ormah, Caller("person", str(library))) == "library"


# ---------------------------------------------------------------- the file


def line(key: str, space: str, day: int, **more: object) -> ProjectKey:
    return ProjectKey(key=key, space=space, since=f"2026-11-{day:02}T00:00:00Z", **more)  # type: ignore[arg-type]


def test_two_machines_come_to_the_same_names() -> None:
    here = with_line(b"", line("g.org/acme/api", "api", 1))
    there = with_line(with_line(b"", line("g.org/globex/api", "api", 2)), line("g.org/acme/api", "api (acme)", 3))
    merged = merge_lines(b"", here, there)
    assert merged == merge_lines(b"", there, here)
    assert spaces(read(merged)) == {"g.org/acme/api": "api", "g.org/globex/api": "api (globex)"}


def test_a_second_key_of_a_project_follows_the_first() -> None:
    lines = [
        line("root:abc", "api", 1),
        line("g.org/acme/api", "api", 2, same="root:abc"),
        line("g.org/b/api", "api", 3),
    ]
    assert spaces(lines) == {"root:abc": "api", "g.org/acme/api": "api", "g.org/b/api": "api (b)"}
    circle = [line("a/x", "x", 1, same="b/x"), line("b/x", "x", 2, same="a/x")]
    assert spaces(circle)["a/x"] == "x"


def test_a_line_that_cannot_be_read_names_no_project() -> None:
    good = line("g.org/acme/api", "api", 1).line()
    for bad in (
        b"",
        b"\xff",
        b"[]",
        b"{",
        b'{"key": 1}',
        b'{"key": "", "space": "x", "since": ""}',
        b'{"key": "a", "space": " ", "since": ""}',
    ):
        assert [one.key for one in read(bad + b"\n" + good)] == ["g.org/acme/api"]
    assert with_line(good, line("g.org/acme/api", "api", 1)) == good


def test_names_and_suffixes() -> None:
    assert suffixes("g.org/big/acme/api") == ("acme", "big/acme", "g.org", "g.org/big/acme")
    assert suffixes("g.org/api") == ("g.org",)
    assert suffixes("folder:~/code/api") == ("code", "~/code")
    assert free_name("api", ["a", "b"], {"api", "api (a)"}) == "api (b)"
    assert free_name("api", [], {"api", "api (2)"}) == "api (3)"
    assert [short_name(one) for one in ("api (globex)", "api", "(x)", "a (b) (c)")] == ["api", "api", "(x)", "a (b)"]


def test_sources() -> None:
    assert Caller("claude-code").source == "agent:claude-code"
    assert Caller().source == "agent:unknown"
    assert Caller("person").source == "person"
    assert Caller("job:decay").source == "job:decay"
    assert Caller("a\nOrmah-Kind: init").source == "agent:a Ormah-Kind: init"


PROGRAMS = {
    "core.fsmonitor": "{}", "core.hooksPath": "{}", "core.sshCommand": "{}", "core.gitProxy": "{}", "core.askPass": "{}",
    "core.pager": "{}", "pager.rev-list": "{}", "core.alternateRefsCommand": "{}", "core.editor": "{}", "gpg.program": "{}",
    "diff.external": "{}", "credential.helper": "{}", "remote.origin.uploadpack": "{}", "remote.origin.vcs": "{}",
}  # fmt: skip


@pytest.mark.parametrize("url", ["ext::{}", "ssh://host/x.git", "git://127.0.0.1:1/x", "/nowhere/at/all"])
def test_a_project_runs_no_program(ormah: Ormah, tmp_path: Path, url: str) -> None:
    """A repository whose commit is missing, with a remote that git would fetch it from by a program of the project."""
    where, ran, program = (
        make(tmp_path / "work", "https://example.org/ada/work.git", "first"),
        tmp_path / "ran",
        tmp_path / "program",
    )
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o700)
    for key, value in {**PROGRAMS, "remote.origin.url": url, "remote.origin.promisor": "true", "protocol.ext.allow": "always",
                       "extensions.partialClone": "origin", "core.repositoryFormatVersion": "1"}.items():  # fmt: skip
        subprocess.run(["git", "config", key, value.replace("{}", str(program))], cwd=where, check=True)
    for file in (where / ".git" / "objects").rglob("*"):
        if file.is_file():
            file.unlink()
    space_of(ormah, Caller("agent:x", str(where)))
    assert not ran.exists()


@pytest.mark.parametrize("name", ["commondir", "HEAD", "config", "packed-refs", ".git"])
@pytest.mark.parametrize("device", [None, "/dev/zero"])
def test_a_pipe_or_a_device_among_gits_files_holds_nobody_up(tmp_path: Path, name: str, device: str | None) -> None:
    """The folder counts as no repository, at once; git is not started on what it would block on."""
    where = tmp_path / "work"
    (main := tmp_path / "main.git").mkdir()
    for file in ("HEAD", "config", "packed-refs", "commondir"):
        (main / file).write_text("." if file == "commondir" else "")
    where.mkdir()
    (where / ".git").write_text(f"gitdir: {main}\n")
    assert find_project(where, frozenset()).git == main
    odd = where / name if name == ".git" else main / name
    odd.unlink()
    os.mkfifo(odd) if device is None else odd.symlink_to(device)

    found: list[str] = []
    asking = threading.Thread(target=lambda: found.append(find_project(where, frozenset()).key), daemon=True)
    asking.start()
    asking.join(timeout=60)
    assert found == [f"folder:{where}"]
