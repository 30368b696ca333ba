"""How the worker reaches the web: which addresses, by which client."""
