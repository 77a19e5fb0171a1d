"""What a user asks for: options and their defaults, requests, and what an argument names."""
