"""A LangGraph agent whose turns are durable: a plain graph, with its model and its tools swapped for ours.

pip install 'inspan[langgraph]'
python examples/langgraph_agent.py --address 127.0.0.1:8091 --model llama3.2
inspan serve --model llama3.2 --model-base-url http://127.0.0.1:11434/v1 --harness graph=127.0.0.1:8091
"""

import argparse
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition

import inspan
from inspan.langgraph import ChatModel, conversation, host_tool

STEPS_MAX = 40
"""Model calls and rounds of tools in one turn: a model that never stops calling tools is a failure, not a bill."""


@tool
def weather(place: str) -> str:
    """The weather of a place today."""
    return f"sun over {place}"


@tool
def book_hut(hut: str, persons: int) -> str:
    """Books a mountain hut for a night; it costs money."""
    return f"{hut} is booked for {persons}"


def agent(model: BaseChatModel, tools: Sequence[BaseTool]) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph: it knows nothing of inspan, and runs as well on any other model and on the tools themselves."""
    calling = model.bind_tools(tools)

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await calling.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile()


class GraphAgent(inspan.Harness):
    """Runs the graph once for each turn, from the recorded conversation."""

    def __init__(self, model: str) -> None:
        self.model = model

    def describe(self) -> inspan.Descriptor:
        """The graph keeps nothing between turns, so its journal is all that it needs."""
        return inspan.Descriptor(id="langgraph-agent", version="1", models=[self.model], fork_safe=True)

    async def run(self, start: inspan.Start, sink: inspan.Sink) -> None:
        """One turn."""
        tools = [host_tool(weather, sink), host_tool(book_hut, sink, approval=True)]
        graph = agent(ChatModel(sink=sink, model=self.model), tools)
        await graph.ainvoke({"messages": conversation(start)}, {"recursion_limit": STEPS_MAX})


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Serves a LangGraph agent.")
    parser.add_argument("--address", default="127.0.0.1:8091", help="host:port or unix:///path")
    parser.add_argument("--model", required=True, help="the model to ask for")
    arguments = parser.parse_args()
    inspan.serve(GraphAgent(arguments.model), arguments.address)


if __name__ == "__main__":
    main()
