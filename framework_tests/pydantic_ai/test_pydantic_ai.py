"""The adapter of pydantic-ai."""

from framework_tests.pydantic_ai import samples
from framework_tests.suite import AdapterSuite


class TestPydanticAI(AdapterSuite):
    samples = samples
