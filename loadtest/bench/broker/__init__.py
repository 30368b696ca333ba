"""Push to and drain from a real Faktory and the broker."""
