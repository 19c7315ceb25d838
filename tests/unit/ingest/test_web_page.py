"""A page of HTML is read as text with headings, whatever its markup; what is no page is left as it is."""

from __future__ import annotations

import time

import pytest

from ormahd.ingest.documents.sections import sections
from ormahd.ingest.documents.web_page import is_page, markdown_of

BEGIN = "<!DOCTYPE html>\n<html>"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<h1>Quay</h1><p>It is <b>long</b> &amp; old.</p>", "# Quay\n\nIt is long & old."),
        ("<h2>A</h2>One<h3>B</h3>Two", "## A\n\nOne\n\n### B\n\nTwo"),
        ("<ul><li>ten tons</li><li>red</li></ul>", "- ten tons\n- red"),
        ("<p>One\n  two<br>three</p>", "One two\nthree"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\n\nc"),
        ("a<script>if (x<y) alert('<p>')</script>b<style>p{}</style>c", "abc"),
        ("a<!-- <p>a comment</p> -->b", "ab"),
        ("a<!-- a comment without an end", "a<!-- a comment without an end"),
        ("<p title='x > y'>&lt;b&gt; 3 < 4 &#8212; 5</p>", "<b> 3 < 4 — 5"),
        ("<div><p>One.</p></div><div>Two.</div>", "One.\n\nTwo."),
        ("<noscript>Switch on</noscript>Text<template>x</template>", "Text"),
        ("", ""),
    ],
)
def test_a_page_becomes_text(page: str, text: str) -> None:
    found, title = markdown_of(f"{BEGIN}<head><title>The\n quay</title></head><body>{page}</body></html>")
    assert (found, title) == (text, "The quay")


def test_its_sections_have_its_headings() -> None:
    text, title = markdown_of(
        f"{BEGIN}<title>Harbour</title>It has a long quay.<h1>Crane</h1><p>It lifts ten tons.</p>"
    )
    assert [(one.title, one.text) for one in sections(text, title)] == [
        ("Harbour", "It has a long quay."), ("Crane", "It lifts ten tons."),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("<html lang=de>", True), ("\ufeff  <!doctype HTML>", True), ('<?xml version="1.0"?>\n<html>', True), ("<HEAD>", True),
        ("<b>bold</b> markdown", False), ("# A note on <html>", False), ("<htmlx>", False), ("", False),
    ],
)  # fmt: skip
def test_a_page_is_known_by_its_beginning(text: str, page: bool) -> None:
    assert is_page(text) is page


@pytest.mark.parametrize(
    "piece", ["<", "<a", "<a ", "<!", "<!--", "</", "<script>", "<title>", "&", "<p", "<![CDATA[", "<?", "--><!--"]
)
def test_no_page_takes_long(piece: str) -> None:
    begun = time.process_time()
    markdown_of(BEGIN + piece * (500_000 // len(piece)))
    assert time.process_time() - begun < 8
