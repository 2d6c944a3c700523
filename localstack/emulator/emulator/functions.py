"""Runs Lambda functions as processes, each with its own Runtime API.

LocalStack decides how many execution environments a function has and gives each one
event at a time. An Environment has at most one Instance, which is a process and the
HTTP server that it asks for events (the Lambda Runtime API, 2018-06-01). After an
instance has exited or timed out, the next event starts a new one.

Instances stay in LocalStack's process group, so that a signal to the group ends all
of them, and each exits by itself when its Runtime API is gone.
"""

import datetime
import functools
import http.server
import json
import os
import pathlib
import queue
import subprocess
import threading
import time

RUNTIME = "/2018-06-01/runtime"
INHERITED = ("PATH", "HOME", "LANG", "TMPDIR")  # of LocalStack's own environment


def install():
    from localstack.services.lambda_.invocation import runtime_executor

    runtime_executor.get_runtime_executor = environment


def failure(kind, message):
    return json.dumps({"errorType": kind, "errorMessage": message}).encode()


class RuntimeAPI(http.server.BaseHTTPRequestHandler):
    """The Runtime API of one instance."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # headers and body in one write
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path != f"{RUNTIME}/invocation/next":
            return self.respond(404, b"{}")
        event = self.server.instance.next_event()
        if event is None:  # the instance is being killed
            self.close_connection = True
            return None
        return self.respond(200, event["payload"].encode(), {
            "Lambda-Runtime-Aws-Request-Id": event["invoke-id"],
            "Lambda-Runtime-Invoked-Function-Arn": event["invoked-function-arn"],
            "Lambda-Runtime-Deadline-Ms": event["deadline"],
            "Lambda-Runtime-Trace-Id": event["trace-id"],
        })

    def do_POST(self):
        body, parts = self.body(), self.path.removeprefix(RUNTIME).strip("/").split("/")
        # After its answer a process may exit at once, so the reply must be sent before
        # the answer has any effect.
        self.respond(202, b'{"status":"OK"}')
        self.wfile.flush()
        if parts == ["init", "error"]:
            self.server.instance.outcomes.put((None, body, True))
        elif len(parts) == 3 and parts[0] == "invocation":
            self.server.instance.outcomes.put((parts[1], body, parts[2] == "error"))

    def respond(self, status, body, headers=None):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding", "identity").lower() == "identity":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while (size := int(self.rfile.readline().partition(b";")[0], 16)) > 0:
            chunks.append(self.rfile.read(size))
            self.rfile.readline()  # the end of the chunk
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(chunks)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # a killed process closes its connection


class Instance:
    """A process of a function."""

    def __init__(self, folder, env, log):
        self.events = queue.SimpleQueue()  # at most one at a time; None ends it
        self.outcomes = queue.SimpleQueue()  # (request id or None, body, whether it failed)
        self.asked = threading.Event()  # it has asked for an event, or has exited
        self.started = None  # seconds until it asked for its first event
        self.lines, self.log = queue.SimpleQueue(), log
        self.api = Server(("127.0.0.1", 0), RuntimeAPI)
        self.api.instance = self
        threading.Thread(target=self.api.serve_forever, args=(0.1,), daemon=True).start()
        self.began = time.monotonic()
        try:
            self.process = subprocess.Popen(
                [folder / "bootstrap"], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=env | {"AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self.api.server_port}"}, text=True, errors="replace",
            )
        except OSError:
            self.close()
            raise
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        """Reads the output of the process until it exits."""
        with self.log.open("a") as log:
            for line in self.process.stdout:
                self.lines.put(line.rstrip("\n"))
                log.write(line)
                log.flush()
        status = self.process.wait()
        result = f"exit status {status}" if status >= 0 else f"signal {-status}"
        self.outcomes.put((None, failure("Runtime.ExitError", f"Runtime exited with error: {result}"), True))
        self.asked.set()
        self.close()

    def next_event(self):
        if self.started is None:
            self.started = time.monotonic() - self.began
        self.asked.set()
        return self.events.get()

    def alive(self):
        return self.process.poll() is None

    def drain(self):
        """Returns the lines since the last call."""
        found = []
        while not self.lines.empty():
            found.append(self.lines.get())
        return found

    def kill(self):
        if self.alive():
            self.process.kill()
        self.process.wait()

    def close(self):
        self.events.put(None)
        threading.Thread(target=lambda: (self.api.shutdown(), self.api.server_close()), daemon=True).start()


@functools.cache
def environment():
    """Returns the class of execution environments, once LocalStack can be imported."""
    from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException
    from localstack.services.lambda_.invocation.lambda_models import InvocationResult
    from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

    class Environment(RuntimeExecutor):
        def __init__(self, id, function_version):
            super().__init__(id, function_version)
            self.config = function_version.config
            self.name = function_version.id.function_name
            self.folder = pathlib.Path(self.config.code.get_unzipped_code_location())
            self.instance, self.fresh, self.lock = None, False, threading.Lock()
            self.stopped = False

        # LocalStack calls the following methods.

        def start(self, env_vars):
            self.env = {k: os.environ[k] for k in INHERITED if k in os.environ}
            self.env |= {k: str(v) for k, v in env_vars.items()}
            self.env["LAMBDA_TASK_ROOT"] = str(self.folder)
            self.begin()

        def begin(self):
            logs = pathlib.Path(os.environ["FUNCTION_LOGS"])
            with self.lock:
                if self.stopped:
                    raise StatusErrorException("the environment is stopped", payload=failure("Runtime.ExitError", "stopped"))
                try:
                    self.instance = Instance(self.folder, self.env, logs / f"{self.name}.log")
                except OSError as e:
                    raise StatusErrorException("no bootstrap", payload=failure("Runtime.InvalidEntrypoint", str(e))) from e
            self.instance.asked.wait()
            if not self.instance.alive():
                _, body, _ = self.instance.outcomes.get()
                raise StatusErrorException("the process ended before it asked for an event", payload=body)
            self.fresh = True
            with self.instance.log.open("a") as log:
                log.write(f"Init Duration: {self.instance.started * 1000:.2f} ms\n")

        def stop(self):
            with self.lock:
                self.stopped = True
                if self.instance:
                    self.instance.kill()

        def invoke(self, payload):
            began, limit, request = time.time(), self.config.timeout, payload["invoke-id"]
            if not self.instance.alive():
                try:
                    self.begin()
                except StatusErrorException as e:
                    return InvocationResult(request, e.payload, True, e.payload.decode())
            instance = self.instance
            instance.asked.clear()
            instance.events.put(payload | {"deadline": int((began + limit) * 1000)})
            body, failed = self.outcome(request, began + limit)
            took = (time.time() - began) * 1000
            report = [f"REPORT RequestId: {request}", f"Duration: {took:.2f} ms", f"Memory Size: {self.config.memory_size} MB"]
            if self.fresh:
                report.append(f"Init Duration: {instance.started * 1000:.2f} ms")
                self.fresh = False
            lines = [f"START RequestId: {request}", *instance.drain(), f"END RequestId: {request}", "\t".join(report)]
            return InvocationResult(request, body, failed, "\n".join(lines))

        def outcome(self, request, deadline):
            """Returns the answer to a request, or how the process ended."""
            while True:
                try:
                    of, body, failed = self.instance.outcomes.get(timeout=max(0, deadline - time.time()))
                except queue.Empty:
                    self.instance.kill()
                    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                    return failure("Sandbox.Timedout", f"{now} {request} Task timed out after {self.config.timeout}.00 seconds"), True
                if of is None:
                    self.instance.kill()  # it has exited or is about to
                    return body, failed
                if of == request:
                    # After it reports a panic a process exits; the next event must go to
                    # one that has asked.
                    self.instance.asked.wait(max(1, deadline - time.time()))
                    return body, failed

        def get_logs(self):
            return "\n".join(self.instance.drain()) if self.instance else ""

        # Only containers need the following methods.

        def get_address(self):
            return "127.0.0.1"

        get_endpoint_from_executor = get_runtime_endpoint = get_address

        @classmethod
        def prepare_version(cls, function_version):
            function_version.config.code.prepare_for_execution()

        @classmethod
        def cleanup_version(cls, function_version):
            pass

    return Environment
