"""Forwards the connections of a listening socket, as the published port of a container does.

    forward.py SOCKET PORT

SOCKET is an inherited file descriptor. It belongs to the network in which it was made; PORT is in the network in which
this program runs, at the address 127.0.0.2: as in a container, a server that listens only on 127.0.0.1 is not there.
"""

import asyncio
import contextlib
import socket
import sys


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
    with contextlib.closing(writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
    try:
        inner = await asyncio.open_connection("127.0.0.2", int(sys.argv[2]))
        await asyncio.gather(copy(reader, inner[1]), copy(inner[0], writer))
    except OSError:
        writer.close()


async def main():
    async with await asyncio.start_server(forward, sock=socket.socket(fileno=int(sys.argv[1]))) as server:
        await server.serve_forever()


asyncio.run(main())
