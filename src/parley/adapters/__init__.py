"""Adapters: agents of other frameworks, served by Parley. One package per framework, imported only when it is used.

`Agent.of(graph)` finds the adapter for an object (`recognition`). An adapter translates one run of its framework into
pieces (`adapter`), and `durable_run` makes a handler of them: text is streamed, questions are asked, and a run that
was cut off goes on where the framework can. `piece_queue` is for frameworks that report by callbacks. `agent_as_tool`
is the other direction: A2A agents as tools of a framework.
"""
