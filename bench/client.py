"""What a call costs its caller: Parley's client and a2a-sdk's, in turn, against the same server (Parley, in memory).

python bench/client.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import subprocess
from statistics import median

from contenders import HERE, OURS, SDK, Server

GOAL = 3.0


def measure(python: str, script: str, server: Server, *, seconds: float) -> dict[str, float]:
    command = [python, str(HERE / "clients" / script), "--url", f"http://127.0.0.1:{server.port}"]
    done = subprocess.run([*command, "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round")
    quick = parser.parse_args().quick
    rounds, seconds = (1, 1.0) if quick else (5, 3.0)
    figures: dict[str, list[dict[str, float]]] = {"parley": [], "a2a-sdk": []}
    for number in range(rounds):
        for name, contender, script in (("parley", OURS, "with_parley.py"), ("a2a-sdk", SDK, "with_a2a_sdk.py")):
            print(f"client, round {number + 1} of {rounds}: {name}", flush=True)
            with Server(OURS) as server:
                figures[name].append(measure(contender.python, script, server, seconds=seconds))
    print("\nThe client, against the same server\n")
    print(f"  {'':8} {'sends/s':>9} {'µs each':>9} {'chunks/s':>10} {'µs each':>9}")
    best: dict[str, dict[str, float]] = {}
    for name, rows in figures.items():
        best[name] = {key: max(row[key] for row in rows) for key in ("sends", "chunks")}
        best[name] |= {key: median(row[key] for row in rows) * 1e6 for key in ("send_cpu", "chunk_cpu")}
        row = best[name]
        print(
            f"  {name:8} {row['sends']:9,.0f} {row['send_cpu']:9,.0f} {row['chunks']:10,.0f} {row['chunk_cpu']:9,.0f}"
        )
    for key in ("sends", "chunks"):
        ratio = best["parley"][key] / best["a2a-sdk"][key]
        print(f"  {key}: {ratio:.2f} × a2a-sdk's client (goal ≥ {GOAL:g} ×): {'met' if ratio >= GOAL else 'missed'}")


if __name__ == "__main__":
    main()
