"""Another embedding model and back: no note changes, words answer while vectors are made, and the meaning of what is
written in another language is found by the multilingual model alone."""

from __future__ import annotations

from tests.house import House, open_house, wait_until

MEMORIES = {
    "Die Rechnungen gehen immer am Monatsende an die Buchhaltung.": "Wann fakturieren wir?",
    "Nous avons choisi la peinture bleue pour le salon.": "Quelle couleur auront les murs ?",
    "Кошка не ест рыбу, ей становится плохо.": "Чем нельзя кормить нашего питомца?",
    "犬は毎朝七時に公園へ連れて行く。": "ペットの散歩はいつ？",
}
FILLING = [f"Shelf {number} in the garage holds jars of screws." for number in range(12)]


def found(house: House) -> list[list[str]]:
    """Return the contents of the first three results of each question."""
    asked = (house.call("agent.recall", query=question, limit=3).results for question in MEMORIES.values())
    return [[hit.content.strip() for hit in results] for results in asked]


def switch(house: House, model: str) -> None:
    """Choose a model, start the daemon again, ask by words, and wait until all vectors are made."""
    house.ctl("model", "use", model)
    house.restart()
    assert "garage" in house.call("agent.recall", query="shelf garage screws", limit=1).results[0].content

    def ready() -> bool:
        health = house.call("admin.health")
        return health.index.pending_vectors == 0 and not health.degraded

    wait_until(ready, f"vectors of {model}", 300)


def test_a_vault_is_switched_to_the_multilingual_model_and_back() -> None:
    with open_house(ORMAH_EMBEDDING_MODEL="", ORMAH_JOBS_ENABLED="false") as house:
        house.start()
        for text in [*MEMORIES, *FILLING]:
            house.call("agent.remember", content=text)
        wait_until(lambda: house.call("admin.health").index.pending_vectors == 0, "vectors")
        notes, head, before = house.notes(), house.git("rev-parse", "HEAD"), found(house)

        switch(house, "multilingual")
        for memory, results in zip(MEMORIES, found(house), strict=True):
            assert memory in results, results

        switch(house, "all-MiniLM-L6-v2")
        assert found(house) == before
        assert (house.notes(), house.git("rev-parse", "HEAD")) == (notes, head)
