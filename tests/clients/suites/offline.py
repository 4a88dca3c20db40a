"""A pytest plugin for suites that fetch files from the internet: they get small files of the same kinds."""

import base64

import httpx
import pytest

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
FILES = {".png": PNG, ".pdf": b"%PDF-1.4\n%%EOF\n"}


@pytest.fixture(autouse=True)
def files_of_the_internet(monkeypatch):
    monkeypatch.setattr(httpx, "get", lambda url, **_: httpx.Response(200, content=FILES[url[-4:]]))
