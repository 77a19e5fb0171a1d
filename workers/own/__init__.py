"""A module of the user's: its source, what is known of it, its numbers, loss and optimizer."""
