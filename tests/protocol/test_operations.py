"""The table of operations agrees with itself and with the dialects."""

import pytest

from parley.dialects.registry import DIALECTS
from parley.protocol.operations import BY_NAME, OPERATIONS, Operation, methods_of, routes_of, rpcs_of
from parley.protocol.versions import Version


def test_there_are_eleven_operations_and_1_0_has_them_all() -> None:
    assert len(OPERATIONS) == len(BY_NAME) == 11
    assert methods_of(Version.V1_0) == BY_NAME
    assert len(routes_of(Version.V1_0)) == len(rpcs_of(Version.V1_0)) == 11


@pytest.mark.parametrize("version", Version)
def test_a_dialect_speaks_the_operations_that_the_table_lists_for_it(version: Version) -> None:
    dialect = DIALECTS[version]
    assert {op.name for op in methods_of(version).values()} == set(dialect.requests)
    answered = {op.name for op in methods_of(version).values() if not op.streams}
    assert answered <= set(dialect.results)


def test_older_versions_lack_what_came_later() -> None:
    assert "ListTasks" not in {op.name for op in methods_of(Version.V0_3).values()}
    assert routes_of(Version.V0_1) == routes_of(Version.V0_2) == []
    assert rpcs_of(Version.V0_3)["TaskSubscription"].name == "SubscribeToTask"
    assert len(methods_of(Version.V0_1)) == 7


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda op: op.name)
def test_an_operation_is_named_by_one_verb(operation: Operation) -> None:
    assert operation.verb.islower()
    assert operation.summary.endswith(".")
