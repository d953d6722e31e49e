"""coevolve: tool-using agents, their weaknesses and their training data evolve in one closed loop."""

from coevolve.core import arithmetic

__version__ = "0.1.0"

arithmetic.pin()  # this is run first, by whichever door the package is entered
