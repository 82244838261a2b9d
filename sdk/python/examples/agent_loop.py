"""An agent that calls tools until its model needs no more of them.

    python examples/agent_loop.py --address 127.0.0.1:8090 --model llama3.2
    inspan serve --model llama3.2 --model-base-url http://127.0.0.1:11434/v1 --harness agent=127.0.0.1:8090

The host asks the model and runs the tools, so a turn that is cut short anywhere goes on where its record ends. What
makes that work is all in `run`: it decides by what the sink gave back and by nothing else.
"""

import argparse
from collections.abc import Collection, Sequence

import inspan
from inspan import messages, v1

STEPS_MAX = 20
"""Model calls in one turn: a model that never stops calling tools is a failure, not a bill."""

TOOLS = (
    messages.tool_definition(
        "weather",
        "The weather of a place today",
        {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    ),
    messages.tool_definition(
        "book_hut",
        "Books a mountain hut for a night; it costs money",
        {
            "type": "object",
            "properties": {"hut": {"type": "string"}, "persons": {"type": "integer"}},
            "required": ["hut", "persons"],
        },
    ),
)

GATED = frozenset({"book_hut"})
"""What only a person may allow."""


class AgentLoop(inspan.Harness):
    """Asks the model, has the host run what it calls for, tells it the results, and asks again."""

    def __init__(self, model: str, tools: Sequence[v1.ToolDefinition] = TOOLS, gated: Collection[str] = GATED) -> None:
        self.model = model
        self.tools = {tool.name: tool for tool in tools}
        self.gated = gated

    def describe(self) -> inspan.Descriptor:
        """One tool spec for each tool, with who decides about it."""
        specs = [
            v1.ToolSpec(name=tool.name, description=tool.description, mediation=self.mediation(tool.name))
            for tool in self.tools.values()
        ]
        return inspan.Descriptor(id="agent-loop", version="1", models=[self.model], tools=specs, fork_safe=True)

    async def run(self, start: inspan.Start, sink: inspan.Sink) -> None:
        """One turn: the completions are recorded by the host, so there is nothing to output."""
        conversation = start.conversation()
        for _ in range(STEPS_MAX):
            answer = await sink.model(conversation, model=self.model, tools=self.tools.values())
            conversation.append(answer.message)
            if not answer.tool_calls:
                return
            conversation += [await self.called(call, sink) for call in answer.tool_calls]
        raise inspan.Failed(f"the model still calls tools after {STEPS_MAX} answers")

    async def called(self, call: v1.ToolCall, sink: inspan.Sink) -> v1.Message:
        """The message that answers a call. A tool that nobody offered is the model's mistake, and it is told so."""
        if call.tool not in self.tools:
            return messages.tool_result(v1.ToolResult(id=call.id, is_error=True, error=f"there is no tool {call.tool}"))
        return (await sink.tool(call, mediation=self.mediation(call.tool))).message

    def mediation(self, tool: str) -> v1.Mediation:
        """Who decides whether a tool runs."""
        return v1.MEDIATION_REQUIRES_APPROVAL if tool in self.gated else v1.MEDIATION_CONTROLLER_MEDIATED


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Serves an agent that calls tools.")
    parser.add_argument("--address", default="127.0.0.1:8090", help="host:port or unix:///path")
    parser.add_argument("--model", required=True, help="the model to ask for")
    arguments = parser.parse_args()
    inspan.serve(AgentLoop(arguments.model), arguments.address)


if __name__ == "__main__":
    main()
