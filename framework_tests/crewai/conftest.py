"""CrewAI sends nothing and keeps its files in a temporary folder. It reads these variables when it is imported.

Served processes inherit them, and import the samples as the tests do.
"""

import os
import tempfile
from pathlib import Path

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
os.environ["CREWAI_TRACING_ENABLED"] = "false"
os.environ["HOME"] = os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="parley-crewai-")
os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
