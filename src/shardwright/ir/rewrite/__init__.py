"""Changing a graph in place: where ops stand, who reads what, and patterns applied until nothing changes."""
