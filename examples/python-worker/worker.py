"""A worker that polls over HTTP, with Python's standard library: docs/blocks-python.md.

    LOCKSTEP_URL=http://localhost:3030 python3 examples/python-worker/worker.py

asks for jobs of lab/backup until SIGTERM. Nobody has to be able to call it, so it may run behind a
firewall. It needs credentials where the service does: send them as headers in post().
"""

import calendar
import email.utils
import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
import uuid

URL = os.environ.get("LOCKSTEP_URL", "http://localhost:3030").rstrip("/")
NAME = f"backup-{uuid.uuid4().hex[:6]}"
POOL = "lab"
BLOCKS = ["lab/backup:1"]
HEARTBEAT = 15  # seconds: a third of the lease or less, which is a minute unless job.lease says otherwise
MARGIN = 5  # seconds before the end of the lease after which no job is begun

stopping = threading.Event()


def post(path, body, timeout=30, until=None):
    """Send a request until it is answered, or until that moment. Return the status, 0 for none, and the answer.

    An answer with a lease has "until", the moment by this process's own clock at which it is nearly over."""
    for attempt in range(1000):
        sent = time.monotonic()
        if until is not None and sent > until:
            return 0, None
        request = urllib.request.Request(URL + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as reply:
                text = reply.read()
                answer = json.loads(text) if text else None
                if answer and answer.get("lease"):
                    date = reply.headers["Date"]  # by the clock of who answers, as the lease is; a local stack has ours
                    answered = calendar.timegm(email.utils.parsedate(date)) if date else time.time()
                    lease = calendar.timegm(time.strptime(answer["lease"][:19], "%Y-%m-%dT%H:%M:%S"))
                    answer["until"] = sent + lease - answered - MARGIN
                return reply.status, answer
        except urllib.error.HTTPError as e:
            if e.code < 500:
                return e.code, json.load(e)
        except OSError as e:
            print(f"{path}: {e}", flush=True)
        time.sleep(min(2**attempt / 10, 10))
    raise SystemExit(f"{URL} does not answer")


def backup(job):
    """One job: the request to a block over HTTP, and its answer."""
    return {"outcome": "OK", "result": {"file": f"{job['entity']['id']}.cfg", "attempt": job["job"]["attempt"]}}


class Claim:
    """The claim of a pack, which a thread renews while its jobs run."""

    def __init__(self, pack):
        self.key = {"pack": pack["pack"], "token": pack["token"]}
        self.until = pack["until"]
        self.over = threading.Event()

    def is_ours(self):
        """Whether a job may begin: after the lease, somebody else may have the pack, whoever can be reached."""
        return not self.over.is_set() and time.monotonic() < self.until

    def renew(self, done):
        while not done.wait(HEARTBEAT):
            status, answer = post("/blackboard/job/heartbeat", self.key, timeout=HEARTBEAT, until=self.until)
            if status == 200:
                self.until = answer["until"]
            if status in (0, 409) or (status == 200 and answer["cancel"]):
                self.over.set()
                return


def execute(pack):
    """Do the jobs of a pack one after the other, and push all results at once."""
    claim, done = Claim(pack), threading.Event()
    beat = threading.Thread(target=claim.renew, args=(done,), daemon=True)
    beat.start()
    results, not_begun = [], []
    for job in pack["jobs"]:
        if not claim.is_ours():
            not_begun.append(job["job"]["id"])
            continue
        try:
            answer = backup(job)
        except Exception as e:
            answer = {"outcome": "ERROR", "error": {"code": "BACKUP", "message": str(e), "retryable": True}}
        results.append({"job": job["job"]["id"], **answer})
    done.set()
    status, answer = post("/blackboard/job/result", {**claim.key, "results": results, "notBegun": not_begun})
    if status != 200:  # 409: somebody else has the pack, and nothing of this counts
        print(f"pack not taken: {answer['code']}: {answer['detail']}", flush=True)


def report_alive():
    while not stopping.wait(HEARTBEAT):
        post(f"/workers/{NAME}/heartbeat", {})


def main():
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGINT, lambda *_: stopping.set())
    status, answer = post("/workers/register", {"id": NAME, "pool": POOL, "blocks": BLOCKS})
    if status != 201:
        raise SystemExit(f"cannot register: {answer}")
    threading.Thread(target=report_alive, daemon=True).start()
    print(f"ready {URL}", flush=True)
    while not stopping.is_set():
        # The same attempt is sent again if no answer came: it then brings the same pack.
        status, pack = post("/blackboard/job", {"worker": NAME, "blocks": BLOCKS, "wait": "5s", "attempt": str(uuid.uuid4())})
        if status == 200:
            execute(pack)
        elif status != 204:
            print(f"poll: {pack}", flush=True)
            time.sleep(1)
    post(f"/workers/{NAME}/unregister", {})


if __name__ == "__main__":
    main()
