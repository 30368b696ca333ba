"""A real Faktory and our broker as twins: the same commands to both, and what they make of them.

`commands` makes the commands, `servers` asks both sides, `differences` knows what may differ (by
the list in docs/BROKER.md), `play` runs sequences and finds the shortest that differs.
"""
