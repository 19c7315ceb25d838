"""The remote of a vault: its address, its configuration, and git's commands that use the network.

An address is normalised to host and path, so that two clones of one repository get the same key. Which remote is used
is stored in git's configuration. Network commands list branches, fetch and push. They never ask for a password, are
ended if the remote sends nothing for too long, and change none of the person's files.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

from ormahd.errors import BadRequest, Conflict, NotFound, OrmahError, Unavailable
from ormahd.git.process import GitFailed, environment
from ormahd.git.repository import Git

REMOTE: Final = "origin"
"""The git remote to sync with, unless the branch is configured to follow another one: the name that git gives it."""
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_SCP: Final = re.compile(r"(?:[^@/\s]*@)?(\[[0-9A-Fa-f:.]+\]|[^/:@\s\\]{2,}):(?!//)(.*)", re.DOTALL)
"""`git@host:path`. The host has at least two characters: a single letter before the colon is a Windows drive."""
_HOST: Final = re.compile(r"(?:[^@/]*@)?(\[[^\]]*\]|[^/:]*)(?::\d*)?(?:/(.*))?", re.DOTALL)
_SAME_HOST: Final = {
    "ssh.github.com": "github.com",
    "altssh.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
    **dict.fromkeys(("ssh.dev.azure.com", "vs-ssh.visualstudio.com"), "dev.azure.com"),
}
"""{host for ssh, or for networks that block port 22: the usual host of the same repositories}."""
_PREFIX: Final = re.compile(r"^(?:v3|scm)/(?=[^/]+/[^/]+)")
"""The path prefix that Azure uses in ssh addresses (`v3`), and Bitbucket Server in https addresses (`scm`)."""


class RemoteUrl(Struct, frozen=True):
    """A normalised address of a repository.

    `key`: the same for all spellings of the address. `name`: the last part of the path, as written. `owners`: the other
    parts of the path from last to first, then the host. `local`: the address is a path on this machine, and `key` is
    that path.
    """

    key: str
    name: str
    owners: tuple[str, ...]
    local: bool = False


def read_remote(address: str) -> RemoteUrl | None:
    """Return the normalised address of a repository; None if `address` has no host or no path.

    User, password, port, `.git`, trailing slashes and the case of letters make no difference to the key.
    """
    # Split the address into host and path, by its form: with a scheme, like scp's, or a path on this machine.
    address = address.strip()
    scheme = _SCHEME.fullmatch(address)
    if scheme is not None and scheme[1].lower() == "file":
        return _local_url(unquote(scheme[2]).removeprefix("localhost"))
    if scheme is not None:
        split = _HOST.fullmatch(scheme[2])
        host, path = (split[1], split[2] or "") if split else ("", "")
    elif (scp := _SCP.fullmatch(address)) is not None:
        host, path = scp[1], scp[2]
    else:
        return _local_url(address)

    # Spellings of one host or path become the same.
    host = host.strip("[]").rstrip(".").lower().removeprefix("www.")
    host = _SAME_HOST.get(host, host)
    parts = _path_parts(_PREFIX.sub("", unquote(re.split(r"[?#]", path)[0]).strip("/")))
    if host == "dev.azure.com" or host.endswith(".visualstudio.com"):
        parts = [part for part in parts if part != "_git"]
    if not host or not parts:
        return None
    key = "/".join([host, *parts]).casefold()
    return RemoteUrl(key, parts[-1], (*reversed(parts[:-1]), host))


def _local_url(path: str) -> RemoteUrl | None:
    """Return the normalised address of a repository at a path on this machine; None if the path is empty."""
    parts = _path_parts(path.replace("\\", "/"))
    return RemoteUrl(path, parts[-1], tuple(reversed(parts[:-1])), local=True) if parts else None


def _path_parts(path: str) -> list[str]:
    """Return the parts of a repository's path between its slashes, without empty ones, `.` and a `.git` at the end."""
    parts = [" ".join(part.split()) for part in path.split("/")]
    parts = [part for part in parts if part and part != "."]
    if parts and parts[-1] == ".git":
        parts.pop()
    if parts:
        bare = re.sub(r"\.git$", "", parts[-1], flags=re.IGNORECASE)
        parts[-1] = bare or parts[-1]
    return parts


