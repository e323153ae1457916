"""An agent's body, recorded before it acts and replayed after a crash.

The rules are written once, without any input or output, as generators that yield what they need done (`needs`) and are
resumed with what came of it. A face carries the needs out: `leased` with threads, `sealbook.journal.aio` with tasks. So
no two faces can behave differently.
"""
