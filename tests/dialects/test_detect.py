"""Which dialect a request speaks, and the reason given for it."""

import pytest

from parley.dialects.detect import detect_jsonrpc, detect_rest, is_ambiguous, is_proto_shape
from parley.protocol import operations as ops
from parley.protocol.errors import MethodNotFoundError, VersionNotSupportedError
from parley.protocol.versions import Version

V0_1, V0_2, V0_3, V1_0 = Version


@pytest.mark.parametrize(
    ("method", "header", "created_in", "version", "reason"),
    [
        ("SendMessage", None, None, V1_0, "only 1.0 has the method SendMessage"),
        ("SendMessage", "1.0", None, V1_0, "A2A-Version says 1.0"),
        ("message/send", None, None, V0_3, "several releases have the method, and nothing else tells them apart"),
        ("message/send", "0.2.5", None, V0_2, "A2A-Version says 0.2"),
        ("message/send", "0.3", None, V0_3, "A2A-Version says 0.3"),
        ("message/send", None, V0_2, V0_3, "several releases have the method, and nothing else tells them apart"),
        ("tasks/send", "", None, V0_1, "only 0.1 has the method tasks/send"),
        ("tasks/get", None, None, V0_3, "several releases have the method, and nothing else tells them apart"),
        ("tasks/get", None, V0_1, V0_1, "the task was created in 0.1"),
        ("tasks/get", "0.3", V0_1, V0_3, "A2A-Version says 0.3"),
        ("tasks/get", None, V1_0, V0_3, "several releases have the method, and nothing else tells them apart"),
        (
            "agent/authenticatedExtendedCard",
            None,
            None,
            V0_3,
            "only 0.3 has the method agent/authenticatedExtendedCard",
        ),
    ],
)
def test_the_method_decides_where_it_can(
    method: str, header: str | None, created_in: Version | None, version: Version, reason: str
) -> None:
    detection = detect_jsonrpc(method, header, created_in=created_in)
    assert (detection.version, detection.reason) == (version, reason)
    if method in detection.operation.methods.values():
        assert detection.operation.methods[version] == method


def test_only_the_methods_that_0_1_shares_are_ambiguous() -> None:
    shared = {method for op in ops.OPERATIONS for method in op.methods.values() if is_ambiguous(method)}
    assert shared == {"tasks/get", "tasks/cancel", "tasks/resubscribe"}
    assert not is_ambiguous("tasks/dream")


def test_a_header_that_contradicts_the_method_is_an_error() -> None:
    with pytest.raises(MethodNotFoundError, match=r"belongs to A2A 0.2 and 0.3, but A2A-Version says 1.0"):
        detect_jsonrpc("message/send", "1.0")
    with pytest.raises(VersionNotSupportedError, match=r"belongs to A2A 1.0, but A2A-Version says 0.3"):
        detect_rest(ops.SEND_MESSAGE, V1_0, "0.3")


def test_unknown_methods_and_versions_are_errors() -> None:
    with pytest.raises(MethodNotFoundError, match=r"^Method not found: 'tasks/dream'$"):
        detect_jsonrpc("tasks/dream")
    with pytest.raises(VersionNotSupportedError):
        detect_jsonrpc("SendMessage", "9.9")


def test_the_path_decides_over_rest() -> None:
    assert detect_rest(ops.GET_TASK, V0_3).reason == "the path belongs to 0.3"
    assert detect_rest(ops.GET_TASK, V1_0, "1.0").version is V1_0


@pytest.mark.parametrize(
    ("body", "is_proto"),
    [
        (None, True),
        ({}, True),
        ({"message": {"content": [], "role": "ROLE_USER"}}, True),
        ({"request": {"content": []}}, True),
        ({"message": {"parts": [], "role": "user"}}, False),
        ({"message": {"role": "agent"}}, False),
        ({"message": {"role": "ROLE_USER"}}, True),
        ({"taskId": "t", "pushNotificationConfig": {}}, False),
    ],
)
def test_the_shape_of_a_0_3_rest_body_is_told_by_its_members(body: object, is_proto: bool) -> None:
    assert is_proto_shape(body) is is_proto  # pyright: ignore[reportArgumentType]
