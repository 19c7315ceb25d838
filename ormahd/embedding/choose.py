"""Load the embedder that the settings name.

A model runs on ONNX Runtime (`onnx.py`) if its vectors there equal those of sentence-transformers (`check.py`), else on
torch (`torch_model.py`). Importing this module loads none of these libraries.
"""

from __future__ import annotations

import logging
from pathlib import Path

from ormahd.api import EmbeddingHealth
from ormahd.embedding import token_vectors
from ormahd.embedding.embedder import Embedder
from ormahd.errors import Unavailable
from ormahd.process import memory
from ormahd.settings import EmbeddingSettings

log = logging.getLogger(__name__)


def load(settings: EmbeddingSettings, directory: Path) -> Embedder:
    """Return the embedder that the settings name. `directory`: where data computed for a model is kept.

    Takes half a second on ONNX Runtime, seconds on torch. For a model that was never compared with
    sentence-transformers, the first call also waits for that comparison, in another process.

    Raises Unavailable, with a hint, if the model's files are not on this machine, or do not run on the runtime that
    `embedding.runtime` requires.
    """
    if settings.model == "hashing":
        from ormahd.embedding.hashing import Hashing

        return Hashing(late_dimensions=token_vectors.DIMENSIONS)
    made = _load(settings, directory)
    made.give_back()
    memory.give_back()
    return made


def _load(settings: EmbeddingSettings, directory: Path) -> Embedder:
    from ormahd.embedding import model_files
    from ormahd.embedding.model import Model

    where = model_files.find_model(settings.model)
    folder = model_files.folder_of(where)
    if folder is not None and model_files.BUNDLED in folder.parts:
        model_files.check_weights(folder)
    identity = model_files.identity(where, folder)
    why = None
    if settings.runtime != "torch" and folder is not None:
        from ormahd.embedding import check

        try:
            opened = check.open_onnx(folder, identity, directory, settings.precision)
            return Model(settings, opened.about, opened.runtime, opened.identity, directory, opened.served)
        except Unavailable as unfit:
            if settings.runtime == "onnx":
                raise
            why = str(unfit.data.get("why") or unfit.message)
            log.log(logging.WARNING if unfit.data.get("fault") else logging.INFO, "%s; it runs on torch", unfit.message)
    from ormahd.embedding.torch_model import Torch

    torch = Torch(where, settings)
    about = torch.about(settings.model)
    return Model(
        settings,
        about,
        torch,
        identity,
        directory,
        EmbeddingHealth("torch", torch.version, torch.precision, why, None, None, 0, None, None),
    )
