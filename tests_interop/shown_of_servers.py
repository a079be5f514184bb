"""What Parley's client shows of agents that other frameworks serve, step by step; the steps are in `parley_steps.py`.

A comment names what is the framework's own. `docs/interoperability.md` says more.
"""

from __future__ import annotations

from typing import Any

# Its model is not asked for a stream, so that the text comes at once.
GOOGLE_ADK: dict[str, Any] = {
    "card": {"name": "scenario", "speaks": "1.0 JSONRPC"},
    "send": {"state": "completed", "text": "hello"},
    "get": {"state": "completed", "text": "again"},
    "conversation": {"texts": ["one", "two"], "same context": True},
    "stream": {"texts": ["1 2 3 "], "state": "completed", "artifacts": ["1 2 3 "]},
    "multi_turn": {
        "asked": {"state": "input-required", "question": "For how many?"},
        "answered": {"state": "completed", "text": "A table for four."},
        "same task": True,
    },
    "files": {"state": "completed", "text": "soup.png image/png 6"},
    "data": {"state": "completed", "text": "None text/plain 69"},
    "failure": {"state": "failed", "reason": "The oven is broken."},
    "unknown_task": {"error": "TaskNotFoundError", "about": "Task not found"},
    "list_tasks": {"newest": "completed"},
    "push": {
        "error": "PushNotificationNotSupportedError",
        "about": "Push notifications are not supported by the agent",
    },
    "cancel": "canceled",
    "start": "submitted",
    "afterwards": {"state": "completed", "text": "hello"},
}

# By default it makes text of a result by `str`, which ends with a newline. The reason of a failure is in its log alone.
STRANDS_AGENTS: dict[str, Any] = {
    "card": {"name": "Scenario", "speaks": "0.3 JSONRPC"},
    "send": {"state": "completed", "text": "hello\n"},
    "get": {"state": "completed", "text": "again\n"},
    "conversation": {"texts": ["one\n", "two\n"], "same context": True},
    "stream": {"texts": ["1 ", "2 ", "3 "], "state": "completed", "artifacts": ["1 2 3 \n"]},
    "multi_turn": {
        "asked": {"state": "input-required", "question": "Agent requires input:\n- guests: For how many?"},
        "answered": {"state": "completed", "text": "A table for four.\n"},
        "same task": True,
    },
    "files": {"state": "completed", "text": "image png 6\n"},
    "data": {"state": "completed", "text": '[Structured Data] { "guests": 2, "vegan": true }\n'},
    "failure": {"state": "failed", "reason": "Agent execution failed"},
    "unknown_task": {"error": "TaskNotFoundError", "about": "Task not found"},
    "list_tasks": {"error": "UnsupportedOperationError", "about": "A2A 0.3 has no ListTasks over JSON-RPC"},
    "push": {"error": "InternalError", "about": "Push notifications are not supported by the agent"},
    "cancel": "canceled",
    "start": "submitted",
    "afterwards": {"state": "completed", "text": "hello\n"},
}

STRANDS_AGENTS_COMPLIANT: dict[str, Any] = {
    "card": {"name": "Scenario", "speaks": "0.3 JSONRPC"},
    "send": {"state": "completed", "text": "hello"},
    "get": {"state": "completed", "text": "again"},
    "conversation": {"texts": ["one", "two"], "same context": True},
    "stream": {"texts": ["1 ", "2 ", "3 "], "state": "completed", "artifacts": ["1 2 3 "]},
    "multi_turn": {
        "asked": {"state": "input-required", "question": "Agent requires input:\n- guests: For how many?"},
        "answered": {"state": "completed", "text": "A table for four."},
        "same task": True,
    },
    "files": {"state": "completed", "text": "image png 6"},
    "data": {"state": "completed", "text": '[Structured Data] { "guests": 2, "vegan": true }'},
    "failure": {"state": "failed", "reason": "Agent execution failed"},
    "unknown_task": {"error": "TaskNotFoundError", "about": "Task not found"},
    "list_tasks": {"error": "UnsupportedOperationError", "about": "A2A 0.3 has no ListTasks over JSON-RPC"},
    "push": {"error": "InternalError", "about": "Push notifications are not supported by the agent"},
    "cancel": "canceled",
    "start": "submitted",
    "afterwards": {"state": "completed", "text": "hello"},
}

