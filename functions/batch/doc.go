// Package batch answers an SQS event record by record: each record succeeds or
// fails by itself, a panic fails only its record, and the list of failures is
// never null, which AWS would read as success.
package batch
