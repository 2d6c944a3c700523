package workflow

import "time"

// PublishedDefinition is a stored definition with its bookkeeping.
type PublishedDefinition struct {
	Ref         Ref
	Digest      string // of the canonical source
	Source      []byte // canonical JSON; empty in lists
	PublishedAt time.Time
	PublishedBy string
	Archived    bool // no new runs

	// Warnings tell, in the answer to a publication only, what does not fit what
	// is registered at that moment.
	Warnings []Issue
}

// IdempotencyRecord is what an idempotency key is bound to until it expires.
type IdempotencyRecord struct {
	Execution string
	Digest    string // of the request
	ExpiresAt time.Time
}
