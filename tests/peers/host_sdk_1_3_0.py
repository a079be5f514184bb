"""Agents of a host, called by the client of a2a-sdk 1.3.0."""

import asyncio
import logging

import httpx
from host_steps import play
from scenario_ids import Watched
from scenario_sdk_1_3_0 import SdkClient


class HostClient(SdkClient):
    """The client of an agent whose card needs a token too."""

    @classmethod
    def make(cls, binding, url, token):
        headers = {"Authorization": f"Bearer {token}"}
        return cls(httpx.AsyncClient(timeout=15, transport=Watched(), headers=headers), binding, url, token=token)

    def on_its_own_connection(self):
        return self.make(self.binding, self.url, self.token)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(play(HostClient.make))
