"""Memories that share no word with the question, in 14 languages, with the multilingual model (`meanings.tsv`; README,
"Meaning in other languages").

`python -m tests.quality.test_meanings [MODEL]` prints the figures.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from ormahd.embedding import model as choose
from ormahd.embedding.embedder import Embedder
from ormahd.settings import EmbeddingSettings
from tests.quality.sets import Text, memory, rows
from tests.quality.test_floors import Stand

ROWS = rows(Path(__file__).with_name("meanings.tsv"), 3)
LANGUAGES = list(dict.fromkeys(language for language, _, _ in ROWS))
MATTERS = 20
FLOORS = {"within": 0.7, "across": 0.55}


def found(model: Embedder, directory: Path, first: int) -> Counter[tuple[str, str, bool]]:
    """Return how many questions have their memory among the first three, and how many have not: {(half, whether the
    question is in the memory's language, found): number}.

    A vault has each matter in one language, the first in `LANGUAGES[first]`, and a developer's English notes.
    """
    spoken = [LANGUAGES[(first + matter) % len(LANGUAGES)] for matter in range(MATTERS)]
    sides = {language: [row[1:] for row in ROWS if row[0] == language] for language in LANGUAGES}
    texts = [Text(str(matter), None, sides[spoken[matter]][matter][0]) for matter in range(MATTERS)]
    stand = Stand(directory, model, [*texts, *memory()[0]])
    right: Counter[tuple[str, str, bool]] = Counter()
    for matter, own in enumerate(spoken):
        other = LANGUAGES[(LANGUAGES.index(own) + 1 + first) % len(LANGUAGES)]
        for kind, language in (("within", own), ("across", other if other != own else "en")):
            hits = stand.ranked(sides[language][matter][1])[:3]
            right["held" if matter % 2 else "dev", kind, stand.ids[str(matter)] in hits] += 1
    stand.index.close()
    return right


def shares(counted: Counter[tuple[str, str, bool]]) -> dict[tuple[str, str], float]:
    keys = sorted({key[:2] for key in counted})
    return {key: counted[(*key, True)] / (counted[(*key, True)] + counted[(*key, False)]) for key in keys}


def test_what_shares_no_word_is_found_in_every_language(tmp_path: Path) -> None:
    model = choose.load(EmbeddingSettings(model="multilingual"), tmp_path / "models")
    counted = sum(
        (found(model, tmp_path / str(first), first) for first in (0, 5, 10)), Counter[tuple[str, str, bool]]()
    )
    for (half, kind), share in shares(counted).items():
        assert share >= FLOORS[kind], (half, kind, shares(counted))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        chosen = choose.load(EmbeddingSettings(model=(*sys.argv[1:], "multilingual")[0]), Path(place) / "models")
        every = range(len(LANGUAGES))
        print(shares(sum((found(chosen, Path(place) / str(first), first) for first in every), Counter())))
