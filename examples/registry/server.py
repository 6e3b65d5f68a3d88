#!/usr/bin/env python3
"""Publishes registry.json, as any web server with ETags would: PORT (8000) and TOKEN (none) from the environment."""
import hashlib
import hmac
import os
import pathlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FOLDER = pathlib.Path(__file__).resolve().parent
TOKEN = os.environ.get("TOKEN", "")


class Registry(BaseHTTPRequestHandler):
    def do_GET(self):
        if TOKEN and not hmac.compare_digest(self.headers.get("Authorization", ""), f"Bearer {TOKEN}"):
            return self.answer(401)
        if self.path != "/registry.json":
            return self.answer(404)
        document = (FOLDER / "registry.json").read_bytes()
        etag = f'"{hashlib.sha256(document).hexdigest()}"'
        if self.headers.get("If-None-Match") == etag:
            return self.answer(304, etag=etag)
        self.answer(200, document, etag)

    def answer(self, status, body=b"", etag=None):
        self.send_response(status)
        if etag:
            self.send_header("ETag", etag)
        if status != 304:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Registry)
    (FOLDER / "server.pid").write_text(str(os.getpid()))
    server.serve_forever()
