"""Synthesizers by name. Each is a module with a function ``make`` that has the signature of ``synthesizer.MakeSynthesizer``."""

from coevolve.core.plugins import Registry

SYNTHESIZERS = Registry(
    "synthesizer",
    "coevolve.synthesizers",
    {
        "scripted": "coevolve.stages.synthesize.scripted_synthesizer",
        "endpoint": "coevolve.stages.synthesize.endpoint_synthesizer",
    },
)
