"""Fuzzers of all that a stranger can send us: `python -m tests.fuzz TARGET --seconds N --seed S`.

An input is a list of pieces of bytes: what comes by one read each. Hypothesis makes them, from
whole and right messages that are then damaged, so that they get deep.
"""
