"""The programs in the documentation run."""

import pathlib
import re
from typing import Any

import pytest
from played import World, calls
from scripted import serving

from inspan import Harness, messages, v1

SDK = pathlib.Path(__file__).parents[1]
PAGES = (SDK / "README.md", SDK.parents[1] / "docs" / "harness-python.md")


def programs(page: pathlib.Path) -> list[dict[str, Any]]:
    """What each Python block of a page defines."""
    if not page.exists():
        pytest.skip(f"{page.name} is in the project's checkout only")
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    defined: list[dict[str, Any]] = []
    for number, block in enumerate(blocks):
        if "langgraph" in block:
            pytest.importorskip("langgraph", reason="langgraph cannot be imported: install the extra inspan[langgraph]")
        defined.append({"__name__": f"block_{number}"})
        exec(compile(block, f"{page.name} block {number}", "exec"), defined[-1])
    return defined


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
async def test_the_harnesses_of_a_page_take_turns(page: pathlib.Path, loopback: str) -> None:
    harnesses = [
        value()
        for block in programs(page)
        for value in block.values()
        if isinstance(value, type) and issubclass(value, Harness) and value.__module__ == block["__name__"]
    ]
    assert harnesses
    call = messages.tool_call("weather", {"place": "Sani Pass"}, id="w1")
    for harness in harnesses:
        one = World(
            completions=[calls(call), messages.assistant("Sunny")],
            tools={"weather": lambda args: f"sun over {args['place']}"},
            start=v1.StartFrame(inputs=[messages.user("Will it rain?")]),
        )
        async with serving(harness, loopback) as channel:
            assert await one.drive(channel) == "completed"
            assert await one.drive(channel) == "completed"
        assert one.model_calls
