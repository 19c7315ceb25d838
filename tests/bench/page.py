"""Figures of the page in Chromium: first paint, keystroke to results, an event to its row, a morph, what the gateway holds.

    python -m tests.bench page [--notes 10000] [--model all-MiniLM-L6-v2|hashing]

Each memory links to two others, so that there are twice as many edges. Measure on a quiet machine.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Iterable
from pathlib import Path

from ormahctl.gateway import reach
from tests.bench import corpus
from tests.browser.test_page import Person
from tests.house import House, open_house, wait_until

LOADS = 9
TYPED = ["garden ember", "why was the queue", "backup of falcon", "printer contract hiro"]
KEYSTROKE = """
const [word, done] = arguments, find = document.querySelector("#find input"), took = [];
for (let length = 3; length <= word.length; length += 1) {
  if (word[length - 1] === " ") continue;
  find.focus();
  find.value = word.slice(0, length);
  const from = performance.now();
  const shown = new Promise((resolve) => new MutationObserver((_, one) => {
    if (document.querySelector("main input[name=q]")?.value === find.value.trim()) one.disconnect(), resolve();
  }).observe(document.querySelector("main"), { subtree: true, childList: true, attributes: true }));
  find.dispatchEvent(new Event("input", { bubbles: true }));
  await shown;
  took.push(performance.now() - from);
  await new Promise((resolve) => setTimeout(resolve, 150));
}
return took;
"""
MORPH = """
const list = document.querySelector("main .rows"), rows = [...list.children];
while (list.children.length < 200) list.append(rows[list.children.length % rows.length].cloneNode(true));
[...list.children].forEach((row, at) => { row.id = `row-${at}`; });
const took = [];
for (let turn = 0; turn < 9; turn += 1) {
  const other = document.querySelector("main").cloneNode(true), added = other.querySelector(".rows li").cloneNode(true);
  added.id = `new-${turn}`;
  other.querySelector(".rows").prepend(added);
  const from = performance.now();
  Idiomorph.morph(document.querySelector("main"), other, { callbacks: { beforeNodeMorphed: () => true } });
  took.push(performance.now() - from);
}
return took;
"""
COMES = """
const [title] = arguments;
return new Promise((resolve) => {
  const look = () => [...document.querySelectorAll("main a")].some((one) => one.textContent.includes(title)) && resolve(Date.now());
  new MutationObserver(look).observe(document.querySelector("main"), { subtree: true, childList: true });
  look();
});
"""


def linked(path: Path, count: int) -> Path:
    chance = random.Random(5)
    with path.open("w", encoding="utf-8") as out:
        for number, item in enumerate(corpus.memories(count)):
            item["title"] = f"Memory number {number}"
            for _ in range(2):
                item["content"] += f" [[Memory number {chance.randrange(count)}]]"
            out.write(json.dumps(item) + "\n")
    return path


def figure(what: str, ms: Iterable[float], limit: float) -> None:
    found = sorted(ms)
    print(
        f"{what}: least {found[0]:.0f}, p50 {statistics.median(found):.0f}, most {found[-1]:.0f} ms (limit {limit:g})"
    )


def paint(person: Person, path: str) -> float:
    person.driver.get("about:blank")
    person.opens(path)
    look = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    return float(wait_until(lambda: person.driver.execute_script(look), f"paint of {path}", 60))


def measured(house: House, person: Person) -> None:
    for query in corpus.queries(40):
        house.call("agent.whisper", prompt=query, session_id="bench", space=None)
    node = house.call("agent.list", limit=1, skip=500).memories[0].id
    op = house.call("history.list", limit=1).ops[0].commit
    for path in ("/", "/search", "/search?q=garden+of+ember", f"/m/{node}", f"/m/{node}/edit", f"/changes/{op}", "/waiting",
                 "/whispers", "/whispers/try?q=garden+of+ember"):  # fmt: skip
        figure(
            f"first paint of {path.replace(node, 'ID').replace(op, 'OP')}",
            [paint(person, path) for _ in range(LOADS)],
            150,
        )
    person.opens("/search")
    figure("keystroke to results", [ms for word in TYPED for ms in person.driver.execute_script(KEYSTROKE, word)], 60)
    person.opens("/search")
    figure("morph of 200 rows", person.driver.execute_script(MORPH), 30)
    took = []
    for number in range(5):
        person.opens("/")
        time.sleep(1)  # the answer to the first subscription is over
        title = f"A new thing {number} {time.time_ns()}"
        house.call("agent.remember", content=f"{title} is here.", title=title)
        begun = time.time()
        took.append(person.driver.execute_script(COMES, title) - 1000 * begun)
    figure("stored by a program to its row on Today", took, 1000)
    pid = (reach.status(house.socket) or {})["pid"]
    resident = next(
        line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")
    )
    print(
        f"gateway: {int(resident) / 1024:.0f} MB resident (limit 90); daemon {house.call('admin.health').rss_mb:.0f} MB"
    )


def main(args: list[str]) -> None:
    import argparse

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    chosen = parser.parse_args(args)
    with open_house(ORMAH_EMBEDDING_MODEL=chosen.model, ORMAH_JOBS_ENABLED="false") as house:
        house.start()
        house.ctl("import", str(linked(house.home / "notes.jsonl", chosen.notes)), timeout=7200)
        person = Person(house)
        try:
            measured(house, person)
        finally:
            person.driver.quit()
