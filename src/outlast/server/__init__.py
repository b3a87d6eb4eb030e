"""The server: nodes that drive runs, and the front doors through which they are read."""
