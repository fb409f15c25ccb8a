#!/usr/bin/env python3
"""The rules of `dtrain serve`, over raw sockets.

    serve_test.py DTRAIN PRELOAD [TEST…]

PRELOAD is the library of tests/support/preload.cc.
"""

import contextlib
import datetime
import gzip
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import sqlite3
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

DTRAIN = PRELOAD = ""
PATIENCE = 300  # seconds, for what comes soon on an idle machine
PROGRAM = """#!/usr/bin/env python3
import json, os, select, time
reports, orders = open(3, "w", buffering=1), open(4, "rb", buffering=0)
say = lambda **report: print(json.dumps(report), file=reports)
state = os.environ["DTRAIN_DIRECTORY"] + "/state"
batch, until = int(os.environ["DTRAIN_DONE"]), int(os.environ["DTRAIN_UNTIL"])
while batch < until and not select.select([orders], [], [], 0)[0]:
    batch += 1
    say(type="training", batches=batch, metrics={"loss": batch + 0.5})
    time.sleep(float(os.environ["DTRAIN_HPARAM_pause"]))
if batch == until:
    say(type="validation", batches=batch, metrics={"loss": 1})
open(state, "w").write("state")
say(type="checkpoint", batches=batch, path=state)
"""


def config(name, batches=20, pause=0):
    return json.dumps({
        "name": name, "entrypoint": "./train.sh", "hyperparameters": {"pause": pause},
        "min_validation_period": {"batches": batches},
        "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": batches}},
        "resources": {"slots": "cpu"}})


def run(*arguments, check=True):
    done = subprocess.run([DTRAIN, *arguments], capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"dtrain {' '.join(arguments)}: {done.returncode}\n{done.stderr}")
    return done


