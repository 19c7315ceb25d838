"""The socket's file: who may open it, what lies in its place, and what happens when somebody takes it away."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from ormahd.errors import BadRequest, Conflict
from ormahd.rpc import sockets
from ormahd.rpc.sockets import Listening, listen, release
from tests.contract.serving import Raw, lively, serving, until
from tests.house import save


@pytest.fixture
def place(tmp_path) -> Path:
    return tmp_path / "run" / "o.sock"


def answers(place: Path) -> bool:
    """Whether somebody listens there; the file is there before that."""
    with contextlib.suppress(OSError):
        return lively(place)
    return False


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_socket_is_0600_in_a_directory_of_0700_whatever_the_umask(place, umask):
    before = os.umask(umask)
    try:
        with serving(at=place):
            assert mode(place) == 0o600
            assert mode(place.parent) == 0o700
            assert place.lstat().st_uid == os.getuid()
    finally:
        os.umask(before)
    assert not place.exists()


def test_a_directory_that_holds_nothing_else_is_closed_to_others(place):
    place.parent.mkdir(mode=0o755)
    with serving(at=place):
        assert mode(place.parent) == 0o700


def test_a_directory_of_ours_with_other_things_in_it_is_left_as_it_is(place):
    place.parent.mkdir(mode=0o755)
    (place.parent / "other").touch()
    with serving(at=place):
        assert mode(place.parent) == 0o755
        assert mode(place) == 0o600


@pytest.mark.parametrize("bits", [0o777, 0o1777, 0o775])
def test_a_directory_that_others_may_write_to_is_refused(place, bits):
    place.parent.mkdir()
    (place.parent / "other").touch()
    place.parent.chmod(bits)
    with pytest.raises(BadRequest, match="others may write") as caught:
        listen(place)
    assert "mkdir -m 700" in (caught.value.hint or "")
    assert mode(place.parent) == bits


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_somebody_else_is_refused(place):
    place.parent.mkdir(mode=0o700)
    os.chown(place.parent, 12345, -1)
    with pytest.raises(BadRequest, match="user 12345"):
        listen(place)


def test_a_directory_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "run").touch()
    with pytest.raises(BadRequest, match="cannot be used"):
        listen(tmp_path / "run" / "o.sock")


def test_a_path_that_is_too_long_is_said_so(tmp_path):
    with pytest.raises(BadRequest, match="bytes, the system takes 103"):
        listen(tmp_path / ("x" * 110) / "o.sock")


def test_a_stale_socket_is_replaced(place):
    place.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place))
    assert place.exists()
    with serving(at=place):
        assert lively(place)


def test_a_live_socket_is_left_alone(place):
    with serving(at=place):
        with pytest.raises(Conflict, match="already running") as caught:
            listen(place)
        assert caught.value.hint
        assert lively(place)


def test_a_live_socket_that_takes_nobody_is_left_alone(place):
    place.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(place))
        busy.listen(0)
        waiting = []
        with contextlib.suppress(BlockingIOError):
            while True:
                one = socket.socket(socket.AF_UNIX)
                one.setblocking(False)
                waiting.append(one)
                one.connect(str(place))
        with pytest.raises(Conflict, match="already running"):
            listen(place)
        for one in waiting:
            one.close()


@pytest.mark.parametrize("what", ["file", "directory", "symlink", "fifo"])
def test_what_is_no_socket_is_never_removed(place, what):
    place.parent.mkdir(mode=0o700)
    other = place.parent / "other"
    other.write_text("precious")
    {"file": lambda: place.write_text("precious"), "directory": place.mkdir, "symlink": lambda: place.symlink_to(other),
     "fifo": lambda: os.mkfifo(place)}[what]()  # fmt: skip
    with pytest.raises(BadRequest, match="not a socket of ours; it was left alone"):
        listen(place)
    assert os.path.lexists(place)
    assert other.read_text() == "precious"


def test_of_many_that_begin_at_once_over_a_stale_socket_one_listens(place):
    place.parent.mkdir(mode=0o700)
    for _ in range(10):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(place))
        listening: list[Listening] = []
        refused: list[Conflict] = []
        barrier = threading.Barrier(6)

        def begin(barrier=barrier, listening=listening, refused=refused) -> None:
            barrier.wait()
            try:
                listening.append(listen(place))
            except Conflict as exc:
                refused.append(exc)

        threads = [threading.Thread(target=begin) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(listening), len(refused)) == (1, 5)
        release(listening[0])
        assert not place.exists()


def test_stopping_leaves_the_socket_of_the_next_daemon(place):
    with serving(at=place):
        place.unlink()
        next_one = listen(place)
    assert place.exists()
    release(next_one)


def test_a_socket_file_that_was_removed_is_made_again_and_known_clients_go_on(place):
    with serving(at=place) as server, Raw(place) as known:
        known.json({"id": 1, "method": "hello"})
        known.reply()
        place.unlink()
        assert "taken away" in server.warnings()[0]
        until(place.exists)
        until(lambda: not server.warnings())
        assert mode(place) == 0o600
        assert lively(place)
        known.json({"id": 2, "method": "hello"})
        assert known.reply()["id"] == 2
    assert not place.exists()


def test_a_socket_directory_that_was_removed_is_made_again(place):
    with serving(at=place) as server:
        place.parent.rename(place.parent.with_name("removed"))  # in one step: nothing can be made again in between
        server.warnings()
        until(lambda: answers(place))
        assert mode(place.parent) == 0o700


def test_a_place_that_was_taken_is_reported_until_it_is_free_and_then_taken_back(place):
    with serving(at=place) as server:
        save(place, "in the way")
        until(lambda: any("cannot be made again" in warning for warning in server.warnings()))
        assert place.read_text() == "in the way"
        place.unlink()
        until(lambda: not server.warnings())
        until(lambda: answers(place))


def test_a_socket_that_was_handed_over_is_not_removed(place, tmp_path):
    place.parent.mkdir(mode=0o700)
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(place))
    sock.listen()
    sock.setblocking(False)
    with serving(at=Listening(sock, place, None, ours=False)):
        assert lively(place)
    assert place.exists()


def test_fds_of_systemd_are_taken_only_when_they_are_meant_for_us():
    environ = {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "x"}
    assert sockets.systemd_fds(environ) == []
    assert environ == {}, "no child sees them"
    assert sockets.systemd_fds({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2"}) == [3, 4]
    assert sockets.systemd_fds({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "x"}) == []
    assert sockets.activated({}) is None


def test_fds_of_launchd_come_from_its_own_call():
    import ctypes
    import errno
    from types import SimpleNamespace

    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p

    def gives(name, fds, count) -> int:
        assert name == b"ormahd"
        place = libc.malloc(ctypes.sizeof(ctypes.c_int) * 2)
        array = ctypes.cast(place, ctypes.POINTER(ctypes.c_int))
        array[0], array[1] = 7, 9
        fds._obj.contents = array.contents
        ctypes.cast(fds, ctypes.POINTER(ctypes.c_void_p))[0] = place
        count._obj.value = 2
        return 0

    def of_macos(call) -> SimpleNamespace:
        return SimpleNamespace(launch_activate_socket=call, free=libc.free)

    assert sockets.launchd_fds("ormahd", of_macos(gives)) == [7, 9]
    assert sockets.launchd_fds("ormahd", of_macos(lambda *_: errno.ESRCH)) == []
    with pytest.raises(BadRequest, match="launchd gave no socket"):
        sockets.launchd_fds("ormahd", of_macos(lambda *_: errno.EALREADY))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_another_user_is_refused_even_where_the_file_lets_them_in(tmp_path):
    import subprocess
    import sys
    import tempfile

    with tempfile.TemporaryDirectory() as open_directory, serving(at=Path(open_directory) / "o.sock") as server:
        path = Path(open_directory) / "o.sock"
        Path(open_directory).chmod(0o755)
        path.chmod(0o666)
        code = (
            "import os,socket,sys; os.setuid(65534); s=socket.socket(socket.AF_UNIX); s.settimeout(20); s.connect(sys.argv[1])\n"
            'try: s.sendall(b\'j\\0\\0\\0\\x19{"id":7,"method":"hello"}\'); print(s.recv(100))\n'
            "except (BrokenPipeError, ConnectionResetError): print(b'')"
        )
        done = subprocess.run(
            [sys.executable, "-S", "-c", code, str(path)], capture_output=True, text=True, check=False
        )
        assert done.stdout.strip() == "b''", done
        until(lambda: server.counts["refused"] == 1)
        assert lively(path)