class Remote(Struct, frozen=True):
    """A remote repository, and the branch in it to sync with.

    `known`: whether the remote is configured in git. Git is then given its name instead of its URL, and so applies
    the remote's other settings.
    """

    name: str
    url: str
    branch: str
    known: bool

    @property
    def address(self) -> str:
        """The name or URL by which git is told to use the remote."""
        return self.name if self.known else self.url

    @property
    def tracking(self) -> str:
        """The name of the remote-tracking ref."""
        return f"refs/remotes/{self.name}/{self.branch.removeprefix('refs/heads/')}"


def redact_urls(url: str) -> str:
    """Return `url`, or any text with URLs, without the passwords in URLs. The user names in http(s) URLs are removed
    too, because they may be tokens."""
    without = re.sub(r"(ssh://[^/@:\s']*):[^/@\s']*@", r"\1@", url)
    return re.sub(r"(https?://)[^/@\s']*@", r"\1", without)


def remote_url(git: Git, name: str) -> str | None:
    """Return the URL that git's configuration has for the remote `name`; None if there is no such remote."""
    try:
        return git.run("remote", "get-url", "--", name).decode("utf-8", "surrogateescape").strip() or None
    except GitFailed as exc:
        if "No such remote" in exc.stderr or exc.status == 2:
            return None
        raise


def find(git: Git, name: str) -> Remote:
    """Return the remote and branch to sync the current branch with: its configured upstream; without one, the branch of
    the same name at the remote `name`.

    Raises Conflict if HEAD is on no branch, and NotFound if there is no such remote.
    """
    branch = git.branch()
    if branch is None or not branch.startswith("refs/heads/"):
        raise Conflict(
            "HEAD is detached: there is no branch to sync", hint="`git switch main` in the vault, then again"
        )
    short = branch.removeprefix("refs/heads/")
    follows = config_value(git, f"branch.{short}.remote")
    merge = config_value(git, f"branch.{short}.merge")
    if follows and follows != ".":
        name = follows
    url = remote_url(git, name)
    if url is None:
        raise NotFound(f"the vault has no remote '{name}'", hint="run: ormahctl sync setup URL")
    remote_branch = merge if merge and merge.startswith("refs/heads/") and follows == name else branch
    return Remote(name, url, remote_branch, known=True)


@contextmanager
def restoring_ref(git: Git, remote: Remote) -> Iterator[Callable[[], None]]:
    """Context manager: after the block, set the remote-tracking ref back to its earlier commit, so that no ref leads to
    the commits that the block fetched. Yields a function; if the block calls it, the ref stays."""
    before, confirmed = git.resolve(remote.tracking), False

    def confirm() -> None:
        """Let the ref stay where the block has moved it."""
        nonlocal confirmed
        confirmed = True

    try:
        yield confirm
    finally:
        if not confirmed and git.resolve(remote.tracking) != before:
            command = (
                ["update-ref", "-d", remote.tracking] if before is None else ["update-ref", remote.tracking, before]
            )
            git.run(*command)


def config_value(git: Git, key: str) -> str | None:
    """Return the value of a setting of git; None if it is not set or empty."""
    return git.run("config", "--get", key, ok=(0, 1)).decode("utf-8", "surrogateescape").strip() or None


def set_upstream(git: Git, remote: Remote) -> None:
    """Add or update the remote in the repository's configuration, and make it the upstream of the current branch."""
    branch = git.branch()
    assert branch is not None
    short = branch.removeprefix("refs/heads/")
    known = remote_url(git, remote.name)
    if known is None:
        git.run("remote", "add", "--", remote.name, remote.url)
    elif known != remote.url:
        git.run("remote", "set-url", "--", remote.name, remote.url)
    set_config_value(git, f"branch.{short}.remote", remote.name)
    set_config_value(git, f"branch.{short}.merge", remote.branch)


