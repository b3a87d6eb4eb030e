"""Those who read: from one log to any number of clients, each at its own place, in order and whole."""
