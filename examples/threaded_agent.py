"""An agent on plain threads. It may be killed anywhere and started again, and nobody is charged twice.

python examples/threaded_agent.py agents.sealbook 42
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sealbook.journal import DidNotHappen, InDoubt, Journal, Landed, LeasedRun, Refused, Replayed, reconcile

LEDGER = Path("ledger.txt")  # stands for a bank


def charge(order: str, cents: int) -> str:
    """Act in the world."""
    with LEDGER.open("a") as ledger:
        ledger.write(f"{order} {cents}\n")
    return f"receipt for {order}"


def find_charge(order: str, cents: int) -> Landed | DidNotHappen:
    """Look whether it was done, after a crash in the middle of it."""
    found = LEDGER.exists() and f"{order} {cents}" in LEDGER.read_text().splitlines()
    return Landed(f"receipt for {order}") if found else DidNotHappen()


def send(mail: str) -> None:
    """Act in the world where nobody can look: a crash in here is for a human to decide."""
    print(mail)


def execute(run: LeasedRun, order: str) -> None:
    """What the agent does, from the beginning: what is recorded is not done again."""
    receipt = run.effect("charge", charge, order, 1200, recovery=reconcile(find_charge))
    run.effect("send", send, f"{receipt}, paid at {run.now():%H:%M}")
    run.conclude("cancelled" if run.cancel_requested else "completed")


def main(store: str, order: str) -> int:
    try:
        with Journal.open(store, create=True) as journal:
            shop = journal.tenant("shop")
            admitted = shop.admit("web", order)
            if not isinstance(admitted, Replayed):
                with shop.leased(admitted.run, owner=f"agent-{os.getpid()}") as run:
                    execute(run, order)
            return 0
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        return 7 if isinstance(refusal, InDoubt) else 5  # 7: a human must look before it is started again


if __name__ == "__main__":
    usage = "usage: python examples/threaded_agent.py STORE ORDER"
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) == 3 else usage)
