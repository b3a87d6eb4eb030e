"""The agent: pydantic-ai with one tool. Without a model's name it talks by itself, offline, to show the streaming."""

import math
import os

from pydantic_ai import Agent

import offline

CITIES = {
    "Athens": (37.98, 23.73),
    "Berlin": (52.52, 13.41),
    "Lisbon": (38.72, -9.14),
    "Madrid": (40.42, -3.70),
    "Oslo": (59.91, 10.75),
    "Paris": (48.86, 2.35),
    "Rome": (41.90, 12.50),
    "Vienna": (48.21, 16.37),
}
EARTH = 6371.0
"""Kilometres: its mean radius."""


def assistant() -> Agent[None, str]:
    """Return the agent; `CHAT_MODEL` names a real model, such as `openai:gpt-5.2`, whose key is in its own variable."""
    made = Agent(
        os.environ.get("CHAT_MODEL") or offline.model(list(CITIES)),
        instructions="You tell how far cities are from each other. Ask the tool, and answer in a sentence or two.",
    )
    made.tool_plain(distance)
    return made


def distance(start: str, end: str) -> str:
    """Return how far it is from one city to another, as the crow flies."""
    if not {start, end} <= CITIES.keys():
        return f"Only these are known: {', '.join(CITIES)}."
    (one, other), (east, west) = zip(CITIES[start], CITIES[end], strict=True)
    one, other, between = map(math.radians, (one, other, west - east))
    angle = math.acos(math.sin(one) * math.sin(other) + math.cos(one) * math.cos(other) * math.cos(between))
    return f"{EARTH * angle:.0f} km"
