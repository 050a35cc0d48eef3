"""What communication and computation cost."""
