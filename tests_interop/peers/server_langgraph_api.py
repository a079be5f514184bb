"""A graph with a scripted node, served by the LangGraph server as `langgraph dev` starts it: all in memory."""

import json
import os
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from scripted import listening

FOLDER = Path(__file__).parent


def announce(url, output):
    """Print where the agent is, as soon as the server knows it. The server gives every graph an id of its own."""
    search = urllib.request.Request(
        f"{url}/assistants/search", b'{"graph_id": "scenario"}', {"content-type": "application/json"}
    )
    while True:
        try:
            with urllib.request.urlopen(search, timeout=5) as reply:
                [assistant] = json.load(reply)
        except (OSError, ValueError):
            time.sleep(0.1)
        else:
            print(json.dumps({"url": f"{url}/a2a/{assistant['assistant_id']}"}), file=output, flush=True)
            return


if __name__ == "__main__":
    door, url = listening()
    port = door.getsockname()[1]
    door.close()
    os.environ["LANGSMITH_TRACING"] = "false"
    os.environ["LANGGRAPH_CLI_NO_ANALYTICS"] = "1"
    sys.path.insert(0, str(FOLDER))
    os.chdir(tempfile.mkdtemp())  # where it keeps files of its own
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the server logs to standard output, whose first line is ours
    threading.Thread(target=announce, args=(url, output), daemon=True).start()
    from langgraph_api.cli import run_server

    run_server(
        port=port,
        graphs={"scenario": f"{FOLDER / 'langgraph_scenario.py'}:graph"},
        disable_persistence=True,
        allow_blocking=True,
        n_jobs_per_worker=4,
        server_level="ERROR",
    )
