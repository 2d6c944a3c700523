// Package table is the plumbing under the DynamoDB adapters: one table, the few
// kinds of calls that the product makes, and what every call has in common.
//
//   - table.go: the table with its meter, and calls without a condition.
//   - item.go: items and their attributes.
//   - write.go: the conditional single-item write. Its answer is three-valued:
//     done, the condition did not hold (with the item as it stands), or an error.
//   - read.go: strong reads, batches, queries that page by themselves.
//   - retry.go: what is worth repeating, with jitter, within the caller's
//     deadline, and how errors are classified.
//   - meter.go: middleware that counts every attempt and its consumed units.
//   - codec.go: compression against a dictionary, versioned by its first byte.
//
// An item that says it was written in a newer schema is refused by every call
// that reads it.
package table
