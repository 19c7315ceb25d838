"""The source of events by itself, on the real kernel: nothing of a flood is lost, and a lack of watches is noticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ormahd.watch.watcher import FolderEvents
from tests.house import wait_until

FULL = """
import os, sys, time
from ormahd.watch.watcher import FolderEvents
open("/proc/sys/user/max_inotify_watches", "w").write("30")
root = sys.argv[1]
told = set()
source = FolderEvents(lambda path, _folder: told.add(path))
source.add(root)
for number in range(40):
    os.mkdir(f"{root}/{number}")
while len(told) < 40:
    time.sleep(0.01)
try:
    source.check()
except OSError as exc:
    print("later:", exc.strerror)
source.stop()
source = FolderEvents(lambda *_: None)
try:
    source.add(root)
except OSError as exc:
    print("at once:", exc.strerror)
source.stop()
"""


def test_nothing_of_a_flood_is_lost(tmp_path: Path) -> None:
    told: set[str] = set()
    source = FolderEvents(lambda path, _folder: told.add(path))
    source.add(str(tmp_path))
    for number in range(6000):
        (tmp_path / f"{number}.md").write_text("x")
    wait_until(lambda: len(told) >= 6000, "all of them were told")
    assert source.alive
    source.stop()
    assert not source.alive


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify")
def test_a_lack_of_watches_is_noticed(tmp_path: Path) -> None:
    space = ("unshare", "--user", "--map-root-user")
    if subprocess.run([*space, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here")
    (tmp_path / "vault").mkdir()
    done = subprocess.run(
        [*space, sys.executable, "-c", FULL, tmp_path / "vault"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.splitlines() == ["later: inotify watch limit reached", "at once: inotify watch limit reached"]
