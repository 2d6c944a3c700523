"""Lets an event source mapping of a standard queue invoke its function concurrently.

LocalStack handles one batch at a time and ignores MaximumConcurrency. Here the poller
goes on receiving while batches run, as many as the mapping allows. FIFO queues are not
changed.
"""

import logging
import threading

LOG = logging.getLogger(__name__)

UNBOUNDED = 20  # concurrency of a mapping without a maximum


def install():
    from localstack.services.lambda_.event_source_mapping.esm_worker import EsmWorker
    from localstack.services.lambda_.event_source_mapping.pollers.sqs_poller import SqsPoller

    original_init, original_handle = EsmWorker.__init__, SqsPoller.handle_messages

    def init(self, esm_config, poller, *args, **kwargs):
        original_init(self, esm_config, poller, *args, **kwargs)
        scaling = esm_config.get("ScalingConfig") or {}
        poller.slots = threading.BoundedSemaphore(scaling.get("MaximumConcurrency") or UNBOUNDED)

    def handle(self, messages):
        slots = getattr(self, "slots", None)
        if slots is None or self.is_fifo_queue:
            return original_handle(self, messages)

        def work():
            try:
                original_handle(self, messages)
            except Exception as e:  # the messages become visible again
                LOG.info("a batch of %s failed: %s", self.source_arn, e)
            finally:
                slots.release()

        slots.acquire()  # received messages wait here, as in Lambda
        threading.Thread(target=work, name="batch", daemon=True).start()

    EsmWorker.__init__ = init
    SqsPoller.handle_messages = handle
