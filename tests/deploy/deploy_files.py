"""The files of deploy/, and the tools that check them, which `make deployment` installs into .peers/deploy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.peer_environments import python_of

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted(path for path in (DEPLOY / "kubernetes").glob("*.yaml") if path.name != "kustomization.yaml")
SECONDS = 60.0

READ = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))"


def tool(name: str) -> Path:
    """A program of the environment of these tools."""
    return python_of("deploy").with_name(name)


def run(*command: str | Path, env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> str:
    """The output of a command that must succeed; `env` is added to this process's."""
    done = subprocess.run(
        command,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@cache
def documents(path: Path) -> list[Any]:
    """The documents of a YAML file; anchors are resolved."""
    return json.loads(run(python_of("deploy"), "-c", READ, path))


def manifest(kind: str, name: str = "parley") -> dict[str, Any]:
    """The manifest of one object of Kubernetes."""
    every = [document for path in MANIFESTS for document in documents(path)]
    (found,) = [each for each in every if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def shown_config(variables: Mapping[str, str], *arguments: str, cwd: Path) -> dict[str, str]:
    """Which settings `parley` takes from these variables and this command line: each one's value, by its source.

    Variables that are not settings of `parley serve`, such as PGPASSWORD, are left out.
    """
    settings = {name: value for name, value in variables.items() if name.startswith("PARLEY_")}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")}
    done = subprocess.run(
        [sys.executable, "-m", "parley.cli.main", *arguments, "--show-config"],
        env={**clean, **settings},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = [line.rpartition("  # ") for line in done.stdout.splitlines() if "  # " in line]
    taken = {source: setting.partition(" = ")[2].strip('"') for setting, _, source in lines}
    missing = set(settings) - {source.split(",")[0] for source in taken}
    assert missing == set(), f"{missing} are no settings: {done.stdout}"
    return taken
