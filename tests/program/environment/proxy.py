# SPDX-License-Identifier: Apache-2.0
"""In front of a server of the tests beside this file."""
import socket, threading


class Proxy:
    """In front of a port, at a port of its own or where it is told: the answer number `lose` and
    all behind it on that connection are lost; others pass. A connection on which `mute` is sent
    gets no answers from then on, as behind a proxy that collects streams. Of the connections
    `most` are served; later ones wait for ever, as at a server without descriptors. `closes`: one
    answer of HTTP for each connection. After stop() it takes connections, and says nothing."""

    def __init__(self, port_behind, lose=0, at=("127.0.0.1", 0), mute=None, most=0, closes=False):
        self.port_behind, self.lose, self.answers, self.lost = port_behind, lose, 0, False
        self.mute, self.muted, self.most, self.waiting = mute, set(), most, 0
        self.closes, self.stopped = closes, False
        self.sockets = [socket.create_server(at)]
        self.port = self.sockets[0].getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.sockets[0].accept()
            except OSError:
                return
            if self.stopped or self.most and len(self.sockets) > 2 * self.most:
                self.sockets += near, near
                self.waiting += 1
                continue
            far = socket.create_connection(("127.0.0.1", self.port_behind))
            self.sockets += near, far
            for source, sink, counted in (near, far, False), (far, near, True):
                threading.Thread(target=self.carry, args=(source, sink, counted),
                                 daemon=True).start()

    def carry(self, source, sink, counted):
        silent = False
        try:
            while data := source.recv(65536):
                if not counted and self.mute and self.mute in data:
                    self.muted.add(sink)
                if not counted and self.closes:
                    data = data.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
                if counted:
                    self.answers += 1
                    if self.answers == self.lose:
                        silent = self.lost = True
                    silent |= source in self.muted
                if not silent and not self.stopped:
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def stop(self):
        self.stopped = True

    def cut(self):
        for one in self.sockets[1:]:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:  # closed by the other side
                pass

    def end(self):
        self.sockets[0].shutdown(socket.SHUT_RDWR)
        self.cut()
        for one in self.sockets:
            one.close()
