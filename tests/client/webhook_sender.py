"""Requests as a sender makes them: signed by libraries that are not ours, with keys that a server publishes."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from standardwebhooks import Webhook
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

ISSUER = "https://agents.example/currency"


@dataclass
class Key:
    """A key of a sender."""

    id: str
    private: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def public_pem(self) -> bytes:
        return self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    @property
    def private_pem(self) -> bytes:
        return self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def jwk(self) -> dict[str, Any]:
        algorithm: Any = jwt.get_algorithm_by_name("ES256")
        return {**json.loads(algorithm.to_jwk(self.private.public_key())), "kid": self.id, "use": "sig"}

    def sign(self, claims: Mapping[str, Any], **header: Any) -> str:
        return jwt.encode(dict(claims), self.private, algorithm="ES256", headers={"kid": self.id, **header})


class KeyServer:
    """Publishes keys, and counts how often they are fetched."""

    def __init__(self, *keys: Key) -> None:
        self.keys = list(keys)
        self.fetches = 0
        self.status = 200
        self.app = Starlette(routes=[Route("/{path:path}", self._answer)])

    def document(self) -> bytes:
        return json.dumps({"keys": [key.jwk for key in self.keys]}).encode()

    async def fetch(self, url: str) -> bytes:
        self.fetches += 1
        return self.document()

    async def _answer(self, request: Request) -> Response:
        self.fetches += 1
        return Response(self.document(), self.status, media_type="application/json")


def claims(body: bytes, *, task: str, audience: str, now: float | None = None, **changed: Any) -> dict[str, Any]:
    """The claims for a body as the contract has them; those changed to None are left out."""
    iat = int(time.time() if now is None else now)
    usual = {
        "iss": ISSUER,
        "aud": audience,
        "iat": iat,
        "exp": iat + 300,
        "jti": f"{task}:1",
        "taskId": task,
        "request_body_sha256": hashlib.sha256(body).hexdigest(),
    }
    return {name: value for name, value in {**usual, **changed}.items() if value is not None}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def signed_headers(*secrets: str, body: bytes, delivery_id: str, now: float | None = None) -> dict[str, str]:
    """The headers of Standard Webhooks, with a signature by each secret."""
    at = datetime.fromtimestamp(int(time.time() if now is None else now), UTC)
    signatures = [Webhook(secret).sign(delivery_id, at, body.decode()) for secret in secrets]
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
    }
