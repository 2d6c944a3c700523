// Package registry keeps in DynamoDB what is published and registered, all in
// one table: definitions.go, blocks.go, entities.go, schedules.go, and in bindings.go the
// idempotency keys. page.go is how lists are cut into pages.
//
// Definitions and blocks are immutable: a put that finds something under its
// version returns what it found. Entities are upserted; a type's are spread over
// shards and listed in order of id by merging them.
package registry
