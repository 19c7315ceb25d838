"""The quick way through `fts_text` gives the words that the thorough one gives."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ormahd.text.words import fts_text
from tests.examples import examples

TEXTS = st.text(
    st.sampled_from("abcC#+ 1.9 _-—'’`\"“”éÄß ñ\u0301\u0308ẞİﬁ Ωж हिन्दी\u093f עברית \n*()")
    | st.characters(max_codepoint=0x2FF)
    | st.characters(),
    max_size=30,
)


def thorough(text: str) -> str:
    """What `fts_text` says behind a character of an unspaced script, which sends it the long way."""
    return fts_text(text + " 東").removesuffix("東 ")


@settings(max_examples=examples(500))
@example("_\u093f")
@example("a \u093f_\u093fb __\u093f_ c_\u093f")
@example("A#\u093f")
@example("\u093fc# é_'c++ b'c# \u093f'c#")
@example("_'c# __'c++")
@given(TEXTS)
def test_quick_is_thorough(text: str) -> None:
    assert fts_text(text).split() == thorough(text).split()


def test_signs_stay_words() -> None:
    assert fts_text("C++ and c# but not xc++, é'c++").split() == [
        "cplusplus", "and", "csharp", "but", "not", "xc++,", "e'c++",
    ]  # fmt: skip