# It reads nothing but the text of a message, and has no way to ask. Unless it streams, its answer is a message of the
# working task.
AGENT_FRAMEWORK: dict[str, Any] = {
    "card": {"name": "Scenario", "speaks": "1.0 JSONRPC"},
    "send": {"state": "completed", "text": "hello"},
    "get": {"state": "completed", "text": "again"},
    "conversation": {"texts": ["one", "two"], "same context": True},
    "stream": {"texts": ["1 2 3 "], "state": "completed", "artifacts": []},
    "multi_turn": {"asked": {"state": "completed", "text": "got ask"}},
    "files": {"state": "completed", "text": "reached by text"},
    "data": {"state": "completed", "text": "reached by text"},
    "failure": {"state": "failed", "reason": "The oven is broken."},
    "unknown_task": {"error": "TaskNotFoundError", "about": "Task not found"},
    "list_tasks": {"newest": "completed"},
    "push": {
        "error": "PushNotificationNotSupportedError",
        "about": "Push notifications are not supported by the agent",
    },
    "cancel": "canceled",
    "start": "submitted",
    "afterwards": {"state": "completed", "text": "hello"},
}

AGENT_FRAMEWORK_STREAM: dict[str, Any] = {
    **AGENT_FRAMEWORK,
    "stream": {"texts": ["1 ", "2 ", "3 "], "state": "completed", "artifacts": ["1 2 3 "]},
}

# The agent behind the gateway is Parley's. Numbers pass through protobuf, which makes floats of them.
LITELLM_0_3_0: dict[str, Any] = {
    "card": {"name": "Scenario", "speaks": "0.3 JSONRPC"},
    "send": {"state": "completed", "text": "hello"},
    "get": {"state": "completed", "text": "again"},
    "conversation": {"texts": ["one", "two"], "same context": True},
    "stream": {"texts": ["1 ", "2 ", "3 "], "state": "completed", "artifacts": ["1 2 3 "]},
    "multi_turn": {
        "asked": {"state": "input-required", "question": "For how many?"},
        "answered": {"state": "completed", "text": "A table for four."},
        "same task": True,
    },
    "files": {"state": "completed", "text": "soup.png image/png 6"},
    "data": {"state": "completed", "data": {"got": {"vegan": True, "guests": 2.0}}},
    "failure": {"state": "failed", "reason": "The oven is broken."},
    "unknown_task": {"error": "TaskNotFoundError", "about": "Task not found"},
    "list_tasks": {"error": "UnsupportedOperationError", "about": "A2A 0.3 has no ListTasks over JSON-RPC"},
    "push": {
        "error": "InvalidRequestError",
        "about": "HTTP status 400 Bad Request: DNS resolution failed for",
    },
    "cancel": "canceled",
    "start": "working",
    "afterwards": {"state": "completed", "text": "hello"},
}

# A card in the form of 0.3 that states 1.0, and answers in the form of 1.0 to the methods of 0.3.
LITELLM_1_0: dict[str, Any] = {
    "card": {"name": "Scenario", "speaks": "0.3 JSONRPC"},
    "send": {
        "error": "PeerProtocolError",
        "about": "Not an A2A answer (Object missing required field `kind",
    },
}

# It sends one event, the finished task, and an error of JSON-RPC for a task that failed.
CREWAI: dict[str, Any] = {
    "card": {"name": "Scenario", "speaks": "0.3 JSONRPC"},
    "send": {"state": "completed", "text": "hello"},
    "get": {"state": "completed", "text": "again"},
    "conversation": {"texts": ["one", "two"], "same context": True},
    "stream": {"texts": ["1 2 3"], "state": "completed", "artifacts": ["1 2 3"]},
    "multi_turn": {"asked": {"state": "completed", "text": "got ask"}},
    "files": {"state": "completed", "text": "got files"},
    "data": {"state": "completed", "text": 'got data Structured Data: [ { "guests": 2, "vegan": true } ]'},
    "failure": {"error": "InternalError", "about": "Task execution failed: The oven is broken."},
    "unknown_task": {"error": "TaskNotFoundError", "about": "Task not found"},
    "list_tasks": {"error": "UnsupportedOperationError", "about": "A2A 0.3 has no ListTasks over JSON-RPC"},
    "push": {"error": "InternalError", "about": "Push notifications are not supported by the agent"},
    "afterwards": {"state": "completed", "text": "hello"},
}

