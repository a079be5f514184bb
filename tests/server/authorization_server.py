"""A small authorization server for tests, on a real port: discovery, keys, introspection, and the ways to a token.

It does what it is told: keys can be rotated, documents replaced, and answers withheld. It counts what it is asked. It
checks what a client sends as RFC 6749, 7636 and 8628 say, and a code or a refresh token is good once.
"""

import asyncio
import hashlib
import secrets
import socket
import time
from base64 import b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

CLIENT = ("parley", "s3cret/of parley")
PUBLIC_CLIENT = "parley-cli"
"""A client without a secret: what a program on a person's machine is."""
AUDIENCE = "https://agent.example.com"


def new_key(kid: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})


@dataclass
class Grant:
    """What a person has allowed a client, or is about to."""

    client_id: str
    scope: str
    redirect_uri: str = ""
    challenge: str = ""


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form, which starlette reads only with a package more."""
    return dict(parse_qsl((await request.body()).decode(), keep_blank_values=True))


class OAuthRefusal(Exception):
    """An error of RFC 6749 section 5.2."""


class AuthorizationServer:
    """`url` is the issuer. Change `keys`, `tokens` and `documents` to change what it says."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys: list[ECKey | RSAKey | OKPKey] = [new_key("first")]
        self.tokens: dict[str, dict[str, Any]] = {}
        self.documents: dict[str, Response] = {}
        self.asked: Counter[str] = Counter()
        self.gate: asyncio.Event | None = None
        self.clients: dict[str, str | None] = {CLIENT[0]: CLIENT[1], PUBLIC_CLIENT: None}
        self.token_seconds: float | None = 60
        self.forms: list[dict[str, str]] = []
        """What was posted to the token endpoint."""
        self.token_answers: list[Response] = []
        """What the token endpoint says first, whatever it is asked."""
        self.device_answers: list[str] = []
        """What a device is told before it is let in, such as `slow_down`."""
        self.metadata: dict[str, Any] = {}
        """Added to the discovery document."""
        self.on_authorize: Callable[[dict[str, str]], dict[str, str]] = lambda answer: answer
        """Changes what the browser is sent back with."""
        self.redirects: tuple[str, ...] = ("http://127.0.0.1:",)
        """How the places begin that it sends browsers back to."""
        self.codes: dict[str, Grant] = {}
        self.devices: dict[str, Grant] = {}
        self.refresh_tokens: dict[str, Grant] = {}
        self.app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._discovery),
                Route("/keys", self._keys),
                Route("/introspect", self._introspect, methods=["POST"]),
                Route("/token", self._token, methods=["POST"]),
                Route("/device", self._device, methods=["POST"]),
                Route("/authorize", self._authorize),
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
        document = {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            "token_endpoint": f"{self.url}/token",
            "authorization_endpoint": f"{self.url}/authorize",
            "device_authorization_endpoint": f"{self.url}/device",
            "scopes_supported": ["openid", "offline_access", "agent:call"],
            **self.metadata,
        }
        return await self._answer(request, JSONResponse(document))

    async def _keys(self, request: Request) -> Response:
        return await self._answer(request, JSONResponse(KeySet(list(self.keys)).as_dict(private=False)))

    async def _introspect(self, request: Request) -> Response:
        # RFC 6749 section 2.3.1: both are form-encoded before Basic puts them together.
        if request.headers["authorization"] != "Basic cGFybGV5OnMzY3JldCUyRm9mJTIwcGFybGV5":
            return await self._answer(request, Response(status_code=401))
        form = await form_of(request)
        known = self.tokens.get(form["token"])
        return await self._answer(request, JSONResponse({"active": True, **known} if known else {"active": False}))

    # --- the ways to a token ------------------------------------------------------------------------------------------

    def _client(self, request: Request, form: dict[str, str]) -> str:
        """Who asks, if it is who it says."""
        header = request.headers.get("authorization")
        if header:
            name, _, secret = b64decode(header.removeprefix("Basic ")).decode().partition(":")
            name, secret = unquote(name), unquote(secret)
        else:
            name, secret = form.get("client_id", ""), form.get("client_secret")
        if name not in self.clients or self.clients[name] != secret:
            raise OAuthRefusal("invalid_client")
        return name

    def _granted(self, client_id: str, scope: str, *, refreshes: bool, subject: str = "ada") -> dict[str, Any]:
        claims = {"sub": subject, "client_id": client_id, "scope": scope or None, "jti": secrets.token_hex(8)}
        answer: dict[str, Any] = {"access_token": self.sign(claims), "token_type": "bearer", "scope": scope}
        if self.token_seconds is not None:
            answer["expires_in"] = self.token_seconds
        if refreshes:
            answer["refresh_token"] = secrets.token_urlsafe(16)
            self.refresh_tokens[answer["refresh_token"]] = Grant(client_id, scope)
        return answer

    async def _token(self, request: Request) -> Response:
        form = await form_of(request)
        self.forms.append(form)
        if self.token_answers:
            return await self._answer(request, self.token_answers.pop(0))
        try:
            answer = self._grant(self._client(request, form), form)
        except OAuthRefusal as refusal:
            status = 401 if str(refusal) == "invalid_client" else 400
            description = f"you sent {form}"
            return await self._answer(
                request, JSONResponse({"error": str(refusal), "error_description": description}, status_code=status)
            )
        return await self._answer(request, JSONResponse(answer, headers={"cache-control": "no-store"}))

    def _grant(self, client_id: str, form: dict[str, str]) -> dict[str, Any]:
        match form.get("grant_type"):
            case "client_credentials":
                if self.clients[client_id] is None:
                    raise OAuthRefusal("unauthorized_client")
                return self._granted(client_id, form.get("scope", ""), refreshes=False, subject=client_id)
            case "refresh_token":
                grant = self.refresh_tokens.pop(form["refresh_token"], None)
                if grant is None or grant.client_id != client_id:
                    raise OAuthRefusal("invalid_grant")
                return self._granted(client_id, grant.scope, refreshes=True)
            case "authorization_code":
                grant = self.codes.pop(form["code"], None)
                digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
                challenge = urlsafe_b64encode(digest).rstrip(b"=").decode()
                if grant is None or (grant.client_id, grant.redirect_uri, grant.challenge) != (
                    client_id,
                    form.get("redirect_uri"),
                    challenge,
                ):
                    raise OAuthRefusal("invalid_grant")
                return self._granted(client_id, grant.scope, refreshes=True)
            case "urn:ietf:params:oauth:grant-type:device_code":
                grant = self.devices.get(form["device_code"])
                if grant is None or grant.client_id != client_id:
                    raise OAuthRefusal("invalid_grant")
                if self.device_answers:
                    raise OAuthRefusal(self.device_answers.pop(0))
                del self.devices[form["device_code"]]
                return self._granted(client_id, grant.scope, refreshes=True)
            case _:
                raise OAuthRefusal("unsupported_grant_type")

    async def _device(self, request: Request) -> Response:
        form = await form_of(request)
        try:
            client_id = self._client(request, form)
        except OAuthRefusal as refusal:
            return await self._answer(request, JSONResponse({"error": str(refusal)}, status_code=401))
        device_code = secrets.token_urlsafe(16)
        self.devices[device_code] = Grant(client_id, form.get("scope", ""))
        answer = {
            "device_code": device_code,
            "user_code": "WDJB-MJHT",
            "verification_uri": f"{self.url}/here",
            "verification_uri_complete": f"{self.url}/here?user_code=WDJB-MJHT",
            "expires_in": 300,
            "interval": 1,
        }
        return await self._answer(request, JSONResponse(answer))

    async def _authorize(self, request: Request) -> Response:
        """A person who is logged in already and allows everything."""
        asked = dict(request.query_params)
        if (asked["response_type"], asked["code_challenge_method"]) != ("code", "S256"):
            return await self._answer(request, Response(status_code=400))
        if asked["client_id"] not in self.clients or not asked["redirect_uri"].startswith(self.redirects):
            return await self._answer(request, Response(status_code=400))
        code = secrets.token_urlsafe(16)
        grant = Grant(asked["client_id"], asked.get("scope", ""), asked["redirect_uri"], asked["code_challenge"])
        self.codes[code] = grant
        answer = self.on_authorize({"code": code, "state": asked["state"], "iss": self.url})
        return await self._answer(request, RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}", 302))


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
