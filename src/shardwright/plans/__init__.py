"""Plans written down: how arguments and results lie, without the program; read, applied again, compared, converted."""
