"""What the page makes of values: differences with their words marked, markdown, names and sentences."""

from __future__ import annotations

import pytest

from ormahctl.gateway.page import words

DIFFS = [
    ("content:\n@@ -1 +1 @@\n-port 8080 here\n+port 9443 here", [("where", ""), ("removed", "port <del>8080</del> here"), ("added", "port <ins>9443</ins> here")], "+1 −1 words"),
    ("tier: working -> core", [("field", "tier: working -&gt; core")], ""),
    ("+ title: A\ncontent:\n+one two", [("added", "title: A"), ("added", "one two")], "+2 words"),
    ("content:\n same\n-a <b>", [("same", "same"), ("removed", "a &lt;b&gt;")], "−2 words"),
    ("@@ -1 +1 @@\n-x\x1b\n+x", [("where", ""), ("removed", "x<del>\\x1b</del>"), ("added", "x")], None),
    ("", [("field", "")], ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "lines", "tally"), DIFFS)
def test_a_difference_marks_its_words(text: str, lines: list[tuple[str, str]], tally: str | None) -> None:
    assert [(one.how, str(one.html)) for one in words.diff(text)] == lines
    assert tally is None or words.tally(text) == tally


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a **b** <i>", "<p>a <strong>b</strong> &lt;i&gt;</p>\n"),
        ("![p](https://x.example/p.png)", '<p><a href="https://x.example/p.png" rel="noreferrer">picture: p</a></p>\n'),
        ("[a](javascript:x)", "<p>[a](javascript:x)</p>\n"),
        ("![a](javascript:x)", "<p>![a](javascript:x)</p>\n"),
        ("\x1b[31m", "<p>\\x1b[31m</p>\n"),
        (
            '![q](https://x.example/"onload=1)',
            '<p><a href="https://x.example/%22onload=1" rel="noreferrer">picture: q</a></p>\n',
        ),
    ],
)
def test_markdown_loads_and_runs_nothing(text: str, html: str) -> None:
    assert str(words.markdown(text)) == html


@pytest.mark.parametrize(
    ("text", "query", "html"),
    [
        ("We deploy; deployments", "how we deploy", "We <mark>deploy</mark>; <mark>deployments</mark>"),
        ("a <b> & c", "<b>", "a &lt;b&gt; &amp; c"),
        ("port 9443", "", "port 9443"),
        ("(x* +y", "(x* +y", "(x* +y"),
    ],
)
def test_words_of_the_query_are_marked(text: str, query: str, html: str) -> None:
    assert str(words.marked(text, query)) == html


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("agent:claude-code", "Claude Code"),
        ("person", "You"),
        ("job:auto_linker", "The job auto_linker"),
        ("agent:<b>", "<B>"),
        ("x", "X"),
    ],
)
def test_sources_have_names(source: str, name: str) -> None:
    assert words.who(source) == name


def test_large_texts_are_compared_in_bounded_time() -> None:
    old, new = words.changed_words("a " * 40_000, "b " * 40_000)
    assert "<del>" not in old
    assert str(new).startswith("b b ")
