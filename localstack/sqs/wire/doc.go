// Package wire is what travels between an SQS client and the local queues: the
// AWS JSON 1.0 protocol as values.
//
//   - shapes.go: requests and replies, field for field as the SDK sends them.
//   - errors.go: the typed errors, under the names by which the SDK knows them.
//   - checksum.go: the MD5 sums that a client compares with its own.
//
// The package holds no queue and no state. The protocol is described at
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/.
package wire
