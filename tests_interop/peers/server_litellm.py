"""LiteLLM's gateway in front of an agent: `server_litellm.py URL VERSION`. Callers speak VERSION to the gateway."""

import json
import os
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise it downloads its price list when it is imported
os.environ["LITELLM_MASTER_KEY"] = "sk-of-the-tester"

from scripted import listening

CONFIG = {
    "model_list": [],
    "general_settings": {"master_key": "sk-of-the-tester"},
    "agents": [
        {
            "agent_name": "scenario",
            "agent_card_params": {
                "protocolVersion": sys.argv[2],
                "name": "Scenario",
                "description": "Does what the interop tests ask for.",
                "url": sys.argv[1],
                "version": "4.2.0",
                "capabilities": {"streaming": True},
                "defaultInputModes": ["text"],
                "defaultOutputModes": ["text"],
                "skills": [],
            },
            "litellm_params": {"require_trace_id_on_calls_to_agent": False},
        }
    ],
}


def announce(url, output):
    """Print where the agent is, as soon as the gateway answers."""
    while True:
        try:
            urllib.request.urlopen(f"{url}/health/liveliness", timeout=5).read()
        except OSError:
            time.sleep(0.2)
        else:
            print(json.dumps({"url": f"{url}/a2a/scenario"}), file=output, flush=True)
            return


if __name__ == "__main__":
    door, url = listening()
    port = door.getsockname()[1]
    door.close()
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the gateway logs to standard output, whose first line is ours
    config = Path(tempfile.mkdtemp()) / "config.yaml"
    config.write_text(json.dumps(CONFIG))  # JSON is YAML
    threading.Thread(target=announce, args=(url, output), daemon=True).start()
    from litellm.proxy.proxy_cli import run_server

    run_server(["--config", str(config), "--host", "127.0.0.1", "--port", str(port)], standalone_mode=False)
