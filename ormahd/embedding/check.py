"""Check that a model on ONNX Runtime gives the same vectors as with sentence-transformers. Each model is compared once.

`python -m ormahd.embedding.check MODEL FILE KEY` loads the model both ways, compares vectors and token vectors, and
writes a `CheckRecord` to FILE. It runs in a separate process, so that the daemon never loads torch. The default model's
record is part of the package (`checked.json`); the command without arguments writes it anew. Records of other models
are stored in the cache directory, named by a hash of the model's files.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.resources
import importlib.util
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.api import EmbeddingHealth
from ormahd.embedding import int8, token_vectors
from ormahd.embedding.embedder import ModelProperties
from ormahd.embedding.model_files import (
    DEFAULT_MODEL,
    EXTRA,
    PACKAGE,
    find_model,
    identity,
    in_place,
    sha256_of,
    stay_offline,
)
from ormahd.embedding.onnx import OnnxRuntime, parts, unfit
from ormahd.embedding.token_vectors import Float, Runtime, ids_of, run
from ormahd.errors import Unavailable
from ormahd.process import own_files
from ormahd.settings import EmbeddingSettings

PACKAGED = "checked.json"
LEAST = 0.99999
"""Minimum cosine between a vector on ONNX Runtime and that of sentence-transformers. Rounding alone leaves 0.999999."""
EIGHT_LEAST = 0.99
"""The same for int8. Its error is larger, but far smaller than the difference between two notes."""
EVERY = 3
"""The comparison uses one in `EVERY` sentences of `calibration.txt`."""
SECONDS = 900.0
"""Maximum time of a comparison, in seconds: enough for a model of two gigabytes on a slow machine."""
FORMAT = 6
"""Version of the graph, the rounding, the comparison and the record. After a change of it every model is compared
again."""

log = logging.getLogger(__name__)


class Probe(msgspec.Struct, frozen=True):
    """A text with its reference vector. At each load the model must give nearly the same vector."""

    text: str
    vector: bytes
    """The unit vector that sentence-transformers gives, as bytes of little-endian float32."""


class CheckRecord(msgspec.Struct, frozen=True):
    """What comparing a model with sentence-transformers showed, and the properties needed to run the model."""

    key: str
    """Hash of the model's files, see `key_of`."""
    refused: str | None = None
    """Why the model has to run on torch. If set, the fields below are not; None if it runs on ONNX Runtime."""
    pooling: str = ""
    window: int = 0
    pad: int = 0
    query: str = ""
    document: str = ""
    """`pooling` to `document`: the model's pooling and its `ModelProperties`."""
    texts: int = 0
    """Number of texts that were compared."""
    vectors: float = 0.0
    tokens: float = 0.0
    """`vectors` and `tokens`: the smallest cosine to a reference vector, and to a reference token vector, in fp32."""
    eight: float = 0.0
    eight_tokens: float = 0.0
    """`eight` and `eight_tokens`: the same in int8; 0 if the model does not run in int8."""
    probes: list[Probe] = []
    versions: dict[str, str] = {}
    """Versions of the libraries that were compared."""


def tokenizer(folder: Path) -> Any:
    """Return the tokenizer of the model in `folder`, without truncation and padding."""
    from tokenizers import Tokenizer

    stay_offline()
    try:
        found = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # the library raises bare Exception
        raise unfit(folder, f"tokenizer.json: {error}") from error
    found.no_truncation()
    found.no_padding()
    return found


# Records


def key_of(lines: Sequence[str]) -> str:
    """Return the key of a model's record: a hash of `lines` (its `model_files.identity`) and of `FORMAT`."""
    return hashlib.sha256("\n".join([*lines, str(FORMAT)]).encode()).hexdigest()


def record_of(folder: Path, key: str, directory: Path) -> CheckRecord:
    """Return the record with this key, from Ormah's package or from `directory`. If neither has it, compare the model
    in `folder` with sentence-transformers now."""
    packaged = read(_packaged(), key)
    if packaged is not None:
        return packaged
    file = directory / f"checked-{key[:16]}.json"
    try:
        kept = read(own_files.read(file), key)
    except OSError:
        kept = None
    return kept or _compare_apart(folder, key, file)


def _packaged() -> bytes:
    return (importlib.resources.files("ormahd.embedding") / PACKAGED).read_bytes()


def read(data: bytes, key: str) -> CheckRecord | None:
    """Return the record in `data`; None if it is incomplete or of another model."""
    try:
        found = msgspec.json.decode(data, type=CheckRecord)
    except msgspec.DecodeError:
        return None
    return found if found.key == key else None


