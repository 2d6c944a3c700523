"""Lets an event source mapping of a standard queue invoke its function side by side.

LocalStack works on one batch at a time and ignores MaximumConcurrency. Here the one
poller goes on receiving while batches are at work, as many as the mapping allows.
Queues whose messages have an order are left as they are.
"""

import logging
import threading

LOG = logging.getLogger(__name__)

UNBOUNDED = 20  # of a mapping that names no concurrency


def install():
    from localstack.services.lambda_.event_source_mapping.esm_worker import EsmWorker
    from localstack.services.lambda_.event_source_mapping.pollers.sqs_poller import SqsPoller

    made, handled = EsmWorker.__init__, SqsPoller.handle_messages

    def make(self, esm_config, poller, *args, **kwargs):
        made(self, esm_config, poller, *args, **kwargs)
        scaling = esm_config.get("ScalingConfig") or {}
        poller.places = threading.BoundedSemaphore(scaling.get("MaximumConcurrency") or UNBOUNDED)

    def handle(self, messages):
        places = getattr(self, "places", None)
        if places is None or self.is_fifo_queue:
            return handled(self, messages)

        def work():
            try:
                handled(self, messages)
            except Exception as e:  # a failed invocation: its messages come back
                LOG.info("a batch of %s failed: %s", self.source_arn, e)
            finally:
                places.release()

        places.acquire()  # the messages wait here, as they do in Lambda
        threading.Thread(target=work, name="batch", daemon=True).start()

    EsmWorker.__init__ = make
    SqsPoller.handle_messages = handle
