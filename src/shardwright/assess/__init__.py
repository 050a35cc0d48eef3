"""What a program comes to on each device: what it holds, computes several times and sends, and how long it takes."""

from shardwright.assess.assessment import Assessment, assess

__all__ = ["Assessment", "assess"]
