"""What is locked, and what is known to be wrong with it."""
