"""The HTTP front of all three services: who connects, sends and waits there is held to limits."""
