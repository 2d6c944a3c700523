"""Puts a DynamoDB that runs already behind LocalStack's provider.

LocalStack would start DynamoDB Local, which needs Java and whose licence asks for an
AWS account. The one that is lent to it is started and stopped by whoever started
LocalStack; DYNAMODB_LOCAL_PORT says where it listens.
"""

import threading


def install():
    from localstack.services.dynamodb.server import DynamodbServer
    from localstack.utils.threads import start_thread

    def lent(self):
        over = threading.Event()
        self.do_shutdown = over.set
        return start_thread(lambda *_: over.wait(), name="lent-dynamodb")

    DynamodbServer.do_start_thread = lent
    # It is not LocalStack's to stop, and it would wait for the port to close.
    DynamodbServer.stop_dynamodb = lambda self: None
