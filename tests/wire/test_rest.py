"""REST routes: every request line means one operation, ids survive every character, and wrong input is named."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.protocol.errors import InvalidParamsError, LocalProtocolError, MethodNotFoundError
from parley.protocol.operations import (
    BY_NAME,
    CANCEL_TASK,
    GET_EXTENDED_CARD,
    GET_PUSH_CONFIG,
    GET_TASK,
    LIST_PUSH_CONFIGS,
    LIST_TASKS,
    OPERATIONS,
    SEND_MESSAGE,
    SUBSCRIBE_TO_TASK,
    Operation,
    routes_of,
)
from parley.protocol.versions import Version
from parley.wire.rest import (
    MAX_QUERY_FIELDS,
    RESERVED_TENANTS,
    MethodNotAllowedError,
    QueryValue,
    RouteMatch,
    build_path,
    encode_query,
    match,
    match_any,
    parse_query,
    read_query,
)

V0_2, V0_3, V1_0 = Version.V0_2, Version.V0_3, Version.V1_0

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
tenants = names.filter(lambda name: name not in RESERVED_TENANTS)
routed_operations = st.sampled_from([(version, op) for version in Version for _, op in routes_of(version)])


@st.composite
def route_matches(draw: st.DrawFn) -> RouteMatch:
    version, operation = draw(routed_operations)
    template = operation.routes[version].path
    parameters = {name: draw(names) for name in re.findall(r"{(\w+)}", template)}
    return RouteMatch(version, operation, parameters, draw(st.none() | tenants) if version is V1_0 else None)


@given(route_matches())
def test_a_path_that_was_built_is_matched_to_the_same(wanted: RouteMatch):
    verb, path = build_path(wanted.operation, wanted.version, parameters=wanted.parameters, tenant=wanted.tenant)
    assert path.isascii()
    assert match(wanted.version, verb, path) == wanted
    assert match_any(verb, path) == wanted


segments = st.text() | st.sampled_from(
    ["v1", "tasks", "message:send", ":cancel", "pushNotificationConfigs", "%FF", "%"]
)
paths = st.lists(segments).map(lambda some: "/" + "/".join(some))


@given(st.sampled_from(["GET", "POST", "DELETE", "HEAD"]), paths | st.text())
def test_whatever_is_asked_is_a_route_or_a_documented_error(verb: str, path: str):
    with contextlib.suppress(MethodNotFoundError, InvalidParamsError):
        assert all(match_any(verb, path).parameters.values())


def test_every_request_a_peer_was_recorded_with_is_matched_to_its_operation():
    exchanges = [json.loads(file.read_text()) for file in Path(__file__).parents[1].glob("golden/*/rest/*.json")]
    calls = [(exchange["request"], BY_NAME[exchange["operation"]]) for exchange in exchanges if exchange["operation"]]
    assert calls
    for request, operation in calls:
        path, _, query = request["path"].partition("?")
        if (operation, path) == (LIST_TASKS, "/v1/tasks"):
            continue  # asked to see it refused: 0.3 has no such operation
        found = match_any(request["method"], path)
        assert found.operation is operation
        assert set(read_query(found.route, parse_query(query))) == set(parse_query(query))


@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_subscribing_works_with_either_verb(verb: str):
    assert match(V1_0, verb, "/tasks/t:subscribe") == RouteMatch(V1_0, SUBSCRIBE_TO_TASK, {"id": "t"})
    assert match(V0_3, verb, "/v1/tasks/t:subscribe") == RouteMatch(V0_3, SUBSCRIBE_TO_TASK, {"id": "t"})


@pytest.mark.parametrize(
    ("verb", "path", "operation", "id"),
    [
        ("POST", "/tasks/a:b:cancel", CANCEL_TASK, "a:b"),
        ("POST", "/tasks/a:cancel:cancel", CANCEL_TASK, "a:cancel"),
        ("GET", "/tasks/a:cancel:subscribe", SUBSCRIBE_TO_TASK, "a:cancel"),
        ("GET", "/tasks/a:b", GET_TASK, "a:b"),
        ("GET", "/tasks/a:canceled", GET_TASK, "a:canceled"),
        ("GET", "/tasks/a%3Acancel", GET_TASK, "a:cancel"),
        ("GET", "/tasks/a%2Fb%2fc", GET_TASK, "a/b/c"),
        ("GET", "/tasks/a%252Fb", GET_TASK, "a%2Fb"),
        ("GET", "/tasks/a+b%20c", GET_TASK, "a+b c"),
        ("GET", "/tasks/%C3%A9", GET_TASK, "é"),
        ("GET", "/tasks/é", GET_TASK, "é"),
        ("GET", "/tasks/100%", GET_TASK, "100%"),
        ("GET", "/tasks/a:cancel/pushNotificationConfigs", LIST_PUSH_CONFIGS, "a:cancel"),
    ],
)
def test_an_id_is_decoded_once_and_ends_where_the_action_begins(verb: str, path: str, operation: Operation, id: str):
    assert match(V1_0, verb, path) == RouteMatch(V1_0, operation, {"id": id})
    assert match(V0_3, verb, f"/v1{path}") == RouteMatch(V0_3, operation, {"id": id})


def test_a_webhook_is_found_by_both_its_names():
    found = match(V1_0, "GET", "/tasks/t/pushNotificationConfigs/c:cancel")
    assert found == RouteMatch(V1_0, GET_PUSH_CONFIG, {"id": "t", "config_id": "c:cancel"})


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [
        ("GET", "/message:send", ["POST"]),
        ("PUT", "/tasks/t:subscribe", ["GET", "POST"]),
        ("GET", "/tasks/t:cancel", ["POST"]),
        ("POST", "/tasks/t:pause", ["GET"]),
        ("PATCH", "/tasks/t/pushNotificationConfigs", ["GET", "POST"]),
        ("POST", "/acme/tasks/t/pushNotificationConfigs/c", ["DELETE", "GET"]),
        ("get", "/tasks", ["GET"]),
    ],
)
def test_a_path_asked_with_the_wrong_verb_names_the_right_ones(verb: str, path: str, allowed: list[str]):
    with pytest.raises(MethodNotAllowedError) as caught:
        match(V1_0, verb, path)
    assert caught.value.allowed == allowed
    assert caught.value.row.http == 405


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "tasks",
        "/tasks/",
        "//tasks",
        "/tasks/:cancel",
        "/tasks//pushNotificationConfigs",
        "/a/b/tasks",
        "/Tasks",
    ],
)
def test_a_path_that_does_not_exist_is_not_found(path: str):
    with pytest.raises(MethodNotFoundError) as caught:
        match(V1_0, "GET", path)
    assert type(caught.value) is MethodNotFoundError


@pytest.mark.parametrize("path", ["/tasks/%FF", "/%C3/tasks", "/tasks/t/pushNotificationConfigs/%ed%a0%80"])
def test_a_name_that_is_not_utf8_is_refused(path: str):
    with pytest.raises(InvalidParamsError, match="in the path is not UTF-8"):
        match(V1_0, "GET", path)


def test_a_tenant_is_one_segment_before_any_route_of_1_0():
    assert match(V1_0, "POST", "/a%2Fb/message:send") == RouteMatch(V1_0, SEND_MESSAGE, {}, "a/b")
    assert match(V1_0, "POST", "/message:send/message:send") == RouteMatch(V1_0, SEND_MESSAGE, {}, "message:send")
    with pytest.raises(MethodNotFoundError):
        match(V0_3, "POST", "/acme/v1/message:send")


def test_a_route_without_tenant_wins_over_one_with_a_tenant_of_that_name():
    assert match(V1_0, "GET", "/tasks/tasks") == RouteMatch(V1_0, GET_TASK, {"id": "tasks"})
    assert match(V1_0, "GET", "/tasks/extendedAgentCard") == RouteMatch(V1_0, GET_TASK, {"id": "extendedAgentCard"})
    assert match(V1_0, "GET", "/tasks/tasks/t") == RouteMatch(V1_0, GET_TASK, {"id": "t"}, "tasks")
    assert {"console", "tasks", "v1"} == RESERVED_TENANTS


def test_paths_under_v1_belong_to_0_3_and_all_others_to_1_0():
    assert match_any("GET", "/v1/card") == RouteMatch(V0_3, GET_EXTENDED_CARD, {})
    assert match_any("GET", "/v1x/tasks") == RouteMatch(V1_0, LIST_TASKS, {}, "v1x")
    with pytest.raises(MethodNotFoundError):
        match_any("GET", "/v1/tasks")  # 0.3 lists no tasks, and `v1` is no tenant


def test_a_version_without_rest_has_no_paths():
    with pytest.raises(MethodNotFoundError):
        match(V0_2, "POST", "/v1/message:send")
    with pytest.raises(LocalProtocolError, match=r"A2A 0\.2 has no REST route for SendMessage"):
        build_path(SEND_MESSAGE, V0_2, parameters={})


def test_what_a_path_cannot_say_is_not_built():
    with pytest.raises(LocalProtocolError, match=r"A2A 0\.3 has no tenants"):
        build_path(SEND_MESSAGE, V0_3, parameters={}, tenant="acme")
    with pytest.raises(LocalProtocolError, match="The id in a path cannot be empty"):
        build_path(GET_TASK, V1_0, parameters={"id": ""})
    with pytest.raises(LocalProtocolError, match="The tenant in a path cannot be empty"):
        build_path(SEND_MESSAGE, V1_0, parameters={}, tenant="")


@pytest.mark.parametrize(("id", "segment"), [("..", "%2E%2E"), (".", "%2E"), ("...", "..."), ("a/:b", "a%2F%3Ab")])
def test_an_id_never_changes_the_path_around_it(id: str, segment: str):
    assert build_path(GET_TASK, V1_0, parameters={"id": id}) == ("GET", f"/tasks/{segment}")
    assert build_path(CANCEL_TASK, V0_3, parameters={"id": id}) == ("POST", f"/v1/tasks/{segment}:cancel")


query_values = {
    "historyLength": st.integers(-(2**31), 2**31 - 1),
    "pageSize": st.integers(-(2**31), 2**31 - 1),
    "includeArtifacts": st.booleans(),
}


@given(st.data())
def test_a_query_that_was_encoded_is_read_to_the_same(data: st.DataObject):
    route = LIST_TASKS.routes[V1_0]
    texts = st.text(st.characters(exclude_categories=["Cs"]))
    values: dict[str, QueryValue] = data.draw(
        st.fixed_dictionaries({}, optional={name: query_values.get(name, texts) for name in route.query})
    )
    assert read_query(route, parse_query(encode_query(values))) == values


@given(st.text() | st.text("%&=+0F"))
def test_whatever_a_query_says_is_parsed_or_refused(query: str):
    with contextlib.suppress(InvalidParamsError):
        assert all(parse_query(query).values())


@given(st.sampled_from(sorted(query_values)), st.text() | st.text("-0123456789"))
def test_whatever_a_value_says_is_read_or_refused(name: str, value: str):
    with contextlib.suppress(InvalidParamsError):
        assert isinstance(read_query(LIST_TASKS.routes[V1_0], {name: [value]})[name], int)


def test_names_in_a_query_may_be_those_of_the_protobuf():
    """As SDKs of 0.3 send them."""
    route = GET_TASK.routes[V0_3]
    assert read_query(route, parse_query("history_length=3")) == {"historyLength": 3}
    with pytest.raises(InvalidParamsError, match="more than once"):
        read_query(route, parse_query("history_length=3&historyLength=3"))


def test_a_query_is_written_plainly_without_what_is_not_given():
    assert encode_query({"status": "a b", "pageSize": 5, "includeArtifacts": True, "pageToken": None}) == (
        "status=a%20b&pageSize=5&includeArtifacts=true"
    )
    assert encode_query({}) == ""


def test_a_query_keeps_every_value_in_order_and_leaves_commas_alone():
    assert parse_query("a=1&b=&a=2,3&c=x+y%2B%C3%A9&d") == {
        "a": ["1", "2,3"],
        "b": [""],
        "c": ["x y+é"],
        "d": [""],
    }


def test_names_that_the_route_does_not_declare_are_ignored():
    fields = parse_query("historyLength=2&pageSize=x&A2A-Version=1.0&pageSize=y")
    assert read_query(GET_TASK.routes[V1_0], fields) == {"historyLength": 2}


def test_every_declared_name_is_read():
    declared = {name for operation in OPERATIONS for route in operation.routes.values() for name in route.query}
    assert declared == {
        *query_values,
        "contextId",
        "status",
        "pageToken",
        "statusTimestampAfter",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("historyLength", ""),
        ("historyLength", "two"),
        ("historyLength", "1.5"),
        ("pageSize", "٣"),
        ("pageSize", "2147483648"),
        ("pageSize", "-2147483649"),
        ("pageSize", "9" * 5000),
        ("pageSize", "5\n"),
        ("includeArtifacts", "1"),
        ("includeArtifacts", "True"),
        ("includeArtifacts", ""),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_name(name: str, value: str):
    with pytest.raises(InvalidParamsError) as caught:
        read_query(LIST_TASKS.routes[V1_0], {name: [value]})
    assert caught.value.path == f"$.{name}"


def test_a_value_given_twice_is_refused_by_name():
    with pytest.raises(InvalidParamsError) as caught:
        read_query(LIST_TASKS.routes[V1_0], parse_query("pageSize=1&pageSize=1"))
    assert caught.value.path == "$.pageSize"


def test_a_query_has_a_bounded_number_of_fields():
    most = "&".join(["a=1"] * MAX_QUERY_FIELDS)
    assert len(parse_query(most)["a"]) == MAX_QUERY_FIELDS
    with pytest.raises(InvalidParamsError, match="100 fields at most"):
        parse_query(f"{most}&a=1")


def test_a_query_that_is_not_utf8_is_refused():
    with pytest.raises(InvalidParamsError, match="not UTF-8"):
        parse_query("contextId=%FF")


def test_half_a_surrogate_pair_has_no_place_in_a_request_line() -> None:
    with pytest.raises(LocalProtocolError, match="The id in a path is not Unicode"):
        build_path(GET_TASK, Version.V1_0, parameters={"id": "\ud800"})
    with pytest.raises(LocalProtocolError, match="A query string can hold Unicode only"):
        encode_query({"pageToken": "\ud800"})
    with pytest.raises(InvalidParamsError):
        match(Version.V1_0, "GET", "/tasks/\ud800")
    with pytest.raises(InvalidParamsError):
        parse_query("pageToken=\ud800")


def test_a_path_needs_all_of_its_names() -> None:
    with pytest.raises(LocalProtocolError, match="needs a value for id"):
        build_path(GET_TASK, Version.V1_0, parameters={})
