"""Reads schemes and requirements from a TOML file: `[schemes.NAME]` tables and `[[require]]` alternatives.

The file contains hashes instead of secrets. The client secret for introspection should come from the environment, with
`env:NAME`. Every error names the invalid key, and none repeats a value that might be a secret.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from datetime import datetime
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

import msgspec
from msgspec import Struct, defstruct, field, structs

from parley.protocol.cards import OAuthFlow, OAuthFlows
from parley.server.security.authentication import Security
from parley.server.security.schemes.api_keys import ApiKeys
from parley.server.security.schemes.basic import BasicUsers, hash_password
from parley.server.security.schemes.introspection import Introspection
from parley.server.security.schemes.jwt_issuer import JwtIssuer
from parley.server.security.schemes.mutual_tls import MutualTls
from parley.server.security.schemes.openid import OpenIdConnect
from parley.server.security.schemes.scheme import Scheme, SettingError
from parley.server.security.schemes.stored_secrets import new_secret
from parley.server.security.schemes.tokens import BearerTokens

_ENVIRONMENT = "env:"
_MISSING = re.compile(r"Object missing required field `(.+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+)`")

T = TypeVar("T")

UNKNOWN_KEY = "unknown key"


class AuthFileError(ValueError):
    """The file is invalid: `at` is the key, such as `schemes.company.audience`."""

    def __init__(self, at: str, problem: str) -> None:
        super().__init__(f"{at}: {problem}" if at else problem)
        self.at = at


def load_security(path: str | Path, *, environ: Mapping[str, str] | None = None) -> Security:
    """Read a TOML file.

    Raises:
        AuthFileError: it cannot be read, or a key is missing, invalid or unknown.
    """
    try:
        text = Path(path).read_text("utf-8")
    except OSError as exc:
        raise AuthFileError("", f"{path} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise AuthFileError("", f"{path} cannot be read: it is not UTF-8") from exc
    try:
        return parse_security(text, environ=environ)
    except AuthFileError as exc:
        exc.args = (f"{path}: {exc}",)
        raise


def parse_security(text: str, *, environ: Mapping[str, str] | None = None) -> Security:
    """Read a TOML document; `environ` is where `env:NAME` is looked up.

    Raises:
        AuthFileError: it is not TOML, or a key is missing, invalid or unknown.
    """
    file = parse_toml(text, _File)
    environ = os.environ if environ is None else environ
    schemes = {name: _read_scheme(name, table, environ) for name, table in file.schemes.items()}
    requirements = file.require and [
        _read_requirement(requirement, f"require[{number}]", schemes) for number, requirement in enumerate(file.require)
    ]
    try:
        return Security(schemes, requirements, realm=file.realm)
    except ValueError as exc:
        raise AuthFileError("require" if schemes and requirements == [] else "schemes", str(exc)) from None


def new_token(
    name: str, *, scopes: tuple[str, ...] = (), tenant: str | None = None, expires: datetime | None = None
) -> tuple[str, str]:
    """A new token and its entry in the file, an inline table: `{ name = "ci", hash = "sha256:…" }`."""
    token, digest = new_secret()
    return token, _inline({"name": name, "hash": digest, "scopes": scopes, "tenant": tenant, "expires": expires})


def new_user(name: str, password: str, *, scopes: tuple[str, ...] = (), tenant: str | None = None) -> str:
    """The entry of a user with a password: `{ name = "ada", password = "$scrypt$…" }`."""
    return _inline({"name": name, "password": hash_password(password), "scopes": scopes, "tenant": tenant})


def _inline(facts: Mapping[str, Any]) -> str:
    """An inline table of TOML, without empty values."""
    written = {key: _toml(value) for key, value in facts.items() if value}
    return "{ " + ", ".join(f"{key} = {value}" for key, value in written.items()) + " }"


def _toml(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    # JSON strings and lists are valid TOML, except for this one character, which JSON does not escape.
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")


# --- the format of the file -------------------------------------------------------------------------------------------


class _File(Struct, forbid_unknown_fields=True):
    schemes: dict[str, Any]
    require: list[dict[str, Any]] | None = None
    realm: str = "parley"


_NAMES_IN_FILE = {"location": "in", "flows": "oauth2"}
_NOT_IN_FILE = ("now", "clock")


def _table_of(scheme: type[Any]) -> type[Struct]:
    """The keys of a scheme in the file, which are the arguments of its constructor."""
    types = get_type_hints(scheme.__init__)
    arguments = [each for each in signature(scheme).parameters.values() if each.name not in _NOT_IN_FILE]
    fields = [(each.name, types[each.name], field(**_default(each))) for each in arguments]
    return defstruct(scheme.__name__, fields, forbid_unknown_fields=True, kw_only=True, rename=_NAMES_IN_FILE)


def _default(argument: Parameter) -> dict[str, Any]:
    return {} if argument.default is Parameter.empty else {"default": argument.default}


_SCHEMES: dict[str, type[Any]] = {
    "bearer": BearerTokens,
    "api-key": ApiKeys,
    "basic": BasicUsers,
    "jwt": JwtIssuer,
    "oidc": OpenIdConnect,
    "introspection": Introspection,
    "mtls": MutualTls,
}
_TABLES = {name: _table_of(scheme) for name, scheme in _SCHEMES.items()}


# --- reading ----------------------------------------------------------------------------------------------------------


# msgspec does not name the invalid key of a mapping, so the values of mappings are read one by one.
def _read_requirement(table: Mapping[str, Any], at: str, schemes: Mapping[str, Scheme]) -> dict[str, list[str]]:
    for name in table:
        if name not in schemes:
            raise AuthFileError(f"{at}.{name}", "there is no scheme with this name")
    return {name: convert(scopes, list[str], f"{at}.{name}") for name, scopes in table.items()}


def _read_scheme(name: str, value: object, environ: Mapping[str, str]) -> Scheme:
    at = f"schemes.{name}"
    table = convert(value, dict[str, Any], at)
    kind = str(table.get("type"))
    if kind not in _SCHEMES:
        raise AuthFileError(f"{at}.type", f"it must be one of {', '.join(_SCHEMES)}")
    _check_flows(table.get("oauth2"), f"{at}.oauth2")
    settings = structs.asdict(convert({key: table[key] for key in table if key != "type"}, _TABLES[kind], at))
    if "client_secret" in settings:
        settings["client_secret"] = look_up_secret(settings["client_secret"], f"{at}.client_secret", environ)
    try:
        return _SCHEMES[kind](**settings)
    except SettingError as exc:
        raise AuthFileError(f"{at}.{exc.setting}", exc.problem) from None


def _check_flows(flows: object, at: str) -> None:
    """Refuse unknown keys. The structs of the card ignore them, as readers of cards must."""
    for name, flow in _members(flows):
        if name not in OAuthFlows.__struct_fields__:
            raise AuthFileError(f"{at}.{name}", UNKNOWN_KEY)
        for key, _ in _members(flow):
            if key not in OAuthFlow.__struct_fields__:
                raise AuthFileError(f"{at}.{name}.{key}", UNKNOWN_KEY)


def _members(table: object) -> list[tuple[str, object]]:
    return list(cast("dict[str, object]", table).items()) if isinstance(table, dict) else []


def look_up_secret(secret: str, at: str, environ: Mapping[str, str]) -> str:
    """A secret of a file: as it stands there, or with `env:NAME` from the environment. Raises AuthFileError."""
    if not secret.startswith(_ENVIRONMENT):
        return secret
    name = secret.removeprefix(_ENVIRONMENT)
    if not environ.get(name):
        raise AuthFileError(at, f"the environment variable {name} is not set")
    return environ[name]


def parse_toml(text: str, kind: type[T]) -> T:
    """A whole file as a type. Raises AuthFileError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise AuthFileError("", f"not TOML: {exc}") from None
    return convert(document, kind, "")


def convert(value: object, kind: type[T], at: str) -> T:
    """A value of a file as a type; `at` is its key. Raises AuthFileError."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as exc:
        problem, _, path = str(exc).partition(" - at `$")
        where = at + path.rstrip("`")
        if found := _MISSING.fullmatch(problem):
            where, problem = f"{where}.{found[1]}", "it is missing"
        elif found := _UNKNOWN.fullmatch(problem):
            where, problem = f"{where}.{found[1]}", UNKNOWN_KEY
        raise AuthFileError(where.removeprefix("."), problem) from None
