"""What the clients of other frameworks show of Parley's answers, step by step; the steps are in `peers/steps.py`.

A comment names what is the framework's own. `docs/interoperability.md` says more.
"""

from __future__ import annotations

from typing import Any

# Its events are the pieces of an answer; only the last piece is kept in the session.
GOOGLE_ADK: dict[str, Any] = {
    "send": {"text": "hello"},
    "conversation": [{"text": "one"}, {"text": "two"}],
    "multi_turn": [
        {"text": "", "calls": [["mock_function_call_for_required_user_input", {"input_required": "For how many?"}]]},
        {"text": "A table for four."},
    ],
    "stream": {"pieces": [["1 ", True], ["2 ", True], ["3 ", False]]},
    "whole": {"text": "3 "},
    "files": {
        "text": "soup.png image/png 6; menu.pdf application/pdf https://files.example/menu.pdf",
        "raw": [["iVBORwD/", "soup.png", "image/png"]],
        "url": [["https://files.example/menu.pdf", "menu.pdf", "application/pdf"]],
    },
    "endings": {"fail": {"text": "The oven is broken."}, "reject": {"text": "Not on Sundays."}},
    "authenticated": {
        "known": {"text": "secret"},
        "stranger": {
            "text": "",
            "errors": ["A2A request failed: HTTP Error 401: Client error '401 Unauthorized' for url 'GUARDED/'"],
        },
    },
}

# It sends no ids with the next message, so that an answer starts another task. Files are left out of messages.
STRANDS_AGENTS: dict[str, Any] = {
    "card": {"name": "Scenario", "version": "4.2.0", "skills": ["echo", "count"]},
    "send": {"text": "hello", "stop": "end_turn", "a2a_task_state": "completed"},
    "conversation": [
        {"text": "one", "stop": "end_turn", "a2a_task_state": "completed"},
        {"text": "two", "stop": "end_turn", "a2a_task_state": "completed"},
    ],
    "multi_turn": [
        {"text": "For how many?", "stop": "interrupt", "a2a_task_state": "input-required"},
        {"text": "I do not know how to four.", "stop": "end_turn", "a2a_task_state": "rejected"},
    ],
    "stream": {"pieces": ["1 ", "2 ", "3 "]},
    "whole": {"text": "1 2 3 ", "stop": "end_turn", "a2a_task_state": "completed"},
    "files": {"text": "", "stop": "end_turn", "a2a_task_state": "completed"},
    "endings": {
        "fail": {"text": "The oven is broken.", "stop": "end_turn", "a2a_task_state": "failed"},
        "reject": {"text": "Not on Sundays.", "stop": "end_turn", "a2a_task_state": "rejected"},
    },
    "authenticated": {
        "known": {"text": "secret", "stop": "end_turn", "a2a_task_state": "completed"},
        "stranger": {
            "raised": "A2AClientHTTPError",
            "about": "HTTP Error 401: Client error '401 Unauthorized' for url 'GUARDED/'",
        },
    },
}

# It sends no names of files. Of a task without artifacts it shows the last message of the history: here the caller's.
AGENT_FRAMEWORK: dict[str, Any] = {
    "card": {"name": "Scenario", "description": "Does what the interop tests ask for."},
    "send": {"text": "hello"},
    "conversation": [{"text": "one"}, {"text": "two"}],
    "multi_turn": [{"text": "For how many?"}, {"text": "A table for four."}],
    "stream": {"pieces": ["1 ", "2 ", "3 "]},
    "whole": {"text": "1 2 3 "},
    "files": {
        "text": "None image/png 6; None application/pdf https://files.example/menu.pdf",
        "contents": [
            ["data", "data:image/png;base64,iVBORwD/", "image/png"],
            ["uri", "https://files.example/menu.pdf", "application/pdf"],
        ],
    },
    "endings": {"fail": {"text": "fail"}, "reject": {"text": "reject"}},
    "long_running": {"still runs": True, "followed": "4 5 6 ", "ended": "1 2 3 4 5 6 ", "runs in the end": False},
    "authenticated": {
        "known": {"text": "secret"},
        "stranger": {
            "raised": "A2AClientError",
            "about": "HTTP Error 401: Client error '401 Unauthorized' for url 'GUARDED/'",
        },
    },
}

# The class does not stream. Numbers pass through protobuf, which makes floats of them.
LITELLM: dict[str, Any] = {
    "card": {"name": "Scenario", "version": "4.2.0", "skills": ["echo", "count"]},
    "send": {"text": "hello", "state": "completed"},
    "conversation": [{"text": "one", "state": "completed"}, {"text": "two", "state": "completed"}],
    "multi_turn": [
        {"text": "For how many?", "state": "input-required"},
        {"text": "A table for four.", "state": "completed"},
    ],
    "stream": {"pieces": ["1 ", "2 ", "3 "], "of the class": []},
    "whole": {"text": "1 2 3 ", "state": "completed"},
    "files": {
        "text": "soup.png image/png 6; menu.pdf application/pdf https://files.example/menu.pdf",
        "state": "completed",
        "parts": [
            {"file": {"bytes": "iVBORwD/", "mimeType": "image/png", "name": "soup.png"}, "kind": "file"},
            {
                "file": {"mimeType": "application/pdf", "name": "menu.pdf", "uri": "https://files.example/menu.pdf"},
                "kind": "file",
            },
        ],
    },
    "data": {
        "text": "",
        "state": "completed",
        "parts": [
            {
                "data": {
                    "got": {
                        "guests": 2.0,
                        "dishes": ["soup", {"name": "crêpe"}],
                        "ratio": 0.5,
                        "note": None,
                        "vegan": True,
                    }
                },
                "kind": "data",
            }
        ],
    },
    "endings": {
        "fail": {"text": "The oven is broken.", "state": "failed"},
        "reject": {"text": "Not on Sundays.", "state": "rejected"},
    },
    "authenticated": {
        "known": {"text": "secret", "state": "completed"},
        "stranger": {
            "raised": "A2AError",
            "about": "litellm.A2AError: HTTP Error 401: Client error '401 Unauthorized' for url 'GUARDED/'",
        },
    },
}

