"""Shardy's debug attributes."""
