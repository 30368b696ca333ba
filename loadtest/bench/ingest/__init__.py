"""Jobs handed in over HTTP."""
