"""Every view of the page, in both themes and several widths: what axe finds, the keyboard, the console, and screenshots.

A new view is a line of `VIEWS`. `ORMAH_SCREENSHOTS=docs/page make page-test` makes the pictures of docs/page.md anew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.browser import test_page
from tests.browser.test_page import Person, kept, wait_until
from tests.house import House, open_house

pytestmark = test_page.pytestmark

VIEWS = {
    "today": "/", "list": "/search", "search": "/search?q=deploy", "memory": "/m/{node}", "version": "/m/{node}?at={op}", "edit": "/m/{node}/edit",
    "outdated": "/m/{node}/outdated", "purge": "/m/{node}/purge", "forgotten": "/m/{forgotten}", "change": "/changes/{op}", "waiting": "/waiting",
    "decided": "/waiting?status=all", "changes": "/changes", "opened": "/changes?at={op}", "run": "/changes/undo?run={run}", "whispers": "/whispers",
    "bench": "/whispers/try?q=how+do+we+deploy+the+shop%3F&space=shop", "map": "/map", "around": "/map?near={node}", "chain": "/map?near={node}&to={other}",
    "sessions": "/sessions", "session": "/sessions/{session}", "beliefs": "/beliefs", "health": "/health", "job": "/health/index_updater", "error": "/m/00000000",
}  # fmt: skip
"""{name: address}; `{node}` and the like are filled in from the showcase."""
PICTURED = {
    "today",
    "search",
    "memory",
    "waiting",
    "changes",
    "change",
    "whispers",
    "bench",
    "map",
    "session",
    "beliefs",
    "health",
}
"""The views that docs/page.md shows."""
WIDTHS = (1280, 390)
AXE = Path(__file__).parent / "vendor" / "axe.min.js"


@dataclass
class Shown:
    """A browser at the page of the showcase. `names`: what addresses have in braces."""

    person: Person
    names: dict[str, str]

    def opens(self, view: str) -> None:
        self.person.opens(VIEWS[view].format(**self.names))
        wait_until(lambda: self.person.driver.execute_script(
            "return !document.querySelector('main .map') || performance.getEntriesByName('map').length > 0"
        ), f"{view} is drawn", 60)  # fmt: skip


def furnish(house: House) -> dict[str, str]:
    """Let a house have what showcase.toml says, with something that waits and something that was forgotten."""
    told = tomllib.loads((Path(__file__).parent / "showcase.toml").read_text("utf-8"))
    now = datetime.now(UTC)
    lines = [
        json.dumps({"title": title, "content": text, "type": kind, "tier": tier, "space": space or None, "created": (now - timedelta(days=days)).isoformat()})
        for title, text, kind, tier, space, days in told["memories"]
    ]  # fmt: skip
    house.call("admin.import", lines=lines, agent="person")
    ids = {one.title: one.id for one in house.call("agent.list", limit=100).memories}
    for source, edge, target in told["edges"]:
        house.call("agent.connect", source_id=ids[source], target_id=ids[target], edge=edge, agent="claude-code")
    node = ids["How we deploy the shop"]
    house.call("agent.update", node_id=node, content="Run `make release`, wait for the pipeline, then approve the rollout in the dashboard.\n\nNever on a Friday, nor on the day before a holiday.", agent="claude-code")  # fmt: skip
    op = house.git("rev-parse", "HEAD").strip()
    house.call(
        "agent.outdated", node_id=ids["Deploys over FTP"], reason="there is a pipeline", by=node, agent="claude-code"
    )
    forgotten = house.call(
        "agent.remember", content="The old printer is called Otto.", title="Otto", agent="person"
    ).node_id
    house.call("agent.forget", node_id=forgotten, agent="person")
    house.call("ingest.conversation", content=told["session"], agent="claude-code")
    for at, (space, prompt) in enumerate(told["prompts"]):
        house.call(
            "agent.whisper", prompt=prompt, session_id=f"s{at}", space=space, agent=("claude-code", "codex")[at % 2]
        )
    for content, days in (("The winter fair opens at 10.", 90), ("The winter fair opens at 9.", 3)):
        made = (now - timedelta(days=days)).isoformat()
        house.call(
            "admin.import",
            lines=[json.dumps({"content": content, "title": "Winter fair hours", "created": made})],
            agent="person",
        )
    house.call("admin.run_task", name="conflict_detector")
    run = house.call("history.list", limit=1, kind="import").ops[0].run
    session = house.call("agent.sessions", limit=1).sessions[0].id
    return {"node": node, "op": op, "forgotten": forgotten, "other": ids["Winter fair"], "run": run, "session": session}


@pytest.fixture(scope="module")
def shown() -> Iterator[Shown]:
    with open_house(ORMAH_LINKING_SIMILARITY="1", ORMAH_JOBS_ENABLED="false") as house:
        house.start()
        names = furnish(house)
        person = Person(house)
        yield Shown(person, names)
        person.driver.quit()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_in_any_view(shown: Shown, dark: bool, width: int) -> None:
    """No finding of any level. Screenshots are taken on the way, if a folder for them is given."""
    folder = os.environ.get("ORMAH_SCREENSHOTS")
    found: dict[str, list[Any]] = {}
    shown.person.seems(dark=dark, width=width)
    for view in VIEWS:
        shown.opens(view)
        shown.person.driver.execute_script(AXE.read_text("utf-8"))
        faults = shown.person.driver.execute_async_script(
            "const done = arguments[0]; axe.run(document).then((all) =>"
            "done(all.passes.length < 20 ? ['axe did not run'] : all.violations.map((one) => [one.id, one.impact, one.nodes.map((node) => node.target.join(' ') + ' | ' + node.failureSummary)])))"
        )
        if faults:
            found[view] = faults
        if folder and view in PICTURED and not (dark and width < 500):
            name = f"{view}-{'phone' if width < 500 else 'dark' if dark else 'light'}.png"
            (Path(folder) / name).write_bytes(shown.person.driver.get_screenshot_as_png())
            if shutil.which("pngquant"):  # a third of the size
                subprocess.run(["pngquant", "--force", "--ext", ".png", "64", Path(folder) / name], check=True)
    assert not found, json.dumps(found, indent=1)


FOCUSED = """
const one = document.activeElement, style = getComputedStyle(one), box = one.getBoundingClientRect();
if (one === document.body || one === document.documentElement) return null;
const all = window.reached ??= new Set();
const seen = style.outlineStyle !== "none" && box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
const again = all.has(one) && one !== window.last;  // the parts of a date are reached one by one
all.add(one);
window.last = one;
return [again, seen || one.matches("main, .skip"), one.outerHTML.slice(0, 200)];
"""
REACHABLE = """
return [...document.querySelectorAll("a[href], button, input, select, textarea, summary")].filter((one) =>
  one.tabIndex >= 0 && !one.disabled && one.checkVisibility({visibilityProperty: true}) && !reached.has(one) &&
  !(one.type === "radio" && !one.checked)).map((one) => one.outerHTML.slice(0, 200));
