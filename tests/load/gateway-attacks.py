"""Connections of clients without a key that leave everything unread, half sent or silent, and come again when they are closed.

Arguments: the port of the gateway, addresses of clients, connections of each, connections opened in a second, kinds of attack.
"""

import random
import select
import socket
import sys
import time

LIST = b"GET /api/company_contacts.list HTTP/1.1\r\nHost: a\r\n\r\n"


def unfinished(method, target):
    return f"{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\nx".encode()


KINDS = {
    "unread 401s": LIST * 150,
    "unread 401s, three at a time": LIST * 3,
    "a page, and then 401s": b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n" + LIST * 15,
    "404s, and then 401s": b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n" * 120 + LIST * 15,
    "an unread page": b"GET /docs/scalar.js HTTP/1.1\r\nHost: a\r\n\r\n",
    "unfinished headers": b"GET /api/company_contacts.list HTTP/1.1\r\nHost: a\r\nX: ",
    "silence": b"",
    "a slow body of a GET": unfinished("GET", "/api/company_contacts.list"),
    "a slow body of a POST": unfinished("POST", "/api/company_contacts.list"),
    "a slow event": unfinished("POST", "/bitrix24/events"),
}

port, addresses, each, rate = int(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3]), float(sys.argv[4])
kinds = [KINDS[name] for name in sys.argv[5:]]
sockets, todo, opened, begun, is_whole = {}, addresses * each, 0, time.monotonic(), False
poll = select.poll()


def begin(address):
    client = socket.socket()
    # So little is received that the server's own buffer fills.
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    client.bind((address, 0))
    client.setblocking(False)
    client.connect_ex(("127.0.0.1", port))
    sockets[client.fileno()] = [client, address, random.choice(kinds)]
    poll.register(client, select.POLLOUT)


while True:
    # One after the other: a connection that meets a full limit holds nothing.
    while todo and opened < (time.monotonic() - begun) * rate:
        begin(todo.pop(random.randrange(len(todo))))
        opened += 1
    for number, event in poll.poll(20):
        client, address, rest = sockets[number]
        try:
            if event & (select.POLLERR | select.POLLHUP):
                raise OSError
            rest = rest[client.send(rest[:8192]) :]
            sockets[number][2] = rest
            if not rest:
                poll.modify(client, 0)
        except BlockingIOError:
            pass
        except OSError:
            poll.unregister(client)
            client.close()
            del sockets[number]
            todo.append(address)
    if not is_whole and opened >= len(addresses) * each:
        is_whole = True
        print("open", len(sockets), flush=True)
