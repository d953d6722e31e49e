"""coevolve: train tool-using agents in a closed loop that finds their weaknesses and makes new tasks for them."""

__version__ = "0.1.0"
