// Package conformance decides whether an emulator is good enough to stand for
// the service: one test a feature that the product relies on, through the
// official SDK, without retries.
//
//   - stack_test.go: where the endpoints are. Without anything in the
//     environment they are the local stack's own; AWS_ENDPOINT_URL_DYNAMODB and
//     AWS_ENDPOINT_URL_SQS put others in their place.
//   - table_test.go: the table of all DynamoDB tests and the words they share.
//     items_test.go (single items), queries_test.go (indexes, pages),
//     transactions_test.go (several items), limits_test.go (cost, refusals,
//     time to live, streams).
//   - queues_test.go, redelivery_test.go, fifo_test.go: SQS.
//
// A part of the stack that is missing is a failure here, never a skipped test.
package conformance
