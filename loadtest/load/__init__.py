"""The load test: Locust against API, server and worker, and a ledger of every job."""
