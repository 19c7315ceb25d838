"""For the crash tests: git that knows one person and nothing of the machine."""

from tests.vault import conftest

git_config = conftest.git_config
