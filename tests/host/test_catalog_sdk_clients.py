"""Published SDKs, each in its own environment, find an agent of a host through its catalogue and call it."""

from __future__ import annotations

import json

import anyio
import pytest

from tests.host.api_calls import constitution, echo_models
from tests.host.running_host import running_host
from tests.peer_environments import ROOT, TIMEOUT_SECONDS, python_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("release", ["1.3.0", "0.3.26"])
async def test_an_sdk_finds_a_public_agent_in_the_catalogue_and_calls_it(release: str) -> None:
    async with running_host(models=echo_models(), seconds=TIMEOUT_SECONDS) as running:
        await running.acme.client.post("/v1/agents", json=constitution())
        await running.acme.client.put("/v1/agents/writer/public", json={"public": True})
        given = {
            "catalog": f"{running.url}/.well-known/ai-catalog.json",
            "name": "Writer",
            "token": running.acme.token,
            "release": release.replace(".", "_"),
        }
        script = ROOT / "tests" / "peers" / "catalog_sdk.py"
        command = [str(python_of(f"a2a-sdk-{release}")), str(script), json.dumps(given)]
        done = await anyio.run_process(command, check=False)
    assert done.returncode == 0, done.stderr.decode()
    answer = ["Writer", "completed", "writer heard hello"]
    assert json.loads(done.stdout) == {"jsonrpc": answer, "rest": answer}
