"""What distance costs a consumer."""
