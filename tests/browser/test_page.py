"""The page in a real browser, driven as a person drives it: `make page-test`. Skipped where no Chromium is installed.

What a person does ends with a look into git or at the daemon, not at the page.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ormahctl.gateway import reach
from tests.blackbox.two_houses import in_conflict
from tests.house import House, open_house, wait_until
from tests.web import open_web

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: make install")
from selenium.common.exceptions import StaleElementReferenceException  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no Chromium: apt-get install chromium chromium-driver"),
]
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
)


class Person:
    """A person at the browser: keys and looks."""

    def __init__(self, house: House) -> None:
        self.house = house
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in FLAGS.split():
            options.add_argument(flag)
        options.add_argument(f"--user-data-dir={tempfile.mkdtemp(dir=house.home)}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        self.driver.get(open_web(house).link)
        self.base = "/".join(self.driver.current_url.split("/")[:3])
        self.sees("#rail")
        self.seems()

    def seems(self, *, dark: bool = False, width: int = 1280) -> None:
        """Let the browser have this theme and width from now on."""
        command = self.driver.execute_cdp_cmd
        command(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        command("Emulation.setEmulatedMedia", {"features": [theme]})

    def all(self, selector: str) -> list[Any]:
        return list(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def sees(self, selector: str, text: str = "") -> Any:
        """The first element of this kind that has the text; waits for it."""

        def found() -> Any:
            try:
                return next((one for one in self.all(selector) if text in one.text), None)
            except StaleElementReferenceException:
                return None  # it was changed while it was looked at

        return wait_until(
            found,
            lambda: f"{selector} with {text!r} at {self.driver.current_url}: {self.all('main')[0].text[:800]}",
            60,
        )

    def at(self, path: str) -> None:
        """Wait until the address begins with a path."""
        wait_until(
            lambda: self.driver.current_url.startswith(self.base + path),
            lambda: f"{path}, not {self.driver.current_url}",
            30,
        )

    def opens(self, path: str) -> None:
        self.driver.get(self.base + path)

    def types(self, *keys: str) -> None:
        for key in keys:  # to whatever has the focus: the page may replace an element at any moment
            webdriver.ActionChains(self.driver).send_keys(key).perform()

    def console(self) -> list[str]:
        return [one["message"] for one in self.driver.get_log("browser")]

    def asked(self) -> set[str]:
        """The addresses that the browser asked for since the last call."""
        events = [json.loads(one["message"])["message"] for one in self.driver.get_log("performance")]
        return {one["params"]["request"]["url"] for one in events if one["method"] == "Network.requestWillBeSent"}


@pytest.fixture(scope="module")
def person() -> Iterator[Person]:
    with open_house(ORMAH_LINKING_SIMILARITY="1", ORMAH_JOBS_ENABLED="false") as house:
        house.start()
        person = Person(house)
        yield person
        person.driver.quit()


def kept(person: Person, text: str, **more: object) -> str:
    return str(person.house.call("agent.remember", content=text, **more).node_id)


def last(person: Person) -> str:
    return person.house.git("log", "-1", "--format=%s").strip()


def text_of(person: Person, node: str) -> str:
    return next(data.decode() for path, data in person.house.notes().items() if node[:8] in path)


def test_found_by_keys_and_back(person: Person) -> None:
    node = kept(person, "The lighthouse keeper is called Ada.", title="Lighthouse keeper")
    person.opens("/")
    assert not person.console(), "from the link on"
    person.types("/", *"lighthouse")
    person.sees("mark", "Lighthouse")
    person.at("/search?q=lighthouse")
    person.types(Keys.ESCAPE, "j", Keys.ENTER)
    person.at(f"/m/{node}")
    person.driver.back()
    person.sees("mark", "Lighthouse")
    assert person.all("#find input")[0].get_attribute("value") == "lighthouse"
    person.types("g", "t")
    person.sees("h2", "Today")
    person.types("?")
    assert person.sees("dialog[open]", "undo").is_displayed()
    person.types(Keys.ESCAPE)


def test_edited_and_taken_back_and_the_undo_taken_back(person: Person) -> None:
    node = kept(person, "The port is 8080.", title="Port")
    person.opens(f"/m/{node}")
    person.types("e")
    person.sees("textarea[name=content]").send_keys(Keys.CONTROL + Keys.END + Keys.NULL + " Behind TLS.")
    person.sees("main button", "Save").click()
    person.sees(".text", "Behind TLS.")
    for text in ("The port is 8080.\n", "Behind TLS."):
        person.types("j", "u")
        person.sees("h2", "What undoing it would do")
        person.types("u")
        person.at(f"/m/{node}")
        person.sees("h2", "History")
        assert text in text_of(person, node)
    assert last(person) == "Redo: Update: Port"


def test_an_edit_that_meets_another_keeps_both(person: Person) -> None:
    node = kept(person, "The queue is RabbitMQ.", title="Queue")
    person.opens(f"/m/{node}/edit")
    person.sees("textarea[name=content]").send_keys(Keys.CONTROL + Keys.END + Keys.NULL + " Version 4.")
    person.house.call("agent.update", node_id=node, add_tags=["meanwhile"])
    person.sees("main button", "Save").click()
    person.sees(".problem", "changed while")
    person.sees("textarea[name=content]").send_keys(" More.")
    person.sees("main .button", "Take theirs").click()
    person.driver.switch_to.alert.accept()
    wait_until(
        lambda: person.sees("textarea[name=content]").get_property("value") == "The queue is RabbitMQ.", "theirs", 30
    )
    person.driver.back()
    person.sees("textarea[name=content]").send_keys(Keys.CONTROL + Keys.END + Keys.NULL + " Version 4.")
    person.sees("main button", "Save").click()
    person.sees(".text", "Version 4.")
    assert "meanwhile" in text_of(person, node)
    assert "Version 4." in text_of(person, node)


def test_forgotten_and_brought_back(person: Person) -> None:
    node = kept(person, "We meet on Mondays.", title="Meeting")
    person.opens(f"/m/{node}")
    person.types("x")
    person.sees(".problem", "not there any more")
    assert last(person) == "Forget: Meeting"
    person.types("u")
    person.sees("h2", "What undoing it would do")
    person.types("u")
    person.sees(".text", "We meet on Mondays.")
    assert "We meet on Mondays." in text_of(person, node)


def test_judged_of_no_use_and_silent_from_then_on(person: Person) -> None:
    kept(person, "The boiler is serviced by Kessler every May.", title="Boiler service")
    prompt = "who services the boiler every May?"
    assert person.house.call("agent.whisper", prompt=prompt, session_id="one", space=None).nodes
    person.opens("/")
    person.types("g", "h")
    person.sees(".rows", prompt)
    person.types("j", "-")
    person.sees(".good-news", "not useful")
    assert last(person).startswith("Feedback: ")
    assert person.house.call("agent.whisper", prompt=prompt, session_id="two", space=None).silence == "judged"
    person.sees(".rows a", prompt).click()
    person.sees(".state", "Silent")
    person.sees("summary", "Boiler service").click()
    person.sees(".bars", "told from")


@pytest.mark.parametrize(("key", "what", "days"), [("r", "Cars", 90), ("n", "Trains", 3), ("b", "Boats", 90)])
def test_a_proposal_is_decided_by_a_key(person: Person, key: str, what: str, days: int) -> None:
    proposed(person, what, days)
    person.opens("/waiting")
    person.sees(".item h2", "contradict" if days == 3 else "replace")
    person.types("j", key)
    person.sees("main", "Nothing waits for you")
    person.opens("/waiting?status=all")
    person.sees(".rows", what)


def proposed(person: Person, what: str, before: float = 90) -> None:
    for content, days in ((f"{what} happen on Fridays.", before + 0.1), (f"{what} happen on Tuesdays.", 3)):
        made = (datetime.now(UTC) - timedelta(days=days)).isoformat()
        line = {"content": content, "title": f"{what} day", "created": made}
        person.house.call("admin.import", lines=[json.dumps(line)])
    person.house.call("admin.run_task", name="conflict_detector")


def test_a_proposal_is_approved_and_found_again(person: Person) -> None:
    proposed(person, "Deploys")
    person.opens("/")
    person.sees(".needs a", "Fridays").click()
    person.sees(".item", "Fridays")
    person.types("j", "a")
    person.sees("main", "Nothing waits for you")
    assert last(person).startswith("Superseded: Deploys happen on Fridays")
    person.sees(".tabs a", "Decided").click()
    person.sees(".rows .act", "Undo").click()
    person.sees("h2", "What undoing it would do")
    person.types("u")
    wait_until(lambda: last(person).startswith("Undo: "), "the decision is taken back", 30)


def test_a_rejected_proposal_is_found_again(person: Person) -> None:
    for content, days in (("Lunch happens on Mondays.", 90), ("Lunch happens on Thursdays.", 3)):
        made = (datetime.now(UTC) - timedelta(days=days)).isoformat()
        person.house.call(
            "admin.import", lines=[json.dumps({"content": content, "title": "Lunch day", "created": made})]
        )
    person.house.call("admin.run_task", name="conflict_detector")
    person.opens("/waiting")
    person.sees(".item", "Mondays").find_element(By.CSS_SELECTOR, "button[value=rejected]").click()
    wait_until(
        lambda: "rejected" in person.house.git("log", "-1", "-p", "--", ".ormah/decisions"), "it is rejected", 30
    )
    person.sees(".tabs a", "Decided").click()
    person.sees(".rows .what", "Mondays")
    person.house.call("admin.run_task", name="conflict_detector")
    assert not [one for one in person.house.call("agent.proposals").proposals if "Mondays" in one.proposed_action]


def test_a_run_is_undone_from_the_changes(person: Person) -> None:
    lines = [json.dumps({"content": f"The buoy {n} is green.", "title": f"Buoy {n}"}) for n in range(3)]
    person.house.call("admin.import", lines=lines)
    person.opens("/")
    person.types("g", "c")
    person.sees("h1", "Changes")
    person.types("j", Keys.ENTER)
    person.sees(".opened h2", "Buoy 2")
    person.sees(".row a.meta", "its run").click()
    person.sees("h1", "Changes of one run")
    head = person.house.git("rev-parse", "HEAD")
    person.types("u")
    person.sees("h2", "What it would do")
    assert person.house.git("rev-parse", "HEAD") == head
    person.types("u")
    person.sees(".good-news", "1 change undone")
    assert last(person) == "Undo: Import 3 memories"
    assert not [path for path in person.house.notes() if "buoy" in path]


def test_a_purge_and_a_job_are_shown_before_they_act(person: Person) -> None:
    node = kept(person, "The safe opens with 4711.", title="Safe")
    head = person.house.git("rev-parse", "HEAD")
    person.types("g", "e")
    person.sees(".rows a", "Dry run").click()
    person.sees("h1", "would do now")
    person.opens(f"/m/{node}")
    person.sees("aside a", "Remove it from the history too").click()
    person.sees("h1", "Purge “Safe”?")
    person.sees("main button", "Purge it").click()  # the box is not ticked
    assert person.house.git("rev-parse", "HEAD") == head
    person.sees("input[name=sure]").click()
    person.sees("main button", "Purge it").click()
    person.sees("h1", "Purged")
    assert "opens with 4711" not in person.house.git("log", "-p", "--all")


def test_a_session_stands_beside_its_memories(person: Person) -> None:
    person.house.call(
        "ingest.conversation",
        content="User: From now on we release only on Sundays, never on Saturdays.\nAssistant: I will keep to that.\n",
    )
    node = next(one.id for one in person.house.call("agent.list").memories if "Sundays" in one.content)
    person.opens("/")
    person.types("g", "l")
    person.sees(".rows a.what", "Sundays").click()
    assert person.sees(".turns .person .beside a").get_attribute("href").endswith(node)
    person.sees(".turns .beside a").click()
    person.at(f"/m/{node}")
    person.sees("aside a", "a session").click()
    person.sees(".turns .chosen", "Sundays")
    assert node in person.house.git("log", "--format=%B", "--grep", "Ormah-Kind: ingest")


def test_a_conflict_of_a_sync_is_settled() -> None:
    with in_conflict("3", ORMAH_JOBS_ENABLED="false") as house:
        person = Person(house)
        try:
            person.sees(".needs a", "").click()
            person.sees(".pair", "The code is 3.")
            person.types("j", "a")
            person.sees("main", "Nothing waits for you")
            assert not list((house.vault / ".ormah" / "conflicts").glob("*/*"))
            assert house.git("status", "--porcelain") == ""
        finally:
            person.driver.quit()


def test_every_key_of_the_table_works(person: Person) -> None:
    """What no other test presses."""
    node = kept(person, "The ferry leaves at nine.", title="Ferry")
    person.house.call("agent.update", node_id=node, content="The ferry leaves at ten.")
    kept(person, "The ferry is red.", title="Colour of the ferry")
    for keys, path in (("s", "/search"), ("w", "/waiting"), ("h", "/whispers"), ("t", "/")):
        person.types("g", keys)
        person.at(path)
    person.driver.switch_to.active_element.send_keys(Keys.CONTROL + "k" + Keys.NULL)
    person.types(*"ferry", Keys.ESCAPE)
    person.sees("mark", "ferry")
    person.types("j", "j")
    second = person.sees(".cursor")
    person.types("k")
    assert person.sees(".cursor") != second
    person.opens(f"/m/{node}")
    person.sees("h1", "Ferry")
    person.types("[")
    person.sees(".diff", "ten")
    person.types("[")
    person.sees("li.open", "remembered")
    person.types("]")
    person.sees("li.open", "changed")
    person.types("o")
    person.at(f"/m/{node}/outdated")
    person.sees("legend", "What holds instead")
    person.types(Keys.ESCAPE, Keys.ESCAPE)
    person.sees("h2", "History")
    person.types("t")
    person.sees("dialog[open] button", "Core").click()
    person.sees(".facts", "core")
    assert "tier: core" in text_of(person, node)
    prompt = "when does the ferry leave?"
    assert person.house.call("agent.whisper", prompt=prompt, session_id="keys", space=None).nodes
    person.opens("/whispers")
    person.sees(".rows", prompt)
    person.types("j", "+")
    person.sees(".good-news", "useful")


MARKED = """
window.marked = [];
const note = (all) => all.forEach(({target}) => target.matches(".fresh") && marked.push(target.textContent));
new MutationObserver(note).observe(document.body, {subtree: true, attributes: true, attributeFilter: ["class"]});
"""


@pytest.mark.parametrize("path", ["/", "/search", "/search?q=harbour", "/changes", "/m/{old}"])
def test_what_a_command_stores_comes_by_itself(person: Person, path: str) -> None:
    """The words of a half-typed form, the focus and the cursor stay. What comes is marked and announced."""
    person.seems()
    old = kept(person, f"The harbour at {path} freezes in winter.", title="Harbour")
    person.opens(path.format(old=old))
    row = person.sees("main a, main h1", "Harbour")
    if path == "/":
        person.sees("summary", "Remember").click()
        person.sees("#new textarea").send_keys("Half a sen")
    person.types(Keys.TAB if path == "/" else "j")
    focus = person.driver.switch_to.active_element
    person.driver.execute_script(MARKED)
    more = ("--title", "Thaw", "--link", f"related_to:{old}")
    done = person.house.json("remember", f"The harbour at {path} thaws in May.", *more)
    person.sees("main a", "Thaw")
    assert focus == person.driver.switch_to.active_element
    assert row.is_displayed()
    if path == "/":
        assert person.sees("#new textarea").get_attribute("value") == "Half a sen"
    if not path.startswith("/m/"):
        wait_until(lambda: "Thaw" in str(person.driver.execute_script("return marked")), "it was marked", 30)
        assert "Thaw" in person.all("#news")[0].get_attribute("textContent")
        person.sees("li:not(.fresh)", "Thaw")
    if path.startswith("/search"):
        assert "Harbour" in person.all(".cursor")[0].text
    for node in (old, done["id"]):
        person.house.call("agent.forget", node_id=node)


def test_what_is_typed_is_not_left_by_mistake_and_back_finds_the_place(person: Person) -> None:
    node = kept(person, "The quay is swept on Mondays.", title="Quay")
    for number in range(40):
        kept(person, f"Berth {number} is {number} metres long.", title=f"Berth {number}")
    person.seems()
    person.opens(f"/m/{node}/edit")
    field = person.all("textarea[name=content]")[0]
    field.send_keys(" And on Fridays.")
    person.all("#rail a[href='/search']")[0].click()
    person.driver.switch_to.alert.dismiss()
    assert person.all("textarea[name=content]")[0].get_attribute("value").endswith("on Fridays.")
    person.all("#rail a[href='/search']")[0].click()
    person.driver.switch_to.alert.accept()
    person.at("/search")
    person.sees("li", "Quay")
    far = wait_until(lambda: person.driver.execute_script("scrollTo(0, 200); return scrollY"), "the list is long")
    person.driver.execute_script("arguments[0].click()", person.sees("main a", "Quay"))  # selenium's own scrolls to it
    person.at(f"/m/{node}")
    person.driver.back()
    person.sees("li", "Quay")
    wait_until(lambda: person.driver.execute_script("return scrollY") == far, "it is where it was", 30)


def test_a_page_that_is_not_live_says_so_and_mends_itself(person: Person) -> None:
    """The daemon is restarted, which nobody has to know; the gateway stands still, as while a laptop sleeps."""
    node = kept(person, "The kiln is fired on Sundays.", title="Kiln")
    person.opens(f"/m/{node}")
    person.sees("h1", "Kiln")
    person.house.restart()
    person.house.call("agent.update", node_id=node, title="The old kiln")
    person.sees("h1", "The old kiln")
    assert person.all("#live")[0].text == ""
    gateway = int(str((reach.status(person.house.socket) or {})["pid"]))
    os.kill(gateway, signal.SIGSTOP)
    person.house.call("agent.update", node_id=node, title="The new kiln")
    assert person.sees("#live.lost", "Not live since").is_displayed()
    os.kill(gateway, signal.SIGCONT)
    person.sees("h1", "The new kiln")
    wait_until(lambda: person.all("#live")[0].text == "", "it is live again", 30)


def test_a_gateway_that_went_is_said(person: Person) -> None:
    person.seems()
    person.opens("/")
    reach.stop(person.house.socket)
    assert person.sees("#live.lost", "Run: ormahctl web").is_displayed()
