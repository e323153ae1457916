"""The same verbs, awaited: in a trio program or in an asyncio one.

They add no rule of their own: a verb builds the very request that the synchronous one builds, or makes its very read.
What holds for both:

- What `open`, `in_memory` or `over` makes is opened when it is entered (`async with`), and closed when it is left. A
  journal that is open already is handed to the class itself, and stays its owner's to close.
- A face belongs to the event loop that enters it. Elsewhere it is `WrongLoop`, in a child process `OpenedBeforeFork`.
- A caller that is cancelled never believes something false. Either it is cancelled, and nothing of its request was or
  will be written, or it gets the answer, and meets its cancellation where it waits next.
- Requests of many tasks share transactions. 4,096 are under way at a time; beyond that, callers wait, in order, before
  anything of theirs is encoded.
- A `progress` or a `sign` that is handed in is called in a worker thread.
- Properties that read the store are verbs here: `await tenant.origin()`.
"""
