"""A graph with a scripted node, which the LangGraph server loads by its path."""

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt
from scripted import QUESTION, forever, pieces_of


async def speak(state):
    content = state["messages"][-1].content
    blocks = [content] if isinstance(content, str) else content
    text = blocks[0] if isinstance(blocks[0], str) else blocks[0]["text"]
    if text == "ask":
        return {"messages": [AIMessage(f"A table for {interrupt(QUESTION)}.")]}
    if text in ("files", "data"):
        return {"messages": [AIMessage("; ".join(map(described, blocks[1:])))]}
    pieces = pieces_of(text)
    if pieces is None:
        await forever()
    return {"messages": [AIMessage("".join(pieces))]}


def described(block):
    return " ".join(str(block).split())


graph = StateGraph(MessagesState).add_node("speak", speak).add_edge(START, "speak").add_edge("speak", END).compile()
