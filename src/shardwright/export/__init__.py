"""Programs that are ready to run, as one file for another process or machine."""

from shardwright.export.exported import Exported, load_exported
from shardwright.export.write import export

__all__ = ["Exported", "export", "load_exported"]
