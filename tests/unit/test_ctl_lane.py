"""Calls beside each other: one that nobody knows of is not made, and one that has not begun can be taken back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from ormahctl.session import CallThread, Client
from ormahd import api
from tests.unit.ctl_desk import Desk


@pytest.fixture
def lane(desk: Desk) -> Iterator[CallThread]:
    client = Client.open(desk.socket, agent="person")
    lane = CallThread(client)
    yield lane
    lane.close()
    client.close()


def send(lane: CallThread, line: str, noted: list[Future[api.ImportResult]]) -> None:
    params = api.ImportParams(lines=[line])
    lane.call("admin.import", params, api.ImportResult, timeout=120, note=noted.append)


def test_interrupted_before_it_was_noted_it_is_not_made(desk: Desk, lane: CallThread) -> None:
    desk.answers["admin.import"] = api.ImportResult(added=1, skipped=0, failed=[], run="r1")

    def interrupted(_: Future[api.ImportResult]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lane.call("admin.import", api.ImportParams(lines=["1"]), api.ImportResult, timeout=120, note=interrupted)
    noted: list[Future[api.ImportResult]] = []
    send(lane, "2", noted)
    assert noted[0].result(30).added == 1
    assert [params.lines for params in desk.params("admin.import")] == [["2"]]


def test_one_that_has_not_begun_can_be_taken_back(desk: Desk, lane: CallThread) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def take(params: api.ImportParams) -> api.ImportResult:
        arrived.set()
        go_on.wait(120)
        return api.ImportResult(added=len(params.lines), skipped=0, failed=[], run="r1")

    desk.answers["admin.import"] = take
    noted: list[Future[api.ImportResult]] = []
    for line in ("1", "2", "3"):
        send(lane, line, noted)
    assert arrived.wait(120)
    assert not noted[0].cancel()
    assert noted[1].cancel()
    go_on.set()
    assert noted[2].result(30).added == 1
    assert [params.lines for params in desk.params("admin.import")] == [["1"], ["3"]]