# Its answer is the message of the completed task.
BEEAI_FRAMEWORK: dict[str, Any] = {
    "card": {"name": "Scenario", "speaks": "0.3 JSONRPC"},
    "send": {"state": "completed", "text": "hello"},
    "get": {"state": "completed", "text": "again"},
    "conversation": {"texts": ["one", "two"], "same context": True},
    "stream": {"texts": ["1 2 3 "], "state": "completed", "artifacts": []},
    "multi_turn": {"asked": {"state": "completed", "text": "got ask"}},
    "files": {
        "state": "completed",
        "text": "{'type': 'file', 'file': {'file_data': 'iVBORwD/', 'format': 'image/png', 'filename': 'soup.png'}}",
    },
    "data": {"state": "completed", "text": "got data{\n  &quot;guests&quot;: 2,\n  &quot;vegan&quot;: true\n}"},
    "failure": {"state": "failed", "reason": "Chat Model error"},
    "unknown_task": {"error": "TaskNotFoundError", "about": "Task not found"},
    "list_tasks": {"error": "UnsupportedOperationError", "about": "A2A 0.3 has no ListTasks over JSON-RPC"},
    "push": {"error": "InternalError", "about": "Push notifications are not supported by the agent"},
    "afterwards": {"state": "completed", "text": "hello"},
}

# GetTask has no artifacts. File parts of 1.0 are refused; data goes into the state of the graph, not into its messages.
LANGGRAPH_API: dict[str, Any] = {
    "card": {"name": "scenario", "speaks": "1.0 JSONRPC"},
    "send": {"state": "completed", "text": "hello"},
    "get": {"state": "completed", "text": "Task completed successfully"},
    "conversation": {"texts": ["one", "two"], "same context": True},
    "stream": {"texts": ["1 2 3 "], "state": "completed", "artifacts": ["1 2 3 "]},
    "multi_turn": {
        "asked": {
            "state": "input-required",
            "question": "For how many?",
        },
        "answered": {"state": "completed", "text": "A table for four."},
        "same task": True,
    },
    "files": {
        "error": "ContentTypeNotSupportedError",
        "about": "Unsupported part type. A2A agents support 'text', 'dat",
    },
    "data": {"state": "completed"},
    "failure": {"state": "failed", "reason": "Error executing assistant: RuntimeError"},
    "unknown_task": {"error": "TaskNotFoundError", "about": "Task not found: no-such-task"},
    "list_tasks": {"newest": "completed"},
    "push": {"error": "MethodNotFoundError", "about": "Method not found: CreateTaskPushNotificationConfig"},
    "cancel": "canceled",
    "afterwards": {"state": "completed", "text": "hello"},
}

# "Generating response..." is a message of the working task.
MASTRA: dict[str, Any] = {
    "card": {"name": "scenario", "speaks": "0.3 JSONRPC"},
    "send": {"state": "completed", "text": "hello"},
    "get": {"state": "completed", "text": "again"},
    "conversation": {"texts": ["one", "two"], "same context": True},
    "stream": {"texts": ["Generating response...", "1 ", "2 ", "3 "], "state": "completed", "artifacts": ["1 2 3 "]},
    "multi_turn": {"asked": {"state": "completed", "text": "For how many?"}},
    "files": {"state": "completed", "text": "file image/png 8"},
    "data": {"error": "InternalError", "about": "Data parts are not supported in core messages"},
    "failure": {"error": "InternalError", "about": "The oven is broken."},
    "unknown_task": {"error": "TaskNotFoundError", "about": "Task not found: no-such-task"},
    "list_tasks": {"error": "UnsupportedOperationError", "about": "A2A 0.3 has no ListTasks over JSON-RPC"},
    "push": {"created": "https://hooks.example/a2a"},
    "cancel": "canceled",
    "start": "working",
    "afterwards": {"state": "completed", "text": "hello"},
}

SHOWN: dict[str, dict[str, Any]] = {
    "google-adk": GOOGLE_ADK,
    "strands-agents": STRANDS_AGENTS,
    "strands-agents-compliant": STRANDS_AGENTS_COMPLIANT,
    "agent-framework": AGENT_FRAMEWORK,
    "agent-framework-stream": AGENT_FRAMEWORK_STREAM,
    "litellm-0.3.0": LITELLM_0_3_0,
    "litellm-1.0": LITELLM_1_0,
    "crewai": CREWAI,
    "beeai-framework": BEEAI_FRAMEWORK,
    "langgraph-api": LANGGRAPH_API,
    "mastra": MASTRA,
}
