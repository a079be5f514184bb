"""Processes that a test starts find the modules of these samples. The page shows the current major version only."""

import os
from importlib.metadata import version
from pathlib import Path

os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])

collect_ignore = ["test_page.py"] if version("a2a-sdk").startswith("0.") else []
