// Package sqsbatch answers an SQS event record by record: each record succeeds or
// fails by itself, a panic fails only its record, and the list of failures is
// never null, which AWS would read as success.
//
// It is a package of its own because a Lambda main stays short, and because it is
// tested with the event shapes that AWS sends.
package sqsbatch
