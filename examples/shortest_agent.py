"""The shortest agent, which README.md shows: whenever it dies, it is executed again from the beginning.

python examples/shortest_agent.py
"""

from sealbook.journal import Journal, LeasedRun


def charge_card(cents: int, idempotency_key: str) -> str:
    return f"receipt for {cents}"  # the bank takes each key once


def send_mail(text: str) -> None:
    print(text)


def agent(run: LeasedRun) -> None:
    receipt = run.effect("charge", charge_card, 1200, recovery="idempotent")
    run.effect("mail", send_mail, receipt)
    run.conclude("completed")


with Journal.open("agents.sealbook", create=True) as journal:
    shop = journal.tenant("shop")
    with shop.leased("order-41", owner="worker-1") as run:
        agent(run)
