"""Recipes of the tiny policy by name: modules with a function ``make``."""

from coevolve.core.plugins import Registry

RECIPES = Registry(
    "recipe",
    "coevolve.recipes",
    {
        "miniworld": "coevolve.stages.base.recipe",
        "own": "coevolve.stages.base.own",
    },
)
