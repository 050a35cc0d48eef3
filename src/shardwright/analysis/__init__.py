"""What a per-device program communicates and how much memory it holds, counted from the program itself."""
