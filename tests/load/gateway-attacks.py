"""Connections of clients without a key that leave everything unread, half sent or silent, and come again when they are closed.

Arguments: http or https, the port of the gateway, addresses of clients, connections of each, connections opened in a second, kinds of
attack.
"""

import random
import select
import socket
import ssl
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

scheme, port, addresses = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(",")
each, rate = int(sys.argv[4]), float(sys.argv[5])
kinds = [KINDS[name] for name in sys.argv[6:]]
tls = ssl.create_default_context()
tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
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
    sockets[client.fileno()] = [client, address, random.choice(kinds), scheme == "http"]
    poll.register(client, select.POLLOUT)


def shake_hands(number):
    entry = sockets[number]
    if not isinstance(entry[0], ssl.SSLSocket):
        entry[0] = tls.wrap_socket(entry[0], do_handshake_on_connect=False)
    entry[0].do_handshake()
    entry[3] = True


while True:
    # One after the other: a connection that meets a full limit holds nothing.
    while todo and opened < (time.monotonic() - begun) * rate:
        begin(todo.pop(random.randrange(len(todo))))
        opened += 1
    for number, event in poll.poll(20):
        client, address, rest, is_ready = sockets[number]
        try:
            if event & (select.POLLERR | select.POLLHUP):
                raise OSError
            if not is_ready:
                poll.modify(number, select.POLLIN)
                shake_hands(number)
                poll.modify(number, select.POLLOUT)
                continue
            rest = rest[client.send(rest[:8192]) :]
            sockets[number][2] = rest
            if not rest:
                poll.modify(number, 0)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError:
            poll.unregister(number)
            sockets[number][0].close()
            del sockets[number]
            todo.append(address)
    if not is_whole and opened >= len(addresses) * each:
        is_whole = True
        print("open", len(sockets), flush=True)
