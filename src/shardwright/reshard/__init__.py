"""From one sharding to another: the steps there are, and the cheapest chain of them."""
