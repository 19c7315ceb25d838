"""Settings files as people and programs write them: any layout, comments, trailing commas, CRLF, tabs, byte order marks."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

EVENTS = ("UserPromptSubmit", "Stop", "SessionStart", "PreToolUse", "BeforeAgent")

TEXTS = st.one_of(
    st.sampled_from(
        ["", "// no comment", "/* nor this */", 'a "quoted" \\ word', "C:\\dir\\", "[,]", "{,}", ", ]", "é 日本 🦉"]
    ),
    st.text(max_size=8),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(allow_nan=False, allow_infinity=False), TEXTS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
HANDLERS = st.fixed_dictionaries(
    {"type": st.just("command"), "command": st.sampled_from(["beep", "say 'hi' // loud", "run --hook x"])},
    optional={"timeout": st.integers(1, 60), "matcher": TEXTS},
)
GROUPS = st.one_of(
    st.fixed_dictionaries(
        {"hooks": st.lists(HANDLERS, max_size=2)}, optional={"matcher": st.sampled_from(["*", "Bash"])}
    ),
    st.fixed_dictionaries({"matcher": st.just("odd")}),
)
HOOKS = st.one_of(
    st.dictionaries(st.sampled_from(EVENTS), st.lists(GROUPS, max_size=3), max_size=3),
    st.fixed_dictionaries({"enabled": st.just(True), "Stop": st.lists(GROUPS, max_size=1)}),
)


@st.composite
def files(draw: DrawFn, *, json_only: bool = False) -> bytes:
    """The bytes of one settings file."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([b"", b"\n", b"  ", b"\xef\xbb\xbf", b"{}", b"{ }\n", b"{\n}\n", b"\r\n"]))
    members: list[tuple[str, Any]] = list(draw(st.dictionaries(TEXTS, VALUES, max_size=3)).items())
    members = [(key, value) for key, value in members if key != "hooks"]
    if draw(st.booleans()):
        members.insert(draw(st.integers(0, len(members))), ("hooks", draw(HOOKS)))
    value = dict(members)
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    if draw(st.booleans()):
        indent = draw(st.sampled_from([None, 0, 2, 4, "\t"]))
        text = json.dumps(value, indent=indent, ensure_ascii=draw(st.booleans()))
        text = text.replace("\n", newline)
    else:
        text = _loose(draw, value, newline, strict=json_only)
    text = draw(st.sampled_from(["", newline])) + text + draw(st.sampled_from(["", newline, newline * 2]))
    bom = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"]))
    return bom + text.encode("utf-8", "surrogatepass")


def _loose(draw: DrawFn, value: Any, newline: str, *, strict: bool) -> str:
    """`value` in a layout where anything may stand between any two tokens."""

    def gap() -> str:
        gaps = ["", " ", newline, newline + "  ", "\t", newline + "\t"]
        if not strict:
            gaps += [" /* x */ ", f" // y, [{newline}", f"{newline}// z {newline}  ", "/**/", f"/* a{newline} b */"]
        return draw(st.sampled_from(gaps))

    def write(value: Any) -> str:
        if isinstance(value, dict):
            items = [f"{json.dumps(key)}{gap()}:{gap()}{write(one)}" for key, one in value.items()]
            return "{" + joined(items) + "}"
        if isinstance(value, list):
            return "[" + joined([write(one) for one in value]) + "]"
        return json.dumps(value)

    def joined(items: list[str]) -> str:
        if not items:
            return gap()
        last = "," + gap() if not strict and draw(st.integers(0, 4)) == 0 else ""
        return gap() + (gap() + "," + gap()).join(items) + gap() + last

    return write(value)
