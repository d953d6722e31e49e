"""coevolve: tool-using agents, their weaknesses and their training data evolve in one closed loop."""

__version__ = "0.1.0"
