"""A job in hand: its handler, what it may ask for, and how it ends."""
