"""Embedding models: which are on this machine, which can be downloaded, and what one can do.

`listed` lists them. `fetch` copies a model to this machine, from a folder or, if a person asks for it, from the
network; nothing else uses the network. `report` loads a model and describes it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from msgspec import Struct

from ormahd import paths
from ormahd.embedding.families import family_of
from ormahd.embedding.model_files import DEFAULT_MODEL, cached, find_model, folder_of, pooling_of
from ormahd.embedding.reading import READABLE
from ormahd.errors import BadRequest, NotFound, Unavailable
from ormahd.settings import EmbeddingSettings

OFFLINE: Final = frozenset({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"})
NOT_NEEDED: Final = ["*.onnx", "*.h5", "*.ot", "*.msgpack", "onnx/*", "openvino/*"]
"""Patterns of a model's files that are not downloaded, because only other libraries use them."""


class CatalogueModel(Struct, frozen=True):
    """A known model on the Hugging Face hub. `mb`: megabytes to download."""

    name: str
    dimensions: int
    mb: int
    languages: str


KNOWN: Final = (
    CatalogueModel("sentence-transformers/all-MiniLM-L6-v2", 384, 91, "English"),
    CatalogueModel("sentence-transformers/all-MiniLM-L12-v2", 384, 134, "English"),
    CatalogueModel("BAAI/bge-small-en-v1.5", 384, 134, "English"),
    CatalogueModel("BAAI/bge-base-en-v1.5", 768, 438, "English"),
    CatalogueModel("intfloat/e5-small-v2", 384, 134, "English"),
    CatalogueModel("thenlper/gte-small", 384, 67, "English"),
    CatalogueModel("Snowflake/snowflake-arctic-embed-s", 384, 133, "English"),
    CatalogueModel("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", 384, 471, "50 languages"),
    CatalogueModel("intfloat/multilingual-e5-small", 384, 471, "94 languages"),
    CatalogueModel("intfloat/multilingual-e5-base", 768, 1112, "94 languages"),
    CatalogueModel("BAAI/bge-small-zh-v1.5", 512, 96, "Chinese"),
    CatalogueModel("BAAI/bge-m3", 1024, 2271, "more than 100 languages"),
    CatalogueModel("Snowflake/snowflake-arctic-embed-l-v2.0", 1024, 2271, "74 languages"),
)

SAMPLES: Final = (
    ("English", "The key of the garage hangs behind the door."),
    ("German", "Der Schlüssel der Garage hängt hinter der Haustür."),
    ("Spanish", "La llave del garaje cuelga detrás de la puerta."),
    ("French", "La clé du garage est accrochée derrière la porte."),
    ("Turkish", "Garajın anahtarı kapının arkasında asılı duruyor."),
    ("Polish", "Klucz do garażu wisi za drzwiami wejściowymi."),
    ("Vietnamese", "Chìa khóa nhà để xe treo ở phía sau cánh cửa."),
    ("Russian", "Ключ от гаража висит за входной дверью."),
    ("Greek", "Το κλειδί του γκαράζ κρέμεται πίσω από την πόρτα."),
    ("Arabic", "مفتاح المرآب معلق خلف الباب."),
    ("Hebrew", "מפתח החניה תלוי מאחורי הדלת."),
    ("Hindi", "गैराज की चाबी दरवाज़े के पीछे टंगी है।"),
    ("Chinese", "车库的钥匙挂在门后面。"),
    ("Japanese", "ガレージの鍵はドアの後ろに掛けてある。"),
    ("Korean", "차고 열쇠는 문 뒤에 걸려 있다."),
    ("Thai", "กุญแจโรงรถแขวนอยู่หลังประตู"),
)
"""(language, sentence): `report` embeds each sentence to find out whether the model reads the language."""
ROUNDS: Final = 5
"""Number of queries that `report` times, after one that is not timed."""


class Listed(Struct, frozen=True):
    """A model in the output of `ormahctl model list`."""

    name: str
    where: str | None
    """Its folder; None if it is not on this machine."""
    mb: int
    """Its size in megabytes on this machine, else that of the download; 0 if unknown."""
    dimensions: int | None
    languages: str | None
    used: bool
    """Whether the setting `embedding.model` names it."""


class Report(Struct, frozen=True):
    """What `ormahctl model check` shows of a model.

    `why`: why it runs on torch or in fp32, None if there is no reason to tell; `milliseconds`: time to embed one query;
    `read`, `unread`: languages that it reads and does not read.
    """

    name: str
    where: str
    mb: int
    family: str | None
    dimensions: int
    window: int
    pooling: str | None
    query_prefix: str
    document_prefix: str
    runtime: str
    precision: str
    why: str | None
    milliseconds: float
    read: list[str]
    unread: list[str]


