"""The OpenAPI document is valid, complete, and says nothing that the tables and readers do not."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect, structs

from parley.dialects import v0_3_protojson
from parley.dialects.detect import detect_jsonrpc
from parley.dialects.fields import Reader
from parley.dialects.registry import DIALECTS
from parley.dialects.rest import decode_rest_request
from parley.protocol import operations as ops
from parley.protocol.cards import AgentCapabilities, AgentCard, OAuth2Scheme, OAuthFlow, OAuthFlows
from parley.protocol.operations import OPERATIONS
from parley.protocol.versions import Version
from parley.server.pages.openapi import document, encode_scheme
from parley.server.pages.wire_schemas import RULES, Schemas, schema_of
from parley.wire.rest import match_any
from tests import samples

URL = "https://agents.example/kitchen"
ROOT = Path(__file__).parent.parent.parent


def described(card: AgentCard = samples.CARD) -> dict[str, Any]:
    return msgspec.json.decode(document(card, base_url=URL))


def test_it_is_openapi(tmp_path: Path) -> None:
    """`make peers` creates the environment of the validator."""
    documents = {
        "rich": document(samples.CARD, base_url=URL),
        "bare": document(samples.BARE_CARD, base_url="/"),
    }
    paths = [tmp_path / f"{name}.json" for name in documents]
    for path, content in zip(paths, documents.values(), strict=True):
        path.write_bytes(content)
    validator = ROOT / ".peers" / "schemathesis" / "bin" / "openapi-spec-validator"
    done = subprocess.run([validator, *paths], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.count(": OK")) == (0, len(documents)), done.stdout + done.stderr


def test_it_has_every_route_of_the_table_and_no_other() -> None:
    listed = {(verb.upper(), path) for path, item in described()["paths"].items() for verb in item}
    newer = {(verb, op.routes[Version.V1_0].path) for op in OPERATIONS for verb in op.routes[Version.V1_0].verbs}
    older = {
        (verb, op.routes[Version.V0_3].path)
        for op in OPERATIONS
        if Version.V0_3 in op.routes
        for verb in op.routes[Version.V0_3].verbs
    }
    with_tenant = {(verb, "/{tenant}" + path) for verb, path in newer}
    pages = {
        ("POST", "/"),
        ("GET", "/"),
        ("GET", "/.well-known/agent-card.json"),
        ("GET", "/.well-known/agent.json"),
        ("GET", "/agent/authenticatedExtendedCard"),
        ("GET", "/openapi.json"),
        ("GET", "/docs"),
    }
    assert listed == newer | older | with_tenant | pages


def test_it_has_every_method_of_every_version() -> None:
    calls = described()["paths"]["/"]["post"]["requestBody"]["content"]["application/json"]
    methods = {method for op in OPERATIONS for method in op.methods.values()}
    assert set(calls["examples"]) == set(calls["schema"]["discriminator"]["mapping"]) == methods


def test_it_leaves_out_what_the_card_does_not_offer() -> None:
    capabilities = AgentCapabilities(push_notifications=True)
    found = described(structs.replace(samples.BARE_CARD, capabilities=capabilities))
    verbs = {operation["operationId"] for item in found["paths"].values() for operation in item.values()}
    offered = {
        "send_message",
        "get_task",
        "list_tasks",
        "cancel_task",
        "create_push_config",
        "get_push_config",
        "list_push_configs",
        "delete_push_config",
    }
    pages = {"call", "get_root", "get_card", "get_card_0_2", "get_openapi", "get_docs"}
    older = {f"{verb}_0_3" for verb in offered - {"list_tasks"}}
    assert verbs == offered | {f"{verb}_of_tenant" for verb in offered} | older | pages


def test_operation_ids_are_unique() -> None:
    ids = [operation["operationId"] for item in described()["paths"].values() for operation in item.values()]
    assert len(ids) == len(set(ids))


def test_the_examples_of_calls_are_read_by_their_dialects() -> None:
    examples = described()["paths"]["/"]["post"]["requestBody"]["content"]["application/json"]["examples"]
    for method, example in examples.items():
        found = detect_jsonrpc(method)
        params = msgspec.json.encode(example["value"]["params"])
        assert isinstance(DIALECTS[found.version].decode_request(found.operation, params), found.operation.request)


def test_the_examples_of_bodies_are_read() -> None:
    for path, item in described()["paths"].items():
        content = item.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
        if "example" not in content:
            continue
        match = match_any("POST", path.replace("{id}", "task-1").replace("{tenant}", "acme"))
        asked, _ = decode_rest_request(
            match.version,
            match.operation,
            parameters=match.parameters,
            query={},
            body=msgspec.json.encode(content["example"]),
            tenant=match.tenant,
        )
        assert isinstance(asked, match.operation.request)


def request_structs() -> set[type]:
    """Every wire struct that a caller may send."""
    found: set[type] = set()
    waiting: list[Any] = [
        schema_of(codec.reader)
        for dialect in (*DIALECTS.values(), v0_3_protojson.REST_DIALECT)
        for codec in dialect.requests.values()
    ]
    while waiting:
        match waiting.pop():
            case inspect.StructType(cls=struct, fields=fields) if struct not in found:
                found.add(struct)
                waiting += [field.type for field in fields]
            case inspect.UnionType(types=members):
                waiting += members
            case inspect.ListType(item_type=item) | inspect.DictType(value_type=item):
                waiting.append(item)
            case _:
                pass
    return found


def test_what_a_struct_checks_by_hand_is_in_the_rules() -> None:
    checking = {struct for struct in request_structs() if hasattr(struct, "__post_init__")}
    # 0.3's own name for a webhook to register is read by the route itself, from any of several shapes.
    assert checking - {v0_3_protojson.V03ProtoCreatePushConfig} == set(RULES)


def test_numbers_in_text_have_the_bounds_of_numbers() -> None:
    schemas = Schemas("v1_0", {})
    schemas.of_request(DIALECTS[Version.V1_0].requests[ops.LIST_TASKS.name].reader)
    properties: Any = schemas.components["v1_0.ListTasksInput"]
    number, text = properties["properties"]["pageSize"]["anyOf"][0]["anyOf"]
    assert number == {"type": "integer", "minimum": 1, "maximum": 100}
    assert text == {"type": "string", "maxLength": 19, "pattern": "^0*(?:[1-9]|[1-9][0-9]{1}|100)$"}


def test_a_type_that_no_struct_has_yet_is_named() -> None:
    with pytest.raises(TypeError, match="No schema for FloatType"):
        Schemas("x", {}).of_reply(Reader(float))


def test_a_required_extension_is_a_required_header() -> None:
    parameters = described()["paths"]["/message:send"]["post"]["parameters"]
    (found,) = (parameter for parameter in parameters if parameter["name"] == "A2A-Extensions")
    assert (found["required"], found["schema"]) == (True, {"enum": [samples.CITATIONS]})


def test_security_is_that_of_the_card() -> None:
    found = described()
    assert found["security"] == [
        {"login": ["plan", "pantry"]},
        {"key": [], "mtls": []},
        {"several": ["plan"]},
    ]
    schemes = found["components"]["securitySchemes"]
    flow = {
        "scopes": {"plan": "Plan meals"},
        "authorizationUrl": "https://login.example/authorize",
        "tokenUrl": "https://login.example/token",
        "refreshUrl": "https://login.example/refresh",
    }
    assert schemes["login"] == {
        "type": "oauth2",
        "flows": {"authorizationCode": flow},
        "description": "Signs a cook in.",
    }
    assert schemes["key"] == {
        "type": "apiKey",
        "in": "header",
        "name": "X-Kitchen-Key",
        "description": "A key per kitchen.",
    }
    assert schemes["mtls"] == {"type": "mutualTLS", "description": "Kitchen certificates."}
    assert sorted(schemes["several"]["flows"]) == ["clientCredentials", "implicit", "password"]
    assert schemes["oidc"]["openIdConnectUrl"] == "https://login.example/.well-known/openid-configuration"
    assert schemes["bearer"]["bearerFormat"] == "JWT"


def test_a_flow_that_openapi_does_not_know_is_left_out() -> None:
    scheme = OAuth2Scheme(OAuthFlows(device_code=OAuthFlow({"plan": "Plan meals"})))
    assert encode_scheme(scheme) == {"type": "oauth2", "flows": {}}
