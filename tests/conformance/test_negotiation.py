"""Rules about extensions, versions, cards, errors and authentication."""

from __future__ import annotations

from datetime import datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any

import msgspec
import pytest

from parley.dialects import v1_0
from parley.dialects.cards import decode_any_card
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import Binding
from parley.protocol.errors import (
    A2AError,
    ExtendedCardNotConfiguredError,
    ExtensionSupportRequiredError,
    InvalidParamsError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
from parley.protocol.messages import TextPart
from parley.protocol.signing import load_key, verify_card
from tests.conformance.matrix import GRPC, JSONRPC, REST, V0_1, V0_2, V0_3, V1_0, matrix, rule
from tests.conformance.peer import Peer
from tests.conformance.serve import ALICE, BOB, KEY, OPTIONAL, REQUIRED

pytestmark = pytest.mark.anyio

# --- extensions -------------------------------------------------------------------------------------------------------


def echoed(peer: Peer) -> str | None:
    return peer.last_headers.get("a2a-extensions" if peer.version is V1_0 else "x-a2a-extensions")


@rule("G1.40", "G2.15")
@matrix(V0_2, V0_3, V1_0, app="strict")
async def test_a_required_extension_must_be_listed(peer: Peer) -> None:
    with pytest.raises((ExtensionSupportRequiredError, InvalidParamsError, A2AError)) as refusal:
        await peer.send("hello")
    assert REQUIRED in refusal.value.message
    with pytest.raises(A2AError):
        await peer.get("absent")


@rule("G1.38", "G1.39", "G2.15")
@matrix(V0_2, V0_3, V1_0, app="strict")
async def test_extensions_that_the_caller_lists_are_active_and_echoed(peer: Peer) -> None:
    listed = f"{REQUIRED}, https://extensions.example/unknown"
    async with peer.at("strict", a2a_extensions=listed, x_a2a_extensions=listed) as caller:
        await caller.send("hello")
        assert echoed(caller) == REQUIRED
    listed = f"{OPTIONAL},{REQUIRED}"
    async with peer.at("strict", a2a_extensions=listed, x_a2a_extensions=listed) as caller:
        await caller.send("hello")
        assert echoed(caller) == f"{REQUIRED}, {OPTIONAL}"


# --- versions ---------------------------------------------------------------------------------------------------------


@rule("G1.43")
@matrix(V1_0)
async def test_a_patch_number_changes_nothing_and_an_unknown_version_is_refused(peer: Peer) -> None:
    async with peer.at("open") as patched:
        patched.headers["A2A-Version" if peer.binding is not GRPC else "a2a-version"] = "1.0.7"
        if peer.binding is not GRPC:
            assert (await patched.send("hello")).artifacts
    for unknown in ("2.0", "1.7", "one"):
        if peer.binding is GRPC:
            call = peer.channel.unary_unary("/lf.a2a.v1.A2AService/GetTask")
            with pytest.raises(Exception, match="not supported"):
                await call(b"", metadata=(("a2a-version", unknown),))
            continue
        async with peer.at("open") as stranger:
            stranger.headers["A2A-Version"] = unknown
            with pytest.raises(VersionNotSupportedError):
                await stranger.get("absent")


@rule("G1.45", "G2.20")
@matrix(bindings=[JSONRPC])
async def test_unknown_members_are_ignored_and_required_ones_must_be_there(peer: Peer) -> None:
    """Raw, because the codecs write neither."""
    message: dict[str, Any] = msgspec.json.decode(
        peer.http_request(ops.SEND_MESSAGE, peer.request(peer.message("hello")))[2]
    )
    message["params"]["surprise"] = {"a": [1]}
    message["params"]["message"]["surprise"] = True
    reply = await peer.http.post("/", json=message, headers=peer.http_headers())
    assert "result" in reply.json()
    for break_it in (lambda m: m.pop("parts"), lambda m: m.update(parts=[]), lambda m: m.pop("role")):
        broken = msgspec.json.decode(msgspec.json.encode(message))
        break_it(broken["params"]["message"])
        reply = await peer.http.post("/", json=broken, headers=peer.http_headers())
        error = reply.json()["error"]
        assert error["code"] == -32602
        assert "message" in error["message"]


@rule("G1.46")
@matrix(V1_0, bindings=[JSONRPC, REST])
async def test_json_is_spelled_as_the_specification_says(peer: Peer) -> None:
    """Raw, because it is about spelling."""
    task = await peer.send("ask")
    shown = (await peer.http.get(f"/tasks/{task.id}")).json()
    assert set(shown) <= {"id", "contextId", "status", "artifacts", "history", "metadata"}
    assert shown["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert shown["history"][0]["role"] == "ROLE_USER"
    assert shown["status"]["timestamp"].endswith("Z")
    datetime.fromisoformat(shown["status"]["timestamp"])


# --- authentication ---------------------------------------------------------------------------------------------------


@rule("G1.48", "G2.13")
@matrix(bindings=[JSONRPC, REST], app="secured")
async def test_a_refusal_says_how_to_authenticate(peer: Peer) -> None:
    verb, path, body = peer.http_request(ops.SEND_MESSAGE, peer.request(peer.message("hello")))
    for token in (None, "guess"):
        headers = peer.http_headers() | ({"authorization": f"Bearer {token}"} if token else {})
        reply = await peer.http.request(verb, path, content=body, headers=headers)
        assert reply.status_code == 401
        assert reply.headers["www-authenticate"].startswith("Bearer ")


@rule("G1.48", "G1.44", "G2.13")
@matrix(app="secured")
async def test_a_skill_demands_its_scopes(peer: Peer) -> None:
    message = {"metadata": {"skillId": "vault"}}
    async with peer.at("secured", ALICE) as alice, peer.at("secured", BOB) as bob:
        task = await alice.send("open", **message)
        assert task.artifacts[0].parts == (TextPart("gold"),)
        with pytest.raises(PermissionDeniedError):
            await bob.send("open", **message)


# --- cards ------------------------------------------------------------------------------------------------------------


@rule("G1.53", "G2.1", "G2.2")
@matrix(V0_3, V1_0, bindings=[JSONRPC])
async def test_the_card_tells_the_truth_about_its_interfaces(peer: Peer) -> None:
    raw = (await peer.http.get("/.well-known/agent-card.json", headers={"A2A-Version": peer.version})).content
    card, version = decode_any_card(raw)
    assert version is peer.version
    mine = [face for face in card.interfaces if face.version == peer.version or peer.version is V0_3]
    assert [face.binding for face in mine][:3] == ["JSONRPC", "HTTP+JSON", "GRPC"]
    for face in mine:
        places = {f"{peer.store}/open": {"url": face.url, "grpc": face.url}}
        async with Peer(peer.version, Binding(face.binding), places, peer.store) as reached:
            assert (await reached.send("hello")).artifacts


@rule("G1.53", "G2.2")
@matrix(V1_0, bindings=[JSONRPC], stores=["memory"])
async def test_one_card_is_read_by_0_3_and_1_0(peer: Peer) -> None:
    card = (await peer.http.get("/.well-known/agent-card.json")).json()
    assert card["supportedInterfaces"][0] == {
        "url": f"{peer.url}/",
        "protocolBinding": "JSONRPC",
        "protocolVersion": "1.0",
    }
    assert (card["url"], card["preferredTransport"], card["protocolVersion"]) == (f"{peer.url}/", "JSONRPC", "0.3.0")
    assert {face["transport"] for face in card["additionalInterfaces"]} == {"JSONRPC", "HTTP+JSON", "GRPC"}


@rule("G3.4")
@matrix(V0_2, bindings=[JSONRPC], stores=["memory"])
async def test_0_2_has_its_card_and_no_method_for_the_extended_one(peer: Peer) -> None:
    reply = await peer.http.get("/.well-known/agent.json")
    card = reply.json()
    assert (card["url"], card["protocolVersion"][:3]) == (f"{peer.url}/", "0.2")
    assert "supportedInterfaces" not in card
    body = {"jsonrpc": "2.0", "id": 1, "method": "agent/getAuthenticatedExtendedCard"}
    reply = await peer.http.post("/", json=body, headers={"A2A-Version": "0.2"})
    assert reply.json()["error"]["code"] == -32601


@rule("G1.54", "G2.5")
@matrix(V0_3, V1_0, app="secured")
async def test_the_extended_card_is_for_those_who_authenticate(peer: Peer) -> None:
    with pytest.raises(UnauthenticatedError):
        await peer.call(ops.GET_EXTENDED_CARD, r.GetExtendedCardRequest())
    async with peer.at("secured", BOB) as bob:
        card = await bob.call(ops.GET_EXTENDED_CARD, r.GetExtendedCardRequest())
        assert [skill.id for skill in card.skills] == ["vault"]
        public, _ = decode_any_card((await bob.http.get("/.well-known/agent-card.json")).content)
        assert [skill.id for skill in public.skills] == ["secured"]
        assert public.capabilities.extended_card is True


@rule("G3.4")
@matrix(V0_2, bindings=[JSONRPC], app="secured")
async def test_the_extended_card_of_0_2_is_a_page(peer: Peer) -> None:
    assert (await peer.http.get("/agent/authenticatedExtendedCard")).status_code == 401
    reply = await peer.http.get("/agent/authenticatedExtendedCard", headers={"authorization": f"Bearer {BOB}"})
    assert [skill["id"] for skill in reply.json()["skills"]] == ["vault"]


@rule("G1.54", "G2.5", "G2.18")
@matrix(V0_3, V1_0)
async def test_without_the_capability_there_is_no_extended_card(peer: Peer) -> None:
    expected = ExtendedCardNotConfiguredError if peer.version is V0_3 else UnsupportedOperationError
    with pytest.raises(expected):
        await peer.call(ops.GET_EXTENDED_CARD, r.GetExtendedCardRequest())


@rule("G1.55")
@matrix(V1_0, bindings=[JSONRPC], stores=["memory"])
async def test_cards_can_be_cached(peer: Peer) -> None:
    for path in ("/.well-known/agent-card.json", "/.well-known/agent.json"):
        reply = await peer.http.get(path)
        assert reply.headers["cache-control"] == "public, max-age=300"
        etag, modified = reply.headers["etag"], reply.headers["last-modified"]
        assert (await peer.http.get(path)).headers["last-modified"] == modified
        earlier = format_datetime(parsedate_to_datetime(modified) - timedelta(seconds=1), usegmt=True)
        for asked, status in (
            ({"if-none-match": etag}, 304),
            ({"if-modified-since": modified}, 304),
            ({"if-modified-since": earlier}, 200),
            ({"if-modified-since": "yesterday"}, 200),
            ({"if-modified-since": "Mon, 16 Nov 99999999999999999999 15:00:00 GMT"}, 200),
            ({"if-modified-since": "Mon, 16 Nov 2099 15:00:00 -0000"}, 200),
            ({"if-none-match": '"another"', "if-modified-since": modified}, 200),
        ):
            again = await peer.http.get(path, headers=asked)
            assert (again.status_code, again.content) == (status, reply.content if status == 200 else b"")


@rule("G1.56")
@matrix(V1_0, bindings=[JSONRPC], stores=["memory"])
async def test_a_signed_card_verifies_in_every_form(peer: Peer) -> None:
    public = load_key({name: value for name, value in KEY.items() if name != "d"})
    for headers in ({}, {"A2A-Version": "1.0"}):
        raw = (await peer.http.get("/.well-known/agent-card.json", headers=headers)).content
        verified = verify_card(raw, lambda _: public)
        assert v1_0.DIALECT.decode_card(verified.payload).name == "Open"


# --- errors -----------------------------------------------------------------------------------------------------------


@rule("G1.58", "G2.20")
@matrix()
async def test_an_invalid_member_is_named(peer: Peer) -> None:
    task = await peer.send("hello")
    with pytest.raises(InvalidParamsError) as refusal:
        await peer.get(task.id, history_length=-1)
    assert "historyLength" in str(refusal.value)


@rule("G1.58")
@matrix(V1_0, bindings=[JSONRPC, REST])
async def test_errors_have_typed_details(peer: Peer) -> None:
    """Raw, because it is about their form."""
    if peer.binding is REST:
        reply = await peer.http.get("/tasks/absent")
        error = reply.json()["error"]
        assert (reply.status_code, error["code"], error["status"]) == (404, 404, "NOT_FOUND")
        details = error["details"]
    else:
        body = {"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": {"id": "absent"}}
        reply = await peer.http.post("/", json=body)
        assert (reply.status_code, reply.json()["id"]) == (200, 7)
        assert reply.json()["error"]["code"] == -32001
        details = reply.json()["error"]["data"]
    assert details == [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "TASK_NOT_FOUND",
            "domain": "a2a-protocol.org",
            "metadata": {"taskId": "absent"},
        }
    ]


@rule("G1.59", "G2.9")
@matrix(bindings=[JSONRPC], stores=["memory"])
async def test_what_cannot_be_read_is_answered_with_the_id_null(peer: Peer) -> None:
    cases: list[tuple[bytes, Any, int]] = [
        (b"{", None, -32700),
        (b"[]", None, -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"GetTask"}]', None, -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"GetTask"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":5}', 5, -32600),
        (b'{"jsonrpc":"2.0","id":"x","method":"Nonsense"}', "x", -32601),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"GetTask","params":[]}', 1.5, -32602),
    ]
    for body, id, code in cases:
        reply = await peer.http.post("/", content=body, headers={"content-type": "application/json"})
        assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
        assert reply.json()["id"] == id
        assert reply.json()["error"]["code"] == code
        assert "result" not in reply.json()