# It sends "user: echo hello", with the role before the text.
LITELLM_COMPLETION: dict[str, Any] = {
    "send": {"text": "I do not know how to user:."},
    "authenticated": {
        "known": {"text": "I do not know how to user:."},
        "stranger": {
            "raised": "AuthenticationError",
            "about": 'litellm.AuthenticationError: A2aException - {"jsonrpc":"2.0","id":null,"error":{"code":-32031,'
            '"message":"The credentials are not valid","data":{"reason":"UNAUTHENTICATED"}}}',
        },
    },
}

# It joins the pieces of an artifact with spaces, and does not tell rejected from failed.
CREWAI: dict[str, Any] = {
    "card": {"name": "Scenario", "version": "4.2.0"},
    "send": {"status": "completed", "text": "hello", "error": None},
    "conversation": [
        {"status": "completed", "text": "one", "error": None},
        {"status": "completed", "text": "two", "error": None},
    ],
    "multi_turn": [
        {"status": "input-required", "text": None, "error": "For how many?"},
        {"status": "completed", "text": "A table for four.", "error": None},
    ],
    "stream": {"pieces": [["response", False, False], ["response", True, False], ["response", True, True]]},
    "whole": {"status": "completed", "text": "1  2  3 ", "error": None},
    "endings": {
        "fail": {"status": "failed", "text": None, "error": "The oven is broken."},
        "reject": {"status": "failed", "text": None, "error": "Not on Sundays."},
    },
    "authenticated": {
        "known": {"status": "completed", "text": "secret", "error": None},
        "stranger": {
            "raised": "A2AClientHTTPError",
            "about": "HTTP Error 401: AgentCard requires authentication but no auth scheme provided",
        },
    },
}

# It puts the question before the answer.
CREWAI_POLLING: dict[str, Any] = {
    "card": {"name": "Scenario", "version": "4.2.0"},
    "send": {"status": "completed", "text": "hello", "error": None},
    "conversation": [
        {"status": "completed", "text": "one", "error": None},
        {"status": "completed", "text": "two", "error": None},
    ],
    "multi_turn": [
        {"status": "input-required", "text": None, "error": "For how many?"},
        {"status": "completed", "text": "For how many? A table for four.", "error": None},
    ],
    "stream": {"pieces": []},
    "whole": {"status": "completed", "text": "1 2 3 ", "error": None},
    "endings": {
        "fail": {"status": "failed", "text": None, "error": "The oven is broken."},
        "reject": {"status": "failed", "text": None, "error": "Not on Sundays."},
    },
    "authenticated": {
        "known": {"status": "completed", "text": "secret", "error": None},
        "stranger": {
            "raised": "A2AClientHTTPError",
            "about": "HTTP Error 401: AgentCard requires authentication but no auth scheme provided",
        },
    },
}

# Files are left out of messages.
BEEAI_FRAMEWORK: dict[str, Any] = {
    "card": {"name": "Scenario", "version": "4.2.0", "skills": ["echo", "count"]},
    "send": {"text": "hello"},
    "conversation": [{"text": "one"}, {"text": "two"}],
    "multi_turn": [{"text": "For how many?"}, {"text": "A table for four."}],
    "stream": {"pieces": ["1 ", "2 ", "3 "]},
    "whole": {"text": "1 2 3 "},
    "files": {"text": ""},
    "endings": {"fail": {"text": "The oven is broken."}, "reject": {"text": "Not on Sundays."}},
    "authenticated": {
        "known": {"text": "secret"},
        "stranger": {"raised": "FrameworkError", "about": "Framework error"},
    },
}

# It takes the blanks from the ends of a text.
MASTRA: dict[str, Any] = {
    "card": {"name": "Scenario", "version": "4.2.0", "skills": ["echo", "count"]},
    "send": {"text": "hello", "finish": "stop", "state": "completed"},
    "conversation": [
        {"text": "one", "finish": "stop", "state": "completed"},
        {"text": "two", "finish": "stop", "state": "completed"},
    ],
    "multi_turn": [
        {"text": "For how many?", "finish": "suspended", "state": "input-required"},
        {"text": "A table for four.", "finish": "stop", "state": "completed"},
    ],
    "stream": {"pieces": ["1 ", "2 ", "3 "]},
    "whole": {"text": "1 2 3", "finish": "stop", "state": "completed"},
    "endings": {
        "fail": {"text": "The oven is broken.", "finish": "stop", "state": "failed"},
        "reject": {"text": "Not on Sundays.", "finish": "stop", "state": "rejected"},
    },
    "authenticated": {
        "known": {"text": "secret", "finish": "stop", "state": "completed"},
        "stranger": {"raised": "MastraA2AError", "about": "Remote A2A request failed with status 401."},
    },
}

SHOWN: dict[str, dict[str, Any]] = {
    "google-adk": GOOGLE_ADK,
    "strands-agents": STRANDS_AGENTS,
    "agent-framework": AGENT_FRAMEWORK,
    "litellm": LITELLM,
    "litellm-completion": LITELLM_COMPLETION,
    "crewai": CREWAI,
    "crewai-polling": CREWAI_POLLING,
    "beeai-framework": BEEAI_FRAMEWORK,
    "mastra": MASTRA,
    "mastra-1.0": MASTRA,
}
