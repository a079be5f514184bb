"""Webhooks as the documents of A2A 0.2 and 0.3 show them, written without Parley: PyJWT, and the library of Standard
Webhooks."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from typing import Any

import jwt
from standardwebhooks import Webhook, WebhookVerificationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route


class SampleReceiver:
    """Answers the challenge, and keeps the bodies that it could verify and the reasons why it could not."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.refused: list[str] = []
        self.challenges: list[str] = []
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.has_got = asyncio.Event()
        self.app = Starlette(routes=[Route("/hook", self._answer, methods=["GET", "POST"])])

    async def _answer(self, request: Request) -> Response:
        if request.method == "GET":
            token = request.query_params.get("validationToken")
            if not token:
                return Response(status_code=400)
            self.challenges.append(token)
            return PlainTextResponse(token)
        try:
            await self.verify(request)
        except (jwt.PyJWTError, WebhookVerificationError, ValueError) as error:
            self.refused.append(repr(error))
            return Response(status_code=401)
        self.requests.append((dict(request.headers), await request.body()))
        self.got.append(await request.json())
        self.has_got.set()
        return Response(status_code=200)

    async def verify(self, request: Request) -> None:
        raise NotImplementedError


class JwtSampleReceiver(SampleReceiver):
    """As the samples of 0.2 and 0.3: the hash of the body is that of its JSON without spaces, and `iat` is recent."""

    def __init__(self, jwks: str) -> None:
        super().__init__()
        self._keys = jwt.PyJWKClient(jwks)

    async def verify(self, request: Request) -> None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        key = await asyncio.to_thread(self._keys.get_signing_key_from_jwt, token)
        options: Any = {"require": ["iat", "request_body_sha256"], "verify_aud": False}
        claims = jwt.decode(token, key, algorithms=["ES256", "RS256", "EdDSA"], options=options)
        text = json.dumps(await request.json(), ensure_ascii=False, allow_nan=False, indent=None, separators=(",", ":"))
        if hashlib.sha256(text.encode()).hexdigest() != claims["request_body_sha256"]:
            raise ValueError("The hash of the body is another")
        if time.time() - claims["iat"] > 60 * 5:
            raise ValueError("The token is too old")


class StrictJwtReceiver(SampleReceiver):
    """As the text of 0.2 demands: every claim is required, and compared with what the webhook knows."""

    def __init__(self, jwks: str, *, issuer: str, audience: str) -> None:
        super().__init__()
        self._keys = jwt.PyJWKClient(jwks)
        self._issuer = issuer
        self._audience = audience
        self.ids: set[str] = set()

    async def verify(self, request: Request) -> None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        key = await asyncio.to_thread(self._keys.get_signing_key_from_jwt, token)
        required: Any = {"require": ["iss", "aud", "iat", "exp", "jti", "taskId", "request_body_sha256"]}
        claims = jwt.decode(
            token, key, algorithms=["ES256"], issuer=self._issuer, audience=self._audience, options=required
        )
        body = await request.body()
        if hashlib.sha256(body).hexdigest() != claims["request_body_sha256"]:
            raise ValueError("The hash of the body is another")
        if claims["taskId"] not in body.decode():
            raise ValueError("The token is for another task")
        self.ids.add(claims["jti"])


class StandardWebhooksReceiver(SampleReceiver):
    """As the Standard Webhooks specification has it, with its own library."""

    def __init__(self, secret: str) -> None:
        super().__init__()
        self._webhook = Webhook(secret)

    async def verify(self, request: Request) -> None:
        self._webhook.verify(await request.body(), dict(request.headers))