def listed(used: str) -> list[Listed]:
    """Return the models on this machine, then known ones to download. `used`: the setting `embedding.model`."""
    known = {one.name: one for one in KNOWN}
    names = list(dict.fromkeys([DEFAULT_MODEL, *_here(), *([] if used == "hashing" else [used])]))
    found = []
    for name in names:
        folder = folder_of(find_model(name))
        about = known.pop(name, None) or known.pop(f"sentence-transformers/{name}", None)
        if folder is not None or name == used:
            mb = _mb(folder) if folder is not None else about.mb if about else 0
            found.append(Listed(name, None if folder is None else str(folder), mb, about.dimensions if about else None,
                                about.languages if about else None, name == used))  # fmt: skip
    found += [Listed(one.name, None, one.mb, one.dimensions, one.languages, False) for one in known.values()]
    return found


def _here() -> list[str]:
    """Return the names of the models in Ormah's own folder and in the cache of Hugging Face."""
    from huggingface_hub.constants import HF_HUB_CACHE

    hub = Path(HF_HUB_CACHE)
    names = [folder.name.removeprefix("models--").replace("--", "/", 1) for folder in sorted(hub.glob("models--*"))]
    embedders = [name for name in names if (folder := cached(name)) is not None and (folder / "modules.json").is_file()]
    own = paths.own_models()
    return [*sorted(str(file.parent.relative_to(own)) for file in own.glob("**/modules.json")), *embedders]


def _mb(folder: Path) -> int:
    return round(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6)


def fetch(name: str, source: Path | None) -> Path:
    """Copy a model from the folder `source`, or download it from the Hugging Face hub. Return its new folder.

    Raises BadRequest, NotFound or Unavailable with a hint. After an error no partial copy is left.
    """
    target = paths.own_models() / name
    if Path(name).is_absolute() or ".." in Path(name).parts or not re.fullmatch(r"[\w.-]+(?:/[\w.-]+)?", name):
        raise BadRequest(f"{name!r} is no name for a model", hint="a name like intfloat/multilingual-e5-small")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".new-") as place:
        new = Path(place, "model")
        if source is not None:
            if not (source / "config.json").is_file() and not (source / "modules.json").is_file():
                raise NotFound(f"{source} holds no model", hint="name the folder with its config.json or modules.json")
            shutil.copytree(source, new)
        else:
            _download(name, new)
        if target.exists():
            shutil.rmtree(target)
        new.rename(target)
    return target


def _download(name: str, target: Path) -> None:
    """Download a model in another process, because in this one Hugging Face's libraries are set to stay offline."""
    environ = {key: value for key, value in os.environ.items() if key not in OFFLINE}
    command = [sys.executable, "-P", "-m", "ormahd.embedding.catalogue", name, str(target)]
    done = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode or not (target / "config.json").is_file():
        last = done.stderr.strip().rpartition("\n")[2][:300]
        raise Unavailable(
            f"the model {name!r} could not be downloaded: {last or 'it has no config.json'}",
            hint="look at the name and the network, or copy its folder to this machine and use --from FOLDER",
        )
    shutil.rmtree(target / ".cache", ignore_errors=True)


def is_here(name: str) -> bool:
    """Return whether a model's files are on this machine."""
    return folder_of(find_model(name)) is not None


def settings_for(settings: EmbeddingSettings, name: str | None) -> EmbeddingSettings:
    """Return `settings` with the model `name`; unchanged if `name` is None or the model that `settings` names.

    The prefixes in the settings are for the model in use, so they are cleared for another one.
    """
    if name is None or name == settings.model:
        return settings
    if not name.strip():
        raise BadRequest("the model needs a name", hint="ormahctl model list shows some")
    return settings.model_copy(update={"model": name, "query_prefix": "", "document_prefix": ""})


def report(settings: EmbeddingSettings, directory: Path) -> Report:
    """Load the model that the settings name, try it out, and return what `ormahctl model check` shows.

    A model that was never compared with sentence-transformers is compared first.

    Raises Unavailable, with a hint, if the model is not on this machine or cannot be loaded.
    """
    from ormahd.embedding.model import Model, load

    found = load(settings, directory)
    if not isinstance(found, Model):
        raise BadRequest(f"{settings.model!r} is no model that could be checked")
    folder = folder_of(find_model(settings.model))
    found.embed_query("one")
    began = time.perf_counter()
    for number in range(ROUNDS):
        found.embed_query(f"{SAMPLES[0][1]} {number}")
    milliseconds = (time.perf_counter() - began) / ROUNDS * 1000
    shares = {language: found.embed_query(text).read for language, text in SAMPLES}
    family = family_of(settings.model, str(folder or ""))
    served = found.served
    return Report(
        settings.model, str(folder or "in memory"), 0 if folder is None else _mb(folder), family.name if family else None,
        found.dimensions, found.window, pooling_of(folder), found.query_prefix, found.document_prefix, f"{served.runtime} {served.version}",
        served.precision, served.why, round(milliseconds, 1),
        [language for language, share in shares.items() if share >= READABLE],
        [language for language, share in shares.items() if share < READABLE],
    )  # fmt: skip


def main(name: str, target: str) -> None:
    """Download the model `name` into the folder `target`. This runs in the process that `_download` starts; no other
    code of this package uses the network."""
    from huggingface_hub import snapshot_download

    snapshot_download(name, local_dir=target, ignore_patterns=NOT_NEEDED)


if __name__ == "__main__":
    main(*sys.argv[1:])
