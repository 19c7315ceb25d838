"""Generate the second part of PROTOCOL.md: error codes from `errors.py`, methods and Structs from `ormahd.api`.

`python -m ormahd.rpc.document` writes the file; a test fails if the file is out of date.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from ormahd import api, errors

FILE: Final = Path(__file__).parent.parent / "PROTOCOL.md"
MARK: Final = "<!-- From here on generated: python -m ormahd.rpc.document -->\n"
SHAPES: Final = """## Shapes

The maps of parameters and results, as the daemon's source has them. A field without a default must be sent; `UNSET` as
default means that it may be left out. `Count` is an integer from 1 to 10,000, `LineNumber` one from 1 to 2^53. Of
`Params` no further field is allowed.
"""


def current() -> str:
    """Return the text that PROTOCOL.md should have: its handwritten part, the line `MARK`, and the newly generated
    part."""
    written = FILE.read_text("utf-8").partition(MARK)[0]
    return written + MARK + "\n" + "\n".join(_generated()) + "\n"


def _generated() -> Iterator[str]:
    """Yield the parts of the document that follow from the code: error codes, methods and types."""
    yield "## Error codes\n"
    yield "| code | exit status of a command | |\n|---|---|---|"
    for code, kind in errors.BY_CODE.items():
        text = " ".join((kind.__dict__.get("__doc__") or "").split())
        yield f"| `{code}` | {kind.exit_status} | {text} |"
    yield "\n## Methods\n"
    yield "| method | parameters | result |\n|---|---|---|"
    for method, (params, result) in api.METHODS.items():
        yield f"| `{method}` | `{params.__name__}` | `{result.__name__}` |"
    yield "\n" + SHAPES
    yield "```python"
    shapes = [one for one in vars(api).values() if isinstance(one, type) and issubclass(one, Struct)]
    yield "\n\n\n".join(inspect.getsource(one).rstrip() for one in shapes if one is not Struct)
    yield "```"


if __name__ == "__main__":
    FILE.write_text(current(), "utf-8")
