"""Two function blocks over HTTP, with Python's standard library: docs/blocks-python.md.

    python3 examples/python-block/block.py 8080

serves lab/ntp_of, which reads the time server of a switch, and lab/set_ntp, which sets it. The
switches are a dictionary here; POST /refuse/ID lets one refuse every change, POST /allow/ID ends that.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

lock = threading.Lock()  # requests come side by side
servers = {}  # time server of each switch
fences = {}  # highest fence that each switch has seen
refusing = set()


def ok(result, *lines):
    return {"outcome": "OK", "result": result, "logs": [{"level": "INFO", "text": line} for line in lines]}


def error(code, message, retryable=False):
    return {"outcome": "ERROR", "error": {"code": code, "message": message, "retryable": retryable}}


def ntp_of(call):
    """Pure: reads, and changes nothing."""
    return ok({"server": servers.get(call["entity"]["id"], "192.0.2.1")})


def set_ntp(call):
    """Idempotent and reversible: sets a value, and the undo sets the former one."""
    switch, parameters = call["entity"]["id"], call["parameters"]
    if call["fence"] < fences.get(switch, ""):
        return error("STALE", "a job with a higher fence has been here")
    fences[switch] = call["fence"]
    if call["operation"] == "ROLLBACK":
        servers[switch] = parameters["former"]
        return ok(None)
    if switch in refusing:
        return error("REFUSED", f"{switch} takes no changes")
    servers[switch] = parameters["server"]
    return ok({"server": parameters["server"]}, f"was {parameters['former']}")


BLOCKS = {"lab/ntp_of": ntp_of, "lab/set_ntp": set_ntp}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with lock:
            answer = self.answer(body)
        reply = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def answer(self, body):
        verb, _, switch = self.path.strip("/").partition("/")
        if verb == "refuse":
            refusing.add(switch)
            return ok(sorted(refusing))
        if verb == "allow":
            refusing.discard(switch)
            return ok(sorted(refusing))
        call = json.loads(body)
        block = BLOCKS.get(call["block"].partition(":")[0])
        return block(call) if block else error("UNKNOWN_BLOCK", call["block"])

    def log_message(self, *args):
        pass  # Lockstep has the history


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print(f"ready http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
