"""Sessions: HTTP inside one WebSocket, exchange by exchange through the doors that everybody else comes through."""
