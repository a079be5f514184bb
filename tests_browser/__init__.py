"""Tests that drive the console in a real browser, against real servers: `make browser`."""