class Server:
    def __init__(self, *arguments, port=("--port", "0"), **environment):
        self.process = subprocess.Popen([DTRAIN, "serve", *port, *arguments],
                                        env={**os.environ, **environment},
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#token=([0-9a-f]{32})", self.address)
        if not found:
            raise AssertionError(self.address + self.process.stderr.read())
        self.port, self.token = int(found[1]), found[2]

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def raw(self, data):
        """Sends bytes and returns the whole answer."""
        with self.connect() as connection:
            connection.sendall(data)
            return read_all(connection)

    def head(self, method, path, headers):
        lines = {"Host": f"127.0.0.1:{self.port}", "Authorization": "Bearer " + self.token,
                 "Connection": "close", **headers}
        text = f"{method} {path} HTTP/1.1\r\n"
        return text + "".join(f"{k}: {v}\r\n" for k, v in lines.items() if v is not None) + "\r\n"

    def request(self, method="GET", path="/api/experiments", body="", **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if body:
            headers.setdefault("Content-Type", "application/json")
            headers["Content-Length"] = str(len(body.encode()))
        return split(self.raw((self.head(method, path, headers) + body).encode()))

    def json(self, path="/api/experiments"):
        status, _, body = self.request(path=path)
        assert status == 200, body
        return json.loads(body)

    def bundle(self, path):
        status, headers, body = self.request(path=path)
        assert status == 200 and headers["content-encoding"] == "gzip", (status, body)
        raw = gzip.decompress(body)
        length = struct.unpack("<I", raw[4:8])[0]
        return json.loads(raw[8:8 + length])

    def control(self, **order):
        status, _, body = self.request("POST", "/api/control", json.dumps(order))
        return status, json.loads(body)


def read_all(connection):
    data = b""
    try:
        while part := connection.recv(65536):
            data += part
    except ConnectionResetError:
        pass
    return data


def sends_all(connection, part, times):
    """Sends `part` again and again, reading what comes; False if the server closes first. Without
    reading, a server that has closed with a full buffer is noticed only minutes later."""
    rest = len(part) * times
    try:
        while rest > 0:
            readable, writable, _ = select.select([connection], [connection], [], PATIENCE)
            if readable and not connection.recv(65536):
                return False
            if writable:
                rest -= connection.send(part, socket.MSG_DONTWAIT)
            elif not readable:
                raise AssertionError("it neither reads nor closes")
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def split(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    return int(lines[0].split()[1]) if lines[0] else 0, headers, body


def rss_kb(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmHWM:\s+(\d+)", text)[1])


class ServeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="dtrain-serve-")
        os.chdir(cls.directory.name)
        os.environ["DTRAIN_STORE"] = cls.directory.name + "/store"
        os.environ["DTRAIN_RUNTIME_DIR"] = cls.directory.name + "/run"  # slots of its own
        os.mkdir(os.environ["DTRAIN_RUNTIME_DIR"], 0o700)
        program = pathlib.Path("train.sh")
        program.write_text(PROGRAM, encoding="utf-8")
        program.chmod(0o755)
        pathlib.Path("short.json").write_text(config("short"), encoding="utf-8")
        pathlib.Path("long.json").write_text(config("long", 3000, 0.02), encoding="utf-8")
        run("create", "short.json")
        cls.server = Server("--control")
        cls.reader = Server()

    @classmethod
    def tearDownClass(cls):
        for server in (cls.server, cls.reader):
            code, errors = server.stop()
            assert code == 143, (code, errors)
            assert errors.count("\n") == 1, errors
        cls.directory.cleanup()

    # ---- Rules.

    def test_pages_need_no_token_and_have_all_headers(self):
        for path in ("/", "/style.css", "/live.js", "/app.js", "/d3.js", "/icon.svg"):
            status, headers, body = self.server.request(path=path, Authorization=None)
            self.assertEqual(status, 200, path)
            self.assertGreater(len(body), 100)
            policy = headers["content-security-policy"]
            self.assertTrue(policy.startswith("default-src 'none'; script-src 'self'"))
            self.assertIn("frame-ancestors 'none'", policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual(headers["x-content-type-options"], "nosniff")
            self.assertEqual(headers["referrer-policy"], "no-referrer")
            self.assertNotIn("access-control-allow-origin", headers)
            self.assertNotIn("set-cookie", headers)

    def test_data_needs_the_token(self):
        for token in (None, "", "Bearer", "Bearer ", "Bearer " + "0" * 32, "Basic " + self.server.token,
                      "Bearer " + self.server.token[:-1], "Bearer " + self.server.token + "0",
                      self.server.token):
            status, headers, body = self.server.request(Authorization=token)
            self.assertEqual(status, 401, token)
            self.assertEqual(headers["www-authenticate"], "bearer")
            self.assertNotIn(b"short", body)
        for path in ("/api/events", "/api/experiment/1", "/api/experiment/1/metrics"):
            self.assertEqual(self.server.request(path=path, Authorization=None)[0], 401)
        self.assertEqual(
            self.server.request(path="/api/experiments?token=" + self.server.token,
                                Authorization=None)[0], 401)

    def test_a_foreign_host_is_misdirected(self):
        for host in ("evil.example", f"evil.example:{self.server.port}", "127.0.0.1.evil.example",
                     "localhost.evil.example", "127.0.0.1:80:80", "localhost:", "", "0.0.0.0", None,
                     "127.0.0.1@evil.example", "[::1", "192.168.0.1"):
            for path in ("/", "/api/experiments"):
                self.assertEqual(self.server.request(path=path, Host=host)[0], 421, host)
        for host in (f"localhost:{self.server.port}", "127.0.0.1", "[::1]:9000", "localhost:9000"):
            self.assertEqual(self.server.request(Host=host)[0], 200, host)
        two = "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
        self.assertEqual(split(self.server.raw(two.encode()))[0], 421)
        self.assertEqual(split(self.server.raw(b"GET / HTTP/1.0\r\n\r\n"))[0], 421)

    def test_foreign_sites_are_refused(self):
        own = f"http://127.0.0.1:{self.server.port}"
        for origin in ("http://evil.example", "null", "https" + own[4:], own + "0",
                       f"http://localhost:{self.server.port}", "file://", ""):
            self.assertEqual(self.server.request(Origin=origin)[0], 403, origin)
        self.assertEqual(self.server.request(Origin=own)[0], 200)
        for path in ("/", "/api/experiments"):
            self.assertEqual(self.server.request(path=path, Sec_Fetch_Site="cross-site")[0], 403)
        self.assertEqual(self.server.request(Sec_Fetch_Site="same-site")[0], 403)
        for site in ("same-origin", "none"):
            self.assertEqual(self.server.request(Sec_Fetch_Site=site)[0], 200)

    def test_only_the_table_of_paths_exists(self):
        for path in ("/index.html", "/../etc/passwd", "//", "/api", "/api/experiment/",
                     "/api/experiment/0", "/api/experiment/x", "/api/experiment/1/", "/favicon.ico",
                     "/api/experiment/1/metrics/", "/%2e%2e/etc/passwd", "/live.js/", "/d3.js%00",
                     "/api/experiment/99999999999999999999", "http://127.0.0.1/"):
            self.assertEqual(self.server.request(path=path)[0], 404, path)
        status, _, body = self.server.request(path="/api/experiment/7")
        self.assertEqual(status, 404)
        self.assertIn("experiment 7", json.loads(body)["error"])

    def test_it_is_read_only(self):
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            for path in ("/", "/api/experiments", "/api/control"):
                status, headers, _ = self.reader.request(method, path)
                self.assertEqual(status, 405, (method, path))
                self.assertIn("allow", headers)
        self.assertEqual(self.reader.request("BREW", "/")[0], 501)
        status, _, body = self.reader.request(
            "POST", "/api/control", '{"action":"label","experiment":1,"add":"x"}')
        self.assertEqual(status, 405)
        self.assertIn(b"--control", body)
        for method in ("PUT", "DELETE", "GET"):
            self.assertEqual(self.server.request(method, "/api/control")[0], 405)

    def test_head_has_no_body(self):
        answer = self.server.raw(self.server.head("HEAD", "/", {}).encode())
        status, headers, body = split(answer)
        self.assertEqual((status, body), (200, b""))

    def test_bad_queries_are_refused(self):
        for query in ("from=1", "from=1:2", "from=a:0:0", "from=1:0:0:0", "from=:::"):
            self.assertEqual(
                self.server.request(path="/api/experiment/1/metrics?" + query)[0], 400, query)
        many = ",".join(f"{i}:0:0" for i in range(1, 300))
        for query in ("", "since=", "since=x", "since=1&known=1", "since=1&known=1:2:x",
                      "since=1&known=" + many):
            self.assertEqual(
                self.server.request(path="/api/experiment/1/changes?" + query)[0], 400, query)
        self.assertEqual(
            self.server.request(path="/api/experiment/1/changes?since=0&known=99:0:0")[0], 404)

    # ---- Limits.

    def test_large_requests_are_refused(self):
        # 0: closed before all of it was read, which may lose the answer
        large = "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + "a" * 20_000 + "\r\n\r\n"
        self.assertIn(split(self.server.raw(large.encode()))[0], (0, 400, 413))
        many = "GET / HTTP/1.1\r\nHost: localhost\r\n" + "X: a\r\n" * 5000 + "\r\n"
        self.assertIn(split(self.server.raw(many.encode()))[0], (0, 400, 413))
        line = "GET /" + "a" * 20_000 + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
        self.assertIn(split(self.server.raw(line.encode()))[0], (0, 400, 413))
        status, _, _ = self.server.request("POST", "/api/control", "x" * 70_000)
        self.assertEqual(status, 413)

    def test_endless_requests_take_no_memory(self):
        before = rss_kb(self.server.process.pid)
        for start in (b"GET / HTTP/1.1\r\nX: ", b"", b"\r\n" * 10, b"POST / HTTP/1.1\r\nHost: localhost\r\n"
                      b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFF\r\n"):
            with self.server.connect() as connection:
                connection.sendall(start)
                self.assertFalse(sends_all(connection, b"a" * 65536, 2000), "128 MB were read")
        self.assertLess(rss_kb(self.server.process.pid) - before, 8000)
        self.assertEqual(self.server.request()[0], 200)

    def test_garbage_and_partial_requests_do_no_harm(self):
        for data in (b"\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n", b"GET / HTTP/1.1\nHost: localhost\n\n",
                     b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
                     b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
                     b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            with self.server.connect() as connection:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                read_all(connection)
        for _ in range(50):
            with self.server.connect() as connection:
                connection.sendall(b"GET / HTTP/1.1\r\nHos")
        self.assertEqual(self.server.request()[0], 200)

    def test_a_slow_request_ends_after_ten_seconds_in_all(self):
        start = time.monotonic()
        with self.server.connect() as connection, self.assertRaises(OSError):
            connection.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
            for _ in range(3000):
                connection.sendall(b"a")
                time.sleep(0.1)
        self.assertGreater(time.monotonic() - start, 9)

    def test_64_slow_clients_do_not_block_it_for_long(self):
        server = Server()
        slow = [server.connect() for _ in range(80)]
        for connection in slow:
            connection.sendall(b"GET / HT")
        descriptors = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        self.assertLess(descriptors, 64 + 16)
        self.assertEqual(server.request()[0], 200)  # once the slow ones are late
        for connection in slow:
            connection.close()
        self.assertEqual(server.stop()[0], 143)

    def test_open_pages_leave_room_for_requests(self):
        server = Server()
        streams = []
        for _ in range(48):
            connection = server.connect()
            connection.sendall(server.head("GET", "/api/events", {}).encode())
            self.assertIn(b" 200 ", connection.recv(100))
            streams.append(connection)
        self.assertEqual(server.request(path="/api/events")[0], 503)
        self.assertEqual(server.request()[0], 200)
        for connection in streams:
            connection.close()
        end = time.monotonic() + PATIENCE
        answer = b""
        while b" 200 " not in answer and time.monotonic() < end:
            with server.connect() as connection:
                connection.sendall(server.head("GET", "/api/events", {}).encode())
                answer = connection.recv(100)
            time.sleep(0.1)
        self.assertIn(b" 200 ", answer)
        self.assertEqual(server.stop()[0], 143)

    def test_input_on_a_stream_is_bounded(self):
        before = rss_kb(self.server.process.pid)
        with self.server.connect() as connection:
            connection.sendall(self.server.head("GET", "/api/events", {}).encode())
            self.assertIn(b" 200 ", connection.recv(100))
            self.assertFalse(sends_all(connection, b"GET / HTTP/1.1\r\n" * 4096, 1000))
        self.assertLess(rss_kb(self.server.process.pid) - before, 8000)
        self.assertEqual(self.server.request()[0], 200)

    def test_requests_may_follow_on_one_connection(self):
        head = self.server.head("GET", "/api/experiments", {"Connection": "keep-alive"})
        last = self.server.head("GET", "/api/experiments", {})
        answer = self.server.raw((head * 3 + last).encode())
        self.assertEqual(answer.count(b"HTTP/1.1 200 "), 4)

    # ---- Data.

    def test_data_are_those_of_the_command_line(self):
        listed = json.loads(run("list", "--json").stdout)["experiments"]
        document = self.reader.json()
        self.assertEqual(sorted(document), ["control", "dtrain", "experiments", "problem", "store"])
        self.assertEqual((document["control"], document["problem"]), (False, ""))
        self.assertIn(document["dtrain"], run("--version").stdout)
        self.assertTrue(self.server.json()["control"])
        shown = document["experiments"]
        self.assertEqual([one["id"] for one in shown], [one["id"] for one in listed])
        best = listed[0]["best"]
        self.assertEqual((best.pop("length"), best.pop("unit")), (best["batches"], "batches"))
        self.assertEqual(shown[0]["best"], best)
        document = self.reader.bundle("/api/experiment/1")
        self.assertEqual(document["experiments"][0]["name"], "short")
        self.assertEqual(document["experiments"][0]["metrics"]["rows"], 0)
        metrics = self.reader.bundle("/api/experiment/1/metrics")["metrics"]
        self.assertEqual(metrics["rows"], 21)
        self.assertIsNone(metrics["next"])
        rest = self.reader.bundle("/api/experiment/1/metrics?from=1:0:15")["metrics"]
        self.assertEqual(rest["rows"], 5 + 1)
        change = self.reader.bundle("/api/experiment/1/changes?since=0&known=1:18:20")
        self.assertEqual(change["experiments"][0]["metrics"]["rows"], 2)
        self.assertNotIn("yaml", change["experiments"][0])

    def test_changes_overlap_the_time_between_an_event_and_its_commit(self):
        ended = json.loads(run("describe", "1.1", "--json").stdout)["ended"]
        ended = datetime.datetime.fromisoformat(ended.replace("Z", "+00:00"))
        for seconds, rows in ((-1, 21), (0, 21), (1, 21), (4, 21), (6, 0), (60, 0)):
            since = (ended + datetime.timedelta(seconds=seconds)).timestamp()
            change = self.reader.bundle(f"/api/experiment/1/changes?since={since * 1e6:.0f}")
            self.assertEqual(change["experiments"][0]["metrics"]["rows"], rows, seconds)

    def events(self, server):
        """Yields the events of a stream."""
        connection = server.connect()
        self.addCleanup(connection.close)
        connection.sendall(server.head("GET", "/api/events", {}).encode())
        text = b""
        end = time.monotonic() + PATIENCE
        while part := connection.recv(65536):
            text += part
            while b"\n\n" in text:
                event, text = text.split(b"\n\n", 1)
                if b"data: " in event:
                    yield json.loads(event.split(b"data: ", 1)[1])
                    end = time.monotonic() + PATIENCE  # the test has done something else meanwhile
            self.assertLess(time.monotonic(), end, "no such event")

    def await_state(self, events, number, state):
        for event in events:
            for one in event["experiments"]:
                if (one["id"], one["state"]) == (number, state):
                    return

    def open_pages(self, stop):
        """Opens a page again and again until `stop`."""
        while not stop.wait(0.02):
            with self.server.connect() as page:
                page.sendall(self.server.head("GET", "/api/events", {}).encode())
                page.recv(100)

    def test_changes_are_pushed_and_control_works(self):
        events = self.events(self.server)
        self.assertTrue(next(events)["all"])
        stop = threading.Event()
        others = threading.Thread(target=self.open_pages, args=[stop])
        others.start()
        self.addCleanup(others.join)
        self.addCleanup(stop.set)
        run("create", "long.json", "-d")
        for event in events:
            row = next((one for one in event.get("experiments", []) if one["name"] == "long"), None)
            if row and row["state"] == "RUNNING":
                break
        number = row["id"]
        event = next(e for e in events if number in e.get("changed", []))
        self.assertEqual(event["removed"], [])
        status, reply = self.server.control(action="pause", experiment=number)
        self.assertEqual(status, 200, reply)
        self.await_state(events, number, "PAUSED")
        status, reply = self.server.control(action="kill", experiment=number)
        self.assertEqual(status, 409)
        self.assertIn("PAUSED", reply["error"])
        status, reply = self.server.control(action="resume", experiment=number)
        self.assertEqual(status, 200, reply)
        self.await_state(events, number, "RUNNING")
        self.assertEqual(self.server.control(action="cancel", experiment=number)[0], 200)
        self.await_state(events, number, "CANCELED")
        run("delete", str(number), "-y")
        for event in events:
            if number in event["removed"]:
                break
        self.assertEqual(self.server.request(path=f"/api/experiment/{number}")[0], 404)

    def test_labels_and_notes(self):
        hostile = "-x </script> $(id) 'a\" é"
        self.assertEqual(self.server.control(action="label", experiment=1, add=hostile),
                         (200, {"output": run("label", "1", "--add=" + hostile).stdout.strip()}))
        self.assertEqual(self.server.control(action="note", experiment=1, text="--clear")[0], 200)
        record = json.loads(run("describe", "1", "--json").stdout)
        self.assertEqual(record["labels"], [hostile])
        self.assertEqual(record["note"], "--clear")
        self.assertEqual(self.server.control(action="label", experiment=1, remove=hostile)[0], 200)
        self.assertEqual(self.server.control(action="note", experiment=1, text="")[0], 200)
        self.assertEqual(self.server.control(action="label", experiment=1, add="a" * 101)[0], 409)
        for order in ("add", "remove"):
            self.assertEqual(self.server.control(action="label", experiment=1, **{order: "a" * 100})[0], 200)
        record = json.loads(run("describe", "1", "--json").stdout)
        self.assertEqual((record["labels"], record["note"]), ([], ""))

    def test_orders_write_on_a_network_as_far_as_serve_may(self):
        nfs = {"LD_PRELOAD": PRELOAD, "FAKE_STATFS_DIR": self.directory.name,
               "FAKE_STATFS_TYPE": "0x6969"}
        allowed = "DTRAIN_ALLOW_NETWORK_FS"
        for flags, environment, expected in (([], {}, 409),
                                             (["--allow-network-fs"], {}, 200),
                                             ([], {allowed: "1"}, 200),
                                             ([], {allowed: "0"}, 409)):
            with self.subTest(flags=flags, environment=environment):
                server = Server("--control", *flags, **nfs, **environment)
                status, reply = server.control(action="label", experiment=1, add="network")
                server.stop()
                self.assertEqual(status, expected, reply)
                if expected == 409:
                    self.assertIn("--allow-network-fs", reply["error"])
        run("label", "1", "--remove", "network")

    def test_bad_orders_are_refused(self):
        for order in ({}, {"action": "delete", "experiment": 1}, {"action": "pause"},
                      {"action": "pause", "experiment": "1"}, {"action": "pause", "experiment": -1},
                      {"action": "pause", "experiment": 1.5}, {"action": "pause", "experiment": 0},
                      {"action": "pause", "experiment": 1, "trial": 1}, {"action": 3, "experiment": 1},
                      {"action": "kill", "experiment": 1, "trial": "1 --help"},
                      {"action": "note", "experiment": 1, "text": 5},
                      {"action": "star", "experiment": 1, "trial": 1, "remove": True},
                      {"action": "note", "experiment": 1, "text": "a\0b"}):
            status, reply = self.server.control(**order)
            self.assertEqual(status, 400, order)
            self.assertTrue(reply["error"])
        for body in ("[]", "null", "{", "\xff", "[" * 30_000):
            self.assertEqual(self.server.request("POST", "/api/control", body)[0], 400, body[:9])
        self.assertEqual(self.server.request(
            "POST", "/api/control", '{"action":"note","experiment":1,"text":"x"}',
            Content_Type="text/plain")[0], 415)
        for order, error in (
                ({"action": "label", "experiment": 1}, "give --add LABEL or --remove LABEL"),
                ({"action": "star", "experiment": 1}, "'1' is an experiment"),
                ({"action": "star", "experiment": 1, "trial": 999}, "no trial"),
                ({"action": "pause", "experiment": 777}, "no experiment 777"),
                ({"action": "pause", "experiment": 1}, "experiment 1 is COMPLETED; nothing to pause"),
                ({"action": "cancel", "experiment": 1}, "experiment 1 is COMPLETED; nothing to cancel"),
                ({"action": "kill", "experiment": 1}, "experiment 1 is COMPLETED; nothing to kill"),
                ({"action": "kill", "experiment": 1, "trial": 1},
                 "trial 1.1 is COMPLETED; nothing to kill")):
            status, reply = self.server.control(**order)
            self.assertEqual(status, 409, order)
            self.assertIn(error, reply["error"])
            self.assertFalse(reply["error"].startswith("dtrain: "), reply)

    def test_ten_runners_lose_no_row_while_twenty_pages_read(self):
        server = Server()
        stop = threading.Event()
        errors = []

        def page():
            try:
                since = 0
                while not stop.is_set():
                    for one in server.json()["experiments"]:
                        path = f"/api/experiment/{one['id']}/changes?since={since}"
                        status, _, body = server.request(path=path)
                        if status not in (200, 404):  # 404: another test deleted it
                            errors.append((status, body))
                    time.sleep(0.25)
            except (AssertionError, OSError) as error:
                errors.append(error)

        pages = [threading.Thread(target=page) for _ in range(20)]
        for one in pages:
            one.start()
        os.mkdir("ten")
        shutil.copy("train.sh", "ten")
        pathlib.Path("ten/runner.json").write_text(config("runner", 100, 0.01), encoding="utf-8")
        runners = [subprocess.Popen([DTRAIN, "create", "runner.json", "-q"], cwd="ten",
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                   for _ in range(10)]
        outputs = [one.communicate(timeout=PATIENCE)[1] for one in runners]
        stop.set()
        for one in pages:
            one.join()
        self.assertEqual(errors, [])
        self.assertEqual([one.returncode for one in runners], [0] * 10, outputs)
        for one in server.json()["experiments"]:
            if one["name"] == "runner":
                metrics = server.bundle(f"/api/experiment/{one['id']}/metrics")["metrics"]
                self.assertEqual(metrics["rows"], 101)
        wal = pathlib.Path(os.environ["DTRAIN_STORE"], "dtrain.db-wal")
        self.assertLess(wal.stat().st_size if wal.exists() else 0, 20_000_000)
        self.assertEqual(server.stop()[0], 143)

    # ---- Stores and sockets.

    def test_a_store_that_appears_is_shown_and_one_that_goes_is_reported(self):
        with tempfile.TemporaryDirectory(prefix="dtrain-serve-") as place:
            server = Server("--store", place + "/later")
            events = self.events(server)
            self.assertIn("there is no store", next(events)["problem"])
            run("--store", place + "/later", "create", "short.json")
            event = next(e for e in events if e["experiments"])
            self.assertEqual((event["problem"], event["experiments"][0]["name"]), ("", "short"))
            os.rename(place + "/later", place + "/gone")
            self.assertIn("there is no store", next(e for e in events if e["problem"])["problem"])
            self.assertEqual(server.request(path="/api/experiment/1")[0], 404)
            self.assertEqual(server.stop(signal.SIGINT)[0], 130)

    def test_a_store_that_is_being_made_is_shown_when_it_is_whole(self):
        def empty(directory):
            (directory / "dtrain.db").touch(0o600)

        def no_tables(directory):
            with contextlib.closing(sqlite3.connect(directory / "dtrain.db")) as database:
                database.execute("PRAGMA journal_mode = WAL")

        for state in (lambda directory: None, empty, no_tables):
            with tempfile.TemporaryDirectory(prefix="dtrain-serve-") as place:
                state(pathlib.Path(place))
                server = Server("--store", place)
                events = self.events(server)
                self.assertIn("there is no store", next(events)["problem"])
                run("--store", place, "create", "short.json")
                event = next(e for e in events if e["experiments"])
                self.assertEqual((event["problem"], event["experiments"][0]["name"]), ("", "short"))
                self.assertEqual(server.stop()[0], 143)

    def test_a_unix_socket_is_private_and_replaced_only_if_dead(self):
        server = Server(port=("--socket", "page.sock"))
        self.assertEqual(stat.S_IMODE(os.stat("page.sock").st_mode), 0o600)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect("page.sock")
            connection.sendall(server.head("GET", "/api/experiments", {}).encode())
            self.assertEqual(split(read_all(connection))[0], 200)
        second = run("serve", "--socket", "page.sock", check=False)
        self.assertEqual(second.returncode, 6, second.stderr)
        self.assertIn("already listens", second.stderr)
        server.stop(signal.SIGKILL)
        self.assertTrue(os.path.exists("page.sock"))
        third = Server(port=("--socket", "page.sock"))
        self.assertEqual(third.stop()[0], 143)
        self.assertFalse(os.path.exists("page.sock"))
        self.assertEqual(run("serve", "--socket", "a" * 200, check=False).returncode, 2)
        self.assertEqual(run("serve", "--socket", "train.sh", check=False).returncode, 2)
        self.assertTrue(os.path.exists("train.sh"))

    def test_an_unread_stream_is_dropped_and_the_log_does_not_grow(self):
        server = Server()
        with server.connect() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(server.head("GET", "/api/events", {}).encode())
            pathlib.Path("many.json").write_text(config("many", 300, 0.01), encoding="utf-8")
            run("create", "many.json", "-q")
        wal = pathlib.Path(os.environ["DTRAIN_STORE"], "dtrain.db-wal")
        self.assertLess(wal.stat().st_size if wal.exists() else 0, 20_000_000)
        self.assertLess(rss_kb(server.process.pid), 60_000)
        self.assertEqual(server.stop()[0], 143)


if __name__ == "__main__":
    DTRAIN, PRELOAD = (str(pathlib.Path(it).resolve()) for it in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
