"""Results made readable: text for people, JSON for programs."""
