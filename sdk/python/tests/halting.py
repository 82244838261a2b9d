"""A harness that two tests kill: it asks a model twice, and may stop for ever in between.

python halting.py ADDRESS [halt]
"""

import asyncio
import sys

import inspan
from inspan import messages


class Halting(inspan.Harness):
    def __init__(self, halts: bool) -> None:
        self.halts = halts

    def describe(self) -> inspan.Descriptor:
        return inspan.Descriptor(id="halting", version="1", fork_safe=True)

    async def run(self, start: inspan.Start, sink: inspan.Sink) -> None:
        first = await sink.model(start.inputs, model="m")
        if self.halts:
            print("halted", file=sys.stderr, flush=True)
            await asyncio.Event().wait()
        await sink.model([*start.inputs, first.message, messages.user("and then?")], model="m")


if __name__ == "__main__":
    inspan.serve(Halting("halt" in sys.argv), sys.argv[1])
