"""Workers: what does a run's work, and what it is given to do it with."""
