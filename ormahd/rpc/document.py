"""Generate the second part of PROTOCOL.md: error codes from `errors.py`, methods and Structs from `ormahd.api`.

`python -m ormahd.rpc.document` writes the file; a test fails if the file is out of date.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct

from ormahd import api, errors

FILE: Final = Path(__file__).parent.parent / "PROTOCOL.md"
MARK: Final = "<!-- From here on generated: python -m ormahd.rpc.document -->\n"


def render() -> str:
    """Return the part of PROTOCOL.md that is generated from the code, without the line `MARK` before it."""
    return "\n".join([*_codes(), "", *_methods(), "", *_shapes()]) + "\n"


def current() -> str:
    """Return the whole PROTOCOL.md: the handwritten part as the file has it, the line `MARK`, and the newly generated
    part."""
    written = FILE.read_text("utf-8").partition(MARK)[0]
    return written + MARK + "\n" + render()


def _codes() -> Iterator[str]:
    yield "## Error codes"
    yield ""
    yield "| code | exit status of a command | |"
    yield "|---|---|---|"
    for code, kind in errors.BY_CODE.items():
        text = " ".join((kind.__dict__.get("__doc__") or "").split())
        yield f"| `{code}` | {kind.exit_status} | {text} |"


def _methods() -> Iterator[str]:
    yield "## Methods"
    for method, (params, result) in api.METHODS.items():
        yield ""
        yield f"### `{method}`"
        yield ""
        if _doc(params):
            yield _doc(params)
            yield ""
        fields = msgspec.structs.fields(params)
        if fields:
            yield "| parameter | type | |"
            yield "|---|---|---|"
            yield from _rows(params)
        else:
            yield "No parameters."
        yield ""
        yield f"Result: [{result.__name__}](#{result.__name__.lower()})"


def _shapes() -> Iterator[str]:
    """Yield the lines that describe every Struct used in parameters or results: each once, in order of first use."""
    yield "## Shapes"
    seen: dict[str, type[Struct]] = {}
    for params, result in api.METHODS.values():
        for inner in _inside(params):
            seen.setdefault(inner.__name__, inner)
        seen.setdefault(result.__name__, result)
        for inner in _inside(result):
            seen.setdefault(inner.__name__, inner)
    for name, shape in seen.items():
        yield ""
        yield f"### {name}"
        yield ""
        if _doc(shape):
            yield _doc(shape)
            yield ""
        yield "| field | type | |"
        yield "|---|---|---|"
        yield from _rows(shape)


def _rows(shape: type[Struct]) -> Iterator[str]:
    texts = _field_docs(shape)
    for field in msgspec.structs.fields(shape):
        yield f"| `{field.encode_name}` | {_type(field.type)}{_default(field)} | {texts.get(field.name, '')} |"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return ""
    value = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    if value is UNSET:
        return ", may be left out"
    if isinstance(value, Struct):
        return ""
    return f", default `{msgspec.json.encode(value).decode()}`"


def _type(kind: Any) -> str:
    """Return the name of a type in words that do not depend on a programming language."""
    return _named(msgspec.inspect.type_info(kind))


def _named(info: msgspec.inspect.Type) -> str:
    plain = {
        msgspec.inspect.AnyType: "anything", msgspec.inspect.StrType: "text", msgspec.inspect.BoolType: "true or false",
        msgspec.inspect.NoneType: "null",
    }  # fmt: skip
    if isinstance(info, (msgspec.inspect.IntType, msgspec.inspect.FloatType)):
        word = "integer" if isinstance(info, msgspec.inspect.IntType) else "number"
        bounds = [f"≥ {info.ge}" if info.ge is not None else "", f"≤ {info.le}" if info.le is not None else ""]
        return " ".join([word, *filter(None, bounds)])
    if isinstance(info, msgspec.inspect.ListType):
        return f"list of {_named(info.item_type)}"
    if isinstance(info, msgspec.inspect.DictType):
        return f"map of {_named(info.key_type)} to {_named(info.value_type)}"
    if isinstance(info, msgspec.inspect.LiteralType):
        return ", ".join(f"`{value}`" for value in info.values)
    if isinstance(info, msgspec.inspect.StructType):
        return f"[{info.cls.__name__}](#{info.cls.__name__.lower()})"
    if isinstance(info, msgspec.inspect.UnionType):
        return " or ".join(_named(part) for part in info.types if not _is_unset(part))
    if isinstance(info, msgspec.inspect.Metadata):
        return _named(info.type)
    return plain[type(info)]


def _is_unset(info: msgspec.inspect.Type) -> bool:
    return isinstance(info, msgspec.inspect.CustomType) and info.cls is msgspec.UnsetType


def _inside(shape: type[Struct]) -> Iterator[type[Struct]]:
    """Yield the Structs used by the fields of a Struct, at any depth."""
    for field in msgspec.structs.fields(shape):
        yield from _structs(msgspec.inspect.type_info(field.type))


def _structs(info: msgspec.inspect.Type) -> Iterator[type[Struct]]:
    if isinstance(info, msgspec.inspect.StructType):
        yield info.cls
        yield from _inside(info.cls)
    for part in (
        getattr(info, "item_type", None), getattr(info, "value_type", None), getattr(info, "type", None),
        *getattr(info, "types", ()),
    ):  # fmt: skip
        if isinstance(part, msgspec.inspect.Type):
            yield from _structs(part)


def _doc(shape: type[Struct]) -> str:
    return " ".join((shape.__dict__.get("__doc__") or "").split())


def _field_docs(shape: type[Struct]) -> dict[str, str]:
    """Return `{field: docstring}`, parsed from the source because Python does not keep the docstrings of fields."""
    body = _classes(shape.__module__)[shape.__name__].body
    found = {}
    for before, after in itertools.pairwise(body):
        if not isinstance(before, ast.AnnAssign) or not isinstance(before.target, ast.Name):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            found[before.target.id] = " ".join(after.value.value.split())
    return found


@functools.cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


if __name__ == "__main__":
    FILE.write_text(current(), "utf-8")
