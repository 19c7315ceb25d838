"""How long the routes stay open: with the gateway, which rests, or until it is told to stop."""

from __future__ import annotations

import time
from pathlib import Path

from ormahctl.gateway import reach
from ormahctl.gateway.host import Gateway
from tests.contract.test_gateway import during, place

__all__ = ["place"]

REST = 1.0


def test_the_routes_are_closed_after_a_rest(place: Path) -> None:
    def act(_: Gateway) -> None:
        first = reach.order(place, "web", {}, start=False)
        again = reach.order(place, "web", {}, start=False)
        assert again["port"] == first["port"]
        assert again["link"] != first["link"]

    during(place, act, rest=REST)  # ends by itself


def test_the_routes_stay_open_where_it_is_wished(place: Path) -> None:
    def act(_: Gateway) -> None:
        port = reach.order(place, "web", {"stay": True}, start=False)["port"]
        reach.order(place, "web", {"stay": True}, start=False)
        until = time.monotonic() + 3 * REST
        while time.monotonic() < until:
            time.sleep(REST)  # nothing is asked meanwhile
        status = reach.order(place, "status", {}, start=False)
        assert status["port"] == port
        reach.stop(place)

    during(place, act, rest=REST)
