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
    def opened_twice() -> None:
        first = reach.order(place, "web", {}, start=False)
        again = reach.order(place, "web", {}, start=False)
        assert again["port"] == first["port"]
        assert again["link"] != first["link"]

    during(place, lambda _: None, rest=REST, first=opened_twice)  # ends by itself


def test_the_routes_stay_open_where_it_is_wished(place: Path) -> None:
    ports = []

    def opened() -> None:
        ports.extend(reach.order(place, "web", {"stay": True}, start=False)["port"] for _ in range(2))

    def act(_: Gateway) -> None:
        until = time.monotonic() + 3 * REST
        while time.monotonic() < until:
            time.sleep(REST)  # nothing is asked meanwhile
        ports.append(reach.order(place, "status", {}, start=False)["port"])
        reach.stop(place)

    during(place, act, rest=REST, first=opened)
    assert len(ports) == 3
    assert len(set(ports)) == 1
