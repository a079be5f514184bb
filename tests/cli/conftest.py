"""Commands that run within a test set up logging, which must not reach the next test."""

from tests.restored_logging import restored_logging as restored_logging  # a fixture
