"""An agent in an asyncio program that waits for a human: it ends while it waits, and goes on when it is answered.

python examples/asyncio_agent.py agents.sealbook order-42           asks, and ends
python examples/asyncio_agent.py agents.sealbook order-42 yes       hands in the answer, and goes on
"""

import asyncio
import sys

from sealbook.journal import AsyncioJournal, AsyncLeasedRun, InDoubt


async def draft(run: str) -> str:
    """Stands for a model."""
    await asyncio.sleep(0)
    return f"Dear customer of {run}"


async def send(letter: str, idempotency_key: str) -> None:
    """Stands for a mail server that honours the key: asked twice, it sends once."""
    print(letter)


async def execute(run: AsyncLeasedRun) -> str:
    """What the agent does, from the beginning: what is recorded is not done again."""
    letter = await run.effect("draft", draft, run.name, recovery="retry")
    approval = await run.suspend(awaiting={"approval of": letter})
    if approval is None:
        return "waits for an answer"
    if approval.event != "yes":
        await run.conclude("rejected")
        return "rejected"
    await run.effect("send", send, letter, recovery="idempotent")
    await run.conclude("completed")
    return "sent"


async def work(store: str, name: str, answer: str | None = None) -> str:
    async with (
        AsyncioJournal.open(store, create=True) as journal,
        journal.tenant("shop").leased(name, owner="asyncio-agent") as run,
    ):
        if answer is not None:
            await run.resume(answer)
        return await execute(run)


def main(*arguments: str) -> int:
    try:
        print(asyncio.run(work(*arguments)))
        return 0
    except InDoubt as doubt:  # a human must look before it is started again
        print(doubt, file=sys.stderr)
        return 7


if __name__ == "__main__":
    usage = "usage: python examples/asyncio_agent.py STORE RUN [ANSWER]"
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) in (3, 4) else usage)
