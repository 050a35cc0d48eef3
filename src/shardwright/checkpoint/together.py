"""What processes tell each other while they write or read one checkpoint; in one process there is nobody to tell."""

from __future__ import annotations

import os

import jax
import numpy as np
from jax.experimental import multihost_utils

from shardwright.errors import ShardingError

__all__ = ["check_all_did", "common_token"]

_BYTES = 8


def common_token() -> str:
    """A name that no checkpoint before had, the same in all processes."""
    token = np.frombuffer(os.urandom(_BYTES), np.uint32)
    if jax.process_count() > 1:
        token = np.asarray(multihost_utils.broadcast_one_to_all(token))
    return token.tobytes().hex()


def check_all_did(what: str, error: ShardingError | None) -> None:
    """Wait for all processes, and go on if none has failed.

    Arguments:
        what: What each was to do: "write its shards".
        error: Why this one has failed, if it has.

    Raises:
        ShardingError: this process has failed, or another.
    """
    if jax.process_count() > 1:
        did = np.asarray(multihost_utils.process_allgather(np.int32(error is None))).reshape(-1)
        failed = [str(number) for number, well in enumerate(did) if not well]
        if failed and error is None:
            raise ShardingError(
                f"process {', '.join(failed)} could not {what}",
                cause="a checkpoint is there when every process has done its part",
                remedy="see what that process says; what was there before is as it was",
            )
    if error is not None:
        raise error
