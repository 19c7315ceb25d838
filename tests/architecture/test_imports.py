"""Imports run downhill, siblings do not know each other, each guest library has one room (DESIGN section 6)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TOP = {"errors", "faults", "paths", "settings", "config", "__init__"}
"""Modules beside the rooms that any room but `process` may import."""

ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "faults": set(),
    "paths": {"errors"},
    "settings": set(),
    "config": {"errors", "faults", "paths", "settings"},
    "process": {"errors"},
    "api": set(),
    "model": {"process", "errors", "faults"},
    "text": {"process", "model"},
    "note": {"process", "model", "text", "errors", "faults"},
}
"""A room of ormahd, or a module beside the rooms, and those that it may import besides itself. `daemon`, `detach`, `__main__`,
`offline_check`, `merge_driver` and `logs` may import all."""

_PURE = TOP | {"process", "api", "model", "text", "note"}
_VAULT = _PURE | {"git", "vault"}
_PARTS = _VAULT | {"watch", "sync", "purge", "embedding", "vectors", "index", "state", "sessions", "judge"}
_HOUSE = _PARTS | {"learned_state", "reworded", "mender", "fetch", "ormah"}
ROOMS |= {
    "git": _PURE,
    "vault": _PURE | {"git"},
    "watch": _VAULT,
    "sync": _VAULT,
    "purge": _VAULT,
    "embedding": _PURE,
    "vectors": _PURE | {"embedding"},
    "index": _PURE | {"embedding", "vectors"},
    "state": _PURE,
    "sessions": _PURE | {"embedding", "vectors", "index"},
    "judge": _PURE,
    "learned_state": _PARTS,
    "reworded": _PARTS,
    "mender": _PARTS,
    "fetch": _PARTS,
    "ormah": _HOUSE,
    "search": _HOUSE,
    "actions": _HOUSE | {"search"},
    "whisper": _HOUSE | {"search", "actions"},
    "jobs": _HOUSE | {"search", "actions"},
    "ingest": _HOUSE | {"search", "actions"},
    "rpc": _HOUSE | {"search", "actions", "whisper", "jobs", "ingest"},
}

CLIENT = {"api", "rpc.wire", "paths"}

GUESTS: dict[str, tuple[str, ...]] = {
    "git": ("ormahd/git/",),
    "git_filter_repo": ("ormahd/purge/",),
    "watchdog": ("ormahd/watch/",),
    "chromadb": ("ormahd/vectors/chroma",),
    "sentence_transformers": ("ormahd/embedding/", "ormahd/search/rerank"),
    "torch": ("ormahd/embedding/", "ormahd/search/rerank"),
    "transformers": ("ormahd/embedding/", "ormahd/search/rerank"),
    "onnxruntime": ("ormahd/embedding/",),
    "tokenizers": ("ormahd/embedding/",),
    "huggingface_hub": ("ormahd/embedding/", "ormahd/search/rerank"),
    "schedule": ("ormahd/jobs/timetable",),
    "daemon": ("ormahd/__main__", "ormahd/detach"),
    "yaml": ("ormahd/note/",),
    "merge3": ("ormahd/text/diff",),
    "detect_secrets": ("ormahd/text/secret",),
    "sdnotify": ("ormahd/daemon", "ormahd/process/supervisor"),
    "rapidfuzz": ("ormahd/jobs/neighbours", "ormahd/search/exact"),
    "httpx": ("ormahd/judge/endpoint",),
    "rich": ("ormahctl/",),
    "ijson": ("ormahd/ingest/readers/",),
    "Stemmer": ("ormahd/text/language",),
    "zstandard": ("ormahd/ingest/",),
}


def files(*packages: str) -> Iterator[Path]:
    for package in packages:
        yield from sorted((ROOT / package).rglob("*.py"))


def imports(file: Path) -> Iterator[str]:
    """Absolute names of what a file imports; of `from x import y`, `x.y` (y may be a module)."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@pytest.mark.parametrize("file", list(files("ormahd")), ids=lambda file: str(file.relative_to(ROOT)))
def test_downhill(file: Path) -> None:
    own = room(".".join(file.relative_to(ROOT).with_suffix("").parts))
    if own not in ROOMS:
        return
    for name in imports(file):
        assert not name.startswith("ormahctl"), f"{file} imports {name}"
        if name.startswith("ormahd."):
            target = room(name)
            if target == "__version__":
                continue
            assert target == own or target in ROOMS[own], f"{file}: {own} may not import {target}"


@pytest.mark.parametrize("file", list(files("ormahctl")), ids=lambda file: str(file.relative_to(ROOT)))
def test_clients_see_the_wire_only(file: Path) -> None:
    for name in imports(file):
        if name.startswith("ormahd.") and name != "ormahd.__version__":
            seen = name.removeprefix("ormahd.")
            assert any(seen == allowed or seen.startswith(allowed + ".") for allowed in CLIENT), (
                f"{file} imports {name}"
            )


def test_the_wire_is_light() -> None:
    rpc = ROOT / "ormahd" / "rpc"
    for file in (
        *(rpc / f"{stem}.py" for stem in ("wire", "codec", "peer")),
        *(ROOT / "ormahd" / "api").glob("*.py"),
    ):
        for name in imports(file):
            if name.startswith("ormahd."):
                seen = name.removeprefix("ormahd.")
                assert seen.startswith(("errors", "api", "rpc.codec", "rpc.peer", "paths", "__version__")), name
            else:
                assert name.split(".")[0] in {"msgspec", "__future__"} or name.split(".")[0] in _stdlib(), name


def _stdlib() -> frozenset[str]:
    import sys

    return sys.stdlib_module_names


@pytest.mark.parametrize("file", list(files("ormahd", "ormahctl")), ids=lambda file: str(file.relative_to(ROOT)))
def test_one_guest_one_room(file: Path) -> None:
    here = file.relative_to(ROOT).as_posix()
    for name in imports(file):
        top = name.split(".")[0]
        if top in GUESTS:
            assert here.startswith(GUESTS[top]), f"{here} imports {name}: it belongs in {GUESTS[top]}"


def test_heavy_libraries_wait_until_they_are_used() -> None:
    heavy = {
        "torch", "sentence_transformers", "transformers", "onnxruntime", "tokenizers", "chromadb", "detect_secrets", "httpx", "rich",
    }  # fmt: skip
    for file in files("ormahd", "ormahctl"):
        for node in ast.parse(file.read_bytes()).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [])  # fmt: skip
            assert not {name.split(".")[0] for name in names} & heavy, f"{file}: {names} at the top"


def test_values_are_structs() -> None:
    """Making a dataclass with slots takes a millisecond, and the daemon starts with two hundred kinds of value; a struct takes a fortieth
    of that, and is filled in a seventh of the time."""
    slow = [
        str(file.relative_to(ROOT))
        for file in files("ormahd")
        if any(n.startswith("dataclasses") for n in imports(file))
    ]
    assert slow == ["ormahd/model/node.py"], "its `Strength` is checked by pydantic, which knows dataclasses"
