"""Programs to copy from: handlers with their test, and a producer that knows nothing of ours."""
