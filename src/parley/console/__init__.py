"""The console: the page at `/console`, its sessions, and the API that it uses where A2A lacks something.

    console = Console(ServedBackend(app), ConsoleSettings())
    app.install_console(console)

`docs/console-api.md` is the contract with the page. `console.py` assembles the parts; `backend.py` says what differs
between servers; `api/` holds the routes, `streams/` the one stream of a page with its channels. A server whose console
is off imports nothing of it.
"""
