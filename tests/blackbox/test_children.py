"""Programs of ours run what is ours, whatever lies in the folder where they are started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.blackbox.talking import SCRIPT
from tests.house import House
from tests.unit.ingest.test_sections import pdf

COMMANDS = (
    "doctor", "config check", "up", "mcp", "whisper heron", "hook UserPromptSubmit --harness claude-code",
    "ingest page.pdf", "sources add docs", "forget ID --purge --yes", "web", "setup claude-code --dry-run", "down",
)  # fmt: skip
MODULES = {
    *sys.stdlib_module_names,
    "ormahd",
    "ormahctl",
    "msgspec",
    "pydantic",
    "git",
    "pypdf",
    "uvicorn",
    "sitecustomize",
    "usercustomize",
}


def test_no_program_of_ours_takes_a_module_of_the_working_directory(house: House, tmp_path: Path) -> None:
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')\n")
    (tmp_path / "page.pdf").write_bytes(pdf("A heron fishes"))
    (tmp_path / "docs").mkdir()
    made = ""
    for words in COMMANDS:
        done = subprocess.run(
            [sys.executable, "-P", "-c", SCRIPT, *words.replace("ID", made).split()], env=house.env, cwd=tmp_path, input=b"{}",
            capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode in {0, 1, 3}, (words, done.stderr)
        assert not (tmp_path / "ran").exists(), (words, (tmp_path / "ran").read_text())
        made = made if words != "up" else house.json("remember", "The heron waits.")["id"]
