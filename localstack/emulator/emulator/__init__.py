"""What LocalStack lacks to run Lambda functions as plain processes of this machine.

functions.py plays the execution environment, mapping.py lets an event source mapping
invoke side by side, database.py lends LocalStack a DynamoDB that runs already, and
__main__.py puts the three in place and starts LocalStack.
"""
