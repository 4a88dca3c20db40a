"""Reads event streams of the API as they are sent, for the checks that an SDK does not make."""

import json
import urllib.request


def get(url: str, events: int | None = None) -> list[str]:
    """The frames of the stream at `url`, or the first few of them, after which the connection is closed.

    Comments that keep a connection open are left out.
    """
    frames = []
    with urllib.request.urlopen(urllib.request.Request(url), timeout=60) as reply:
        frame = ""
        for line in reply:
            if line != b"\n":
                frame += line.decode()
                continue
            if not frame.startswith(":"):
                frames.append(frame + "\n")
            frame = ""
            if events is not None and len(frames) >= events:
                return frames
    if frame:
        raise ValueError(f"the stream ends within a frame: {frame[-200:]!r}")
    return frames


def number(frame: str) -> int:
    """The `sequence_number` of a frame."""
    return json.loads(frame.split("\ndata: ")[1])["sequence_number"]


def resumed_differently(url: str, whole: list[str]) -> list[int]:
    """The numbers after which the stream of a response does not go on as its whole stream does."""
    numbers = [number(frame) for frame in whole[:-1]]
    return [n for at, n in enumerate(numbers) if get(f"{url}?stream=true&starting_after={n}") != whole[at + 1 :]]
