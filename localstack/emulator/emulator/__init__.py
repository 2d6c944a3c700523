"""What LocalStack lacks to run Lambda functions as plain processes of this machine.

functions.py is the execution environment, mapping.py lets an event source mapping
invoke concurrently, database.py connects LocalStack to a running DynamoDB, and
__main__.py installs the three and starts LocalStack.
"""
