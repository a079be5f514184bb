"""The suite's assertions explain themselves, as those of a test module do."""

import pytest

pytest.register_assert_rewrite("parley.testing.stores")
