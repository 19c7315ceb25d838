"""Imports run downhill, siblings do not know each other, each guest library has one room (DESIGN section 6)."""

import ast
import subprocess
import sys

from tests.architecture.syntax import ROOT, files, imports, tree

TOP = {"errors", "paths", "settings", "config", "__init__"}
"""Modules beside the rooms that any room but `process` may import."""

ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "paths": {"errors"},
    "settings": set(),
    "config": {"errors", "paths", "settings"},
    "process": {"errors"},
    "api": set(),
    "model": {"process", "errors"},
    "text": {"process", "model"},
    "note": {"process", "model", "text", "errors"},
}
"""A room of ormahd, or a module beside the rooms, and those that it may import besides itself. `daemon`, `detach`, `__main__`,
`offline_check` and `logs` may import all."""

_PURE = TOP | {"process", "api", "model", "text", "note"}
_VAULT = _PURE | {"git", "vault"}
_PARTS = _VAULT | {"watch", "sync", "purge", "embedding", "vectors", "index", "state", "sessions", "judge"}
_HOUSE = _PARTS | {"learned_state", "reworded", "ormah"}
ROOMS |= {
    "git": _PURE,
    "vault": _PURE | {"git"},
    "watch": _VAULT | {"index"},
    "sync": _VAULT,
    "purge": _VAULT,
    "embedding": _PURE,
    "vectors": _PURE | {"embedding"},
    "index": _PURE | {"git", "embedding", "vectors"},
    "state": _PURE,
    "sessions": _PURE | {"embedding", "vectors", "index"},
    "judge": _PURE,
    "learned_state": _PARTS,
    "reworded": _PARTS,
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
    "sentence_transformers": ("ormahd/embedding/",),
    "torch": ("ormahd/embedding/",),
    "transformers": ("ormahd/embedding/",),
    "onnxruntime": ("ormahd/embedding/",),
    "tokenizers": ("ormahd/embedding/",),
    "huggingface_hub": ("ormahd/embedding/",),
    "schedule": ("ormahd/jobs/timetable",),
    "daemon": ("ormahd/__main__", "ormahd/detach"),
    "yaml": ("ormahd/note/",),
    "merge3": ("ormahd/text/diff",),
    "sdnotify": ("ormahd/daemon", "ormahd/process/supervisor"),
    "rapidfuzz": ("ormahd/jobs/neighbours", "ormahd/search/exact", "ormahctl/gateway/page/"),
    "httpx": ("ormahd/judge/endpoint",),
    "rich": ("ormahctl/",),
    "Stemmer": ("ormahd/text/language",),
    "pathspec": ("ormahd/ingest/",),
    "pypdf": ("ormahd/ingest/",),
    "asyncio": ("ormahctl/gateway/",),
    "anyio": ("ormahctl/gateway/",),
    "mcp": ("ormahctl/gateway/",),
    "mcp_types": ("ormahctl/gateway/",),
    "starlette": ("ormahctl/gateway/",),
    "uvicorn": ("ormahctl/gateway/",),
    "jinja2": ("ormahctl/gateway/page/",),
    "markupsafe": ("ormahctl/gateway/page/",),
    "markdown_it": ("ormahctl/gateway/page/",),
    "backports": ("ormahd/ingest/",),
    "compression": ("ormahd/ingest/",),
}


def room(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def test_downhill() -> None:
    wrong = []
    for file in files("ormahd"):
        own = room(".".join(file.relative_to(ROOT).with_suffix("").parts))
        if own not in ROOMS:
            continue
        for name in imports(file):
            target = room(name)
            if name.startswith("ormahctl"):
                wrong.append(f"{file} imports {name}")
            elif name.startswith("ormahd.") and target not in {"__version__", own, *ROOMS[own]}:
                wrong.append(f"{file}: {own} may not import {target}")
    assert wrong == []


def test_clients_see_the_wire_only() -> None:
    wrong = []
    for file in files("ormahctl"):
        for name in imports(file):
            seen = name.removeprefix("ormahd.")
            ours = name.startswith("ormahd.") and name != "ormahd.__version__"
            if ours and not any(seen == allowed or seen.startswith(allowed + ".") for allowed in CLIENT):
                wrong.append(f"{file} imports {name}")
    assert wrong == []


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


def test_one_guest_one_room() -> None:
    wrong = []
    for file in files("ormahd", "ormahctl"):
        here = file.relative_to(ROOT).as_posix()
        for name in imports(file):
            top = name.split(".")[0]
            if top in GUESTS and not here.startswith(GUESTS[top]):
                wrong.append(f"{here} imports {name}: it belongs in {GUESTS[top]}")
    assert wrong == []


def test_heavy_libraries_wait_until_they_are_used() -> None:
    heavy = {
        "torch", "sentence_transformers", "transformers", "onnxruntime", "tokenizers", "chromadb", "httpx", "rich",
    }  # fmt: skip
    for file in files("ormahd", "ormahctl"):
        for node in tree(file).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [])  # fmt: skip
            assert not {name.split(".")[0] for name in names} & heavy, f"{file}: {names} at the top"


def test_the_pump_is_small() -> None:
    """What an agent pays for a session: a process on builtin modules, that imports no package of ours but its own."""
    code = "import sys; sys.path.append(sys.argv[1]); import ormahctl.shim.pump; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT)], capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert not loaded & {"json", "re", "enum", "socket", "os", "asyncio", "msgspec", "click", "platformdirs", "tomllib"}


def test_commands_do_not_import_the_gateway() -> None:
    code = "import sys; import ormahctl.run, ormahctl.commands.recall; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {name.split(".")[0] for name in done.stdout.split()} & {
        "asyncio",
        "anyio",
        "mcp",
        "starlette",
        "uvicorn",
    }


def test_values_are_structs() -> None:
    """Making a dataclass with slots takes a millisecond, and the daemon starts with two hundred kinds of value; a struct takes a fortieth
    of that, and is filled in a seventh of the time."""
    slow = [
        str(file.relative_to(ROOT))
        for file in files("ormahd")
        if any(n.startswith("dataclasses") for n in imports(file))
    ]
    assert slow == ["ormahd/model/node.py"], "its `Strength` is checked by pydantic, which knows dataclasses"
