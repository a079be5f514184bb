"""Tests of the adapters, each in the environment of its framework: `make frameworks`."""