def set_config_value(git: Git, key: str, text: str) -> None:
    """Write a setting into the repository's configuration, if it has another value there."""
    if config_value(git, key) != text:
        git.run("config", "--local", key, text)


def synced_key(name: str) -> str:
    """Return the name of git's setting that holds the last commit that both this vault and a branch of a remote had.
    `name`: of the branch, such as `origin/main`."""
    return f"ormah.{name}.synced"


Progress = Callable[[int, int, str], None]
"""Called with (done, total, stage) during a transfer: per cent done, 100, and git's word for the stage."""

TERM_SECONDS: Final = 2.0
"""Seconds between SIGTERM and SIGKILL, in which a git process can remove its locks."""
POLL_SECONDS: Final = 0.25
REMOTE_LINES, REMOTE_CHARACTERS = 12, 300
"""The largest numbers of lines, and of characters per line, quoted from a remote that refuses a push."""

_QUIET: Final = {
    "GCM_INTERACTIVE": "never",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_PROTOCOL_FROM_USER": "0",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
}
"""Environment with which git shows no password prompt and accepts no URL that runs a program (`ext::`)."""

_CHECKED: Final = {
    "fetch.fsckObjects": "true",
    "fetch.fsck.zeroPaddedFilemode": "warn",
    "fetch.fsck.missingSpaceBeforeDate": "warn",
    "fetch.fsck.badTimezone": "warn",
    "fetch.recurseSubmodules": "false",
    "push.recurseSubmodules": "no",
    "push.gpgSign": "false",
    "protocol.ext.allow": "never",
    "submodule.recurse": "false",
}
"""Configuration with which git checks the objects that it receives (a tree with `..` or `.git` is refused). Harmless
faults that old clients made give a warning only."""

_PERCENT = re.compile(rb"([A-Z][a-z]+(?: [a-z]+)*): +(\d+)% ")
_REFUSED_TREE = re.compile(r"object ([0-9a-f]{40,64}): (\w+): (.*)")
_DENIED = re.compile(
    "authentication failed|permission denied|could not read username|could not read password|terminal prompts disabled|"
    "invalid credentials|returned error: 40[13]|host key verification failed|access denied|command not found|"
    "(?:repository|:|') not found|not recognized"
)
_OFFLINE = re.compile(
    "could not read from remote repository|does not appear to be a git repository|unable to access|"
    "could not resolve host|connection (?:refused|timed out|reset)|unable to connect|the remote end hung up|"
    "network is unreachable|no route to host|operation timed out"
)
"""Match parts of git's messages (in lower case) about a remote that refuses the login, and one that is out of reach."""

DENIED: Final = "denied"
"""The value of `reason` in the data of Unreachable if the remote answered, and refused the login or has no such repository or no git."""


class Unreachable(Unavailable):
    """The remote does not answer, or not in time. Nothing is lost; a later sync transfers everything."""


class Heads(Struct, frozen=True):
    """The branches of a remote, {full name: commit}, and the full name of its default branch (None: unknown)."""

    branches: Mapping[str, str]
    default: str | None


