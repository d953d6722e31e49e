"""Explorers by name. Each is a module with a function ``make`` that has the signature of ``explorer.MakeExplorer``."""

from coevolve.core.plugins import Registry

EXPLORERS = Registry(
    "explorer",
    "coevolve.explorers",
    {
        "scripted": "coevolve.stages.explore.scripted_explorer",
        "endpoint": "coevolve.stages.explore.endpoint_explorer",
    },
)
