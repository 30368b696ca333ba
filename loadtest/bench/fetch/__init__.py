"""Pages fetched by us and by other clients."""
