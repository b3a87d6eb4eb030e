"""Bytes to events and back, one module per wire: pure code, while the rooms above move the bytes."""
