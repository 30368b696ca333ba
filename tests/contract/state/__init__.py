"""What every state store must do."""
