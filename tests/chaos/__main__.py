"""The command of the harness: `python -m tests.chaos --seconds 1800 --seed 1`. It exits with 1 if a promise was broken.

A failing run prints its seed, the faults and the broken promises, and keeps its files. With `--at-least N` a run with
fewer faults fails, too; those that found nothing to do are not counted. With `--expect RULE` it exits with 0 only if
the checker found that rule broken, so that a harness that crashes cannot pass for one that notices.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import sys
import tempfile
from pathlib import Path

import uvloop

from tests.chaos.mutated import mutated_source
from tests.chaos.report import report
from tests.chaos.run import Settings, run_chaos


def main() -> int:
    """Run the harness as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long faults are injected")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="of faults and clients")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--lease", type=float, default=2.0, help="seconds of a lease")
    parser.add_argument("--at-least", type=int, default=0, help="fail with fewer faults, after five times --seconds")
    parser.add_argument("--faults", type=int, default=10_000, help="the most faults")
    parser.add_argument("--pauses", type=float, nargs=2, default=(0.5, 3.0), help="seconds between two faults")
    parser.add_argument("--kinds", nargs="*", default=(), help="only these kinds of faults")
    parser.add_argument("--store", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument("--hints", choices=("nats", "postgres", "none"), default="nats")
    parser.add_argument("--patience", type=float, default=100.0, help="seconds after which a client gives up")
    parser.add_argument("--mutate", metavar="NAME", help="a mistake of scripts/mutations.toml for the replicas")
    parser.add_argument("--expect", metavar="RULE", help="succeed only if the checker finds this rule broken")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    folder = Path(tempfile.mkdtemp(prefix="parley-chaos-"))
    settings = Settings(
        seconds=arguments.seconds,
        seed=arguments.seed,
        clients=arguments.clients,
        lease_seconds=arguments.lease,
        least_faults=arguments.at_least,
        most_faults=arguments.faults,
        pauses=tuple(arguments.pauses),
        kinds=tuple(arguments.kinds),
        store=arguments.store,
        hints=arguments.hints,
        patience=arguments.patience,
    )
    with mutated_source(arguments.mutate) as source:
        outcome = uvloop.run(run_chaos(settings, folder, source=source))
    print(report(outcome))
    if arguments.expect is not None:
        is_found = any(violation.rule == arguments.expect for violation in outcome.violations)
        print(f"Broken as expected: {is_found} ({arguments.expect})")
        shutil.rmtree(folder)
        return 0 if is_found else 1
    if outcome.violations:
        print(f"The files of the run are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
