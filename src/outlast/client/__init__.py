"""The reading half: what follows a run from somewhere else and survives everything between."""
