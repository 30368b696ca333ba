"""A job in hand: its handler, its context, and how it ends."""
