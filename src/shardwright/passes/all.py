"""Importing this registers every pass and pipeline of the package: all its modules, so that no list needs keeping."""

import importlib
import pkgutil

import shardwright.passes

for _module in pkgutil.walk_packages(shardwright.passes.__path__, "shardwright.passes."):
    importlib.import_module(_module.name)
