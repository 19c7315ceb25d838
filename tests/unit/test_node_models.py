"""The models of a memory and of requests for it, whose checks are made when they are first needed."""

from __future__ import annotations

import subprocess
import sys

from ormahd.model.node import CheckedModel, Narrowing, build

FIRST = """
import sys, threading
from ormahd.model import node

sys.setswitchinterval(1e-6)
together, errors = threading.Barrier(8), []

def use():
    together.wait()
    try:
        assert node.SearchQuery(query="tea").query == "tea"
        assert node.LinkRequest(target="{id}").weight == 0.5
    except BaseException as exc:
        errors.append(exc)

threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(str(errors) if errors else 0)
"""


def test_several_threads_may_be_the_first_to_use_a_model() -> None:
    code = FIRST.format(id="97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1")
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_checks_of_all_models_can_be_made_at_once() -> None:
    build()
    waiting = CheckedModel.__subclasses__()
    assert Narrowing in waiting
    while waiting:
        model = waiting.pop()
        assert model.__pydantic_complete__, model
        waiting += model.__subclasses__()