class Network:
    """Runs git's network commands for one repository."""

    def __init__(self, git: Git, *, silence: float, closing: threading.Event) -> None:
        """`silence`: a command that outputs nothing for so many seconds is ended. `closing`: once it is set, a running
        command is ended."""
        self._git = git
        self._silence = silence
        self._closing = closing

    def heads(self, url: str) -> Heads:
        """Return the branches and the default branch of the remote at `url`. Raises Unreachable, or BadRequest if git
        does not support the URL."""
        out = self._run(["ls-remote", "--symref", "--", url, "HEAD", "refs/heads/*"], url, lambda *_: None)
        default = None
        branches: dict[str, str] = {}
        for line in out.decode("utf-8", "surrogateescape").splitlines():
            what, _, name = line.partition("\t")
            if what.startswith("ref: ") and name == "HEAD":
                default = what[5:]
            elif name.startswith("refs/heads/"):
                branches[name] = what
        return Heads(branches, default if default in branches else next(iter(branches), None))

    def fetch(self, remote: Remote, progress: Progress) -> str | None:
        """Fetch the remote's branch. Return its commit, or None if the remote has no such branch.

        Raises Unreachable; Conflict if git refuses the received objects as invalid.
        """
        alone = ["--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-gc", "--no-prune"]
        refspec = f"{remote.branch}:{remote.tracking}"
        command = ["fetch", "--progress", "--force", *alone, "--", remote.address, refspec]
        try:
            self._run(command, remote.url, progress)
        except GitFailed as exc:
            if "couldn't find remote ref" in exc.stderr:
                return None
            odd = _REFUSED_TREE.search(exc.stderr)
            if odd is not None:
                raise Conflict(
                    f"the remote holds what no vault may hold: object {odd[1][:12]}, {odd[3]}; nothing was taken in",
                    hint="somebody made that on purpose or by a fault: look at the remote's history",
                    data={"reason": odd[2]},
                ) from exc
            raise
        return self._git.resolve(remote.tracking)

    def push(self, remote: Remote, commit: str, progress: Progress) -> bool:
        """Push a commit to the remote's branch. Return False, and change nothing, if that branch has commits that
        `commit` lacks (the push would be no fast-forward).

        Raises Unreachable; Conflict if the remote refuses.
        """
        alone = ["--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no"]
        refspec = f"{commit}:{remote.branch}"
        command = ["push", "--porcelain", "--progress", *alone, "--", remote.address, refspec]
        try:
            self._run(command, remote.url, progress)
        except GitFailed as exc:
            stderr = exc.stderr
            if "[rejected]" in stderr or "cannot lock ref" in stderr or "failed to update ref" in stderr:
                return False
            refused = re.search(r"\[remote rejected\] \((.*)\)", stderr)
            if refused is not None:
                # Quote the lines that the remote sent (`remote: …`), shortened and without control characters.
                texts = [
                    line.removeprefix("remote:").strip()
                    for line in re.split(r"[\r\n]", stderr)
                    if line.startswith("remote:")
                ]
                texts = [
                    "".join(c if c.isprintable() else " " for c in text)[:REMOTE_CHARACTERS].rstrip() for text in texts
                ]
                lines = [text for text in texts if text and not _PERCENT.search(text.encode())][:REMOTE_LINES]
                hint = "look at the remote's rules (protected branches, hooks)"
                if "checked out" in refused[1]:
                    hint = "the remote is a folder somebody works in; make a bare one: git init --bare, and sync setup with that"
                why = f"; it says: {' / '.join(lines)}" if lines else ""
                refusal = f"the remote {redact_urls(remote.url)} refuses our changes: {refused[1]}{why}"
                raise Conflict(refusal, hint=hint, data={"remote": lines}) from exc
            raise
        if self._git.resolve(remote.tracking) != commit:
            self._git.run("update-ref", remote.tracking, commit)
        return True

    # One command

    def _network_environment(self) -> dict[str, str]:
        """Return the environment for a network command: it allows no prompts, and adds `BatchMode` to the person's ssh
        command."""
        found = environment(_QUIET)
        if "GIT_SSH" not in found:
            ssh = found.get("GIT_SSH_COMMAND") or config_value(self._git, "core.sshCommand") or "ssh"
            found["GIT_SSH_COMMAND"] = f"{ssh} -o BatchMode=yes"
        found.setdefault("GIT_ASKPASS", "true")  # a program that answers nothing
        return found

    def _run(self, command: Sequence[str], url: str, progress: Progress) -> bytes:
        """Run a network command of git on the remote at `url`, and return its output. Raises Unreachable, BadRequest or
        GitFailed."""
        options = [part for key, value in _CHECKED.items() for part in ("-c", f"{key}={value}")]
        child = self._git.start(*options, *command, env=self._network_environment(), new_session=True)
        try:
            out, err = self._read_streams(child, url, progress)
        except BaseException:
            _end_process(child)
            raise
        if child.returncode == 0:
            return out
        output = err.decode("utf-8", "replace") + out.decode("utf-8", "replace")
        raise _network_error(command, child.returncode, output, url)

    def _read_streams(self, child: subprocess.Popen[bytes], url: str, progress: Progress) -> tuple[bytes, bytes]:
        """Read the output of a network command until it ends. Return (standard output, standard error). Raises
        Unreachable if nothing comes for too long, or if Ormah is stopping; the process is not ended then."""
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdin.close()
        received = {child.stdout: bytearray(), child.stderr: bytearray()}

        # Read both streams until they end. `last`: when the remote last sent something.
        last = time.monotonic()
        with selectors.DefaultSelector() as selector:
            for pipe in received:
                selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                if self._closing.is_set():
                    raise Unreachable("the daemon is stopping", hint="the next sync brings all")
                for key, _ in selector.select(POLL_SECONDS):
                    pipe = child.stdout if key.fileobj is child.stdout else child.stderr
                    piece = os.read(pipe.fileno(), 65_536)
                    last = time.monotonic()
                    if not piece:
                        selector.unregister(pipe)
                        continue
                    received[pipe] += piece
                    if pipe is child.stderr and (found := _PERCENT.findall(piece)):
                        progress(int(found[-1][1]), 100, found[-1][0].decode().lower())
                if time.monotonic() - last > self._silence:
                    raise Unreachable(
                        f"the remote {redact_urls(url)} said nothing for {self._silence:.0f} s",
                        hint="everything is safe here and follows with the next sync; the bound is sync.timeout_seconds",
                        data={"reason": "silent"},
                    )
        child.wait()
        child.stdout.close()
        child.stderr.close()
        return bytes(received[child.stdout]), bytes(received[child.stderr])


