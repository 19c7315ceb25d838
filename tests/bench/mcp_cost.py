"""What a session of MCP costs an agent: time to the first answer, memory and processor of a pump and of the gateway.

    python -m tests.bench mcp [--sessions 50] [--starts 7]

`from nothing`: no gateway runs; most of that time is the import of the SDK, and its share of the processor says what a machine
at rest would take.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

from ormahctl.gateway import reach
from tests.blackbox.talking import SCRIPT
from tests.house import House, open_house, wait_until

HELLO = {
    "jsonrpc": "2.0", "id": 0, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}  # fmt: skip


def begin(house: House) -> tuple[subprocess.Popen[bytes], float]:
    """A session whose first answer has come, and the milliseconds that it took."""
    env = {name: value for name, value in house.env.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begun = time.monotonic()
    pump = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, "mcp"], env=env, cwd=house.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert pump.stdin
    assert pump.stdout
    pump.stdin.write(json.dumps(HELLO).encode() + b"\n")
    pump.stdin.flush()
    assert b"serverInfo" in pump.stdout.readline()
    return pump, (time.monotonic() - begun) * 1000


def end(pump: subprocess.Popen[bytes]) -> None:
    pump.communicate(timeout=60)


def cost(pid: int) -> str:
    """Resident and proportional memory, and seconds of the processor."""
    rss = re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0]
    pss = re.findall(r"Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text())[0]
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return f"{int(rss) / 1024:.1f} MB resident, {int(pss) / 1024:.1f} MB proportional, {seconds:.2f} s of the processor"


def gateway(house: House) -> int:
    return int(str((reach.status(house.socket) or {})["pid"]))


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--starts", type=int, default=7)
    chosen = parser.parse_args(words)
    with open_house() as house:
        house.start()
        cold = []
        for _ in range(chosen.starts):
            reach.stop(house.socket)
            wait_until(lambda: reach.status(house.socket) is None, "no gateway runs")
            pump, took = begin(house)
            cold.append(took)
            last = cost(gateway(house))
            end(pump)
        print(f"from nothing: {min(cold):.0f} to {max(cold):.0f} ms; the gateway then: {last}")
        pumps, warm = zip(*(begin(house) for _ in range(chosen.sessions)), strict=True)
        print(f"with a gateway: median {statistics.median(warm):.0f}, most {max(warm):.0f} ms")
        print(f"a pump: {cost(pumps[0].pid)}")
        print(f"the gateway with {chosen.sessions} sessions: {cost(gateway(house))}")
        for pump in pumps:
            end(pump)
        print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
