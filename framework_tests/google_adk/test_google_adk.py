"""The adapter of google-adk."""

from framework_tests.google_adk import samples
from framework_tests.suite import AdapterSuite


class TestGoogleADK(AdapterSuite):
    samples = samples
