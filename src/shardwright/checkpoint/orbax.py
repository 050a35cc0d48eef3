"""Checkpoints of Orbax, by the library of that name, which is loaded where one is written or read."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np

from shardwright.checkpoint.trees import named_leaves
from shardwright.errors import ShardingError

__all__ = ["OrbaxReader", "save_tree"]


def save_tree(folder: Path, arrays: Any) -> None:
    """Write a pytree of arrays; each process its own shards, and all of it under its name when it is whole.

    Raises:
        ShardingError: Orbax is not installed, the folder is there already, or what Orbax says.
    """
    orbax = _orbax()
    if folder.exists():
        raise ShardingError(
            f"there is something at {str(folder)!r} already",
            location=str(folder),
            cause="Orbax would take it away before the new checkpoint is whole",
            remedy="write each step to a folder of its own, and remove old ones then",
        )
    try:
        with orbax.StandardCheckpointer() as checkpointer:
            checkpointer.save(folder.absolute(), jax.tree.map(_of_all, arrays))
            checkpointer.wait_until_finished()
    except (OSError, ValueError, TypeError) as error:
        raise _refused(f"cannot write the checkpoint {str(folder)!r}", folder, error) from None


def _of_all(leaf: Any) -> Any:
    """An array as Orbax takes it: where there are several processes, none that lies on the devices of one alone."""
    is_local = isinstance(leaf, jax.Array) and leaf.is_fully_addressable and jax.process_count() > 1
    return leaf if isinstance(leaf, jax.Array) and not is_local else np.asarray(leaf)


class OrbaxReader:
    """The arrays of a checkpoint of Orbax.

    Attributes:
        types: The shape and the type of elements of each, by name.
    """

    def __init__(self, folder: Path) -> None:
        """Read what there is.

        Raises:
            ShardingError: Orbax is not installed, or what Orbax says.
        """
        self._orbax = _orbax()
        self.path = folder
        try:
            with self._checkpointer() as checkpointer:
                tree = checkpointer.metadata(folder.absolute()).item_metadata.tree
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise _refused(f"no checkpoint of Orbax: {str(folder)!r}", folder, error) from None
        leaves, self._structure = named_leaves(tree)
        self.types = {name: (tuple(leaf.shape), np.dtype(leaf.dtype)) for name, leaf in leaves.items()}

    def read(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Each of the wanted arrays, laid out as said; whole where nothing is. Others are not read."""
        item = [0 if name in wanted else self._orbax.PLACEHOLDER for name in self.types]
        how = [self._how(name, wanted.get(name)) for name in self.types]
        args = self._orbax.args.PyTreeRestore(
            item=jax.tree.unflatten(self._structure, item), restore_args=jax.tree.unflatten(self._structure, how)
        )
        try:
            with self._checkpointer() as checkpointer, jax.enable_x64(True):
                tree = checkpointer.restore(self.path.absolute(), args=args)
        except (OSError, ValueError, KeyError) as error:
            raise _refused(f"cannot read the checkpoint {str(self.path)!r}", self.path, error) from None
        leaves, _ = named_leaves(tree)
        return {name: leaves[name] for name in wanted}

    def _how(self, name: str, sharding: Any) -> Any:
        if sharding is None:
            return self._orbax.RestoreArgs(restore_type=np.ndarray)
        shape, dtype = self.types[name]
        return self._orbax.ArrayRestoreArgs(sharding=sharding, global_shape=shape, dtype=dtype)

    def _checkpointer(self) -> Any:
        return self._orbax.Checkpointer(self._orbax.PyTreeCheckpointHandler())


def _orbax() -> ModuleType:
    try:
        import orbax.checkpoint as orbax
    except ImportError as error:
        raise ShardingError(
            "checkpoints of Orbax need the library",
            cause=str(error),
            remedy="pip install orbax-checkpoint, or shardwright[orbax]; the format safetensors needs nothing",
        ) from None
    module: ModuleType = orbax
    return module


def _refused(what: str, folder: Path, error: Exception) -> ShardingError:
    return ShardingError(what, location=str(folder), cause=str(error).split("\n", 1)[0][:400])
