"""The Faktory client, from bytes to verbs."""
