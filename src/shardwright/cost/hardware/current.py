"""The hardware of the session: whoever decides asks once and hands it on, so that answers are remembered by it."""

from __future__ import annotations

from functools import cache

from shardwright.cost.hardware.model import Hardware
from shardwright.errors import ShardingError
from shardwright.memo import current_session

__all__ = ["chosen_hardware", "current_hardware"]


def current_hardware() -> Hardware:
    """The hardware of the current session, or the default one where it says none.

    Raises:
        ShardingError: what the session was given is not hardware.
    """
    return chosen_hardware() or _default()


@cache
def _default() -> Hardware:
    from shardwright.cost.hardware.shipped import DEFAULT, shipped  # reads TOML, which most commands do without

    return shipped(DEFAULT)


def chosen_hardware() -> Hardware | None:
    """The hardware that the current session was given, if any.

    Raises:
        ShardingError: what it was given is not hardware.
    """
    hardware = current_session().hardware
    if hardware is not None and not isinstance(hardware, Hardware):
        raise ShardingError(f"{hardware!r} is no hardware", remedy='give a session one, as sw.hardware("h100")')
    return hardware
