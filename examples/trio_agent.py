"""Agents in a trio program: each order is a run of its own, and two effects of a run go on side by side.

python examples/trio_agent.py agents.sealbook 42 43 44
"""

import sys

import trio

from sealbook.journal import AsyncLeasedRun, AsyncTenant, InDoubt, TrioJournal


async def ask_the_model(prompt: str) -> str:
    """Stands for a call that costs money, and may be made twice."""
    await trio.lowlevel.checkpoint()
    return prompt.upper()


async def ship(order: str, idempotency_key: str) -> str:
    """Stands for a shipper who honours the key: asked twice, it ships once."""
    return f"parcel {order}, under {idempotency_key[:8]}"


async def execute(run: AsyncLeasedRun, order: str) -> None:
    """What the agent does, from the beginning: what is recorded is not done again."""
    answers: dict[str, str] = {}

    async def think(about: str) -> None:
        answers[about] = await run.effect("think", ask_the_model, about, key=("think", about), recovery="retry")

    async with trio.open_nursery() as nursery:  # side by side, effects need keys: tasks take no turns
        for about in ("weight", "price"):
            nursery.start_soon(think, about)
    parcel = await run.effect("ship", ship, order, recovery="idempotent")
    await run.note(f"{parcel}: {answers['weight']}, {answers['price']}")
    await run.conclude("cancelled" if await run.cancel_requested else "completed")


async def work(shop: AsyncTenant, order: str, doubts: list[InDoubt]) -> None:
    admitted = await shop.admit("web", order)
    try:
        async with shop.leased(admitted.run, owner="trio-agent") as run:
            await execute(run, order)
    except InDoubt as doubt:  # a human must look; the other orders go on
        doubts.append(doubt)
        print(doubt, file=sys.stderr)


async def main(store: str, *orders: str) -> int:
    doubts: list[InDoubt] = []
    async with TrioJournal.open(store, create=True) as journal, trio.open_nursery() as nursery:
        for order in orders:
            nursery.start_soon(work, journal.tenant("shop"), order, doubts)
    return 7 if doubts else 0


if __name__ == "__main__":
    usage = "usage: python examples/trio_agent.py STORE ORDER..."
    sys.exit(trio.run(main, sys.argv[1], *sys.argv[2:]) if len(sys.argv) > 2 else usage)
