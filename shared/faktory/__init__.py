"""Faktory's protocol: codec ◄ handshake ◄ connection ◄ lanes ◄ client; no knowledge of workers."""
