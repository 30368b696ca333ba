"""How the worker reaches the web: permitted addresses, DNS, and the HTTP client."""
