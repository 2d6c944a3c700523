"""Connects LocalStack's DynamoDB provider to a DynamoDB that already runs.

LocalStack would start DynamoDB Local, which needs Java and whose licence asks for an
AWS account. The process that starts LocalStack starts and stops the other DynamoDB,
which listens on DYNAMODB_LOCAL_PORT.
"""

import threading


def install():
    from localstack.services.dynamodb.server import DynamodbServer
    from localstack.utils.threads import start_thread

    def start_nothing(self):
        stopped = threading.Event()
        self.do_shutdown = stopped.set
        return start_thread(lambda *_: stopped.wait(), name="external-dynamodb")

    DynamodbServer.do_start_thread = start_nothing
    # LocalStack must not stop it, and would wait until its port is closed.
    DynamodbServer.stop_dynamodb = lambda self: None
