"""What tests of agents need.

`client` runs an agent without a server, `crashes` crashes it at every write in turn, `fake_model` is a model with a
script, and `clock` lets a test say what time it is.
"""

from parley.testing.client import AgentClient, running
from parley.testing.clock import FakeClock
from parley.testing.crashes import survives_crashes
from parley.testing.fake_model import STALL, FakeModel

__all__ = ["STALL", "AgentClient", "FakeClock", "FakeModel", "running", "survives_crashes"]
