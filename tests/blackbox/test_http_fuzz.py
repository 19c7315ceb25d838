"""Requests that schemathesis makes of the description: none is a fault, and every answer is as described."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from ormahctl.gateway.table import ROUTES
from tests.examples import examples
from tests.web import Web, web_house

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
SLOW = {(one.verb, one.path) for one in ROUTES if one.slow} | {
    ("POST", "/ingest/conversation"),
    ("POST", "/ingest/file"),
}


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with web_house() as found:
        for at in range(5):
            found.ask("POST", "/agent/remember", {"content": f"Memory {at} about tides", "title": f"Tide {at}"})
        yield found


@pytest.mark.hypothesis
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["as described", "otherwise"])
def test_no_request_is_a_fault(web: Web, mode: GenerationMode) -> None:
    schema: Any = schemathesis.openapi.from_dict(web.ask("GET", "/openapi.json"))
    schema.config.update(base_url=web.url)
    asked: Counter[str] = Counter()
    for found in schema.get_all_operations():
        operation = found.ok()
        quick = (operation.method.upper(), operation.path) not in SLOW

        @settings(max_examples=examples(3 if quick else 1), suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            asked[case.operation.label] += 1
            case.call_and_validate(headers={"Authorization": f"Bearer {web.token}"}, checks=CHECKS, timeout=120)

        ask()
    assert len(asked) >= len(ROUTES)
    assert web.ask("GET", "/admin/health")["status"] == "ok"
