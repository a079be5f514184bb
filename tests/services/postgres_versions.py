"""Runs the tests of the store in PostgreSQL against every release of PostgreSQL that it supports.

`make postgres-versions` installs the releases from npm into `.peers/postgres` and runs this.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = ROOT / ".peers" / "postgres" / "node_modules"
TESTS = sorted((ROOT / "tests" / "stores").glob("test_postgres*.py"))


def copy_programs(package: Path, target: Path) -> Path:
    """Copy the programs of a release to where every user can run them, as npm's own script would lay them out."""
    shutil.copytree(package / "native", target)
    for link in json.loads((target / "pg-symlinks.json").read_text("utf-8")):
        source = target / Path(link["source"]).relative_to("native")
        place = target / Path(link["target"]).relative_to("native")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(source, place.parent))
    for program in (target / "bin").iterdir():
        program.chmod(0o755)
    return target / "bin"


def main() -> int:
    """Run the tests with each release; 1 if some fail."""
    failed: list[str] = []
    for package in sorted(ENVIRONMENT.glob("postgres-*")):
        with tempfile.TemporaryDirectory(prefix="parley-postgres-programs-") as folder:
            os.chmod(folder, 0o755)
            programs = copy_programs(package, Path(folder) / "native")
            version = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True)
            print(version.stdout.strip(), flush=True)
            environment = {**os.environ, "PARLEY_POSTGRES": str(programs)}
            command = [sys.executable, "-m", "pytest", "-q", "-n", "2", *map(str, TESTS)]
            if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
                failed.append(package.name)
    print(f"Failed: {', '.join(failed)}" if failed else "All releases passed.")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