def _end_process(child: subprocess.Popen[bytes]) -> None:
    """End a git process and all its children: by SIGTERM, so that git can remove its locks, else by SIGKILL."""
    for number, patience in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(patience)
            break
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def _network_error(command: Sequence[str], status: int, output: str, url: str) -> OrmahError:
    """Return the error for a failed network command: BadRequest for an URL that git does not support, Unreachable for a
    remote that is out of reach or refuses the login, otherwise GitFailed. Passwords are removed from all texts."""
    output = redact_urls(output)  # no password gets into a message or a log
    url = redact_urls(url)
    lower = output.lower()
    if re.search(r"transport '.*' not allowed|protocol .* is not supported|unable to find remote helper", lower):
        message = f"{url} is no address that can be synced with"
        return BadRequest(message, hint="give a path, ssh://, user@host:path or https://")
    words = next((line.split(":", 1)[1].strip() for line in output.splitlines() if line.startswith("fatal:")), "")
    words = words or next((line.strip() for line in output.splitlines() if line.strip()), f"exit status {status}")
    denied = next((line.strip() for line in output.splitlines() if _DENIED.search(line.lower())), None)
    if denied is not None:
        message = f"the remote {url} does not serve us: {denied.removeprefix('fatal: ')}"
        hint = "try `git ls-remote` with it in a terminal; the daemon cannot ask for a password"
        return Unreachable(message, hint=hint, data={"reason": DENIED})
    if _OFFLINE.search(lower):
        hint = "everything is safe here and follows with the next sync"
        return Unreachable(f"the remote {url} cannot be reached: {words}", hint=hint, data={"reason": "offline"})
    return GitFailed(command, status, output)