@rule("G1.59", "G2.9")
@matrix(bindings=[JSONRPC], stores=["memory"])
async def test_only_0_1_lets_callers_leave_out_the_version_of_json_rpc(peer: Peer) -> None:
    """Raw bodies: no client of ours leaves it out. `tasks/get` of a task that 0.1 created is 0.1's."""
    task = await peer.send("hello")
    for method, params in (
        (ops.GET_TASK.methods[peer.version], {"id": task.id}),
        (ops.SEND_MESSAGE.methods[peer.version], {"id": "mine", "message": {}}),
    ):
        reply = (await peer.http.post("/", json={"id": 1, "method": method, "params": params})).json()
        if peer.version is V0_1:
            assert reply.get("error", {}).get("code") in (None, -32602)
        else:
            assert (reply["id"], reply["error"]["code"]) == (1, -32600)


@rule("G1.59")
@matrix(bindings=[JSONRPC], stores=["memory"])
async def test_a_body_that_is_not_json_is_a_content_type_that_is_not_supported(peer: Peer) -> None:
    for content_type in ("text/plain", "application/x-www-form-urlencoded"):
        headers = {"content-type": content_type}
        reply = await peer.http.post("/", content=b'{"jsonrpc":"2.0","id":1,"method":"GetTask"}', headers=headers)
        assert (reply.status_code, reply.json()["error"]["code"]) == (415, -32005)


@rule("G2.18")
@matrix(V0_2, V0_3, bindings=[JSONRPC], stores=["memory"])
async def test_the_codes_of_0_3(peer: Peer) -> None:
    task = await peer.send("hello")
    cases: list[tuple[str, Any, int]] = [
        ("tasks/get", {"id": "absent"}, -32001),
        ("tasks/cancel", {"id": task.id}, -32002),
        ("tasks/get", {"id": 5}, -32602),
        ("message/send", {"message": {"role": "user"}}, -32602),
        ("message/send", {"message": {"messageId": "m", "role": "user", "parts": [{"text": "no kind"}]}}, -32602),
        ("tasks/nap", {}, -32601),
    ]
    for method, params, code in cases:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        reply = await peer.http.post("/", json=body)
        assert reply.json()["error"]["code"] == code
