"""One function block over HTTP, with Python's standard library: python3 block.py 8080"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def greet(call):
    """Pure: it changes no device."""
    text = call["parameters"]["greeting"] + ", " + call["entity"]["id"]
    return {
        "outcome": "OK",
        "result": {"text": text},
        "updates": [{"entity": call["entity"], "set": {"greeted": text}}],
    }


BLOCKS = {"{{name}}/greet": greet}


def answer(call):
    block = BLOCKS.get(call["block"].partition(":")[0])
    if block is None:
        message = f"{call['block']} is not here, only {', '.join(BLOCKS)}"
        return {"outcome": "ERROR", "error": {"code": "UNKNOWN_BLOCK", "message": message, "retryable": False}}
    return block(call)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open

    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        reply = json.dumps(answer(call)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *args):
        pass  # Lockstep has the history


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print(f"ready http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
