"""For all tests: directories of their own, the model, loaded once, how many random examples they try, and a terminal's signals, whoever started us."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.forked import BEFORE_NUMPY

os.environ |= BEFORE_NUMPY
# isort: split

from ormahd.embedding.embedder import Embedder
from tests import models, scratch
from tests.surroundings import surroundings

scratch.in_memory()

# Nothing here depends on the machine's speed: no deadline, no complaint about slow data. Each run of the suite tries the same
# examples, so that it gives the same verdict twice; `--hypothesis-profile soak` tries others, and many more of them (tests/examples.py).
# What it finds is mended, and becomes an `@example` of its test.
settings.register_profile(
    "suite",
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),  # to shrink what fails may take minutes: make soak does
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "soak",
    settings.get_profile("suite"),
    max_examples=2_500,
    derandomize=False,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    print_blob=True,
)
settings.load_profile("suite")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Every worker imports all tests and keeps them to its end: no garbage collection goes through them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def directories_of_our_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An Ormah that is opened in this process leaves nothing in the folders of the person who runs the tests."""
    ours = surroundings(tmp_path_factory.mktemp("home"))
    with mock.patch.dict(os.environ, {name: value for name, value in ours.items() if name.startswith("XDG_")}):
        yield


@pytest.fixture(scope="session", autouse=True)
def made_of_models(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where all workers keep what the first load of the default model makes."""
    base = tmp_path_factory.getbasetemp()
    models.kept = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "made-of-models"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    """The default model, as the daemon loads it; one for all tests of a worker."""
    from ormahd.embedding import model as choose
    from ormahd.settings import EmbeddingSettings

    directory = tmp_path_factory.mktemp("model") / "models"
    with models.made_once(directory):
        return choose.load(EmbeddingSettings(), directory)


# A shell without job control starts what it puts in the background with SIGINT ignored, and every process that a test
# starts would inherit that: `ormahctl logs --follow` could then not be interrupted. A handler of ours is not inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