def _compare_apart(folder: Path, key: str, file: Path) -> CheckRecord:
    """Run `compare` in a child process, which writes the record to `file`. Raises Unavailable if that fails."""
    if importlib.util.find_spec("sentence_transformers") is None:
        why = "it was never compared with sentence-transformers, which is not installed"
        raise unfit(folder, why, fault=True, hint=EXTRA)
    log.info("comparing the embedding model in %s on ONNX Runtime with sentence-transformers, once", folder)
    command = [sys.executable, "-P", "-m", "ormahd.embedding.check", str(folder), str(file), key]
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The child's stdin is a pipe to which nothing is written. However this process ends, the child then reads end
        # of file.
        with (
            tempfile.TemporaryFile() as said,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said) as child,
        ):
            try:
                status = child.wait(SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                raise unfit(folder, f"comparing it took longer than {SECONDS:.0f} s", fault=True) from None
            said.seek(0)
            last = said.read().decode(errors="replace").strip().rpartition("\n")[2][:300]
        found = read(own_files.read(file), key) if status == 0 else None
    except OSError as error:
        raise unfit(folder, f"it could not be compared: {error.strerror}", fault=True) from error
    if found is None:
        raise unfit(folder, f"it could not be compared (exit {status}): {last}", fault=True)
    return found


# Comparing, in the child process


def compare(folder: Path, key: str) -> CheckRecord:
    """Load the model on ONNX Runtime and with sentence-transformers, and return the result of the comparison.

    Takes seconds, or minutes for a large model.
    """
    from ormahd.embedding.model_files import Torch

    reference = Torch(folder, EmbeddingSettings(model=str(folder)))
    about = reference.about(str(folder))
    pooling = reference.pooling()
    if pooling is None:
        return CheckRecord(key, refused="it does not end with a pooling by mean or first token")
    if about.tokenizer.to_str() != tokenizer(folder).to_str():
        return CheckRecord(key, refused="its tokenizer differs from what its tokenizer.json says")
    onnx = OnnxRuntime(folder, pooling)
    if about.window > onnx.positions:
        return CheckRecord(
            key, refused=f"its window of {about.window} tokens is longer than its {onnx.positions} positions"
        )
    lines = token_vectors.calibration()[::EVERY]
    texts = ["", *lines, *(" ".join(lines[at:]) for at in (0, len(lines) // 2))]  # the last two fill the window
    probes = [texts[0], lines[0], lines[-1], " ".join(lines[:4])]
    vectors = tokens = 1.0
    theirs = _encode(reference, probes)
    for at in range(0, len(texts), 4):  # four of different lengths, and each alone
        some = texts[at : at + 4]
        for batch in (some, *([one] for one in some)):
            ours, ours_tokens = one_pass(about, onnx, batch)
            wanted, wanted_tokens = one_pass(about, reference, batch)
            vectors = min(vectors, least(ours, wanted))
            tokens = min(tokens, *map(least, ours_tokens, wanted_tokens))
    vectors = min(vectors, least(one_pass(about, onnx, probes)[0], theirs))
    if not min(vectors, tokens) >= LEAST:
        why = f"its vectors differ from those of sentence-transformers (cosine {vectors:.6f}, of tokens {tokens:.6f})"
        return CheckRecord(key, refused=why)
    eight, eight_tokens = _compare_eight(about, onnx, reference, texts)
    return CheckRecord(
        key, None, pooling, about.window, about.pad, about.query, about.document, len(texts),
        round(vectors, 7), round(tokens, 7), round(eight, 7), round(eight_tokens, 7),
        [Probe(text, vector.astype("<f4").tobytes()) for text, vector in zip(probes, theirs, strict=True)],
        {name: importlib.metadata.version(name) for name in ("onnxruntime", "sentence-transformers", "torch", "transformers")},
    )  # fmt: skip


def _compare_eight(
    about: ModelProperties, onnx: OnnxRuntime, reference: Runtime, texts: Sequence[str]
) -> tuple[float, float]:
    """Return (smallest cosine of vectors, of token vectors) between int8 and `reference`; zeros if int8 does not
    run."""
    vectors = tokens = 1.0
    with tempfile.TemporaryDirectory() as place:
        try:
            eight = onnx.round_off(Path(place, "eight.bin"), measured(about))
        except Unavailable as unable:
            log.warning("%s", unable)
            return 0.0, 0.0
        for text in texts:
            ours, ours_tokens = one_pass(about, eight, [text])
            wanted, wanted_tokens = one_pass(about, reference, [text])
            vectors, tokens = min(vectors, least(ours, wanted)), min(tokens, *map(least, ours_tokens, wanted_tokens))
    return vectors, tokens


def measured(about: ModelProperties) -> list[NDArray[np.int64]]:
    """Return the token ids of the calibration texts on which int8's activations are measured. None of these texts is
    used in the comparison."""
    texts = [line for at, line in enumerate(token_vectors.calibration()) if at % EVERY]
    return [np.array(ids_of(about.tokenizer.encode(text), about.window).ids, np.int64) for text in texts]


def _encode(reference: Any, texts: Sequence[str]) -> Float:
    """Return the unit vectors that `encode` of sentence-transformers gives."""
    reference.model.default_prompt_name = None
    made = reference.model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
    return np.asarray(made, np.float32)


def one_pass(about: ModelProperties, runtime: Runtime, texts: Sequence[str]) -> tuple[Float, list[Float]]:
    """Return (vector of each text, token vectors of each text) from one forward pass. Texts are cut to the number of
    tokens that the model takes."""
    windows = [ids_of(about.tokenizer.encode(text), about.window) for text in texts]
    vectors, _, tokens = run(runtime, windows, about.pad)
    return vectors, tokens


def least(one: Float, other: Float) -> float:
    """Return the smallest cosine between a row of `one` and the same row of `other`; 1 if there are no rows.

    All rows have unit length.
    """
    return float(np.einsum("ij,ij->i", one, other, dtype=np.float64).min(initial=1.0))


def write(record: msgspec.Struct, file: Path) -> None:
    """Write a record to `file` atomically: a power cut or a full disk leaves no partial file."""
    with in_place(file) as opened:
        opened.write(msgspec.json.format(msgspec.json.encode(record)) + b"\n")


def _end_with_parent() -> None:
    """Wait until the parent process ends, which closes this process's stdin; then end this process."""
    while os.read(0, 1):  # not sys.stdin: its lock would be held when the interpreter ends
        pass
    os._exit(1)


def main(arguments: Sequence[str]) -> None:
    if arguments:
        folder, file, key = Path(arguments[0]), Path(arguments[1]), arguments[2]
        threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
        os.nice(5)
    else:
        found = find_model(DEFAULT_MODEL)
        assert isinstance(found, Path), f"the package {PACKAGE} is not installed"
        folder, file, key = found, Path(__file__).with_name(PACKAGED), key_of(identity(found, found))
    write(compare(folder, key), file)


if __name__ == "__main__":
    main(sys.argv[1:])


TIMED = 4
"""Number of texts in one pass when int8 and fp32 are timed."""
UNUSED_S = 60 * 86_400
"""Number of seconds after which an unused file of int8 matrices is deleted, when another one is made. All vaults of a
person share these files."""
LINES = 2
"""Number of calibration sentences in each timed text, which is then as long as a short note."""


class Opened(Struct, frozen=True):
    """A model that is loaded on ONNX Runtime."""

    about: ModelProperties
    runtime: OnnxRuntime
    identity: list[str]
    """Lines that identify the model and its precision."""
    served: EmbeddingHealth


class Int8Record(msgspec.Struct, frozen=True):
    """The stored facts about a model's int8 matrices on this machine."""

    sha256: str
    """The sha256 of the file of matrices."""
    milliseconds: float
    full_milliseconds: float
    """`milliseconds` and `full_milliseconds`: processor time of one short note in int8 and in fp32."""

    @property
    def pays(self) -> bool:
        return self.milliseconds <= int8.PAYS * self.full_milliseconds


def open_onnx(folder: Path, lines: Sequence[str], directory: Path, precision: str) -> Opened:
    """Load the model in `folder` on ONNX Runtime.

    `lines`: its `model_files.identity`; `directory`: where records are stored; `precision`: the setting
    `embedding.precision`. Raises Unavailable, with the reason, if its vectors differ from those of
    sentence-transformers.
    """
    parts(folder)  # raises for an unsupported model, before a process is started
    record = record_of(folder, key_of(lines), directory)
    if record.refused is not None:
        raise unfit(folder, record.refused)
    about = ModelProperties(tokenizer(folder), record.window, record.pad, record.query, record.document)
    found = None if precision == "fp32" else _in_eight_bits(about, folder, record, directory, precision)
    if isinstance(found, tuple):
        runtime, weighed = found
        served = EmbeddingHealth(
            runtime.name, runtime.version, "int8", None, record.eight, record.eight_tokens, record.texts,
            round(weighed.milliseconds, 2), round(weighed.full_milliseconds, 2),
        )  # fmt: skip
        return Opened(about, runtime, [*lines, f"int8 {FORMAT}"], served)
    runtime = OnnxRuntime(folder, record.pooling)
    cosine = _as_probed(about, runtime, record)
    if not cosine >= LEAST:
        why = f"it gives other vectors than when it was compared with sentence-transformers (cosine {cosine:.6f})"
        raise unfit(folder, why, fault=True)
    served = EmbeddingHealth(
        runtime.name, runtime.version, "fp32", found, record.vectors, record.tokens, record.texts, None, None
    )
    return Opened(about, runtime, list(lines), served)


def _as_probed(about: ModelProperties, runtime: Runtime, record: CheckRecord) -> float:
    """Return the smallest cosine between the vector of a probe in `record` and the one that `runtime` gives for
    it."""
    return min(
        float(one_pass(about, runtime, [probe.text])[0][0] @ np.frombuffer(probe.vector, "<f4"))
        for probe in record.probes
    )


def _in_eight_bits(
    about: ModelProperties, folder: Path, record: CheckRecord, directory: Path, precision: str
) -> tuple[OnnxRuntime, Int8Record] | str:
    """Return (the model in int8, its record), or the reason why the model runs in fp32."""
    if not min(record.eight, record.eight_tokens) >= EIGHT_LEAST:
        what = f"cosine {min(record.eight, record.eight_tokens):.4f}" if record.eight else "it does not run so"
        return f"eight bits lose too much of this model ({what})"
    slow = "eight bits are hardly quicker on this processor"
    file = directory / f"eight-{record.key[:16]}.bin"
    kept = _kept(file.with_suffix(".json"))
    if kept is not None and not kept.pays and precision == "auto":
        return slow
    cosine = 0.0
    try:
        if kept is not None and own_files.kind(file) == "a file" and sha256_of(file) == kept.sha256:
            eight = OnnxRuntime(folder, record.pooling, file)
            cosine = _as_probed(about, eight, record)
            with contextlib.suppress(OSError):
                os.utime(file)
        if kept is None or not cosine >= EIGHT_LEAST:
            eight, kept = _make(about, folder, record, file, kept)
            cosine = _as_probed(about, eight, record)
    except (Unavailable, OSError) as error:
        log.warning("the model in %s serves in full, not in eight bits: %s", folder, error)
        return "it does not run in eight bits here"
    if not cosine >= EIGHT_LEAST:
        log.warning(
            "the model in %s gives other vectors in eight bits than when it was compared (cosine %.6f)", folder, cosine
        )
        return f"in eight bits it differs here (cosine {cosine:.4f})"
    return (eight, kept) if kept.pays or precision == "int8" else slow


def _make(
    about: ModelProperties, folder: Path, record: CheckRecord, file: Path, kept: Int8Record | None
) -> tuple[OnnxRuntime, Int8Record]:
    """Write the int8 matrices to `file`, and their record beside it. Return (the model in int8, its record).

    `kept`: an earlier record on this machine, whose timing is used again. If it is None, int8 and fp32 are timed now.
    """
    full = OnnxRuntime(folder, record.pooling)
    eight = full.round_off(file, measured(about))
    for other in file.parent.glob("eight-*.bin"):
        with contextlib.suppress(OSError):  # another daemon may delete it too
            if other != file and time.time() - other.stat().st_mtime > UNUSED_S:
                other.unlink()
    if kept is None:
        lines = token_vectors.calibration()
        texts = [" ".join(lines[at * LINES : (at + 1) * LINES]) for at in range(TIMED)]
        quick, slow = int8.seconds([lambda: one_pass(about, eight, texts), lambda: one_pass(about, full, texts)])
        kept = Int8Record("", 1e3 * quick / TIMED, 1e3 * slow / TIMED)
    kept = msgspec.structs.replace(kept, sha256=sha256_of(file))
    write(kept, file.with_suffix(".json"))
    return eight, kept


def _kept(file: Path) -> Int8Record | None:
    """Return the stored record of int8 matrices; None if it is missing or incomplete."""
    try:
        return msgspec.json.decode(own_files.read(file), type=Int8Record)
    except (OSError, msgspec.DecodeError):
        return None
