"""A receiver of signed requests, with Python's standard library.

    SECRET=... python3 examples/signed/receiver.py 8080

answers 200 to a request with a valid signature in the header Lockstep-Signature, and 401 to any
other. Whoever knows the secret can sign; nobody can send an old request again after TOLERANCE.
"""

import hashlib
import hmac
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

TOLERANCE = 300  # seconds


def valid(secret: bytes, header: str, body: bytes, now: float) -> bool:
    """Report whether a signature is that of a body, and not old."""
    parts = dict(p.split("=", 1) for p in header.split(",") if "=" in p)
    signed = parts.get("t", "")
    if not (signed.isascii() and signed.isdigit()) or abs(now - int(signed)) > TOLERANCE:
        return False
    want = hmac.new(secret, signed.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(want.encode(), parts.get("v1", "").encode())


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))  # as it came, before it is decoded
        ok = valid(os.environ["SECRET"].encode(), self.headers.get("Lockstep-Signature", ""), body, time.time())
        self.send_response(200 if ok else 401)
        self.end_headers()
        self.wfile.write(b'{"outcome": "OK"}' if ok else b"")  # also the answer of a function block


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    print(f"ready http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
