"""What a call costs its caller: Parley's client and a2a-sdk's, in turn, against the same server (Parley, in memory).

python bench/client.py [--quick]

Writes CLIENT.md, unless it is quick.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
from collections import defaultdict
from statistics import median

from contenders import HERE, OURS, SDK, Server

GOAL = 3.0
BINDINGS = ("JSONRPC", "HTTP+JSON")
CLIENTS = {"parley": (OURS, "with_parley.py"), "a2a-sdk": (SDK, "with_a2a_sdk.py")}

HEAD = """# The client

Written by `make bench`; [README.md](README.md) says how each figure is taken. Python {python}, {cores} cores.

| binding | client | sends a second | µs each | chunks a second | µs each |
| --- | --- | ---: | ---: | ---: | ---: |
"""


def measure(client: str, binding: str, *, seconds: float) -> dict[str, float]:
    contender, script = CLIENTS[client]
    with Server(OURS) as server:
        where = ["--url", f"http://127.0.0.1:{server.port}", "--binding", binding]
        command = [contender.python, str(HERE / "clients" / script), *where, "--seconds", str(seconds)]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def summed_up(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The best of the rates, and the median of what each took of the processor, in µs."""
    rates = {key: max(row[key] for row in rounds) for key in ("sends", "chunks")}
    return rates | {key: median(row[key] for row in rounds) * 1e6 for key in ("send_cpu", "chunk_cpu")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round")
    quick = parser.parse_args().quick
    rounds, seconds = (1, 1.0) if quick else (5, 2.0)
    taken: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    for number in range(rounds):
        for binding in BINDINGS:
            for client in CLIENTS:
                print(f"client, round {number + 1} of {rounds}: {client}, {binding}", flush=True)
                taken[binding, client].append(measure(client, binding, seconds=seconds))
    figures = {key: summed_up(rows) for key, rows in taken.items()}
    page = HEAD.format(python=platform.python_version(), cores=os.cpu_count())
    for (binding, client), row in figures.items():
        sends, chunks = (
            f"{row['sends']:,.0f} | {row['send_cpu']:,.0f}",
            f"{row['chunks']:,.0f} | {row['chunk_cpu']:,.0f}",
        )
        page += f"| {binding} | {client} | {sends} | {chunks} |\n"
    page += "\n| binding | work | against a2a-sdk's client | goal |  |\n| --- | --- | ---: | ---: | --- |\n"
    for binding in BINDINGS:
        for work in ("sends", "chunks"):
            ratio = figures[binding, "parley"][work] / figures[binding, "a2a-sdk"][work]
            verdict = "met" if ratio >= GOAL else f"missed by {1 - ratio / GOAL:.0%}"
            page += f"| {binding} | {work} | {ratio:.2f} × | ≥ {GOAL:g} × | {verdict} |\n"
    print(f"\n{page}")
    if not quick:
        (HERE / "CLIENT.md").write_text(page)


if __name__ == "__main__":
    main()
