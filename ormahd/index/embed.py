"""Open the embedder that the settings name.

The real one runs on ONNX Runtime (`embed_onnx.py`) where that was compared with sentence-transformers (`embed_check.py`),
else on torch (`embed_torch.py`). Importing this module costs nothing; `load` takes half a second, or seconds with torch.
"""

from __future__ import annotations

import logging
from pathlib import Path

from ormahd import heap
from ormahd.errors import Unavailable
from ormahd.index.embedder import Embedder, Served
from ormahd.settings import EmbeddingSettings

log = logging.getLogger(__name__)


def load(settings: EmbeddingSettings, directory: Path) -> Embedder:
    """The embedder that the settings name. `directory`: where what was computed of a model is kept.

    Takes half a second on ONNX Runtime, seconds on torch; the first time with a model that was never compared with
    sentence-transformers, as long as that comparison takes (about ten seconds, in a process of its own).

    Raises Unavailable, with the mend, when the model's files are not on this machine, or do not run on what
    `embedding.runtime` asks for.
    """
    if settings.model == "hashing":
        from ormahd.index.hashing import Hashing

        return Hashing(late_dimensions=settings.late_dimensions)
    made = _load(settings, directory)
    made.give_back()
    heap.give_back()
    return made


def _load(settings: EmbeddingSettings, directory: Path) -> Embedder:
    from ormahd.index import embed_files
    from ormahd.index.embed_model import Model

    where = embed_files.find_model(settings.model)
    folder = embed_files.folder_of(where)
    if folder is not None and embed_files.BUNDLED in folder.parts:
        embed_files.check_weights(folder)
    identity = embed_files.identity(where, folder)
    why = None
    if settings.runtime != "torch" and folder is not None:
        from ormahd.index import embed_open

        try:
            opened = embed_open.open_onnx(folder, identity, directory, settings.precision)
            return Model(settings, opened.about, opened.runtime, opened.identity, directory, opened.served)
        except Unavailable as unfit:
            if settings.runtime == "onnx":
                raise
            why = str(unfit.data.get("why") or unfit.message)
            log.log(logging.WARNING if unfit.data.get("fault") else logging.INFO, "%s; it runs on torch", unfit.message)
    from ormahd.index.embed_torch import Torch

    torch = Torch(where, settings)
    about = torch.about(settings.model)
    return Model(settings, about, torch, identity, directory, Served("torch", torch.version, torch.precision, why))
