"""The quick way through `fts_text` gives the words that the thorough one gives."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ormahd.core import words

TEXTS = st.text(
    st.one_of(st.sampled_from("ab cC#+ 1.9 _-—“”éÄß ñ\u0301\u0308ẞİﬁ Ωж हिन्दी עברית \n*\"()"), st.characters(max_codepoint=0x2FF)),
    max_size=30,
)  # fmt: skip


def thorough(text: str) -> str:
    """What `fts_text` says behind a character of an unspaced script, which sends it the long way."""
    return words.fts_text(text + " 東").removesuffix("東 ")


@settings(max_examples=500, deadline=None)
@example("_\u093f")
@example("a \u093f_\u093fb __\u093f_ c_\u093f")
@given(TEXTS.filter(lambda text: "'" not in words.fold(text) and "`" not in text))
def test_quick_is_thorough(text: str) -> None:
    assert words.fts_text(text).split() == thorough(text).split()


def test_signs_stay_words() -> None:
    assert words.fts_text("C++ and c# but not xc++, é'c++").split() == [
        "cplusplus", "and", "csharp", "but", "not", "xc++,", "e'c++",
    ]  # fmt: skip
