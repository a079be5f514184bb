"""The adapter of LangGraph."""

from framework_tests.langgraph import samples
from framework_tests.suite import AdapterSuite


class TestLangGraph(AdapterSuite):
    samples = samples
