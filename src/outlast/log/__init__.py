"""The log of a run: its events, their cursors, what readers fold away, and how long it may grow."""
