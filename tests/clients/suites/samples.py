"""What the programs of the suites share."""

import os

from pydantic import BaseModel

URL = os.environ["OPENAI_BASE_URL"]
ASK = "How is the weather in Ghent?"


class City(BaseModel):
    """A city."""

    name: str
    people: int


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sleet in {city}"