"""


@pytest.mark.parametrize("view", VIEWS)
def test_the_keyboard_reaches_everything(shown: Shown, view: str) -> None:
    """Tab reaches each control of a view, and each is seen with a ring around it while it has the focus."""
    person = shown.person
    person.seems()
    shown.opens(view)
    for _ in range(200):
        person.types(test_page.Keys.TAB)
        focused = person.driver.execute_script(FOCUSED)
        if focused is None or focused[0]:
            break
        assert focused[1], focused[2]
    assert person.driver.execute_script(REACHABLE) == []


def test_the_map_by_pointer_and_by_keys(shown: Shown) -> None:
    person = shown.person
    person.seems()
    shown.opens("map")
    person.types("j", "j")
    assert person.sees(".cursor a").text
    person.types(test_page.Keys.ARROW_DOWN)
    title = person.driver.switch_to.active_element.text
    canvas = person.all("canvas")[0]
    person.driver.execute_script("document.activeElement.blur()")
    test_page.webdriver.ActionChains(person.driver).move_to_element(
        canvas
    ).click().perform()  # what had the focus is in the middle
    assert person.sees("#card h2").text == title
    person.sees("#card a", "What is around it").click()
    person.at("/map?near=")
    assert person.sees(".same a").text == title
    person.types(*"gm")
    person.at("/map")
    person.sees(".same .faint", "most connected")
    wait_until(person.all(".days input")[0].is_displayed, "the slider is there", 30)
    slider = person.all(".days input")[0]
    slider.send_keys(*[test_page.Keys.ARROW_LEFT] * 3)
    person.at("/map?until=")
    before = len(person.all(".same li"))
    person.sees(".chips a", "The whole map").click()
    wait_until(lambda: len(person.all(".same li")) >= before, "all are there again", 30)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 640, 390])
def test_every_view_is_quiet_and_fits(shown: Shown, dark: bool, width: int) -> None:
    """No console message, no request to elsewhere, no sideways scroll (640: a zoom of 200 %), with a hostile memory too."""
    hostile = (
        "<script>alert(1)</script><img src=https://evil.example/x onerror=alert(2)> ![p](https://evil.example/p.png) "
        + "w" * 900
    )
    person = shown.person
    nodes = [kept(person, hostile, title=title, tags=["x" * 60]) for title in ("<b>" + "t" * 290, "\u202egnp.exe \u05e9\u05dc\u05d5\u05dd" + "r" * 280)]  # fmt: skip
    person.house.call("agent.connect", source_id=nodes[0], target_id=nodes[1])
    op = person.house.git("rev-parse", "HEAD").strip()
    person.seems(dark=dark, width=width)
    person.console()
    person.asked()
    for names in ({}, {"node": nodes[0], "other": nodes[1], "op": op[:12]}):
        for view, address in VIEWS.items():
            if view in {"forgotten", "error"} or (names and "{" not in address):
                continue  # the browser itself writes a status of 404 to the console
            Shown(person, shown.names | names).opens(view)
            wide, inner = person.driver.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
            assert wide <= inner, (address, wide)
    assert person.console() == []
    asked = person.asked()
    assert asked
    assert {one for one in asked if not one.startswith((person.base + "/", "data:"))} == set()
    for node in nodes:
        person.house.call("agent.forget", node_id=node)
