"""The agent of the scenario on a2a-sdk 1.3.0, whose card demands a token and an extension; the SDK enforces neither."""

import asyncio
import logging

import server_sdk_1_3_0
from google.protobuf.json_format import ParseDict

make_card = server_sdk_1_3_0.make_card


def make_secured_card(*arguments, **options):
    card = make_card(*arguments, **options)
    extension = {"uri": "https://extensions.example/required", "required": True}
    demands = {
        "securitySchemes": {"token": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"token": {}}}],
        "capabilities": {"extensions": [extension]},
    }
    ParseDict(demands, card)  # which adds to what is there
    return card


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    server_sdk_1_3_0.make_card = make_secured_card
    asyncio.run(server_sdk_1_3_0.main())
