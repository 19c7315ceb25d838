"""What `make run` shows to somebody new ends as it promises."""

from __future__ import annotations

import subprocess
import sys

from tests.surroundings import ROOT


def test_the_tour_keeps_its_promises() -> None:
    done = subprocess.run([sys.executable, ROOT / "tests" / "tour.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "as promised." in done.stdout
