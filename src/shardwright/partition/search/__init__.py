"""The choice as a whole: ops split otherwise than is cheapest for each by itself, where the program gains by it."""
