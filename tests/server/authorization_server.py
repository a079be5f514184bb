"""A small authorization server for tests, on a real port: discovery, keys, and token introspection.

It does what it is told: keys can be rotated, documents replaced, and answers withheld. It counts what it is asked.
"""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

CLIENT = ("parley", "s3cret/of parley")
AUDIENCE = "https://agent.example.com"


def new_key(kid: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})


class AuthorizationServer:
    """`url` is the issuer. Change `keys`, `tokens` and `documents` to change what it says."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys: list[ECKey | RSAKey | OKPKey] = [new_key("first")]
        self.tokens: dict[str, dict[str, Any]] = {}
        self.documents: dict[str, Response] = {}
        self.asked: Counter[str] = Counter()
        self.gate: asyncio.Event | None = None
        self.app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._discovery),
                Route("/keys", self._keys),
                Route("/introspect", self._introspect, methods=["POST"]),
            ]
        )

    def sign(self, claims: dict[str, Any] | None = None, *, key: Any = None, alg: str = "ES256", **header: Any) -> str:
        """An access token: good for a minute, unless the claims say otherwise; a claim that is None is left out."""
        key = key or self.keys[0]
        now = int(time.time())
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": "ada", "scope": "agent:call", "exp": now + 60, "iat": now}
        given = {name: value for name, value in {**usual, **(claims or {})}.items() if value is not None}
        return jwt.encode({"alg": alg, "kid": key.kid, **header}, given, key, algorithms=[alg])

    async def _answer(self, request: Request, answer: Response) -> Response:
        path = request.url.path
        self.asked[path] += 1
        if self.gate:
            await self.gate.wait()
        return self.documents.get(path, answer)

    async def _discovery(self, request: Request) -> Response:
        document = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        return await self._answer(request, JSONResponse(document))

    async def _keys(self, request: Request) -> Response:
        return await self._answer(request, JSONResponse(KeySet(list(self.keys)).as_dict(private=False)))

    async def _introspect(self, request: Request) -> Response:
        # RFC 6749 section 2.3.1: both are form-encoded before Basic puts them together.
        if request.headers["authorization"] != "Basic cGFybGV5OnMzY3JldCUyRm9mJTIwcGFybGV5":
            return await self._answer(request, Response(status_code=401))
        form = await request.form()
        known = self.tokens.get(str(form["token"]))
        return await self._answer(request, JSONResponse({"active": True, **known} if known else {"active": False}))


@asynccontextmanager
async def authorization_server() -> AsyncGenerator[AuthorizationServer]:
    """A running server; it is gone when the block ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    issuer = AuthorizationServer(f"http://127.0.0.1:{listener.getsockname()[1]}")
    config = uvicorn.Config(issuer.app, log_config=None, lifespan="off")
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    # Not `serve`: it looks only ten times a second whether it should stop, and it takes the signals of the process.
    await server.startup([listener])
    try:
        yield issuer
    finally:
        if issuer.gate:
            issuer.gate.set()
        await asyncio.wait_for(server.shutdown([listener]), 5)
