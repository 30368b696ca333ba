"""Requests to AWS: signatures and credentials. Its buckets are opened by `worker.net.buckets`."""
